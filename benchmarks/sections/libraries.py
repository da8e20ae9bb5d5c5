"""Forecasters of several libraries on people's tables, from ``benchmarks/forecasters/results``."""

from collections.abc import Sequence
from statistics import fmean

from benchmarks.sections import Part, Result, draw_table, percent

OURS = "FernForecaster"


def libraries_part(results: Sequence[Result]) -> Part:
    """Each library with its defaults, the best CRPS of a table first and in bold."""
    lines = []
    for table in list_tables(results):
        own = sorted((result for result in results if result["table"] == table), key=lambda result: result["crps"])
        for result in own:
            cut = f" ({result['steps']:,} of {result['steps_asked']:,} steps)" if "steps" in result else ""
            crps = f"{result['crps']:.4f}"
            lines.append(
                [table, f"{result['method']}{cut}", result["horizon"], f"{result['mse']:.4f}", f"{result['mae']:.4f}"]
                + [f"**{crps}**" if result is own[0] else crps]
                + [percent(result[f"coverage_{level}"]) for level in (80, 95)]
                + [f"{result['fit_seconds']:.1f}", f"{result['predict_seconds']:.2f}"]
            )
    line = (
        "Each library with its defaults and one fit; values divided by the training part's standard deviation; "
        "processor seconds, at most 120 s for a training (the steps reached are beside the method). "
        "`python -m benchmarks.forecasters.compare`"
    )
    heads = ["table", "method", "horizon", "MSE", "MAE", "CRPS", "80 % covers", "95 % covers", "fit s", "forecast s"]
    return Part("Forecasters of several libraries", line, draw_table(heads, lines, words=2))


def trajectories_part(results: Sequence[Result]) -> Part:
    """Coverage of intervals on several trajectories of one chaotic system."""
    lines = []
    for level in (80, 95):
        for key, windows in (("first_coverage", "the 40 windows of the table"), ("coverage", "all windows")):
            shares = [result[f"{key}_{level}"] for result in results]
            lines.append([f"{level} %", windows, percent(fmean(shares)), percent(min(shares)), percent(max(shares))])
    line = (
        f"Coverage on {len(results)} trajectories of LORENZ_BASE in place of one. "
        "`python -m benchmarks.forecasters.trajectories`"
    )
    heads = ["interval", "over", "mean", "lowest", "highest"]
    return Part("Trajectories of one chaotic system", line, draw_table(heads, lines, words=2))


def judge_libraries(results: Sequence[Result]) -> str:
    """On how many tables FernForecaster is best, and who is where it is not."""
    won, lost = split_tables(results, "crps")
    by_mse, _ = split_tables(results, "mse")
    others = "" if not lost else f" (else {', '.join(lost)})"
    cut = sum("steps" in result for result in results)
    neural = f"; {cut} trainings of neuralforecast were stopped at 120 s" if cut else ""
    return (
        f"`{OURS}` has the best CRPS on {len(won)} of {len(won) + len(lost)} tables{others} and the best MSE on "
        f"{len(by_mse)}, beside statsforecast and neuralforecast{neural}"
    )


def split_tables(results: Sequence[Result], metric: str) -> tuple[list[str], list[str]]:
    """The tables where `FernForecaster` is best by a metric, and the others with their best method."""
    won, lost = [], []
    for table in list_tables(results):
        own = [result for result in results if result["table"] == table]
        best = min(own, key=lambda result: result[metric])
        if not any(result["method"].startswith(OURS) for result in own):
            continue  # a table that ours has not run on says nothing about it
        if best["method"].startswith(OURS):
            won.append(table)
        else:
            lost.append(f"{table}: {best['method']}")
    return won, lost


def list_tables(results: Sequence[Result]) -> list[str]:
    """The tables, in order."""
    return list(dict.fromkeys(result["table"] for result in results))

"""Forecasters of several libraries on people's tables, from ``benchmarks/forecasters/results``."""

from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from benchmarks.forecasters.tables import TABLES
from benchmarks.sections import Part, Result, draw_table, percent

OURS = "FernForecaster"
CERTAIN = 2.0
"""Standard errors of a paired difference beyond which one method is said to be better."""
SAID = {"better": "lower", "worse": "higher", "tie": "tie"}


def paired_difference(ours: Result, theirs: Result) -> tuple[float, float]:
    """The mean difference of SQL, ours minus theirs, and its standard error over the same windows or series.

    Windows that overlap are not independent: the error counts only as many as lie side by side.

    Example:
        >>> paired_difference({"losses": [1.0, 2.0, 1.5]}, {"losses": [2.0, 3.0, None]})
        (-1.0, 0.0)
    """
    pairs = [(a, b) for a, b in zip(ours["losses"], theirs["losses"], strict=True) if a is not None and b is not None]
    differences = np.array([a - b for a, b in pairs])
    return float(differences.mean()), _standard_error(differences, ours)


def compare_pair(ours: Result, theirs: Result) -> str:
    """``better``, ``worse`` or ``tie`` by a paired difference of more than `CERTAIN` standard errors."""
    difference, error = paired_difference(ours, theirs)
    if abs(difference) <= CERTAIN * error:
        return "tie"
    return "better" if difference < 0 else "worse"


def count_verdicts(results: Sequence[Result]) -> dict[str, int]:
    """Over all tables and all other methods that finished: how often ours is better, worse, or neither."""
    counts = {"better": 0, "worse": 0, "tie": 0}
    for table in list_tables(results):
        own = _find_ours(results, table)
        for result in _finished(results, table):
            if own is not None and result is not own:
                counts[compare_pair(own, result)] += 1
    return counts


def libraries_part(results: Sequence[Result]) -> Part:
    """Each library as its documentation recommends, the lowest SQL of a table first and in bold."""
    lines = []
    for table in list_tables(results):
        own = _find_ours(results, table)
        for place, result in enumerate(_finished(results, table)):
            metrics, losses = result["metrics"], [loss for loss in result["losses"] if loss is not None]
            error = _standard_error(np.array(losses), result)
            sql = f"{metrics['SQL']:.4g} ± {error:.2g}"
            said = "" if own is None or result is own else SAID[compare_pair(own, result)]
            lines.append(
                [
                    *(table, result["method"], f"{result['windows']} × {result['series']}", result["spread_over"]),
                    *(f"**{sql}**" if place == 0 else sql, f"{metrics['MASE']:.4g}", percent(metrics["coverage_80"])),
                    *(f"{result['fit_seconds']:.1f}", f"{result['predict_seconds']:.1f}", said),
                ]
            )
        stopped = [result for result in results if result["table"] == table and "stopped" in result]
        lines += [[table, f"{result['method']} ({result['stopped']})", *[""] * 8] for result in stopped]
    line = (
        "Each library as its own documentation recommends it; SQL is the quantile loss over nine deciles in the units "
        "of MASE, ± its standard error over windows or series; the last column is whether `FernForecaster`'s SQL is "
        "lower, higher or neither by a paired difference of two standard errors; processor seconds. "
        "`python -m benchmarks.forecasters.compare`"
    )
    heads = ["table", "method", "windows × series", "± over", "SQL", "MASE", "80 % covers", "fit s", "forecasts s"]
    return Part("Forecasters of several libraries", line, draw_table([*heads, OURS], lines, words=2))


def trajectories_part(results: Sequence[Result]) -> Part:
    """Coverage of intervals on several trajectories of one chaotic system."""
    lines = []
    for level in (80, 95):
        for key, windows in (("first_coverage", "the first 40 windows"), ("coverage", "all windows")):
            shares = [result[f"{key}_{level}"] for result in results]
            lines.append([f"{level} %", windows, percent(fmean(shares)), percent(min(shares)), percent(max(shares))])
    line = (
        f"Coverage on {len(results)} trajectories of LORENZ_BASE in place of one. "
        "`python -m benchmarks.forecasters.trajectories`"
    )
    heads = ["interval", "over", "mean", "lowest", "highest"]
    return Part("Trajectories of one chaotic system", line, draw_table(heads, lines, words=2))


def judge_libraries(results: Sequence[Result]) -> str:
    """How often `FernForecaster` is better or worse than another library's method, where it is best, and its cost."""
    counts = count_verdicts(results)
    won, lost = split_tables(results)
    others = "" if not lost else f" (else {', '.join(lost)})"
    fits = [own["fit_seconds"] for table in list_tables(results) if (own := _find_ours(results, table)) is not None]
    cost = f"; its fit takes {median(fits):.0f} processor seconds (median)" if fits else ""
    return (
        f"`{OURS}`'s quantile loss is lower than that of another method in {counts['better']} of "
        f"{sum(counts.values())} paired comparisons, higher in {counts['worse']}, a tie in {counts['tie']}; the lowest "
        f"of all on {len(won)} of {len(won) + len(lost)} tables{others}{cost}"
    )


def split_tables(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    """The tables where `FernForecaster` has the lowest SQL, and the others with their best method."""
    won, lost = [], []
    for table in list_tables(results):
        if _find_ours(results, table) is None:
            continue  # a table that ours has not run on says nothing about it
        best = _finished(results, table)[0]
        if best["method"] == OURS:
            won.append(table)
        else:
            lost.append(f"{table}: {best['method']}")
    return won, lost


def list_tables(results: Sequence[Result]) -> list[str]:
    """The tables, in order."""
    return list(dict.fromkeys(result["table"] for result in results))


def _standard_error(values: NDArray[np.float64], result: Result) -> float:
    table = TABLES.get(result.get("table", ""))
    overlap = 1.0 if table is None or table.step is None else max(1.0, table.horizon / table.step)
    return float(values.std(ddof=1) / np.sqrt(len(values) / overlap))


def _finished(results: Sequence[Result], table: str) -> list[Result]:
    own = [result for result in results if result["table"] == table and "metrics" in result]
    return sorted(own, key=lambda result: float(result["metrics"]["SQL"]))


def _find_ours(results: Sequence[Result], table: str) -> Result | None:
    return next((result for result in _finished(results, table) if result["method"] == OURS), None)

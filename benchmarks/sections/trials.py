"""Tables of single questions, from ``benchmarks/rivals/results``."""

from collections.abc import Sequence

from benchmarks.sections import Part, Result, draw_table, percent
from fern.html.markup import number


def rolled_part(results: Sequence[Result]) -> Part:
    """`fern-rolled` with one setting changed at a time, its preset first."""
    lines = [
        [
            result["dataset"],
            result["way"],
            f"{result['noise']:.0%}",
            number(result["validation"]["mse"]),
            f"{result['validation']['ept']:.1f}",
            f"{result['best_epoch']} of {result['epochs']}",
            f"{result['processor_seconds']:.0f}",
        ]
        for result in sorted(
            results, key=lambda r: (r["dataset"], r["noise"], r["way"] != "chaos", r["validation"]["mse"])
        )
    ]
    line = (
        "`fern-rolled` by its preset `chaos` and with one setting changed at a time, on validation windows of 336 "
        "steps (noisy where the data is). `python -m benchmarks.rivals.rolled`"
    )
    heads = ["dataset", "changed", "noise", "MSE", "EPT", "kept epoch", "processor s"]
    return Part("A rolled Fern at chaos: what its settings do", line, draw_table(heads, lines, words=2))


def particles_part(results: Sequence[Result]) -> Part:
    """The distribution of a rolled Fern by its particles."""
    spans = list(results[0]["coverage"])
    lines = [
        [
            result["dataset"],
            f"{result['noise']:.0%}",
            *(number(error) for error in (*result["mse"].values(), *result["crps"].values())),
            *(percent(result["coverage"][span]["80"]) for span in spans),
            f"{result['processor_seconds']:.0f}",
        ]
        for result in sorted(results, key=lambda result: (result["dataset"], result["noise"]))
    ]
    line = (
        "64 particles from every 24th test window, 336 steps, scored on observed rows; later steps are not calibrated. "
        "`python -m benchmarks.rivals.particles`"
    )
    heads = ["dataset", "noise", "MSE: mean path", "mean of particles", "CRPS: mean path", "particles"]
    heads += [*(f"80 % covers, steps {span}" for span in spans), "processor s"]
    return Part("The distribution of a rolled Fern, as particles", line, draw_table(heads, lines))


def pfnn_part(results: Sequence[Result]) -> Part:
    """What the terms of PFNN's operator do."""
    lines: list[list[str]] = []
    for result in results:
        for way, scores in result["ways"].items():
            if "diverged" in scores:
                lines.append([result["dataset"], way, "diverged", "", "", "", ""])
                continue
            figures = [scores[part][name] for part in ("validation", "test") for name in ("mse", "median_mse")]
            lines.append([result["dataset"], way, *map(number, figures), f"{scores['test']['held']:.0%}"])
    line = (
        "A few epochs of the shock protocol, one seed, every eighth window; `held`: windows with a value held at "
        "±1e12. `python -m benchmarks.rivals.pfnn`"
    )
    heads = ["dataset", "way", "validation MSE", "median", "test MSE", "median", "held"]
    return Part("PFNN: the terms of its operator", line, draw_table(heads, lines, words=2))


def flow_speed_part(results: Sequence[Result]) -> Part:
    """Correlations with the largest eigenvalue."""
    lines = [
        [result["dataset"], what, f"{value['spearman']:.2f}", f"{value['pearson']:.2f}", result["patches"]]
        for result in results
        for what, value in result["correlation"].items()
    ]
    line = (
        "Non-overlapping test windows, mean over channels; the paper's introduction claims the first line. "
        "`python -m benchmarks.rivals.flow_speed`"
    )
    heads = ["dataset", "largest eigenvalue against", "Spearman", "Pearson", "patches"]
    return Part("Speed of the flow against the largest eigenvalue", line, draw_table(heads, lines, words=2))


def protocol_part(results: Sequence[Result]) -> Part:
    """Readings of the paper's protocol, the best first within a dataset."""
    lines = [
        [
            result["dataset"],
            result["way"],
            number(result["validation_mse"]),
            number(result["train_loss"]),
            result["best_epoch"],
            f"{result['epochs']} of {result['most_epochs']}",
        ]
        for result in sorted(results, key=lambda result: (result["dataset"], result["validation_mse"]))
    ]
    line = (
        "Fern by the shock protocol with one reading changed at a time, on validation windows, seed 7. "
        "`python -m benchmarks.rivals.protocol`"
    )
    heads = ["dataset", "changed", "validation MSE", "training loss", "kept epoch", "epochs"]
    return Part("Readings of the paper's protocol", line, draw_table(heads, lines, words=2))

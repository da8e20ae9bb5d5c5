"""Speed against named peers and baselines against published errors, from ``speed`` and ``accuracy``."""

from collections.abc import Sequence

from benchmarks.sections import Part, Result, draw_table


def speed_parts(topics: Sequence[Result]) -> list[Part]:
    """A table for each topic."""
    parts = []
    for topic in topics:
        lines = [
            [
                figure["name"],
                f"{figure['ours']:.4g} {figure['unit']}",
                "" if figure["peer"] is None else f"{figure['peer']:.4g} {figure['unit']} ({figure['peer_name']})",
                "" if figure["ratio"] is None else f"{figure['ratio']:.2f}",
                figure["target"],
            ]
            for figure in topic["measurements"]
        ]
        machine = topic["machine"]
        line = f"Above 1, ours is better. {machine['processor']}, {machine['cores']} cores. `{topic['command']}`"
        parts.append(Part(topic["topic"], line, draw_table(["what", "ours", "peer", "ratio", "target"], lines)))
    return parts


def baselines_part(results: Sequence[Result]) -> Part:
    """Our baselines beside the errors their papers print."""
    lines = [
        [
            result["model"],
            f"{result['model_settings']['context_length']} → {result['model_settings']['horizon']}",
            f"{result['test']['mse']:.4f}",
            f"{result['test']['mae']:.4f}",
            result["reported_mse"],
        ]
        for result in results
    ]
    line = "ETTh1, standardised, the usual split, no window dropped, seed 7. `python -m benchmarks.accuracy.etth1`"
    heads = ["model", "context → horizon", "MSE", "MAE", "published MSE"]
    return Part("Baselines on ETTh1", line, draw_table(heads, lines))


def judge_speed(topics: Sequence[Result]) -> str:
    """How many times faster than its peer each compared measurement is."""
    ratios = [
        figure["ratio"]
        for topic in topics
        for figure in topic["measurements"]
        if figure["ratio"] is not None and "sgemm" not in figure["peer_name"]
    ]
    return (
        f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)} speed ratios against named peers are above 1 "
        f"({sum(ratio > 2 for ratio in ratios)} above 2)"
    )

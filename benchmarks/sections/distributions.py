"""The sections about distributions: ways to train one, and coverage over many series, from the rows of
``benchmarks/distributions``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

JUDGED = {
    "mse": "MSE",
    "mae": "MAE",
    "crps": "CRPS",
    "energy": "energy score",
    "coverage_50": "50 % covers",
    "coverage_80": "80 % covers",
    "coverage_95": "95 % covers",
}
KINDS = {
    "uncalibrated margin": "margins, before calibration",
    "margin": "margins",
    "patch": "patch regions",
    "band": "bands",
    "region": "horizon regions",
}

TRAINED = """\
Fern trained on one part of a series, stopped by a second and judged on a third; the test part is not looked at here.
Values are standardised, nothing is calibrated. `paper`: the paper's model; `state`: its mean predicted apart from the
transport; `level`: that with instance normalisation and a linear skip; `last`: as `level`, with the last value in place
of the mean. Sorted by CRPS; all but Huber are judged by it after each epoch.
"""
COVERED = """\
One Fern trained on one series of each system; each of the fresh series (other noise, other start) is calibrated on its
own first part and judged on its last. Mean over series, ± the standard deviation over series, in %.
"""

Result = Mapping[str, Any]


def ways_to_train(rows: Sequence[Result]) -> list[str]:
    """A table for each dataset, its ways sorted by CRPS; nothing where there is no row."""
    if not rows:
        return []
    lines = ["## Ways to train the distribution\n", TRAINED]
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        own = sorted((row for row in rows if row["dataset"] == dataset), key=lambda row: row["judged"]["crps"])
        lines += [
            f"### {dataset}\n",
            f"| model, loss | seed | {' | '.join(JUDGED.values())} | epochs | processor s |",
            f"|:---|{'---:|' * (len(JUDGED) + 3)}",
            *map(_way, own),
            "",
            f"`python -m benchmarks.distributions.compare --datasets {dataset}` makes those that are not there.\n",
        ]
    return lines


def _way(row: Result) -> str:
    figures = [_judged(name, row["judged"][name]) for name in JUDGED]
    return (
        f"| {row['variant']} | {row['seed']} | {' | '.join(figures)} | {row['epochs']} | "
        f"{row['processor_seconds']:.0f} |"
    )


def _judged(name: str, value: float) -> str:
    return f"{100 * value:.1f} %" if name.startswith("coverage") else f"{value:.4f}"


def coverage(rows: Sequence[Result]) -> list[str]:
    """Coverage by system, kind and level, then the scores; nothing where there is no row."""
    if not rows:
        return []
    levels = list(dict.fromkeys(name.partition("/")[2] for row in rows for name in row["mean"] if "/" in name))
    lines = [
        "## Coverage over many series\n",
        COVERED,
        f"| system | series | kind | {' | '.join(f'{level} %' for level in levels)} |",
        f"|:---|---:|:---|{'---:|' * len(levels)}",
    ]
    for row in rows:
        for kind, title in KINDS.items():
            cells = [_covered(row, f"{kind}/{level}") for level in levels]
            if any(cells):
                lines.append(f"| {system_of(row)} | {row['series']} | {title} | {' | '.join(cells)} |")
    scores = list(dict.fromkeys(name for row in rows for name in row["mean"] if "/" not in name))
    lines += [
        "",
        f"| mean over series | {' | '.join(map(system_of, rows))} |",
        f"|:---|{'---:|' * len(rows)}",
    ]
    for name in scores:
        values = [f"{row['mean'][name]:.4f}" if name in row["mean"] else "" for row in rows]
        lines.append(f"| {name} | {' | '.join(values)} |")
    return [*lines, "", *(f"- `{row['command']}`" for row in rows), ""]


def system_of(row: Result) -> str:
    """The system, with the noise that its rows were seen with."""
    noise = row["observation_noise"]
    return f"{row['system']} + {100 * noise:g} % noise" if noise else str(row["system"])


def _covered(row: Result, name: str) -> str:
    if name not in row["mean"]:
        return ""
    return f"{100 * row['mean'][name]:.1f} ± {100 * row['spread'][f'{name} (sd over series)']:.1f}"

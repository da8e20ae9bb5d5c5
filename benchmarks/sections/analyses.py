"""The sections of single questions: PFNN's terms, the flow's speed against eigenvalues, readings of the protocol."""

from collections.abc import Mapping, Sequence
from typing import Any

from fern.html.markup import number

Result = Mapping[str, Any]

PFNN = """\
PFNN by the shock protocol for a few epochs, one seed, scored on every eighth window. `beside sums`: weights as in the
released script, whose errors are summed over the batch; `beside means`: the same weights beside mean errors. The median
is over windows: where it is far below the mean a few rollouts have left the attractor, and `held` is the share of
windows with a value held at ±1e12. The paper gives PFNN's error on ETTh2 as of the order of 1e9. The tables have the
first way, the authors' script: which way is better differs from series to series. Where the phase changes no digit,
validation kept an epoch before the phase began, and the row says nothing about it.
"""
SPEED = """\
The largest eigenvalue of each patch, averaged over channels, against what happens in the patch: non-overlapping windows
of the test part, Fern by the paper's protocol for a few epochs. The paper's introduction claims the first line.
"""
PROTOCOL = """\
Fern by the shock protocol with one reading of the paper changed at a time, cut off after so many epochs, one series and
one seed; errors over validation windows, of the epoch that validation keeps. The runs of the tables go on for longer.
"""

ROLLED = """\
`fern-rolled` by its preset `chaos`, and with one setting changed at a time: without the network (`polynomial alone`),
without the polynomial, and so on. Errors over every fourth validation window, 336 steps; under noise the windows are
noisy too, and so their MSE holds the noise's variance. Processor seconds are of training with its evaluations, on a
machine that did other work besides.
"""

PARTS = {"chaos": "both", "polynomial alone": "the polynomial alone", "no polynomial": "the network alone"}

PARTICLES = """\
`fern-rolled` by its presets `chaos`; how wide a patch is comes from its errors on validation windows. 64 particles from
every 24th test window, 336 steps, judged by the rows that were observed. A mean path is a distribution without width:
its CRPS is its absolute error. Later steps are not calibrated.
"""

ROUGH = """\
Squared second differences of Fern's mean path over those of the truth: 1 is as smooth as the data. The demo's Lorenz
system, every 24th test window, the mean as the paper has it (`transported`) and straight from the head (`direct`), each
model trained once and judged with every width of `smoothing`. What it means: [the method](method.md).
"""


def roughness(rows: Sequence[Result]) -> list[str]:
    """A line for each mean and width; nothing where there is no row."""
    if not rows:
        return []
    lines = [
        "## How jagged a mean path is\n",
        ROUGH,
        "| mean | smoothing | epochs | seed | validation MSE | test MSE | MSE of the first 24 steps | roughness "
        "| at borders of patches | within patches |",
        "|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    measured = ("validation_mse", "test_mse", "mse_of_the_first_steps")
    rough = ("roughness", "roughness_at_borders", "roughness_within")
    lines += [
        f"| {row['mean']} | {row['smoothing']} | {row['epochs']} | {row['seed']} | "
        + " | ".join(number(row[name]) for name in (*measured, *rough))
        + " |"
        for row in sorted(rows, key=lambda row: (row["mean"] != "transported", row["seed"], row["smoothing"]))
    ]
    return [*lines, "", "`python -m benchmarks.distributions.roughness` makes them again.\n"]


def rolled(rows: Sequence[Result]) -> list[str]:
    """A line for each system, noise and way, the preset first; nothing where there is no row."""
    if not rows:
        return []
    lines = [
        "## A rolled Fern at chaos: what its settings do\n",
        ROLLED,
        "| dataset | noise | way | MSE | EPT | kept epoch | processor s |",
        "|:---|---:|:---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['dataset']} | {row['noise']:.0%} | {row['way']} | {number(row['validation']['mse'])} | "
        f"{row['validation']['ept']:.1f} | {row['best_epoch']} of {row['epochs']} | {row['processor_seconds']:.0f} |"
        for row in sorted(rows, key=_place_of_way)
    ]
    made = "`python -m benchmarks.rivals.rolled` makes those of LORENZ_BASE that are not there.\n"
    return [*lines, "", *_parts_in_words(rows), made]


def _parts_in_words(rows: Sequence[Result]) -> list[str]:
    """What polynomial and network have each alone, beside both together, where all three have been tried."""
    found: dict[tuple[str, float], dict[str, float]] = {}
    for row in rows:
        found.setdefault((row["dataset"], row["noise"]), {})[row["way"]] = row["validation"]["mse"]
    told = []
    for (dataset, noise), errors in sorted(found.items()):
        if not errors.keys() >= PARTS.keys():
            continue
        best, *others = sorted(PARTS, key=lambda way: errors[way])
        rest = ", ".join(f"{PARTS[way]} {number(errors[way])}" for way in others)
        told.append(f"- {dataset}, noise {noise:.0%}: lowest MSE {PARTS[best]} ({number(errors[best])}); {rest}.")
    return [*told, ""] if told else []


def particles(rows: Sequence[Result]) -> list[str]:
    """The distribution of a rolled Fern by its particles, a line for each system and noise; nothing where there is no
    row.
    """
    if not rows:
        return []
    spans = list(rows[0]["coverage"])
    lines = [
        "## The distribution of a rolled Fern, as particles\n",
        PARTICLES,
        "| dataset | noise | MSE: mean path | mean of particles | CRPS: mean path | particles | "
        + " | ".join(f"80 % covers, steps {span}" for span in spans)
        + " | 50 / 90 % cover | processor s |",
        f"|:---|---:|---:|---:|---:|---:|{'---:|' * (len(spans) + 2)}",
    ]
    for row in sorted(rows, key=lambda row: (row["dataset"], row["noise"])):
        errors = [*row["mse"].values(), *row["crps"].values()]
        covered = [f"{100 * row['coverage'][span]['80']:.1f} %" for span in spans]
        overall = [_over_the_horizon(row, level) for level in ("50", "90")]
        lines.append(
            f"| {row['dataset']} | {row['noise']:.0%} | {' | '.join(number(error) for error in errors)} | "
            f"{' | '.join(covered)} | {' / '.join(f'{100 * share:.1f}' for share in overall)} % | "
            f"{row['processor_seconds']:.0f} |"
        )
    return [*lines, "", "`python -m benchmarks.rivals.particles` makes those that are not there.\n"]


def _over_the_horizon(row: Result, level: str) -> float:
    """The mean coverage of all steps."""
    ends = [int(span.rpartition(" ")[2]) for span in row["coverage"]]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    shares: list[float] = [one[level] for one in row["coverage"].values()]
    return sum(size * share for size, share in zip(sizes, shares, strict=True)) / ends[-1]


def _place_of_way(row: Result) -> tuple[str, float, bool, float]:
    return row["dataset"], row["noise"], row["way"] != "chaos", row["validation"]["mse"]


def pfnn(rows: Sequence[Result]) -> list[str]:
    """What PFNN's terms do; nothing where there is no row."""
    if not rows:
        return []
    lines = [
        "## PFNN: the terms of its operator\n",
        PFNN,
        "| dataset | way | validation MSE | median | test MSE | median | held |",
        "|:---|:---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        for way, found in row["ways"].items():
            if "diverged" in found:
                lines.append(f"| {row['dataset']} | {way} | diverged | | | | |")
                continue
            figures = [found[part][name] for part in ("validation", "test") for name in ("mse", "median_mse")]
            told = " | ".join(map(number, figures))
            lines.append(f"| {row['dataset']} | {way} | {told} | {found['test']['held']:.0%} |")
    return [*lines, "", *(f"- `{row['command']}`" for row in rows), ""]


def flow_speed(rows: Sequence[Result]) -> list[str]:
    """The correlations with the largest eigenvalue; nothing where there is no row."""
    if not rows:
        return []
    lines = [
        "## Speed of the flow against the largest eigenvalue\n",
        SPEED,
        "| dataset | largest eigenvalue against | Spearman | Pearson | patches |",
        "|:---|:---|---:|---:|---:|",
    ]
    lines += [
        f"| {row['dataset']} | {what} | {found['spearman']:.2f} | {found['pearson']:.2f} | {row['patches']} |"
        for row in rows
        for what, found in row["correlation"].items()
    ]
    return [*lines, "", *(f"- `{row['command']}`" for row in rows), ""]


def protocol(rows: Sequence[Result]) -> list[str]:
    """One line for each reading, the best first within a dataset; nothing where there is no row."""
    if not rows:
        return []
    lines = [
        "## Readings of the paper's protocol\n",
        PROTOCOL,
        "| dataset | changed | validation MSE | training loss | kept epoch | epochs | seed |",
        "|:---|:---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['dataset']} | {row['way']} | {number(row['validation_mse'])} | {number(row['train_loss'])} | "
        f"{row['best_epoch']} | {row['epochs']} of {row['most_epochs']} | {row['seed']} |"
        for row in sorted(rows, key=lambda row: (row["dataset"], row["validation_mse"]))
    ]
    names = " ".join(dict.fromkeys(row["dataset"] for row in rows))
    return [*lines, "", f"`python -m benchmarks.rivals.protocol --datasets {names}` makes those that are not there.\n"]

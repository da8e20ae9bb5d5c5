"""The sections about distributions on single series, after a shock and at drawn z, and about several libraries'
forecasters.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from benchmarks.sections.distributions import system_of

Result = Mapping[str, Any]

SINGLE = """\
Fern (`level`) on the usual borders, 96 rows from 336, calibrated on the validation part. Coverage in %, with the bar
1.96·√(s(1 − s)(1/n_eff + 1/n_cal)) for the level s and the effective numbers of test and calibration windows: on one
series it cannot be told more precisely. Where the test part is unlike the validation part, calibration cannot know.
"""
SHOCK = """\
The noise doubles at a row that nothing was fitted to. Coverage of 90 % margins in %, by how many rows after the shock a
forecast was made (negative: before); `online` learns from every outcome as it comes in, `static` does not.
"""
LATENT = """\
The paper's model by the paper's protocol, a few epochs, judged on held-out rows before the test part: test-time z at 0,
drawn once, and the mean over 16 draws; trained with z drawn as the paper says, and with z = 0 for half of the series of
every batch. MSE of standardised values.
"""
SHORT = """\
Simulated series of 110 to 150 rows, which leave a window or two to calibrate on, fitted as `FernForecaster` does. The
trained distribution, widened, counts as so many of those windows. CRPS as the geometric mean of its ratio to that at 0.
"""
LIBRARIES = """\
Each library with its defaults, one fit before the first of several windows at the end of each table (series of a table
together). MSE, MAE and CRPS of values divided by the training part's standard deviation; neuralforecast's intervals are
its conformal ones (two windows). ± is the MSE's standard error over the windows. Seconds are processor seconds;
statsforecast's local methods fit at each window. neuralforecast trains twice, once for its intervals; a training that
passed 120 s was stopped there, and how far it came stands beside the method. The best CRPS of a table is in bold.
"""
NEURAL = ("DLinear", "NHITS", "PatchTST")
"""The methods that are neuralforecast's."""


def single_series(rows: Sequence[Result]) -> list[str]:
    """Coverage on real series, each with its error bar; nothing where there is no row."""
    if not rows:
        return []
    levels = sorted({one["level"] for row in rows for one in row["coverage"]})
    lines = [
        "## Coverage on one real series\n",
        SINGLE,
        f"| dataset | kind | {' | '.join(f'{level:g} %' for level in levels)} | CRPS before → after |",
        f"|:---|:---|{'---:|' * (len(levels) + 1)}",
    ]
    for row in rows:
        for kind in dict.fromkeys(one["kind"] for one in row["coverage"]):
            own = {one["level"]: one for one in row["coverage"] if one["kind"] == kind}
            cells = [f"{100 * own[level]['coverage']:.1f} ± {100 * own[level]['error_bar']:.1f}" for level in levels]
            crps = f"{row['crps']['before']:.4f} → {row['crps']['after']:.4f}" if kind == "margin" else ""
            lines.append(f"| {row['dataset']} | {kind} | {' | '.join(cells)} | {crps} |")
    return [*lines, "", *(f"- `{row['command']}`" for row in rows), ""]


def covered_in_words(
    many: Sequence[Result],
    single: Sequence[Result],
    tables: Sequence[Result],
    trajectories: Sequence[Result],
) -> str:
    """What intervals of 80 % were measured to cover: by `FernForecaster`, and by Fern calibrated on many series."""
    own = ", ".join(
        f"{row['table']} {100 * row['coverage_80']:.1f} %"
        for row in tables
        if row["method"].startswith("FernForecaster")
    )
    lorenz = [row["first_coverage_80"] for row in trajectories]
    spread = (
        f" (LORENZ_BASE on {len(lorenz)} trajectories {100 * fmean(lorenz):.1f} %, "
        f"{100 * min(lorenz):.1f} to {100 * max(lorenz):.1f})"
        if len(lorenz) > 1
        else ""
    )
    over = ", ".join(f"{system_of(row)} {100 * row['mean']['margin/80']:.1f} %" for row in many)
    on = [
        f"{row['dataset']} {100 * one['coverage']:.1f} ± {100 * one['error_bar']:.1f} %"
        for row in single
        for one in row["coverage"]
        if one["kind"] == "margin" and one["level"] == 80
    ]
    series = many[0]["series"] if many else 0
    return (
        "What 80 % intervals were measured to cover. Those of `FernForecaster`, over few windows of one table each:\n"
        f"{own}{spread}.\n"
        f"Those of one trained Fern, calibrated on each of {series} fresh series: {over};\n"
        f"on one real series, with the error bar that its length allows, {', '.join(on)}.\n"
        "More in [results](docs/results.md); what may be claimed: [uncertainty](docs/uncertainty.md).\n"
    )


def after_shock(rows: Sequence[Result]) -> list[str]:
    """Coverage by time since a shock; nothing where there is no row."""
    lines: list[str] = []
    for row in rows:
        spans = row["rows since the shock"][: len(row["static"])]
        lines += [
            "## Coverage after a shock\n",
            SHOCK,
            f"| {row['system']}, {row['series']} series | {' | '.join(spans)} | within 2 points after |",
            f"|:---|{'---:|' * (len(spans) + 1)}",
            *(_followed(row, name) for name in ("static", "online")),
            "",
            f"- `{row['command']}`",
            "",
        ]
    return lines


def _followed(row: Result, name: str) -> str:
    back = row["rows until within 2 points"][name]
    shares = " | ".join(f"{100 * share:.1f}" for share in row[name])
    return f"| {name} | {shares} | {'never' if back is None else f'{back} rows'} |"


def latent(rows: Sequence[Result]) -> list[str]:
    """The paper's model at z = 0 and at drawn z; nothing where there is no row."""
    if not rows:
        return []
    ways = list(next(iter(rows[0]["mse"].values())))
    return [
        "## The latent at evaluation\n",
        LATENT,
        f"| dataset | seed | training | {' | '.join(ways)} |",
        f"|:---|---:|:---|{'---:|' * len(ways)}",
        *(
            f"| {row['dataset']} | {row['seed']} | {training} | {' | '.join(f'{errors[way]:.4g}' for way in ways)} |"
            for row in rows
            for training, errors in row["mse"].items()
        ),
        "",
        *(f"- `{row['command']}`" for row in rows),
        "",
    ]


def short_series(rows: Sequence[Result]) -> list[str]:
    """Intervals of short series, with and without counting the distribution itself; nothing where there is no row."""
    if not rows:
        return []
    lines = [
        "## Short series\n",
        SHORT,
        "| kind | series | distribution counts as windows | CRPS ratio | 80 % covers | 95 % covers |",
        "|:---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines += [
            f"| {row['kind']} | {row['series']} | {counted} | {one['crps_ratio']:.3f} | "
            f"{100 * one['coverage_80']:.1f} % | {100 * one['coverage_95']:.1f} % |"
            for counted, one in row["distribution_windows"].items()
        ]
    return [*lines, "", *dict.fromkeys(f"- `{row['command']}`" for row in rows), ""]


def libraries(rows: Sequence[Result]) -> list[str]:
    """People's tables by several libraries; nothing where there is no row."""
    if not rows:
        return []
    lines = [
        "## Forecasters of several libraries\n",
        LIBRARIES,
        "| table | horizon | method | MSE | MAE | CRPS | 80 % covers | 95 % covers | fit s | forecast s |",
        "|:---|---:|:---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for table in dict.fromkeys(row["table"] for row in rows):
        own = sorted((row for row in rows if row["table"] == table), key=lambda row: row["crps"])
        lines += [_method(row, best=row is own[0]) for row in own]
    ours = {row["table"] for row in rows if row["method"].startswith("FernForecaster")}
    shared = [row for row in rows if row["table"] in ours]  # a table that we have not run says nothing about us
    verdict = " ".join(_verdict(shared, metric) for metric in ("crps", "mse"))
    floors = {row["table"]: row["floor_mse"] for row in rows if "floor_mse" in row}
    told = ", ".join(f"{table} {floor:.4g}" for table, floor in floors.items())
    best_possible = [f"MSE of the best possible forecast on the same windows: {told}.", ""] if floors else []
    made = "`python -m benchmarks.forecasters.compare` makes those that are not there.\n"
    return [*lines, "", verdict, "", *_cut_short(shared), *best_possible, made]


def _cut_short(rows: Sequence[Result]) -> list[str]:
    """How many trainings the limit of time stopped: a win over those is one under that limit."""
    theirs = [row for row in rows if row["method"] in NEURAL]
    whole = [f"{row['method']} on {row['table']}" for row in theirs if "steps" not in row]
    if len(whole) == len(theirs):
        return []
    return [
        f"Of neuralforecast's {len(theirs)} trainings {len(theirs) - len(whole)} were stopped by the limit of time: "
        "the table says what a person gets within it, not what those models can reach. "
        f"Finished: {', '.join(whole) or 'none'}.",
        "",
    ]


def trajectories(rows: Sequence[Result]) -> list[str]:
    """What intervals cover on several trajectories of one chaotic system; nothing where there are fewer than two."""
    if len(rows) < 2:
        return []
    told = []
    for level in (80, 95):
        for key, windows in (("first_coverage", "the 40 windows of the table"), ("coverage", "all windows")):
            shares = [row[f"{key}_{level}"] for row in rows]
            error = stdev(shares) / sqrt(len(shares))
            told.append(
                f"{level} % intervals cover {100 * fmean(shares):.1f} ± {100 * error:.1f} % over {windows} "
                f"({100 * min(shares):.1f} to {100 * max(shares):.1f})"
            )
    return [
        f"LORENZ_BASE on {len(rows)} trajectories in place of one, mean ± standard error: {'; '.join(told)} "
        "(`python -m benchmarks.forecasters.trajectories`).\n"
    ]


def _verdict(rows: Sequence[Result], metric: str) -> str:
    """On which tables FernForecaster is best by a metric, and who is where it is not."""
    best = [min((row for row in rows if row["table"] == table), key=lambda row: row[metric]) for table in _tables(rows)]
    won = [row["table"] for row in best if row["method"].startswith("FernForecaster")]
    lost = [f"{row['table']} ({row['method']})" for row in best if row["table"] not in won]
    return (
        f"Best {metric.upper()} of FernForecaster: {', '.join(won) or 'none'}. Of another: {', '.join(lost) or 'none'}."
    )


def _tables(rows: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(row["table"] for row in rows))


def _method(row: Result, *, best: bool) -> str:
    crps = f"**{row['crps']:.4f}**" if best else f"{row['crps']:.4f}"
    error = f" ± {row['mse_error']:.4f}" if "mse_error" in row else ""
    cut = f" ({row['steps']:,} of {row['steps_asked']:,} steps)" if "steps" in row else ""
    return (
        f"| {row['table']} | {row['horizon']} | {row['method']}{cut} | {row['mse']:.4f}{error} | {row['mae']:.4f} | "
        f"{crps} | {100 * row['coverage_80']:.1f} % | {100 * row['coverage_95']:.1f} % | {row['fit_seconds']:.1f} | "
        f"{row['predict_seconds']:.2f} |"
    )

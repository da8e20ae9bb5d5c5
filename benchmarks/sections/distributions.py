"""Tables and verdicts about distributions, from ``benchmarks/distributions/results``."""

from collections.abc import Sequence

from benchmarks.sections import Part, Result, draw_table, percent
from fern.html.markup import number

SCORES = {"mse": "MSE", "mae": "MAE", "crps": "CRPS", "energy": "energy score"}
COVERAGE = {"coverage_50": "50 % covers", "coverage_80": "80 % covers", "coverage_95": "95 % covers"}
KINDS = {
    "uncalibrated margin": "margins, before calibration",
    "margin": "margins",
    "patch": "patch regions",
    "band": "bands",
    "region": "horizon regions",
}


def loss_part(results: Sequence[Result]) -> Part:
    """Ways to train the distribution, the best CRPS of a dataset first."""
    lines = [
        [
            result["dataset"],
            result["variant"],
            *(f"{result['judged'][name]:.4f}" for name in SCORES),
            *(percent(result["judged"][name]) for name in COVERAGE),
            result["epochs"],
            f"{result['processor_seconds']:.0f}",
        ]
        for result in sorted(results, key=lambda result: (result["dataset"], result["judged"]["crps"]))
    ]
    line = (
        "Standardised values of a held-out part before the test part, seed 7, nothing calibrated. "
        "`python -m benchmarks.distributions.compare`"
    )
    heads = ["dataset", "model, loss", *SCORES.values(), *COVERAGE.values(), "epochs", "processor s"]
    return Part("Ways to train the distribution", line, draw_table(heads, lines, words=2))


def many_series_part(results: Sequence[Result]) -> Part:
    """Coverage over many fresh series of each system."""
    levels = list(dict.fromkeys(name.partition("/")[2] for result in results for name in result["mean"] if "/" in name))
    lines = []
    for result in results:
        for kind, title in KINDS.items():
            cells = [_show_covered(result, f"{kind}/{level}") for level in levels]
            if any(cells):
                lines.append([system_of(result), title, result["series"], *cells])
    line = (
        "One Fern for each system; each fresh series is calibrated on its first part and scored on its last; mean ± "
        "standard deviation over series, in %. `python -m benchmarks.distributions.coverage`"
    )
    heads = ["system", "kind", "series", *(f"{level} %" for level in levels)]
    return Part("Coverage over many series", line, draw_table(heads, lines, words=2))


def scores_part(results: Sequence[Result]) -> Part:
    """Scores over many fresh series of each system, before and after calibration."""
    names = list(dict.fromkeys(name for result in results for name in result["mean"] if "/" not in name))
    lines = [
        [name, *(f"{result['mean'][name]:.4f}" if name in result["mean"] else "" for result in results)]
        for name in names
    ]
    line = "Mean over the series of the table above. `python -m benchmarks.distributions.coverage`"
    return Part("Scores over many series", line, draw_table(["score", *map(system_of, results)], lines))


def one_series_part(results: Sequence[Result]) -> Part:
    """Coverage on real series, with the error bar that their length allows."""
    levels = sorted({cell["level"] for result in results for cell in result["coverage"]})
    lines = []
    for result in results:
        for kind in dict.fromkeys(cell["kind"] for cell in result["coverage"]):
            own = {cell["level"]: cell for cell in result["coverage"] if cell["kind"] == kind}
            cells = [f"{100 * own[level]['coverage']:.1f} ± {100 * own[level]['error_bar']:.1f}" for level in levels]
            crps = f"{result['crps']['before']:.4f} → {result['crps']['after']:.4f}" if kind == "margin" else ""
            lines.append([result["dataset"], kind, *cells, crps])
    line = (
        "Fern (`level`), 336 → 96, calibrated on the validation part, in %; ± 1.96·√(s(1 − s)(1/n_eff + 1/n_cal)). "
        "`python -m benchmarks.distributions.single`"
    )
    heads = ["dataset", "kind", *(f"{level:g} %" for level in levels), "CRPS before → after"]
    return Part("Coverage on one real series", line, draw_table(heads, lines, words=2))


def after_shock_part(results: Sequence[Result]) -> Part:
    """Coverage by time since a shock, with and without online updates."""
    (result,) = results
    spans = result["rows since the shock"][: len(result["static"])]
    lines = []
    for name in ("static", "online"):
        back = result["rows until within 2 points"][name]
        shares = [f"{100 * share:.1f}" for share in result[name]]
        lines.append([name, *shares, "never" if back is None else f"{back} rows"])
    line = (
        f"The noise of {result['system']} doubles unseen; coverage of 90 % margins in %, by rows since the shock, over "
        f"{result['series']} series. `{result['command']}`"
    )
    return Part("Coverage after a shock", line, draw_table(["updates", *spans, "within 2 points after"], lines))


def short_part(results: Sequence[Result]) -> Part:
    """Intervals of short series, with and without counting the trained distribution."""
    lines = [
        [result["kind"], result["series"], counted, f"{score['crps_ratio']:.3f}"]
        + [percent(score[f"coverage_{level}"]) for level in (80, 95)]
        for result in results
        for counted, score in result["distribution_windows"].items()
    ]
    line = (
        "Simulated series of 110 to 150 rows; the trained distribution counts as so many calibration windows. "
        f"`{results[0]['command']}`"
    )
    heads = ["kind", "series", "counts as windows", "CRPS ratio", "80 % covers", "95 % covers"]
    return Part("Short series", line, draw_table(heads, lines))


def latent_part(results: Sequence[Result]) -> Part:
    """The paper's model at z = 0 and at drawn z."""
    ways = list(next(iter(results[0]["mse"].values())))
    lines = [
        [result["dataset"], training, *(f"{errors[way]:.4g}" for way in ways)]
        for result in results
        for training, errors in result["mse"].items()
    ]
    line = (
        "MSE of standardised values on held-out rows, the paper's protocol for a few epochs. "
        "`python -m benchmarks.distributions.latent`"
    )
    return Part("The latent at evaluation", line, draw_table(["dataset", "training", *ways], lines, words=2))


def roughness_part(results: Sequence[Result]) -> Part:
    """How jagged a mean path is."""
    rows = [row for result in results for row in result["rows"]]
    names = ("validation_mse", "test_mse", "roughness", "roughness_at_borders", "roughness_within")
    lines = [
        [row["mean"], row["smoothing"], *(number(row[name]) for name in names)]
        for row in sorted(rows, key=lambda row: (row["mean"] != "transported", row["seed"], row["smoothing"]))
    ]
    line = (
        "Squared second differences of the mean path over those of the truth; 1 is as smooth as the data. "
        "`python -m benchmarks.distributions.roughness`"
    )
    heads = ["mean", "smoothing", "validation MSE", "test MSE", "roughness", "at patch borders", "within patches"]
    return Part("How jagged a mean path is", line, draw_table(heads, lines))


def judge_coverage(many: Sequence[Result], single: Sequence[Result]) -> str:
    """The measured coverage of 80 % intervals."""
    over = [result["mean"]["margin/80"] for result in many]
    on = [
        cell["coverage"]
        for result in single
        for cell in result["coverage"]
        if cell["kind"] == "margin" and cell["level"] == 80
    ]
    return (
        f"Measured coverage of 80 % intervals: {100 * min(over):.1f} to {percent(max(over))} over {many[0]['series']} "
        f"fresh series of each of {len(many)} systems, {100 * min(on):.1f} to {percent(max(on))} on {len(on)} real "
        "series"
    )


def judge_shock_coverage(results: Sequence[Result]) -> str:
    """How soon coverage recovers after a shock."""
    (result,) = results
    backs = result["rows until within 2 points"]
    static = "never recovers" if backs["static"] is None else f"recovers after {backs['static']} rows"
    return (
        f"After a shock that doubles the noise, the coverage of 90 % intervals falls to "
        f"{percent(min(result['static']))} and {static}; with online updates it is within 2 points after "
        f"{backs['online']} rows"
    )


def system_of(result: Result) -> str:
    """The system, with its observation noise."""
    noise = result["observation_noise"]
    return f"{result['system']} + {100 * noise:g} % noise" if noise else str(result["system"])


def _show_covered(result: Result, name: str) -> str:
    if name not in result["mean"]:
        return ""
    return f"{100 * result['mean'][name]:.1f} ± {100 * result['spread'][f'{name} (sd over series)']:.1f}"

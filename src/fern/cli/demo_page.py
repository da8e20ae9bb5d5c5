"""The page that ``fern demo`` ends in: what was simulated, who forecasts it best, and how far to trust it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fern.benchmark.problem import Problem
from fern.benchmark.scoring import Score
from fern.calibration import Calibration, Residuals, coverage_report, fit_calibration
from fern.calibration.coverage import coverage_by_origin
from fern.data import Windows
from fern.diagnostics import EigenProfile, Rules, detect_alarms, eigenprofile, learn_rules
from fern.forecaster.report import Profile, render_coverage, render_profile
from fern.forecaster.scores import Backtest
from fern.html.figures import draw_live, drawing
from fern.html.markup import Entry, Head, Html, bullet_list, element, join_html, listing, number
from fern.html.page import Section, command
from fern.models import Forecaster
from fern.models.base import around
from fern.plot.attractor import Attractor, trajectory_figure
from fern.plot.coverage import CoverageOverTime, Covered
from fern.plot.forecasts import Interval, PatchMap, forecast_figure, mechanism_figure
from fern.plot.scores import ErrorGrowth
from fern.transport import Ellipsoid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRIDE = 24  # rows between the windows that calibrate and that errors by step are averaged over
LEVEL = 90.0
WHAT_TO_LOOK_AT = (
    "How errors grow: where Fern's line leaves the others', and how far below all of them the oracle lies.",
    "The system: turn the attractor; the reconstruction has the same two wings, coloured by how far it stretches.",
    "One forecast: the interval is as wide as errors of held-out windows were, and opens with them.",
    "How far to trust it: dots within their bars are intervals that hold what they promise.",
    "Before errors: shaded stretches are warnings that the distribution gave by itself, with their measured rates.",
)


@dataclass(frozen=True, eq=False)
class Findings:
    """What the demo measured of Fern: the calibration of its errors, coverage on the test part, profile, warnings."""

    calibration: Calibration
    covered: tuple[Covered, ...]
    course: CoverageOverTime
    pit: NDArray[np.float64]
    profile: EigenProfile
    rules: Rules


def gather_strided(windows: Windows) -> tuple[torch.Tensor, torch.Tensor, NDArray[np.int64]]:
    """Every 24th window: contexts, futures, and the first row of each context."""
    places = torch.arange(0, len(windows), STRIDE)
    past, future = windows.gather(places)
    return past, future, windows.starts(places).numpy()


@torch.no_grad()
def findings_of(model: Forecaster, problem: Problem) -> Findings:
    """Calibrate intervals on validation windows, look at them on test windows."""
    past, future, origins = gather_strided(problem.validation)
    calibration = fit_calibration(Residuals.of(_spread(model, past), future, origins=origins))
    past, future, origins = gather_strided(problem.test)
    forecast = calibration.apply(_spread(model, past))
    report = coverage_report(forecast, future, origins=origins, paths=0)
    course = coverage_by_origin(forecast, future, origins=origins, row=report.row("margin", LEVEL))
    rolled = course.rolling()
    over_time = CoverageOverTime(
        LEVEL, rolled.origins + problem.context_length, rolled.coverage, rolled.error_bar, rolled.windows, rolled.n_eff
    )
    covered = tuple(Covered(row.kind, row.level, row.coverage, row.error_bar, row.n_eff) for row in report.rows)
    profiles = []
    length = problem.context_length + problem.horizon
    for part in (problem.validation, problem.test):
        first, last = part.starts(torch.tensor([0, len(part) - 1])).tolist()
        profile = eigenprofile(model, problem.values[first : last + length], stride=8)
        profiles.append(replace(profile, first_row=first + profile.first_row))
    return Findings(calibration, covered, over_time, course.pit, profiles[1], learn_rules(profiles[0]))


@torch.no_grad()
def errors_by_step(
    models: Mapping[str, Forecaster], problem: Problem
) -> dict[str, NDArray[np.floating[Any]]]:  # name -> (H,)
    """The mean squared error of each step ahead over every 24th test window; the oracle's under its name."""
    past, future, starts = gather_strided(problem.test)
    errors: dict[str, NDArray[np.floating[Any]]] = {
        name: (model(past).mean - future).square().mean(dim=(0, 2)).numpy() for name, model in models.items()
    }
    if problem.dataset.trajectory is not None:
        best = problem.best_forecasts(starts + problem.context_length)
        errors["oracle"] = ((best - future.numpy()) ** 2).mean(axis=(0, 2))
    return errors


@torch.no_grad()
def window_figures(
    models: Mapping[str, Forecaster], problem: Problem, findings: Findings, *, title: str
) -> "tuple[Figure, Figure]":
    """A test window: forecasts beside the truth with Fern's calibrated interval, and what its map does there."""
    names, test = problem.dataset.channel_names, problem.test
    past, future = test.gather(torch.tensor([len(test) // 2]))
    forecasts = {name: model(past).mean[0].numpy() for name, model in models.items()}
    distribution: Ellipsoid | None = models["fern"](past).ellipsoid
    assert distribution is not None  # Fern has one always
    low, high = findings.calibration.apply(_spread(models["fern"], past)).interval(LEVEL)
    band = Interval(low[0], high[0], LEVEL)
    window = forecast_figure(past[0].numpy(), future[0].numpy(), forecasts, channel_names=names, band=band, title=title)
    covariance, mean = distribution.covariance_matrix[0, 0].numpy(), distribution.mean[0, 0].numpy()
    patches, size = [], distribution.patch_size
    for patch in sorted({0, distribution.patches // 2, distribution.patches - 1}):
        ends = [patch * size, min((patch + 1) * size, distribution.horizon) - 1]
        title = f"patch {patch + 1} of {distribution.patches}"
        steps, came = (ends[0] + 1, ends[1] + 1), future[0, ends, 0].numpy()
        patches.append(PatchMap(title, steps, mean[ends], covariance[np.ix_(ends, ends)], came))
    return window, mechanism_figure(patches, source_deviation=distribution.base_variance**0.5)


def demo_sections(
    problem: Problem,
    models: Mapping[str, Forecaster],
    scores: Mapping[str, Score],
    findings: Findings,
    *,
    step: float | None,
) -> list[Section]:
    """The sections about the known system. ``step`` is a step in Lyapunov times, where that is known."""
    name = problem.dataset.name
    window, mechanism = window_figures(models, problem, findings, title="")
    growth = errors_by_step(models, problem)
    oracle = growth.pop("oracle", None)
    lasts = ", ".join(f"{model} {number(float(errors[-1]))}" for model, errors in growth.items())
    alarms = tuple(detect_alarms(findings.profile, findings.rules))
    series = ("forecast", "truth", "error", "spectral_radius", "trace", "log_det")
    profile_part = replace(findings.profile, **{name: getattr(findings.profile, name)[:1500] for name in series})
    rules = [
        f"{rule.name}: {rule.explanation}. On validation data, {findings.rules.lead} rows ahead: flagged "
        f"{rule.rates.hit_rate:.0%} of {rule.rates.spikes} spikes, {rule.rates.false_alarm_rate:.0%} of quiet rows."
        for rule in findings.rules.rules
    ]
    shown = Profile(problem.dataset.channel_names[0], profile_part, 0, alarms)
    sections = [
        Section(
            "result",
            "A shocked system",
            join_html(
                [
                    _table(scores),
                    element("p", {}, judge_system(scores)),
                    element("h3", {}, "What to look at"),
                    bullet_list(WHAT_TO_LOOK_AT),
                ]
            ),
        ),
        Section(
            "growth",
            "How errors grow",
            draw_live(
                ErrorGrowth(growth, oracle=oracle, lyapunov_times_a_step=step),
                name="error-growth",
                alt=f"Mean squared error by step ahead on {name}. At the last step: {lasts}.",
                caption="Errors of a chaotic system grow until they are as large as the system itself. The oracle "
                "knows the equations; what is left to it is rounding.",
            ),
        ),
        Section(
            "window",
            "One forecast",
            join_html(
                [
                    drawing(
                        window,
                        name="window",
                        alt="A test window: the truth, each model's forecast, and Fern's calibrated 90 % interval.",
                        caption="A window of the test part. Shaded: Fern's interval, calibrated on validation windows.",
                    ),
                    drawing(
                        mechanism,
                        name="mechanism",
                        alt="The ball of the prior, and the ellipses that the map makes of it in three patches.",
                        caption="What the map does there, in the first channel: the ball on the left becomes an "
                        "ellipsoid in each patch. Dashed: its axes. Cross: what came.",
                    ),
                ]
            ),
        ),
        Section(
            "coverage",
            "How far to trust it",
            render_coverage(findings.covered, course=findings.course, pit=findings.pit),
        ),
        Section(
            "diagnostics",
            "Before errors",
            join_html([render_profile(shown, name="diagnostics-figure"), bullet_list(rules)]),
        ),
    ]
    trajectory, profile = problem.dataset.trajectory, findings.profile
    assert trajectory is not None  # the demo's system is simulated, and has three channels
    series_drawn = drawing(
        trajectory_figure(trajectory),
        name="trajectory",
        alt=f"{name}: the series around the shock, and the attractor before and after it.",
        caption="The data. Colours tell before from after the shock.",
    )
    values = profile.truth, profile.forecast, profile.spectral_radius
    attractor_drawn = draw_live(
        Attractor.of(*values, channel_names=problem.dataset.channel_names, dt=trajectory.dt),
        name="attractor",
        alt="The attractor of the test part, coloured by speed, beside Fern's reconstruction of it, "
        "coloured by the largest eigenvalue of each row's patch.",
        caption="Left: the test part, coloured by speed. Right: what Fern forecasts of it, coloured by the "
        "largest eigenvalue of the patch, the mean over channels.",
    )
    sections.insert(1, Section("system", "The system", join_html([series_drawn, attractor_drawn])))
    return sections


def own_data_section(result: Backtest, drawings: Html, file: str) -> Section:
    """The section about a table: who forecasts it best, and the forecast."""
    heads = [Head("method"), *(Head(title, numeric=True) for title in ("MAE", "MASE", "CRPS"))]
    heads += [Head(f"in {level:g} %", numeric=True) for level in result.levels]
    rows = [
        [
            Entry(score.name),
            *(Entry("" if x is None else number(x), x) for x in (score.mae, score.mase, score.crps)),
            *(Entry(f"{share:.1%}", share) for share in score.coverage),
        ]
        for score in result.methods
    ]
    words = [
        element("p", {}, f"Hourly load, made up for this demo. {result.verdict}"),
        listing(heads, rows, caption="Forecasts of the last days, as if they were unknown"),
        drawings,
        element("p", {}, "On your own file: ", command(f"fern backtest {file} --horizon 48")),
    ]
    return Section("own-data", "A table", join_html(words))


def judge_system(scores: Mapping[str, Score]) -> str:
    """What the shocked system shows, in one sentence."""
    errors = {name: score.metrics["mse"] for name, score in scores.items()}
    naive = errors["last-value"]
    shares = ", ".join(f"{name} {errors[name] / naive:.2g}" for name in errors if name not in ("oracle", "last-value"))
    return (
        f"MSE over that of the last value, repeated: {shares}, and {errors['oracle'] / naive:.2g} for the oracle, "
        "which knows the equations; polymap comes near it because it sees all channels and has the equations' form."
    )


def _table(scores: Mapping[str, Score]) -> Html:
    columns = {"mse": "MSE", "mae": "MAE", "wd": "WD", "ept": "EPT"}
    rows = [
        [Entry(name), *(Entry(number(score.metrics[key]), float(score.metrics[key])) for key in columns)]
        for name, score in scores.items()
    ]
    heads = [Head("model"), *(Head(title, numeric=True) for title in columns.values())]
    return listing(heads, rows, caption="Errors over all test windows")


def _spread(model: Forecaster, past: torch.Tensor) -> Ellipsoid:
    """The same width for every window, to be calibrated: Huber's loss, the paper's, teaches no widths."""
    return around(model(past).mean)

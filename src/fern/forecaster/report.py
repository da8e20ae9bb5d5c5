"""A forecast as an HTML page: the fan chart, its coverage, warnings of the diagnostics, and what is in the data."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.auditing.audit import AuditReport
from fern.data.auditing.page import audit_part
from fern.data.native import unwrap
from fern.data.writing import write_table
from fern.diagnostics import Alarm, EigenProfile, detect_alarms
from fern.errors import FernError
from fern.forecaster.diagnose import examine, make_frames
from fern.forecaster.plot import make_fans
from fern.forecaster.state import Findings, State
from fern.html.figures import draw_live, drawing
from fern.html.markup import Entry, Head, Html, element, joined, listed, listing, number
from fern.html.page import Page, Section, command, details, download, page
from fern.plot.coverage import CoverageOverTime, Covered, coverage_figure
from fern.plot.diagnostics import diagnostics_figure
from fern.plot.forecasts import Fans
from fern.plot.scores import importance_figure

if TYPE_CHECKING:
    from fern.forecaster.forecaster import FernForecaster


_MOST_ROWS = 400
_MOST_DATA = 1_500_000
_MOST_PROFILES = 4
PIT = " PIT: where outcomes fall in the forecast's own probabilities, flat where it is right."
TWO_STEPS = " Beside it: two steps of joint paths, and the ellipses that hold shares of them."


@dataclass(frozen=True, eq=False)
class Profile:
    """The eigen-profile of one channel of a series, and the stretches that rules flag."""

    name: str
    profile: EigenProfile
    channel: int = 0
    alarms: tuple[Alarm, ...] = ()


@dataclass(frozen=True, eq=False)
class ForecastShown:
    """All that a page shows of a forecast; what there is not is left empty, and the page says so.

    ``rows``      the forecast, a mapping for each row; ``csv`` the same as a file.
    ``rates``     how often each warning was right, a mapping for each rule.
    ``measured``  where coverage and profile come from, in words.
    ``course``    how coverage went along time; ``pit`` the shares of outcomes in equally probable stretches.
    ``importance``  name, importance and standard deviation of each covariate.
    """

    name: str
    lead: str
    fan: Fans
    fan_alt: str
    rows: Sequence[Mapping[str, Any]]
    csv: bytes
    notes: tuple[str, ...] = ()
    command: str = ""
    measured: str = ""
    covered: tuple[Covered, ...] = ()
    course: CoverageOverTime | None = None
    pit: NDArray[np.floating[Any]] | None = None
    profiles: tuple[Profile, ...] = ()
    rates: tuple[Mapping[str, Any], ...] = ()
    audit: AuditReport | None = None
    importance: tuple[tuple[str, float, float], ...] = ()


def forecast_page(shown: ForecastShown) -> str:
    """The whole page of a forecast."""
    sections = [
        Section("forecast", "Forecast", _forecast(shown)),
        Section("coverage", "Coverage", _coverage(shown)),
        Section("diagnostics", "Diagnostics", _diagnostics(shown)),
    ]
    if shown.importance:
        sections.insert(1, Section("covariates", "Covariates", render_importance(shown.importance)))
    if shown.audit is not None:
        sections.append(Section("data", "The data", audit_part(shown.audit)))
    return page(f"Forecast of {shown.name}", sections, lead=shown.lead)


def render_coverage(
    covered: Sequence[Covered],
    *,
    name: str,
    course: CoverageOverTime | None = None,
    pit: NDArray[np.floating[Any]] | None = None,
) -> Html:
    """Coverage as a figure and as a table, and how it went along time."""
    described = ", ".join(f"{row.kind} {row.level:g} %: {row.coverage:.1%}" for row in covered)
    heads = [
        Head("region"),
        Head("level", numeric=True),
        Head("coverage", numeric=True),
        Head("by chance, ±", numeric=True),
        Head("n_eff", numeric=True),
        Head("verdict"),
    ]
    rows = [
        [
            Entry(row.kind),
            Entry(f"{row.level:g} %", float(row.level)),
            Entry(f"{row.coverage:.1%}", float(row.coverage)),
            Entry(f"{row.error_bar:.1%}", float(row.error_bar)),
            Entry(f"{row.n_eff:.0f}", float(row.n_eff)),
            Entry("as promised" if abs(row.coverage - row.level / 100) <= row.error_bar else "off", kind="short"),
        ]
        for row in covered
    ]
    drawn = drawing(
        coverage_figure(covered, pit=pit),
        name=name,
        alt=f"Coverage beside the level. {described}.",
        caption="Dots: the share of outcomes inside. Bars: where it should lie 19 times in 20, as many independent "
        "windows as there are (n_eff)."
        + (
            " PIT: where outcomes fall in the forecast's own probabilities, flat where it is right."
            if pit is not None
            else ""
        ),
    )
    parts = [drawn, listing(heads, rows, caption="Coverage of each kind of region")]
    if course is not None:
        low, high = float(np.min(course.coverage)), float(np.max(course.coverage))
        parts.append(
            draw_live(
                course,
                name=f"{name}-course",
                alt=f"Coverage of {course.level:g} % intervals along time: from {low:.1%} to {high:.1%}, within chance "
                f"at {course.inside_chance:.0%} of places.",
                caption=f"Coverage of {course.level:g} % intervals over the newest {course.windows:,} windows. Shaded: "
                f"where chance alone takes it 19 times in 20; so many windows are worth {course.n_eff:.0f} independent "
                "ones.",
            )
        )
    return joined(parts)


def render_importance(importance: Sequence[tuple[str, float, float]]) -> Html:
    """What each covariate is worth, as a figure and as a table."""
    ordered = sorted(importance, key=lambda entry: -entry[1])
    heads = [Head("covariate"), Head("importance", numeric=True), Head("standard deviation", numeric=True)]
    rows = [[Entry(name), Entry(f"{size:.1%}", size), Entry(f"{error:.1%}", error)] for name, size, error in ordered]
    drawn = drawing(
        importance_figure(ordered),
        name="importance-figure",
        alt="Importance of covariates. " + ", ".join(f"{name}: {size:.1%}" for name, size, _ in ordered) + ".",
        caption="By what share the error of held-out windows grows where the values of a column are permuted. Lines: "
        "the standard deviation over permutations.",
    )
    return joined([drawn, listing(heads, rows, caption="Importance of each covariate")])


def render_profile(shown: Profile, *, name: str) -> Html:
    """The diagnostic stack of one channel."""
    flagged = f"; {len(shown.alarms)} stretches are flagged" if shown.alarms else ""
    return drawing(
        diagnostics_figure(shown.profile, channel=shown.channel, name=shown.name, alarms=shown.alarms),
        name=name,
        alt=f"{shown.name}: forecast and truth, log error, spectral radius, trace and log-determinant over "
        f"{len(shown.profile):,} rows{flagged}.",
        caption=f"{shown.name}, in model units: forecast and truth, error, and the ellipsoids' spectral radius, trace "
        "and log-determinant. Shaded: stretches that a rule flags.",
    )


def render_rates(rates: Sequence[Mapping[str, Any]]) -> Html:
    """How often warnings were right."""
    names = list(dict.fromkeys(name for row in rates for name in row))
    heads = [Head(name.replace("_", " "), numeric=isinstance(rates[0].get(name), float | int)) for name in names]
    return listing(heads, [[_entry(row.get(name)) for name in names] for row in rates], caption="Rates of the warnings")


def _forecast(shown: ForecastShown) -> Html:
    names = list(dict.fromkeys(name for row in shown.rows[:1] for name in row))
    heads = [Head(name, numeric=isinstance(shown.rows[0][name], float | int)) for name in names]
    rows = [[_entry(row[name]) for name in names] for row in shown.rows[:_MOST_ROWS]]
    left = f"; {len(shown.rows) - _MOST_ROWS:,} more are in the file" if len(shown.rows) > _MOST_ROWS else ""
    parts = [
        draw_live(
            shown.fan,
            name="fan",
            alt=shown.fan_alt,
            caption="Shaded: intervals of each step. Dashed: the band that a whole path stays within."
            + (
                " Beside it: two steps of joint paths, and the ellipses that hold shares of them."
                if shown.fan.wide
                else ""
            ),
        ),
        listed(shown.notes, kind="notes"),
        details(f"The {len(shown.rows):,} rows", listing(heads, rows, caption=f"The forecast{left}", tall=True)),
    ]
    if len(shown.csv) <= _MOST_DATA:
        parts.append(element("p", {}, download("forecast.csv", "forecast.csv", shown.csv, "text/csv;charset=utf-8")))
    else:
        parts.append(element("p", {}, "The forecast is too large for a link; fern forecast writes it to a file."))
    if shown.command:
        parts.append(element("p", {}, "Made by ", command(shown.command)))
    return joined(parts)


def _coverage(shown: ForecastShown) -> Html:
    if not shown.covered:
        return element("p", {}, "There is no coverage to show: too few rows were held out to measure it.")
    return joined(
        [
            element("p", {}, shown.measured),
            render_coverage(shown.covered, name="coverage-figure", course=shown.course, pit=shown.pit),
        ]
    )


def _diagnostics(shown: ForecastShown) -> Html:
    if not shown.profiles:
        return element("p", {}, "There is no eigen-profile: the model has no distribution of its own, or too few rows.")
    parts = [render_profile(one, name=f"profile-{place}") for place, one in enumerate(shown.profiles[:_MOST_PROFILES])]
    if len(shown.profiles) > _MOST_PROFILES:
        parts.append(element("p", {}, f"{len(shown.profiles) - _MOST_PROFILES:,} more series are not drawn."))
    if shown.rates:
        parts.append(render_rates(shown.rates))
    lead = "How the model sees these rows, in its own units; a forecast can be read without it."
    return joined([element("p", {}, lead), details("Eigen-profile and warnings", *parts)])


def _entry(value: Any) -> Entry:
    if isinstance(value, float):
        return Entry(number(value), value)
    return Entry("" if value is None else str(value))


HELD_OUT = (
    "Measured while fitting, on rows that the model had not learnt from: radii from the earlier half of the "
    "calibration windows, judged on the later half."
)
OWN_ROWS = "Measured on these rows; too good where the forecaster has learnt from them."


def report_forecast(
    forecaster: "FernForecaster",
    df: Any,
    *,
    futr_df: Any = None,
    level: Sequence[float] | float,
    h: int | None,
    name: str,
    audit: AuditReport | None,
    command: str,
) -> Page:
    """The page of `FernForecaster.report`."""
    if not isinstance(audit, AuditReport | None):
        raise FernError(argument="audit", got=audit, expected="what fern.audit gives")
    state = forecaster._fitted()
    made, _ = unwrap(forecaster.predict(df, futr_df=futr_df, h=h, level=level))
    rows = made.to_pylist()
    findings, measured = state.findings, HELD_OUT
    if findings is None and df is not None:
        table = forecaster._read_like_fitted(df)
        findings, measured = examine(state, table), OWN_ROWS
        scales = {one.name: state.scale(one.name, one.values) for one in table.series}
        state = replace(state, table=table.without_rows(), scales=scales)
    findings = findings or Findings()
    text = forecast_page(
        ForecastShown(
            name=name,
            lead=f"{state.label}, {len(rows):,} rows ahead; each forecast sees {state.context_length:,} rows.",
            fan=make_fans(forecaster, df, futr_df=futr_df, level=level, h=h, joint=_two_steps(forecaster._steps(h))),
            fan_alt=_describe_fan(state, made),
            rows=rows,
            csv=_csv(made),
            notes=state.notes,
            command=command,
            measured=measured,
            covered=tuple(
                Covered(row.kind, row.level, row.coverage, row.error_bar, row.n_eff) for row in findings.coverage
            ),
            course=_course(findings),
            pit=None if findings.course is None else findings.course.pit,
            profiles=_profiles(state, findings),
            rates=_rates(state, findings),
            audit=audit,
            importance=forecaster._importances(),
        )
    )
    return Page(text)


def _two_steps(steps: int) -> tuple[int, int] | None:
    """The middle of the forecast and its end: how far an error stays with it."""
    return (steps // 2, steps) if steps > 1 else None


def _course(findings: Findings) -> CoverageOverTime | None:
    if findings.course is None:
        return None
    rolled = findings.course.rolling()
    return CoverageOverTime(
        findings.course.level, rolled.origins, rolled.coverage, rolled.error_bar, rolled.windows, rolled.n_eff
    )


def _profiles(state: State, findings: Findings) -> tuple[Profile, ...]:
    """The first channel of each series that was profiled; of one series all channels."""
    shown = []
    for one in findings.profiled:
        alarms = tuple(detect_alarms(one.profile, one.rules)) if one.rules is not None else ()
        channels = range(one.profile.channels) if len(findings.profiled) == 1 else range(1)
        for channel in channels:
            own = one.name if state.table.long else state.channel_names[channel]
            shown.append(Profile(own, one.profile, channel, alarms))
    return tuple(shown)


def _rates(state: State, findings: Findings) -> tuple[dict[str, Any], ...]:
    rates = make_frames(state, findings).rates
    if rates is None:
        return ()
    table, _ = unwrap(rates)
    return tuple(table.to_pylist())


def _csv(table: pa.Table) -> bytes:
    held = io.BytesIO()
    write_table(table, held, format="csv")
    return held.getvalue()


def _describe_fan(state: State, made: pa.Table) -> str:
    """The fan for those who do not see it: where each column of the forecast begins and ends."""
    columns = [name for name in made.column_names if pa.types.is_floating(made[name].type) and "-lo-" not in name]
    described = [
        f"{name} from {made[name][0].as_py():.4g} to {made[name][-1].as_py():.4g}"
        for name in columns[:6]
        if "-hi-" not in name and made.num_rows
    ]
    return f"Forecast fan with intervals and history. {', '.join(described)}."

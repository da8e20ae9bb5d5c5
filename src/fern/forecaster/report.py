"""A forecast as an HTML page: the fan chart, its coverage, warnings of the diagnostics, and what is in the data."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.auditing.audit import AuditReport
from fern.data.auditing.page import audit_part
from fern.data.columns import is_numeric
from fern.data.reading import unwrap
from fern.data.writing import write_table
from fern.diagnostics import Alarm, EigenProfile, detect_alarms
from fern.errors import FernError
from fern.forecaster.diagnose import examine, make_frames
from fern.forecaster.plot import make_fans
from fern.forecaster.state import Findings, State
from fern.html.figures import draw_live, drawing
from fern.html.markup import Entry, Head, Html, bullet_list, element, join_html, listing, number
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
HELD_OUT = (
    "Measured while fitting, on rows that the model had not learnt from: radii from the earlier half of the "
    "calibration windows, judged on the later half."
)
OWN_ROWS = "Measured on these rows; too good where the forecaster has learnt from them."


@dataclass(frozen=True, eq=False)
class Profile:
    """The eigen-profile of one channel of a series, and the stretches that rules flag."""

    name: str
    profile: EigenProfile
    channel: int = 0
    alarms: tuple[Alarm, ...] = ()


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
    """The page of `FernForecaster.report`; what there is not is left out, and the page says so."""
    if not isinstance(audit, AuditReport | None):
        raise FernError(argument="audit", got=audit, expected="what fern.audit gives")
    for argument, value in (("name", name), ("command", command)):
        if not isinstance(value, str):
            raise FernError(argument=argument, got=value, expected="text")
    state, steps = forecaster._require_fitted(), forecaster._steps(h)
    rows, _ = unwrap(forecaster.predict(df, futr_df=futr_df, h=h, level=level))
    findings, measured = state.findings, HELD_OUT
    if findings is None and df is not None:
        table = forecaster._read_like_fitted(df)
        findings, measured = examine(state, table), OWN_ROWS
        scales = {series.name: state.scale(series.name, series.values) for series in table.series}
        state = replace(state, table=table.without_rows(), scales=scales)
    findings = findings or Findings()
    # The middle of the forecast and its end: how far an error stays with it.
    fans = make_fans(
        forecaster, df, futr_df=futr_df, level=level, h=h, joint=(steps // 2, steps) if steps > 1 else None
    )
    coverage = element("p", {}, "There is no coverage to show: too few rows were held out to measure it.")
    if findings.coverage:
        covered = [Covered(row.kind, row.level, row.coverage, row.error_bar, row.n_eff) for row in findings.coverage]
        pit = None if findings.course is None else findings.course.pit
        figures = render_coverage(covered, course=_course(findings), pit=pit)
        coverage = join_html([element("p", {}, measured), figures])
    rates = make_frames(state, findings).rates
    sections = [
        Section("forecast", "Forecast", render_forecast(fans, rows, notes=state.notes, made_by=command)),
        Section("coverage", "Coverage", coverage),
        Section("diagnostics", "Diagnostics", render_diagnostics(_profiles(state, findings), rates)),
    ]
    importance = forecaster._importances()
    if importance:
        sections.insert(1, Section("covariates", "Covariates", render_importance(importance)))
    if audit is not None:
        sections.append(Section("data", "The data", audit_part(audit)))
    lead = f"{state.label}, {rows.num_rows:,} rows ahead; each forecast sees {state.context_length:,} rows."
    return Page(page(f"Forecast of {name}", sections, lead=lead))


def render_forecast(fans: Fans, rows: pa.Table, *, notes: Sequence[str] = (), made_by: str = "") -> Html:
    """The fan, and the rows of the forecast as a table and as a file."""
    left = f"; {rows.num_rows - _MOST_ROWS:,} more are in the file" if rows.num_rows > _MOST_ROWS else ""
    parts = [
        draw_live(
            fans,
            name="fan",
            alt=_describe_fan(rows),
            caption="Shaded: intervals of each step. Dashed: the band that a whole path stays within."
            + (TWO_STEPS if fans.wide else ""),
        ),
        bullet_list(notes, kind="notes"),
        details(f"The {rows.num_rows:,} rows", _listing(rows.slice(0, _MOST_ROWS), f"The forecast{left}", tall=True)),
    ]
    buffer = io.BytesIO()
    write_table(rows, buffer, format="csv")
    if len(buffer.getvalue()) <= _MOST_DATA:
        link = download("forecast.csv", "forecast.csv", buffer.getvalue(), "text/csv;charset=utf-8")
        parts.append(element("p", {}, link))
    else:
        parts.append(element("p", {}, "The forecast is too large for a link; fern forecast writes it to a file."))
    if made_by:
        parts.append(element("p", {}, "Made by ", command(made_by)))
    return join_html(parts)


def render_coverage(
    covered: Sequence[Covered], *, course: CoverageOverTime | None = None, pit: NDArray[np.floating[Any]] | None = None
) -> Html:
    """Coverage as a figure and as a table, and how it went along time."""
    described = ", ".join(f"{row.kind} {row.level:g} %: {row.coverage:.1%}" for row in covered)
    numbers = [Head(title, numeric=True) for title in ("level", "coverage", "by chance, ±", "n_eff")]
    heads = [Head("region"), *numbers, Head("verdict")]
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
    figure = drawing(
        coverage_figure(covered, pit=pit),
        name="coverage-figure",
        alt=f"Coverage beside the level. {described}.",
        caption="Dots: the share of outcomes inside. Bars: where it should lie 19 times in 20, as many independent "
        "windows as there are (n_eff)." + (PIT if pit is not None else ""),
    )
    parts = [figure, listing(heads, rows, caption="Coverage of each kind of region")]
    if course is not None:
        low, high = float(np.min(course.coverage)), float(np.max(course.coverage))
        parts.append(
            draw_live(
                course,
                name="coverage-figure-course",
                alt=f"Coverage of {course.level:g} % intervals along time: from {low:.1%} to {high:.1%}, within chance "
                f"at {course.inside_chance:.0%} of places.",
                caption=f"Coverage of {course.level:g} % intervals over the newest {course.windows:,} windows. Shaded: "
                f"where chance alone takes it 19 times in 20; so many windows are worth {course.n_eff:.0f} independent "
                "ones.",
            )
        )
    return join_html(parts)


def render_importance(importance: Sequence[tuple[str, float, float]]) -> Html:
    """What each covariate is worth, as a figure and as a table."""
    ordered = sorted(importance, key=lambda entry: -entry[1])
    heads = [Head("covariate"), Head("importance", numeric=True), Head("standard deviation", numeric=True)]
    rows = [[Entry(name), Entry(f"{size:.1%}", size), Entry(f"{error:.1%}", error)] for name, size, error in ordered]
    figure = drawing(
        importance_figure(ordered),
        name="importance-figure",
        alt="Importance of covariates. " + ", ".join(f"{name}: {size:.1%}" for name, size, _ in ordered) + ".",
        caption="By what share the error of held-out windows grows where the values of a column are permuted. Lines: "
        "the standard deviation over permutations.",
    )
    return join_html([figure, listing(heads, rows, caption="Importance of each covariate")])


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


def render_diagnostics(profiles: Sequence[Profile], rates: Any) -> Html:
    """The diagnostic stacks, and how often warnings were right."""
    if not profiles:
        return element("p", {}, "There is no eigen-profile: the model has no distribution of its own, or too few rows.")
    parts = [
        render_profile(profile, name=f"profile-{place}") for place, profile in enumerate(profiles[:_MOST_PROFILES])
    ]
    if len(profiles) > _MOST_PROFILES:
        parts.append(element("p", {}, f"{len(profiles) - _MOST_PROFILES:,} more series are not drawn."))
    if rates is not None:
        table, _ = unwrap(rates)
        shown = table.rename_columns([name.replace("_", " ") for name in table.column_names])
        parts.append(_listing(shown, "Rates of the warnings"))
    lead = "How the model sees these rows, in its own units; a forecast can be read without it."
    return join_html([element("p", {}, lead), details("Eigen-profile and warnings", *parts)])


def _listing(rows: pa.Table, caption: str, *, tall: bool = False) -> Html:
    heads = [Head(name, numeric=is_numeric(rows[name].type)) for name in rows.column_names]
    entries = [[_entry(value) for value in row.values()] for row in rows.to_pylist()]
    return listing(heads, entries, caption=caption, tall=tall)


def _entry(value: Any) -> Entry:
    if isinstance(value, float):
        return Entry(number(value), value)
    return Entry("" if value is None else str(value))


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
    for entry in findings.profiled:
        alarms = tuple(detect_alarms(entry.profile, entry.rules)) if entry.rules is not None else ()
        channels = range(entry.profile.channels) if len(findings.profiled) == 1 else range(1)
        for channel in channels:
            name = entry.name if state.table.long else state.channel_names[channel]
            shown.append(Profile(name, entry.profile, channel, alarms))
    return tuple(shown)


def _describe_fan(rows: pa.Table) -> str:
    """The fan for those who do not see it: where each column of the forecast begins and ends."""
    columns = [name for name in rows.column_names if pa.types.is_floating(rows[name].type) and "-lo-" not in name]
    described = [
        f"{name} from {rows[name][0].as_py():.4g} to {rows[name][-1].as_py():.4g}"
        for name in columns[:6]
        if "-hi-" not in name and rows.num_rows
    ]
    return f"Forecast fan with intervals and history. {', '.join(described)}."

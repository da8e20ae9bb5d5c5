"""The page of a forecast: the fan, how far to trust it, what the law warns of, and what is in the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.data.auditing.audit import AuditReport
from fern.diagnostics import Alarm, EigenProfile
from fern.report.figures.coverage import Covered, coverage_figure
from fern.report.figures.coverage_over_time import CoverageOverTime
from fern.report.figures.diagnostics import diagnostics_figure
from fern.report.figures.fan import Fans
from fern.report.numbers import number
from fern.report.pages.audit import audit_part
from fern.report.pages.drawing import drawing
from fern.report.pages.listing import Entry, Head, listing
from fern.report.pages.live import live_drawing
from fern.report.pages.markup import Html, element, joined, listed
from fern.report.pages.shell import Section, command, details, download, page

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


def forecast_page(shown: ForecastShown) -> str:
    """The whole page of a forecast."""
    sections = [
        Section("forecast", "Forecast", _forecast(shown)),
        Section("coverage", "Coverage", _coverage(shown)),
        Section("diagnostics", "Diagnostics", _diagnostics(shown)),
    ]
    if shown.audit is not None:
        sections.append(Section("data", "The data", audit_part(shown.audit)))
    return page(f"Forecast of {shown.name}", sections, lead=shown.lead)


def coverage_part(
    covered: Sequence[Covered],
    *,
    name: str,
    course: CoverageOverTime | None = None,
    pit: NDArray[np.floating[Any]] | None = None,
) -> Html:
    """Coverage as a figure and as a table, and how it went along time."""
    told = ", ".join(f"{row.kind} {row.level:g} %: {row.coverage:.1%}" for row in covered)
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
        alt=f"Coverage beside the level. {told}.",
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
            live_drawing(
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


def profile_part(shown: Profile, *, name: str) -> Html:
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


def rates_part(rates: Sequence[Mapping[str, Any]]) -> Html:
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
        live_drawing(
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
            coverage_part(shown.covered, name="coverage-figure", course=shown.course, pit=shown.pit),
        ]
    )


def _diagnostics(shown: ForecastShown) -> Html:
    if not shown.profiles:
        return element("p", {}, "There is no eigen-profile: the model has no law of its own, or too few rows.")
    parts = [profile_part(one, name=f"profile-{place}") for place, one in enumerate(shown.profiles[:_MOST_PROFILES])]
    if len(shown.profiles) > _MOST_PROFILES:
        parts.append(element("p", {}, f"{len(shown.profiles) - _MOST_PROFILES:,} more series are not drawn."))
    if shown.rates:
        parts.append(rates_part(shown.rates))
    return joined(parts)


def _entry(value: Any) -> Entry:
    if isinstance(value, float):
        return Entry(number(value), value)
    return Entry("" if value is None else str(value))

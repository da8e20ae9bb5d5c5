"""A forecast as a page: what `FernForecaster.report` makes."""

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fern.data.auditing.audit import AuditReport
from fern.data.tables.native import unwrap
from fern.data.tables.writers import write_table
from fern.diagnostics import warnings as alarms_of
from fern.forecaster.state import State
from fern.forecaster.watching.diagnosis import diagnosis_of, examined
from fern.forecaster.watching.findings import Findings
from fern.forecaster.watching.picture import fans_of
from fern.report.figures.coverage import Covered
from fern.report.figures.coverage_over_time import CoverageOverTime
from fern.report.pages.forecast import ForecastShown, Profile, forecast_page

if TYPE_CHECKING:
    from fern.forecaster.forecaster import FernForecaster

HELD_OUT = (
    "Measured while fitting, on rows that the model had not learnt from: radii from the earlier half of the "
    "calibration windows, judged on the later half."
)
OWN_ROWS = "Measured on the rows given; where the forecaster has learnt from them, this is too good."


def page_of(
    forecaster: "FernForecaster",
    df: Any,
    *,
    level: Sequence[float] | float,
    h: int | None,
    name: str,
    audit: AuditReport | None,
    command: str,
) -> str:
    """The page of `FernForecaster.report`."""
    state = forecaster._fitted()
    made, _ = unwrap(forecaster.predict(df, h=h, level=level))
    rows = made.to_pylist()
    findings, measured = state.findings, HELD_OUT
    if findings is None and df is not None:
        table = forecaster.read(df)
        findings, measured = examined(state, table), OWN_ROWS
        scales = {one.name: state.scale(one.name, one.values) for one in table.series}
        state = replace(state, form=table.form, scales=scales)
    found = findings or Findings()
    return forecast_page(
        ForecastShown(
            name=name,
            lead=f"{state.label}, {len(rows):,} rows ahead; each forecast sees {state.context_length:,} rows.",
            fan=fans_of(forecaster, df, level=level, h=h, joint=_two_steps(forecaster._steps(h))),
            fan_alt=_in_words(state, made),
            rows=rows,
            csv=_csv(made),
            notes=state.notes,
            command=command,
            measured=measured,
            covered=tuple(
                Covered(row.kind, row.level, row.coverage, row.error_bar, row.n_eff) for row in found.coverage
            ),
            course=_course(found),
            pit=None if found.course is None else found.course.pit,
            profiles=_profiles(state, found),
            rates=_rates(state, found),
            audit=audit,
        )
    )


def _two_steps(steps: int) -> tuple[int, int] | None:
    """The middle of the forecast and its end: how far an error stays with it."""
    return (steps // 2, steps) if steps > 1 else None


def _course(found: Findings) -> CoverageOverTime | None:
    if found.course is None:
        return None
    rolled = found.course.rolling()
    return CoverageOverTime(
        found.course.level, rolled.origins, rolled.coverage, rolled.error_bar, rolled.windows, rolled.n_eff
    )


def _profiles(state: State, found: Findings) -> tuple[Profile, ...]:
    """The first channel of each series that was profiled; of one series all channels."""
    shown = []
    for one in found.profiled:
        alarms = tuple(alarms_of(one.profile, one.rules)) if one.rules is not None else ()
        channels = range(one.profile.channels) if len(found.profiled) == 1 else range(1)
        for channel in channels:
            own = one.name if state.form.long else state.channel_names[channel]
            shown.append(Profile(own, one.profile, channel, alarms))
    return tuple(shown)


def _rates(state: State, found: Findings) -> tuple[dict[str, Any], ...]:
    rates = diagnosis_of(state, found).rates
    if rates is None:
        return ()
    table, _ = unwrap(rates)
    return tuple(table.to_pylist())


def _csv(table: pa.Table) -> bytes:
    held = io.BytesIO()
    write_table(table, held, format="csv")
    return held.getvalue()


def _in_words(state: State, made: pa.Table) -> str:
    """The fan for those who do not see it: where each column of the forecast begins and ends."""
    columns = [name for name in made.column_names if pa.types.is_floating(made[name].type) and "-lo-" not in name]
    told = [
        f"{name} from {made[name][0].as_py():.4g} to {made[name][-1].as_py():.4g}"
        for name in columns[:6]
        if "-hi-" not in name and made.num_rows
    ]
    return f"Forecast fan with intervals and history. {', '.join(told)}."

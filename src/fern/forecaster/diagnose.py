"""Diagnosis: what held-out rows show of a distribution. Eigen-profile, warnings with measured rates, coverage."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from fern.calibration import Calibration, CalibrationSettings, Residuals, coverage_report, fit_calibration
from fern.calibration.coverage import CoverageByOrigin, CoverageRow, coverage_by_origin
from fern.data.series_table import Series, SeriesTable
from fern.diagnostics import EigenProfile, Rules, detect_alarms, eigenprofile, learn_rules, measure_rates
from fern.forecaster.plan import TrainingSeries
from fern.forecaster.state import Findings, Profiled, State
from fern.models import Forecaster
from fern.models.base import distribution_of

MOST_SERIES, MOST_ROWS = 12, 2000
"""Series that are profiled, and the newest rows of each."""

PROFILE_WINDOWS = 500
"""Of each series, about; rows between them are profiled by the windows around."""

COVERAGE_WINDOWS = 300
LEAD = 24
"""Rows that warnings look ahead, at most; shorter horizons look as far as they reach."""

LEVELS = (50.0, 80.0, 90.0, 95.0)
COURSE_LEVEL = 90.0
"""Whose coverage is followed along time."""

FIGURES = ("spectral_radius", "trace", "log_det")


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Four frames; those that need a distribution, or more rows than there are, are None.

    Attributes:
        profile: at each held-out row forecast, truth and mean absolute error in the units of the data, and the
            distribution's spectral radius, trace and log-determinant in model units (paper, "eigen-profile").
        warnings: stretches that a rule flags, with the rule's rates.
        rates: each rule's hit rate, false-alarm rate and lift where it was learnt and on later rows.
        coverage: the share of outcomes inside each kind of region at each level, beside n_eff and its error bar.
        notes: what calibration decided, and for which regions and levels there is too little history.
    """

    profile: Any
    warnings: Any
    rates: Any
    coverage: Any
    notes: tuple[str, ...] = ()


def describe_shortage(calibration: Calibration, levels: Sequence[float]) -> str:
    """One sentence where there is too little history to check intervals of these levels; empty where there is enough.

    Which regions lack how many windows stands in `Diagnosis.notes`.
    """
    lacking = [level for level in levels if not calibration.radii.supports("margin", level)]
    if not lacking:
        return ""
    subject = "the" if 1 < len(lacking) == len(levels) else " and ".join(f"{level:g} %" for level in lacking)
    return f"Too little history to check {subject} intervals; treat them as rough."


def diagnose(state: State, table: SeriesTable) -> Diagnosis:
    """The diagnosis of a table's rows, as frames of its kind."""
    scales = {series.name: state.scale(series.name, series.values) for series in table.series}
    return make_frames(replace(state, table=table.without_rows(), scales=scales), examine(state, table))


def examine(state: State, table: SeriesTable) -> Findings:
    """The findings of the rows of a table; rules that were learnt at the fit are measured here, others learnt anew."""
    if state.model is None or state.calibration is None:
        return Findings()
    scaled = [state.scale(series.name, series.values).apply(series.values) for series in table.series]
    learnt = {entry.name: entry.rules for entry in state.findings.profiled} if state.findings is not None else {}
    profiled: list[Profiled] = []
    if state.model.has_distribution:
        for series, values in list(zip(table.series, scaled, strict=True))[:MOST_SERIES]:
            profile = profile_series(state.model, series, values, rules=learnt.get(series.name))
            if profile is not None:
                profiled.append(profile)
    length, horizon = state.context_length, state.horizon
    pasts, futures, origins, codes = [], [], [], []
    room = [
        len(values) - length - horizon + 1 - (series.breaks[-1] if series.breaks else 0)
        for series, values in zip(table.series, scaled, strict=True)
    ]
    stride = max(1, -(-sum(max(0, rows) for rows in room) // COVERAGE_WINDOWS))
    for code, (values, rows) in enumerate(zip(scaled, room, strict=True)):
        firsts = len(values) - horizon - np.arange(0, max(0, rows), stride)[::-1]
        pasts.append(values[firsts[:, None] + np.arange(-length, 0)])
        futures.append(values[firsts[:, None] + np.arange(horizon)])
        origins.append(firsts)
        codes.append(np.full(len(firsts), code))
    if not sum(map(len, pasts)):
        return Findings(tuple(profiled))
    coverage = measure_coverage(
        state.calibration,
        state.model,
        torch.from_numpy(np.concatenate(pasts)),
        torch.from_numpy(np.concatenate(futures)),
        origins=np.concatenate(origins),
        series=np.concatenate(codes),
    )
    return Findings(tuple(profiled), *coverage)


def make_frames(state: State, findings: Findings | None) -> Diagnosis:
    """The findings as frames."""
    findings = findings or Findings()
    return Diagnosis(
        _profile(state, findings.profiled) if findings.profiled else None,
        _warnings(state, findings.profiled) if findings.profiled else None,
        _rates(state, findings.profiled) if any(entry.rules for entry in findings.profiled) else None,
        state.table.native.wrap(pa.Table.from_pylist([asdict(row) for row in findings.coverage]))
        if findings.coverage
        else None,
        () if state.calibration is None else state.calibration.notes,
    )


def _profile(state: State, profiled: Sequence[Profiled]) -> Any:
    """One row for each series, channel and stamp."""
    table, many = state.table, len(state.channel_names)
    names, stamps, channels = [], [], []
    columns: dict[str, list[NDArray[Any]]] = {}
    for entry in profiled:
        scale, profile, rows = state.scales[entry.name], entry.profile, len(entry.profile)
        figures = {
            "forecast": scale.invert(profile.forecast),
            "truth": scale.invert(profile.truth),
            "error": profile.error * scale.spread,
            **{name: getattr(profile, name) for name in FIGURES},
        }
        for name, values in figures.items():
            columns.setdefault(name, []).append(values.T.reshape(-1))
        names += [entry.name] * many
        stamps += [pa.array(np.arange(rows) + profile.first_row) if entry.stamps is None else entry.stamps] * many
        channels += [channel for channel in state.channel_names for _ in range(rows)]
    joined: dict[str, Any] = {} if table.long else {"channel": pa.array(channels, pa.string())}
    joined |= {name: np.concatenate(parts) for name, parts in columns.items()}
    return table.frame(names, stamps, joined)


def _warnings(state: State, profiled: Sequence[Profiled]) -> Any:
    """One row for each stretch that a rule flags."""
    table, rows = state.table, []
    for entry in profiled:
        for alarm in detect_alarms(entry.profile, entry.rules) if entry.rules is not None else ():
            rates = entry.measured.get(alarm.rule, alarm)
            edges = [alarm.first_row, alarm.last_row]
            if entry.stamps is not None:
                edges = [entry.stamps[row - entry.profile.first_row].as_py() for row in edges]
            rows.append(
                {
                    table.id_col: entry.name,
                    "channel": state.channel_names[alarm.channel],
                    "rule": alarm.rule,
                    "rows": alarm.last_row - alarm.first_row + 1,
                    "hit_rate": rates.hit_rate,
                    "false_alarm_rate": rates.false_alarm_rate,
                    "first": edges[0],
                    "last": edges[1],
                }
            )
    stamp_type = pa.int64() if profiled[0].stamps is None else profiled[0].stamps.type
    types = {
        "channel" if table.id_col is None else table.id_col: pa.string(),
        "rule": pa.string(),
        "rows": pa.int64(),
        "hit_rate": pa.float64(),
        "false_alarm_rate": pa.float64(),
        "first": stamp_type,
        "last": stamp_type,
    }
    return table.native.wrap(pa.Table.from_pylist(rows, pa.schema(list(types.items()))))


def _rates(state: State, profiled: Sequence[Profiled]) -> Any:
    """One row for each series and rule, where it was learnt and later."""
    rows = [
        {
            **({} if state.table.id_col is None else {state.table.id_col: entry.name}),
            "rule": rule.name,
            "rows": where,
            "hit_rate": rates.hit_rate,
            "false_alarm_rate": rates.false_alarm_rate,
            "lift": rates.lift,
            "spikes": rates.spikes,
        }
        for entry in profiled
        for rule in (entry.rules.rules if entry.rules is not None else ())
        for where, rates in (("learnt", rule.rates), ("later", entry.measured.get(rule.name)))
        if rates is not None
    ]
    return state.table.native.wrap(pa.Table.from_pylist(rows))


def examine_fit(
    model: Forecaster,
    series: Sequence[Series],
    learnt: TrainingSeries,
    calibration: Residuals,
    validation: Residuals,
    settings: CalibrationSettings,
    *,
    profiles: int = MOST_SERIES,
) -> Findings:
    """What a fit can say of its distribution before the model is trained once more on all rows.

    Rules are learnt on validation rows and measured on calibration rows. Coverage is that of radii from the earlier
    half of the calibration windows on the later half, so a little pessimistic: the forecaster has radii from all.
    The eigen-profiles are those of the first ``profiles`` series.
    """
    profiled = []
    if model.has_distribution:
        members = [member for member, parts in zip(series, learnt.plan.parts, strict=True) if parts is not None]
        for member, values, parts in list(zip(members, learnt.values, learnt.parts, strict=True))[:profiles]:
            first = max(parts.validation.start - learnt.plan.context_length, 0)
            profile = profile_series(model, member, values, first=first, split=parts.calibration.start)
            if profile is not None:
                profiled.append(profile)
    measured = _measure_held_out(model, learnt, calibration, validation, settings)
    return Findings(tuple(profiled)) if measured is None else Findings(tuple(profiled), *measured)


def profile_series(
    model: Forecaster,
    series: Series,
    values: NDArray[np.float32],  # (T, C), model units
    *,
    first: int = 0,
    split: int | None = None,
    rules: Rules | None = None,
) -> Profiled | None:
    """The profile of the newest rows from ``first`` on; None where there is no room for a window.

    Without ``rules`` they are learnt on the rows before ``split`` (the middle unless given) and measured on those after
    it; with rules they are measured on all rows.
    """
    length, horizon = model.config.context_length, model.config.horizon
    start = max(first, len(values) - length - MOST_ROWS, series.breaks[-1] if series.breaks else 0)
    rows = len(values) - start
    if rows < length + horizon:
        return None
    stride = min(horizon, max(1, (rows - length) // PROFILE_WINDOWS))
    profile = eigenprofile(model, values[start:], stride=stride)
    profile = replace(profile, first_row=profile.first_row + start)
    stamps = None
    if series.stamps is not None:  # copied: a slice would hold on to the whole column
        stamps = pa.concat_arrays([series.stamps.slice(profile.first_row, len(profile))])
    profiled = Profiled(series.name, stamps, profile)
    if rules is not None:
        return replace(profiled, rules=rules, measured=measure_rates(profile, rules))
    lead = min(LEAD, horizon)
    middle = (len(profile) // 2) if split is None else split - profile.first_row
    if middle < 4 * lead or len(profile) - middle <= lead:
        return profiled
    learned = learn_rules(_rows(profile, 0, middle), lead=lead)
    return replace(profiled, rules=learned, measured=measure_rates(_rows(profile, middle, len(profile)), learned))


def measure_coverage(
    calibration: Calibration,
    model: Forecaster,
    past: torch.Tensor,  # (n, L, C)
    future: torch.Tensor,  # (n, H, C)
    *,
    origins: NDArray[np.int64],
    series: NDArray[np.int64],
) -> tuple[tuple[CoverageRow, ...], CoverageByOrigin]:
    """The coverage of every kind of region at the usual levels, with n_eff and error bars, and its course."""
    forecast = calibration.apply(distribution_of(model, past))
    report = coverage_report(forecast, future, origins=origins.tolist(), series=series.tolist(), levels=LEVELS, paths=0)
    course = coverage_by_origin(forecast, future, origins=origins.tolist(), row=report.row("margin", COURSE_LEVEL))
    return report.rows, course


def _measure_held_out(
    model: Forecaster,
    learnt: TrainingSeries,
    calibration: Residuals,
    validation: Residuals,
    settings: CalibrationSettings,
) -> tuple[tuple[CoverageRow, ...], CoverageByOrigin] | None:
    if len(calibration) < 2:
        return None
    early, late = calibration.halves()
    if not len(early) or not len(late):
        return None
    late = late.thinned(COVERAGE_WINDOWS)
    keys = set(zip(late.series.tolist(), late.origins.tolist(), strict=True))
    pasts, futures, origins, names = [], [], [], []
    for past, future, rows, codes in learnt.held_out("calibration", most=len(calibration)):
        chosen = [i for i, key in enumerate(zip(codes.tolist(), rows.tolist(), strict=True)) if key in keys]
        pasts.append(past[chosen])
        futures.append(future[chosen])
        origins.append(rows[chosen])
        names.append(codes[chosen])
    return measure_coverage(
        fit_calibration(early, validation, settings=settings),
        model,
        torch.cat(pasts),
        torch.cat(futures),
        origins=np.concatenate(origins),
        series=np.concatenate(names),
    )


def _rows(profile: EigenProfile, start: int, stop: int) -> EigenProfile:
    cut = {name: figures[start:stop] for name, figures in vars(profile).items() if name != "first_row"}
    return EigenProfile(profile.first_row + start, **cut)

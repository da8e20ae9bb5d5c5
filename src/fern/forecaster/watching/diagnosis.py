"""What is known of a distribution, as frames of the kind that came in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from fern.diagnostics import detect_alarms
from fern.forecaster.inputs import Table
from fern.forecaster.state import State
from fern.forecaster.watching.findings import COVERAGE_WINDOWS, MOST_SERIES, Findings, Profiled, covered, profile_of

FIGURES = ("spectral_radius", "trace", "log_det")


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Four frames; those that need a distribution, or more rows than there are, are None.

    Attributes:
        profile: at each held-out row forecast, truth and mean absolute error in the units of the data, and the
        distribution's
            spectral radius, trace and log-determinant in model units (paper, "eigen-profile").
        warnings: stretches that a rule flags, with the rule's rates.
        rates: each rule's hit rate, false-alarm rate and lift where it was learnt and on later rows.
        coverage: the share of outcomes inside each kind of region at each level, beside n_eff and its error bar.
    """

    profile: Any
    warnings: Any
    rates: Any
    coverage: Any


def diagnosed(state: State, table: Table) -> Diagnosis:
    """The diagnosis of a table's rows, as frames of its kind."""
    scales = {one.name: state.scale(one.name, one.values) for one in table.series}
    return diagnosis_of(replace(state, form=table.form, scales=scales), examined(state, table))


def examined(state: State, table: Table) -> Findings:
    """The findings of the rows of a table; rules that were learnt at the fit are measured here, others learnt anew."""
    if state.model is None or state.calibration is None:
        return Findings()
    scaled = [state.scale(one.name, one.values).apply(one.values) for one in table.series]
    learnt = {one.name: one.rules for one in state.findings.profiled} if state.findings is not None else {}
    profiled: list[Profiled] = []
    if state.model.has_distribution:
        for one, values in list(zip(table.series, scaled, strict=True))[:MOST_SERIES]:
            found = profile_of(state.model, one, values, rules=learnt.get(one.name))
            if found is not None:
                profiled.append(found)
    length, horizon = state.context_length, state.horizon
    pasts, futures, origins, codes = [], [], [], []
    room = [
        len(v) - length - horizon + 1 - (one.breaks[-1] if one.breaks else 0)
        for one, v in zip(table.series, scaled, strict=True)
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
    found_coverage = covered(
        state.calibration,
        state.model,
        torch.from_numpy(np.concatenate(pasts)),
        torch.from_numpy(np.concatenate(futures)),
        origins=np.concatenate(origins),
        series=np.concatenate(codes),
    )
    return Findings(tuple(profiled), *found_coverage)


def diagnosis_of(state: State, findings: Findings | None) -> Diagnosis:
    """The findings as frames."""
    found = Findings() if findings is None else findings
    return Diagnosis(
        _profile(state, found.profiled) if found.profiled else None,
        _warnings(state, found.profiled) if found.profiled else None,
        _rates(state, found.profiled) if any(one.rules for one in found.profiled) else None,
        _coverage(state, found) if found.coverage else None,
    )


def _profile(state: State, profiled: Sequence[Profiled]) -> Any:
    """One row for each series, channel and stamp."""
    form, many = state.form, len(state.channel_names)
    names, stamps, channels = [], [], []
    columns: dict[str, list[NDArray[Any]]] = {}
    for one in profiled:
        scale, profile, rows = state.scales[one.name], one.profile, len(one.profile)
        figures = {
            "forecast": scale.invert(profile.forecast),
            "truth": scale.invert(profile.truth),
            "error": profile.error * scale.spread,
            **{name: getattr(profile, name) for name in FIGURES},
        }
        for name, values in figures.items():
            columns.setdefault(name, []).append(values.T.reshape(-1))
        names += [one.name] * many
        stamps += [pa.array(np.arange(rows) + profile.first_row) if one.stamps is None else one.stamps] * many
        channels += [channel for channel in state.channel_names for _ in range(rows)]
    joined: dict[str, Any] = {} if form.long else {"channel": pa.array(channels, pa.string())}
    joined |= {name: np.concatenate(parts) for name, parts in columns.items()}
    return form.frame(names, stamps, joined)


def _warnings(state: State, profiled: Sequence[Profiled]) -> Any:
    """One row for each stretch that a rule flags."""
    rows: list[dict[str, Any]] = []
    begins: list[Any] = []
    ends: list[Any] = []
    for one in profiled:
        for alarm in detect_alarms(one.profile, one.rules) if one.rules is not None else ():
            measured = one.measured.get(alarm.rule)
            row: dict[str, Any] = {state.form.identifier: one.name} if state.form.identifier is not None else {}
            row |= {} if state.form.long else {"channel": state.channel_names[alarm.channel]}
            row |= {
                "rule": alarm.rule,
                "rows": alarm.last_row - alarm.first_row + 1,
                "hit_rate": alarm.hit_rate if measured is None else measured.hit_rate,
                "false_alarm_rate": alarm.false_alarm_rate if measured is None else measured.false_alarm_rate,
            }
            rows.append(row)
            stamps = one.stamps
            for edge, place in ((begins, alarm.first_row), (ends, alarm.last_row)):
                edge.append(place if stamps is None else stamps[place - one.profile.first_row].as_py())
    kinds = {"rule": pa.string(), "rows": pa.int64(), "hit_rate": pa.float64(), "false_alarm_rate": pa.float64()}
    if not state.form.long:
        kinds = {"channel": pa.string(), **kinds}
    if state.form.identifier is not None:
        kinds = {state.form.identifier: pa.string(), **kinds}
    table = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
    stamp_type = pa.int64() if profiled[0].stamps is None else profiled[0].stamps.type
    table |= {"first": pa.array(begins, stamp_type), "last": pa.array(ends, stamp_type)}
    return state.form.native.wrap(pa.table(table))


def _rates(state: State, profiled: Sequence[Profiled]) -> Any:
    """One row for each series and rule, where it was learnt and later."""
    rows = []
    for one in profiled:
        for rule in one.rules.rules if one.rules is not None else ():
            for where, rates in (("learnt", rule.rates), ("later", one.measured.get(rule.name))):
                if rates is not None:
                    named = {state.form.identifier: one.name} if state.form.identifier is not None else {}
                    rows.append(
                        {
                            **named,
                            "rule": rule.name,
                            "rows": where,
                            "hit_rate": rates.hit_rate,
                            "false_alarm_rate": rates.false_alarm_rate,
                            "lift": rates.lift,
                            "spikes": rates.spikes,
                        }
                    )
    return state.form.native.wrap(pa.Table.from_pylist(rows))


def _coverage(state: State, findings: Findings) -> Any:
    names = ("kind", "level", "coverage", "error_bar", "n", "n_eff", "n_eff_calibration", "width", "calibrated")
    table = pa.table({name: [getattr(row, name) for row in findings.coverage] for name in names})
    return state.form.native.wrap(table)

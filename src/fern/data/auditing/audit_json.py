"""The audit as plain values, for JSON: a schema that scripts can rely on."""

import math
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from fern.data.auditing.audit import AuditReport, ColumnAudit, SeriesAudit
from fern.data.auditing.policy import Policy
from fern.data.auditing.scan.common import CommonValue
from fern.data.tables.frequency import Frequency

SCHEMA = "fern.audit/1"
"""Changes when a field goes or changes its meaning; new fields may come."""


def to_dict(report: AuditReport) -> dict[str, Any]:
    """The report as plain values (no NaN: what is not known is null; durations in seconds; rows from 0)."""
    return {
        "schema": SCHEMA,
        "source": report.name,
        "rows": report.rows,
        "problems": report.problems(),
        "time_column": report.roles.time,
        "series_column": report.roles.series,
        "ignored": list(report.roles.ignored),
        "policy": {
            name: value.total_seconds() if isinstance(value, timedelta) else value
            for name, value in asdict(report.policy).items()
        },
        "series": [_series(series, report.policy) for series in report.series],
    }


def _series(series: SeriesAudit, policy: Policy) -> dict[str, Any]:
    grid = series.grid
    return {
        "name": series.name or None,
        "time": {
            "frequency": str(series.frequency),
            "step_seconds": None if series.frequency.nanoseconds is None else series.frequency.nanoseconds / 1e9,
            "first": grid.first,
            "last": grid.last,
            "rows": grid.rows,
            "empty": grid.empty,
            "duplicates": grid.duplicates,
            "unordered": grid.unordered,
            "gaps": grid.gaps,
            "missing_rows": grid.missing_rows,
            "irregular": grid.irregular,
            "mixed": grid.mixed,
            "common_steps": [{"step": step, "count": count} for step, count in grid.common_steps],
            "first_problem_row": grid.first_problem_row,
        },
        "columns": [_column(column, series.frequency, policy) for column in series.columns],
    }


def _column(column: ColumnAudit, frequency: Frequency, policy: Policy) -> dict[str, Any]:
    found, verdict = column.statistics, column.verdict
    sentinels = sentinel_values(column, frequency, policy)
    outliers, walk = found.outliers, found.walk
    return {
        "name": found.name,
        "rows": found.rows,
        "mean": _number(found.mean),
        "std": _number(found.deviation),
        "min": _number(found.low),
        "max": _number(found.high),
        "distinct": found.distinct,
        "zeros": {
            "total": found.zeros.total,
            "share": found.zeros.total / found.rows,
            "isolated": found.zeros.isolated,
            "clustered": found.zeros.total - found.zeros.isolated,
            "longest_run": found.zeros.longest,
            "longest_run_start": found.zeros.longest_start if found.zeros.longest else None,
        },
        "missing": {
            "total": found.missing.total,
            "infinite": found.infinite,
            "longest_run": found.missing.longest,
            "longest_run_start": found.missing.longest_start if found.missing.longest else None,
        },
        "sentinels": {
            "entries": verdict.sentinel_entries,
            "share": verdict.sentinel_entries / found.rows,
            "values": [{**asdict(value), "kind": kind} for kind, value in sentinels],
        },
        "repeated": {
            "values": [asdict(value) for value in found.common],
            "count_too_low_by_at_most": found.slack,
        },
        "flat": {
            "longest_run": found.values.longest,
            "longest_run_start": found.values.longest_start if found.values.longest else None,
            "value": _number(found.values.longest_value) if found.values.longest else None,
        },
        "outliers": None
        if outliers is None
        else {
            "limit": outliers.limit,
            "median": _number(outliers.median),
            "mad": _number(outliers.mad),
            "count": outliers.count,
            "largest_z": _number(outliers.largest_z),
            "exact": outliers.exact,
        },
        "random_walk": None
        if walk is None
        else {
            "near": walk.near,
            "variance_ratios": dict(zip(("2", "4", "8", "16"), walk.variance_ratios, strict=True)),
            "dickey_fuller": _number(walk.dickey_fuller),
        },
        "actions": [
            {"action": action.kind, "entries": action.entries, "reason": action.reason} for action in verdict.actions
        ],
    }


def sentinel_values(column: ColumnAudit, frequency: Frequency, policy: Policy) -> list[tuple[str, CommonValue]]:
    """The sentinel values of a column with their kind: ``code`` or ``stuck``."""
    codes = {value.value for value in column.statistics.codes}
    limit = policy.stuck_after(frequency)
    stuck = [v for v in column.statistics.stuck if v.longest_run > limit and v.value not in codes]
    return [*(("code", value) for value in column.statistics.codes), *(("stuck", value) for value in stuck)]


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value

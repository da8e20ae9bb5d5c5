"""The audit as JSON, in words, and as tables for the terminal."""

import math
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from fern.data.auditing.audit import AuditReport, ColumnAudit, SeriesAudit
from fern.data.auditing.policy import Policy, in_words
from fern.data.auditing.scan import Picture
from fern.data.auditing.scan_runs import RunLengths
from fern.data.auditing.scan_values import CommonValue
from fern.data.frequency import Frequency
from fern.text import safe_text

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
        "series": [_finite(_series(series, report.policy)) for series in report.series],
    }


def _series(series: SeriesAudit, policy: Policy) -> dict[str, Any]:
    step = series.frequency.nanoseconds
    time = {
        **asdict(series.grid),
        "frequency": str(series.frequency),
        "step_seconds": None if step is None else step / 1e9,
        "common_steps": [{"step": step, "count": count} for step, count in series.grid.common_steps],
    }
    columns = [_column(column, series.frequency, policy) for column in series.columns]
    return {"name": series.name or None, "time": time, "columns": columns}


def _column(column: ColumnAudit, frequency: Frequency, policy: Policy) -> dict[str, Any]:
    statistics, verdict, walk = column.statistics, column.verdict, column.statistics.walk
    zeros, flat = statistics.zeros, statistics.values
    sentinels = sentinel_values(column, frequency, policy)
    return {
        "name": statistics.name,
        "rows": statistics.rows,
        "mean": statistics.mean,
        "std": statistics.deviation,
        "min": statistics.low,
        "max": statistics.high,
        "distinct": statistics.distinct,
        "zeros": {
            "total": zeros.total,
            "share": zeros.total / statistics.rows,
            "isolated": zeros.isolated,
            "clustered": zeros.total - zeros.isolated,
            **_longest(zeros),
        },
        "missing": {
            "total": statistics.missing.total,
            "infinite": statistics.infinite,
            **_longest(statistics.missing),
        },
        "sentinels": {
            "entries": verdict.sentinel_entries,
            "share": verdict.sentinel_entries / statistics.rows,
            "values": [{**asdict(value), "kind": kind} for kind, value in sentinels],
        },
        "repeated": {
            "values": [asdict(value) for value in statistics.common],
            "count_too_low_by_at_most": statistics.slack,
        },
        "flat": {**_longest(flat), "value": flat.longest_value if flat.longest else None},
        "outliers": None if statistics.outliers is None else asdict(statistics.outliers),
        "random_walk": None
        if walk is None
        else {
            "near": walk.near,
            "variance_ratios": dict(zip(("2", "4", "8", "16"), walk.variance_ratios, strict=True)),
            "dickey_fuller": walk.dickey_fuller,
        },
        "actions": [
            {"action": action.kind, "entries": action.entries, "reason": action.reason} for action in verdict.actions
        ],
    }


def _longest(runs: RunLengths) -> dict[str, int | None]:
    return {"longest_run": runs.longest, "longest_run_start": runs.longest_start if runs.longest else None}


def _finite(value: Any) -> Any:
    """The value with None for what is not a finite number."""
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sentinel_values(column: ColumnAudit, frequency: Frequency, policy: Policy) -> list[tuple[str, CommonValue]]:
    """The sentinel values of a column with their kind: ``code`` or ``stuck``."""
    codes = {value.value for value in column.statistics.codes}
    limit = policy.stuck_after(frequency)
    stuck = [v for v in column.statistics.stuck if v.longest_run > limit and v.value not in codes]
    return [*(("code", value) for value in column.statistics.codes), *(("stuck", value) for value in stuck)]


def headline(report: AuditReport) -> str:
    """The table's size and its span in time."""
    first = report.series[0]
    if len(report.series) > 1:
        return f"{report.rows:,} rows in {len(report.series):,} series, one row every {first.frequency}"
    return f"{report.rows:,} rows × {len(first.columns):,} columns, {span(first)}"


def span(series: SeriesAudit) -> str:
    """From when to when, in which steps."""
    grid = series.grid
    if grid.first is None:
        return "no time column: rows are treated as equally spaced"
    step = str(series.frequency)
    step = "row every " + step.removeprefix("1 ") if series.frequency.nanoseconds else step
    gaps = ""
    if grid.gaps:
        gaps = f", {grid.gaps:,} gap{'s' * (grid.gaps > 1)} ({grid.missing_rows:,} rows missing)"
    return f"{grid.first} to {grid.last}, {'one ' if series.frequency.nanoseconds else ''}{step}{gaps}"


def title(series: SeriesAudit, column: ColumnAudit) -> str:
    """What a column is called: by its series in a long table, with its own name where a series has several."""
    if not series.name:
        return column.name
    return series.name if len(series.columns) == 1 else f"{series.name} / {column.name}"


def zeros(column: ColumnAudit) -> str:
    """Zeros, their share, and how many are isolated and clustered."""
    total, isolated = column.statistics.zeros.total, column.statistics.zeros.isolated
    share = 100 * total / column.statistics.rows
    return f"{total:,} ({share:.2f} %) = {isolated:,} + {total - isolated:,}" if total else "0"


def run(rows: int, frequency: Frequency) -> str:
    """A run's length in time, or in rows where rows have no length."""
    if rows == 0:
        return "–"
    length = frequency.nanoseconds
    return f"{rows:,} rows" if length is None else in_words(timedelta(microseconds=rows * length / 1000))


def repeats(column: ColumnAudit, frequency: Frequency, policy: Policy) -> list[str]:
    """Sentinel values, or else the commonest value: value × count, longest run."""
    sentinels = sentinel_values(column, frequency, policy)
    if sentinels:
        return [
            f"{kind} {number(value.value)} × {value.count:,}"
            + (f", {run(value.longest_run, frequency)} in a row" if value.longest_run > 1 else "")
            for kind, value in sentinels[:3]
        ]
    return [f"{number(value.value)} × {value.count:,}" for value in column.statistics.common[:1]]


def outlier_count(column: ColumnAudit) -> str:
    """How many values are outliers; a dash where more than half of the values are equal."""
    statistics = column.statistics.outliers
    if statistics is None or statistics.count is None:
        return "–"
    return f"{'' if statistics.exact else '≈ '}{statistics.count:,}"


def outliers(column: ColumnAudit) -> str:
    """How many values are outliers and how far the furthest is."""
    statistics, count = column.statistics.outliers, outlier_count(column)
    if statistics is None or not statistics.count:
        return count
    return f"{count} (z up to {statistics.largest_z or 0.0:,.1f})"


def walk(column: ColumnAudit) -> str:
    """Whether the column is near a random walk."""
    statistics = column.statistics.walk
    return "–" if statistics is None else ("near" if statistics.near else "no")


def actions(column: ColumnAudit) -> list[tuple[str, str]]:
    """What the policy does and why."""
    reasons = []
    for action in column.verdict.actions:
        what = {
            "delete rows": f"delete {action.entries:,} row{'s' * (action.entries != 1)}",
            "fill": f"fill {action.entries:,}",
        }.get(action.kind, action.kind)
        reasons.append((what, action.reason))
    return reasons


def remarks(report: AuditReport) -> list[str]:
    """What a reader should know beside the table."""
    notes, columns = [], [column for series in report.series for column in series.columns]
    walks = [column.name for column in columns if walk(column) == "near"]
    if walks:
        notes.append(
            f"Close to a random walk: {_list_names(walks)}. Steps of a random walk are independent, so no point "
            "forecast beats the last value; look at spread and coverage instead."
        )
    infinite = [column.name for column in columns if column.statistics.infinite]
    if infinite:
        notes.append(f"Infinite values, counted as missing: {_list_names(infinite)}.")
    if report.roles.ignored:
        notes.append(f"Ignored: {_list_names([name or '(unnamed)' for name in report.roles.ignored])}.")
    zeros = [
        column.name
        for column in columns
        if any(action.kind in ("drop", "asinh") and "zeros" in action.reason for action in column.verdict.actions)
    ]
    if zeros:
        notes.append(
            f"Where zeros are true values, as of counts and demand, use --policy counts: {_list_names(zeros)}."
        )
    undecided = [column.name for column in columns if "undecided" in column.verdict.kinds]
    if undecided:
        notes.append(
            f"Undecided for {_list_names(undecided)}: the policy judges runs by their duration, and the time column "
            "does not give the duration of a step. Give it with --step, such as --step '10 min'."
        )
    return notes


def number(value: float) -> str:
    """A number in up to six digits, without an empty fraction.

    Example:
        >>> number(88.2979965209961), number(-9999.0)
        ('88.298', '-9999')
    """
    return f"{value:.6g}"


def _list_names(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return shown + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")


_BLOCKS = "▁▂▃▄▅▆▇█"
_SPARKS = 16
_SHOWN = 50
_COLOURS = {"drop": "red", "delete rows": "yellow", "asinh": "yellow", "fill": "cyan", "undecided": "magenta"}
_NUMBERS = (
    *("zeros", "% zeros", "isolated", "clustered", "longest", "flat"),
    *("missing", "outliers", "largest z", "random walk"),
)


def render(report: AuditReport) -> RenderableType:
    """The report for a rich console: facts, sentinels, what the policy does, remarks."""
    rows = [(series, column) for series in report.series for column in series.columns]
    policy = report.policy
    parts: list[RenderableType] = [
        Text.assemble((report.name, "bold"), "\n", headline(report)),
        *(Text.assemble(("problem: ", "bold red"), problem) for problem in report.problems()[:_SHOWN]),
        "",
        _facts(rows),
        Text(f"… {len(rows) - _SHOWN:,} more: see --json or --html\n" if len(rows) > _SHOWN else "", style="dim"),
        *_section("Stuck values and codes", _sentinels(report, rows)),
        Text(
            "Longest: longest run of zeros. Flat: longest run of one other value. "
            f"Stuck: one value other than zero for more than {in_words(policy.stuck_run)} and {policy.stuck_steps} "
            "rows. Code: a number that stands for a missing value, far outside the others.\n",
            style="dim",
        ),
        *_section("What the policy does", _policy(rows)),
        *(Text(f"\n{remark}") for remark in remarks(report)),
    ]
    return Group(*parts)


def sparkline(picture: Picture, *, width: int = _SPARKS) -> str:
    """The means along the rows as blocks; a gap where there is no value. Codes far off do not flatten the rest.

    Example:
        >>> from fern.data.auditing.scan import PictureScan
        >>> scan = PictureScan()
        >>> scan.add(np.arange(64.0))
        >>> sparkline(scan.finish(), width=8)
        '▁▂▃▄▅▆▇█'
    """
    groups = np.array_split(picture.mean, min(width, len(picture.mean)))
    with np.errstate(all="ignore"):  # near the largest number that float64 has, differences overflow
        means = np.array([np.nan if np.isnan(group).all() else np.nanmean(group) for group in groups])
        known = picture.mean[np.isfinite(picture.mean)]
        if len(known) == 0:
            return " " * len(means)
        low, high = np.percentile(known, [1, 99])
        scaled = np.clip((means - low) / (high - low), 0, 1) if high > low else np.zeros(len(means))
    scaled = np.nan_to_num(scaled)
    return "".join(
        " " if np.isnan(mean) else _BLOCKS[round(float(level) * (len(_BLOCKS) - 1))]
        for mean, level in zip(means, scaled, strict=True)
    )


def _section(title: str, table: Table) -> list[RenderableType]:
    return [Text(title, style="bold"), table] if table.row_count else []


def _facts(rows: list[tuple[SeriesAudit, ColumnAudit]]) -> Table:
    numbers = [Column(name, justify="right") for name in _NUMBERS]
    table = Table("column", Column("shape", no_wrap=True), *numbers, box=None, pad_edge=False, header_style="bold")
    if len(rows) > _SHOWN:  # those the policy touches first, then as in the file
        rows = sorted(rows, key=lambda row: row[1].verdict.kinds == ("keep",))
    for series, column in rows[:_SHOWN]:
        statistics, zeros, outliers = column.statistics, column.statistics.zeros, column.statistics.outliers
        cells = [
            safe_text(title(series, column), "line"),
            sparkline(statistics.picture),
            f"{zeros.total:,}",
            f"{100 * zeros.total / statistics.rows:.2f}",
            f"{zeros.isolated:,}",
            f"{zeros.total - zeros.isolated:,}",
            run(zeros.longest, series.frequency),
            run(statistics.values.longest, series.frequency),
            f"{statistics.missing.total:,}",
            outlier_count(column),
            "–" if outliers is None or outliers.largest_z is None else f"{outliers.largest_z:,.1f}",
            walk(column),
        ]
        table.add_row(*map(Text, cells))
    return table


def _sentinels(report: AuditReport, rows: list[tuple[SeriesAudit, ColumnAudit]]) -> Table:
    right = [Column(name, justify="right") for name in ("value", "times", "longest run")]
    table = Table("column", right[0], "kind", *right[1:], box=None, pad_edge=False, header_style="dim")
    for series, column in rows[:_SHOWN]:
        for kind, value in sentinel_values(column, series.frequency, report.policy)[:3]:
            table.add_row(
                Text(safe_text(title(series, column), "line")),
                number(value.value),
                kind,
                f"{value.count:,}",
                run(value.longest_run, series.frequency),
            )
    return table


def _policy(rows: list[tuple[SeriesAudit, ColumnAudit]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    touched = [row for row in rows if row[1].verdict.kinds != ("keep",)]
    for series, column in touched[:_SHOWN]:
        for i, (what, why) in enumerate(actions(column)):
            kind = column.verdict.actions[i].kind
            name = safe_text(title(series, column), "line") if i == 0 else ""
            table.add_row(Text(name), Text(what, style=_COLOURS[kind]), Text(why))
    kept = len(rows) - len(touched)
    if len(touched) > _SHOWN:
        table.add_row(Text(f"… {len(touched) - _SHOWN:,} more", style="dim"))
    if kept:
        name = f"{kept:,} other{'s' * (kept > 1)}" if touched else "all columns"
        table.add_row(Text(name), Text("keep", style="green"), Text(""))
    return table

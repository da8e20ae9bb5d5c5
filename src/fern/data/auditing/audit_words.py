"""The audit in words: what the terminal table and the HTML page say alike."""

from datetime import timedelta

from fern.data.auditing.audit import AuditReport, ColumnAudit, SeriesAudit
from fern.data.auditing.audit_json import sentinel_values
from fern.data.auditing.policy import Policy, in_words
from fern.data.tables.frequency import Frequency


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
    found = column.statistics.zeros
    if found.total == 0:
        return "0"
    share = 100 * found.total / column.statistics.rows
    return f"{found.total:,} ({share:.2f} %) = {found.isolated:,} + {found.total - found.isolated:,}"


def run(rows: int, frequency: Frequency) -> str:
    """A run's length in time, or in rows where rows have no length."""
    if rows == 0:
        return "–"
    length = frequency.nanoseconds
    return f"{rows:,} rows" if length is None else in_words(timedelta(microseconds=rows * length / 1000))


def repeated(column: ColumnAudit, frequency: Frequency, policy: Policy) -> list[str]:
    """Sentinel values, or else the commonest value: value × count, longest run."""
    sentinels = sentinel_values(column, frequency, policy)
    if sentinels:
        return [
            f"{kind} {number(value.value)} × {value.count:,}"
            + (f", {run(value.longest_run, frequency)} in a row" if value.longest_run > 1 else "")
            for kind, value in sentinels[:3]
        ]
    common = column.statistics.common[:1]
    return [f"{number(value.value)} × {value.count:,}" for value in common]


def outlier_count(column: ColumnAudit) -> str:
    """How many values are outliers; a dash where more than half of the values are equal."""
    found = column.statistics.outliers
    if found is None or found.count is None:
        return "–"
    return f"{'' if found.exact else '≈ '}{found.count:,}"


def outliers(column: ColumnAudit) -> str:
    """How many values are outliers and how far the furthest is."""
    found = column.statistics.outliers
    count = outlier_count(column)
    return count if found is None or not found.count else f"{count} (z up to {found.largest_z or 0.0:,.1f})"


def walk(column: ColumnAudit) -> str:
    """Whether the column is near a random walk."""
    found = column.statistics.walk
    return "–" if found is None else ("near" if found.near else "no")


def actions(column: ColumnAudit) -> list[tuple[str, str]]:
    """What the policy does and why."""
    said = []
    for action in column.verdict.actions:
        what = {
            "delete rows": f"delete {action.entries:,} row{'s' * (action.entries != 1)}",
            "fill": f"fill {action.entries:,}",
        }.get(action.kind, action.kind)
        said.append((what, action.reason))
    return said


def remarks(report: AuditReport) -> list[str]:
    """What a reader should know beside the table."""
    said = []
    walks = [column.name for series in report.series for column in series.columns if walk(column) == "near"]
    if walks:
        said.append(
            f"Close to a random walk: {_listed(walks)}. Steps of a random walk are independent, so no point forecast "
            "beats the last value; look at spread and coverage instead."
        )
    infinite = [c.name for s in report.series for c in s.columns if c.statistics.infinite]
    if infinite:
        said.append(f"Infinite values, counted as missing: {_listed(infinite)}.")
    if report.roles.ignored:
        said.append(f"Ignored: {_listed([name or '(unnamed)' for name in report.roles.ignored])}.")
    undecided = [c.name for s in report.series for c in s.columns if "undecided" in c.verdict.kinds]
    if undecided:
        said.append(
            f"Undecided for {_listed(undecided)}: the policy judges runs by their duration, and the time column does "
            "not give the duration of a step. Give it with --step, such as --step '10 min'."
        )
    return said


def number(value: float) -> str:
    """A number in up to six digits, without an empty fraction.

    Example:
        >>> number(88.2979965209961), number(-9999.0)
        ('88.298', '-9999')
    """
    return f"{value:.6g}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return shown + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")

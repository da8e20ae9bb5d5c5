"""The audit as tables for the terminal, with a sparkline for each column."""

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fern.data.auditing import audit_words as words
from fern.data.auditing.audit import AuditReport, ColumnAudit, SeriesAudit
from fern.data.auditing.audit_json import sentinel_values
from fern.data.auditing.policy import in_words
from fern.data.auditing.scan.picture import Picture
from fern.text import safe_text

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
        Text.assemble((report.name, "bold"), "\n", words.headline(report)),
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
        *(Text(f"\n{remark}") for remark in words.remarks(report)),
    ]
    return Group(*parts)


def sparkline(picture: Picture, *, width: int = _SPARKS) -> str:
    """The means along the rows as blocks; a gap where there is no value. Codes far off do not flatten the rest.

    Example:
        >>> from fern.data.auditing.scan.picture import PictureScan
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
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("column")
    table.add_column("shape", no_wrap=True)
    for name in _NUMBERS:
        table.add_column(name, justify="right")
    if len(rows) > _SHOWN:  # those the policy touches first, then as in the file
        rows = sorted(rows, key=lambda row: row[1].verdict.kinds == ("keep",))
    for series, column in rows[:_SHOWN]:
        table.add_row(*_fact(series, column))
    return table


def _fact(series: SeriesAudit, column: ColumnAudit) -> list[Text]:
    found = column.statistics
    outliers = found.outliers
    largest = "–" if outliers is None or outliers.largest_z is None else f"{outliers.largest_z:,.1f}"
    cells = [
        words.title(series, column),
        sparkline(found.picture),
        f"{found.zeros.total:,}",
        f"{100 * found.zeros.total / found.rows:.2f}",
        f"{found.zeros.isolated:,}",
        f"{found.zeros.total - found.zeros.isolated:,}",
        words.run(found.zeros.longest, series.frequency),
        words.run(found.values.longest, series.frequency),
        f"{found.missing.total:,}",
        words.outlier_count(column),
        largest,
        words.walk(column),
    ]
    return [Text(safe_text(cell, "line") if place == 0 else cell) for place, cell in enumerate(cells)]


def _sentinels(report: AuditReport, rows: list[tuple[SeriesAudit, ColumnAudit]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, justify in (("column", "left"), ("value", "right"), ("kind", "left"), ("times", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("longest run", justify="right")
    for series, column in rows[:_SHOWN]:
        for kind, value in sentinel_values(column, series.frequency, report.policy)[:3]:
            table.add_row(
                Text(safe_text(words.title(series, column), "line")),
                words.number(value.value),
                kind,
                f"{value.count:,}",
                words.run(value.longest_run, series.frequency),
            )
    return table


def _policy(rows: list[tuple[SeriesAudit, ColumnAudit]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    touched = [row for row in rows if row[1].verdict.kinds != ("keep",)]
    for series, column in touched[:_SHOWN]:
        for i, (what, why) in enumerate(words.actions(column)):
            kind = column.verdict.actions[i].kind
            name = safe_text(words.title(series, column), "line") if i == 0 else ""
            table.add_row(Text(name), Text(what, style=_COLOURS[kind]), Text(why))
    kept = len(rows) - len(touched)
    if len(touched) > _SHOWN:
        table.add_row(Text(f"… {len(touched) - _SHOWN:,} more", style="dim"))
    if kept:
        name = f"{kept:,} other{'s' * (kept > 1)}" if touched else "all columns"
        table.add_row(Text(name), Text("keep", style="green"), Text(""))
    return table

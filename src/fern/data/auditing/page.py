"""The audit as an HTML page: a line and a small plot for each column, and what the policy does with it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.auditing import output as words
from fern.data.auditing.audit import AuditReport, ColumnAudit, SeriesAudit, as_floats
from fern.data.auditing.policy import in_words, sentinels
from fern.data.auditing.scan import Picture
from fern.data.cleaning import CleanLog, clean_source
from fern.data.reading import Source
from fern.data.series_table import split_by_series
from fern.errors import FernError
from fern.html.figures import drawing
from fern.html.markup import Entry, Head, Html, bullet_list, element, join_html, listing
from fern.html.page import Section, page
from fern.plot.audit import CODE, STUCK, ZEROS, Repaired, Values, repair_figure

MOST_FIGURES = 6
MOST_VALUES = 5_000_000
"""Of a table that is read whole: an audit alone reads one of any size."""


@dataclass(frozen=True)
class Repairs:
    """The columns in which something was found, worst first, and what is to be said about those that are not drawn."""

    columns: tuple[Repaired, ...] = ()
    note: str = ""


def find_repairs(source: Source, report: AuditReport, *, step: timedelta | None = None) -> Repairs:
    """Clean the table as the report's policy says, and set each column beside what becomes of it.

    Example:
        >>> from fern.data.auditing.audit import audit_source
        >>> from fern.data.reading import table_source
        >>> hours = np.datetime64("2020-01-01", "ns") + np.arange(100) * np.timedelta64(1, "h")
        >>> load = np.where(np.arange(100) == 5, 0.0, np.arange(100) + 1.0)
        >>> source = table_source(pa.table({"ds": hours, "load": load, "other": load + 1}), name="example")
        >>> [repairs.name for repairs in find_repairs(source, audit_source(source)).columns]
        ['load']
    """
    values = report.rows * sum(len(series.columns) for series in report.series[:1])
    if values > MOST_VALUES:
        return Repairs(note=f"What cleaning would do is not drawn: the table has more than {MOST_VALUES:,} values.")
    try:
        cleaned, log = clean_source(source, policy=report.policy, step=step)
    except FernError as error:
        return Repairs(note=f"What cleaning would do is not drawn: {error}")
    repairs = []
    names = source.roles.series
    for audit, (series, table) in zip(report.series, split_by_series(source), strict=True):
        rows = cleaned if names is None else cleaned.filter(pa.compute.equal(cleaned[names], series))
        for column in (audited.name for audited in audit.columns):
            has_values = column in rows.column_names and rows[column].null_count < len(rows)
            left = as_floats(rows[column]) if has_values else None
            raw, limit = as_floats(table[column]), report.policy.stuck_after(audit.frequency)
            when = _read_times(source, table)
            repairs.append(find_repair(raw, left, log, column=column, series=series, when=when, stuck_after=limit))
    worst = sorted(
        (repair for repair in repairs if repair.masks),
        key=lambda repair: int(np.logical_or.reduce(list(repair.masks.values())).sum()),
        reverse=True,
    )
    left_out = len(worst) - MOST_FIGURES
    note = f"{left_out:,} more columns in which something was found are not drawn." if left_out > 0 else ""
    return Repairs(tuple(worst[:MOST_FIGURES]), note)


def repairs_part(repairs: Repairs) -> Html:
    """A figure for each column in which something was found."""
    parts = []
    for place, repaired in enumerate(repairs.columns, start=1):
        caption = f"{repaired.in_words()}."
        parts.append(drawing(repair_figure(repaired), name=f"repair-{place}", alt=caption, caption=caption))
    if repairs.note:
        parts.append(element("p", {"class": "soft"}, repairs.note))
    return join_html(parts)


def find_repair(
    values: Values,  # (T,) as they came
    cleaned: Values | None,  # (T − deleted rows,); None where the column is dropped
    log: CleanLog,
    *,
    column: str,
    series: str = "",
    when: NDArray[Any] | None = None,  # (T,)
    stuck_after: float = np.inf,
    reconstruction: Values | None = None,
) -> Repaired:
    """Find zeros, codes and stuck values (``stuck_after`` rows), and put the cleaned column back in its place.

    Example:
        >>> import numpy as np
        >>> import pyarrow as pa
        >>> from fern.data import clean
        >>> hours = np.datetime64("2020-01-01", "s") + np.arange(100) * np.timedelta64(1, "h")
        >>> load = np.where(np.arange(100) == 5, 0.0, np.arange(100) + 1.0)
        >>> frame, log = clean(pa.table({"ds": hours, "load": load}))
        >>> repaired = find_repair(load, frame["load"].to_numpy(), log, column="load")
        >>> np.flatnonzero(repaired.masks["zeros"]).tolist(), float(repaired.mended[5])
        ([5], 5.0)
    """
    raw = np.asarray(values, dtype=np.float64)
    masks = {ZEROS: raw == 0, STUCK: np.zeros(len(raw), np.bool_), CODE: np.zeros(len(raw), np.bool_)}
    for sentinel in sentinels(np.where(np.isinf(raw), np.nan, raw), stuck_after=stuck_after):
        masks[CODE if sentinel.kind == "code" else STUCK][sentinel.first : sentinel.first + sentinel.length] = True
    deleted, filled, verdict = np.zeros(len(raw), np.bool_), np.zeros(len(raw), np.bool_), ""
    for change in log.changes:
        if change.series != series or change.first_row is None or change.last_row is None:
            continue
        span = slice(change.first_row, change.last_row + 1)
        if change.action == "delete rows":  # a row goes for all columns
            deleted[span] = True
        if change.column == column and change.action == "fill":
            filled[span] = True
        if change.column == column and change.action in ("drop", "asinh"):
            verdict = f"{'dropped' if change.action == 'drop' else 'asinh'}: {change.reason}"
    mended = None
    if cleaned is not None:
        n_rows = len(raw) - int(deleted.sum())
        if len(cleaned) != n_rows:
            expected = f"{n_rows:,}: the {len(raw):,} that came less those that the log deletes"
            raise FernError(f"got {len(cleaned):,} rows", argument="cleaned", expected=expected)
        mended = np.full(len(raw), np.nan)
        mended[~deleted] = cleaned
    return Repaired(
        " / ".join(part for part in (series, column) if part),
        np.arange(len(raw)) if when is None else when,
        raw,
        {kind: mask for kind, mask in masks.items() if mask.any()},
        mended,
        filled & ~deleted,
        verdict,
        reconstruction,
    )


def _read_times(source: Source, table: pa.Table) -> NDArray[Any]:
    """Dates as matplotlib takes them, or rows."""
    if source.roles.time is None or not pa.types.is_timestamp(table[source.roles.time].type):
        return np.arange(table.num_rows)
    stamps = table[source.roles.time].combine_chunks().cast(pa.timestamp("us"), safe=False)
    return np.asarray(stamps.to_numpy(zero_copy_only=False))


_WIDTH, _HEIGHT = 260, 56
_NUMBERS = ("Least", "Greatest", "Zeros", "Longest zero run", "Longest flat run", "Missing", "Outliers")
_TITLES = ("Column", "Along the rows", *_NUMBERS[:5], "Stuck, code or commonest", *_NUMBERS[5:], "Random walk")
_HEADS = [Head(title, numeric=title in _NUMBERS) for title in (*_TITLES, "What the policy does, and why")]


def audit_page(report: AuditReport, *, repairs: Repairs | None = None) -> str:
    """The whole page of an audit; ``repairs`` adds figures of what cleaning would do.

    Example:
        >>> import pyarrow as pa
        >>> from fern.data import audit
        >>> made = audit_page(audit(pa.table({"<load>": np.arange(1.0, 50.0)})))
        >>> "&lt;load&gt;" in made, "<load>" in made
        (True, False)
    """
    sections = [Section("audit", "Columns", audit_part(report))]
    if repairs is not None and (repairs.columns or repairs.note):
        sections.append(Section("repairs", "What was found, and what cleaning does", repairs_part(repairs)))
    return page(f"Audit of {report.name}", sections, lead=words.headline(report))


def audit_part(report: AuditReport) -> Html:
    """Problems, remarks and the table of columns, for any page."""
    policy = report.policy
    rows = [_row(report, series, column) for series in report.series for column in series.columns]
    legend = (
        "Plots: mean (line) and range from minimum to maximum (band) of stretches of rows. Zeros: total, share, "
        "isolated + in runs of two or more. Stuck: one value other than zero for more than "
        f"{in_words(policy.stuck_run)} and {policy.stuck_steps} rows. Code: a number that stands for a missing value "
        "and lies far outside the others. Outliers: |x − median| / (1.4826 MAD) above the limit. Random walk: variance "
        "ratios over 2 to 16 steps within 20 % of 1 and no pull back to a level (Dickey–Fuller)."
    )
    return join_html(
        [
            bullet_list(report.problems(), kind="problem"),
            bullet_list(words.remarks(report)),
            listing(_HEADS, rows, caption=words.headline(report), filterable=len(rows) > 8),
            element("p", {"class": "soft"}, legend),
        ]
    )


def plot(picture: Picture) -> Html:
    """An SVG of the column along its rows: band from minimum to maximum, line through the means."""
    count = len(picture.mean)
    known = np.isfinite(picture.mean)
    size = {"class": "plot", "width": str(_WIDTH), "height": str(_HEIGHT), "role": "img"}
    if not known.any():
        return element("svg", {**size, "aria-label": "no values"})
    # The scale leaves out the farthest per cent, so that a code does not flatten everything else.
    with np.errstate(all="ignore"):  # near the largest number that float64 has, differences overflow
        low, high = float(np.nanpercentile(picture.low, 1)), float(np.nanpercentile(picture.high, 99))
    spread = (high - low) or 1.0
    x = (np.arange(count) + 0.5) * _WIDTH / count

    def height(values: Values) -> list[float]:
        with np.errstate(all="ignore"):
            scaled = np.nan_to_num(np.clip((values - low) / spread, 0, 1))
        return [float(v) for v in np.round(_HEIGHT - 3 - scaled * (_HEIGHT - 6), 1)]

    shapes = []
    for first, last in np.flatnonzero(np.diff(known, prepend=False, append=False)).reshape(-1, 2).tolist():
        piece = slice(first, last)
        xs = [f"{v:.1f}" for v in x[piece]]
        top, bottom, middle = (height(v[piece]) for v in (picture.high, picture.low, picture.mean))
        outline = [f"{a},{b}" for a, b in zip(xs, top, strict=True)]
        outline += [f"{a},{b}" for a, b in reversed(list(zip(xs, bottom, strict=True)))]
        shapes.append(element("polygon", {"class": "band", "points": " ".join(outline)}))
        line = " ".join(f"{a},{b}" for a, b in zip(xs, middle, strict=True))
        shapes.append(element("polyline", {"class": "mean", "points": line}))
    label = f"from {words.number(low)} to {words.number(high)}"
    return element("svg", {**size, "aria-label": label}, *shapes)


def _row(report: AuditReport, series: SeriesAudit, column: ColumnAudit) -> list[Entry]:
    statistics = column.statistics
    kinds = [action.kind.split()[0] for action in column.verdict.actions]
    lines = [
        join_html([element("span", {"class": kind}, what), f": {why}"])
        for kind, (what, why) in zip(kinds, words.actions(column), strict=True)
    ]
    walk = words.walk(column)
    outliers = statistics.outliers.count if statistics.outliers is not None else None
    return [
        Entry(words.title(series, column)),
        Entry(plot(statistics.picture), ""),
        Entry(words.number(statistics.low), float(statistics.low)) if statistics.finite else Entry("–", ""),
        Entry(words.number(statistics.high), float(statistics.high)) if statistics.finite else Entry("–", ""),
        Entry(words.zeros(column), float(statistics.zeros.total)),
        Entry(words.run(statistics.zeros.longest, series.frequency), float(statistics.zeros.longest)),
        Entry(words.run(statistics.values.longest, series.frequency), float(statistics.values.longest)),
        Entry(join_html(words.repeats(column, series.frequency, report.policy), element("br", {}))),
        Entry(f"{statistics.missing.total:,}", float(statistics.missing.total)),
        Entry(words.outliers(column), "" if outliers is None else float(outliers)),
        Entry(walk, kind=walk if walk == "near" else None),
        Entry(join_html(lines, element("br", {}))),
    ]

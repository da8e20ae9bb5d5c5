"""The page of an audit: a line and a small plot for each column, and what the policy does with it."""

import numpy as np

from fern.data.auditing import audit_words as words
from fern.data.auditing.audit import AuditReport, ColumnAudit, SeriesAudit
from fern.data.auditing.policy import in_words
from fern.data.auditing.scan.picture import Picture
from fern.report.pages.listing import Entry, Head, listing
from fern.report.pages.markup import Html, element, joined, listed
from fern.report.pages.repairs import Repairs, repairs_part
from fern.report.pages.shell import Section, page

_WIDTH, _HEIGHT = 260, 56
_HEADS = (
    Head("Column"),
    Head("Along the rows"),
    Head("Least", numeric=True),
    Head("Greatest", numeric=True),
    Head("Zeros", numeric=True),
    Head("Longest zero run", numeric=True),
    Head("Longest flat run", numeric=True),
    Head("Stuck, code or commonest"),
    Head("Missing", numeric=True),
    Head("Outliers", numeric=True),
    Head("Random walk"),
    Head("What the policy does, and why"),
)


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
    return joined(
        [
            listed(report.problems(), kind="problem"),
            listed(words.remarks(report)),
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

    def height(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> list[float]:
        with np.errstate(all="ignore"):
            scaled = np.nan_to_num(np.clip((values - low) / spread, 0, 1))
        return [float(v) for v in np.round(_HEIGHT - 3 - scaled * (_HEIGHT - 6), 1)]

    shapes = []
    for first, last in _stretches(known):
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


def _stretches(known: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> list[tuple[int, int]]:
    """First and last of each unbroken stretch of known places."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _row(report: AuditReport, series: SeriesAudit, column: ColumnAudit) -> list[Entry]:
    found = column.statistics
    kinds = [action.kind.split()[0] for action in column.verdict.actions]
    doing = joined(
        (
            joined([element("span", {"class": kind}, what), f": {why}"])
            for kind, (what, why) in zip(kinds, words.actions(column), strict=True)
        ),
        element("br", {}),
    )
    walk = words.walk(column)
    outliers = found.outliers.count if found.outliers is not None else None
    return [
        Entry(words.title(series, column)),
        Entry(plot(found.picture), ""),
        Entry(words.number(found.low), float(found.low)) if found.finite else Entry("–", ""),
        Entry(words.number(found.high), float(found.high)) if found.finite else Entry("–", ""),
        Entry(words.zeros(column), float(found.zeros.total)),
        Entry(words.run(found.zeros.longest, series.frequency), float(found.zeros.longest)),
        Entry(words.run(found.values.longest, series.frequency), float(found.values.longest)),
        Entry(joined(words.repeated(column, series.frequency, report.policy), element("br", {}))),
        Entry(f"{found.missing.total:,}", float(found.missing.total)),
        Entry(words.outliers(column), "" if outliers is None else float(outliers)),
        Entry(walk, kind=walk if walk == "near" else None),
        Entry(doing),
    ]

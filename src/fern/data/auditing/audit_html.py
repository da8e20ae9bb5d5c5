"""The audit as one HTML page without outside parts: a table and a small plot for each column."""

from functools import partial

import numpy as np

from fern.data.auditing import audit_words as words
from fern.data.auditing.audit import AuditReport, ColumnAudit, SeriesAudit
from fern.data.auditing.policy import in_words
from fern.data.auditing.scan.picture import Picture
from fern.text import safe_text

escape = partial(safe_text, medium="html")

_WIDTH, _HEIGHT = 260, 56

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #6b6b6b; --line: #d9d9d9; --paper: #fff;
  --band: #9ecae1; --mean: #08519c; --bad: #b3261e; --warn: #9a6700; --good: #1a7f37; --mild: #0b6bcb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --soft: #a0a0a0; --line: #3a3a3a; --paper: #161616;
  --band: #33597a; --mean: #8ec5ff; --bad: #ff8a80; --warn: #f0c674; --good: #7ee787; --mild: #8ec5ff; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 1400px; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } .soft { color: var(--soft); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem .45rem 0; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: var(--paper); font-weight: 600; } td.n, th.n { text-align: right; }
.problem { color: var(--bad); font-weight: 600; } .drop { color: var(--bad); font-weight: 600; }
.delete, .asinh, .undecided { color: var(--warn); font-weight: 600; } .fill { color: var(--mild); font-weight: 600; }
.keep { color: var(--good); font-weight: 600; } .near { color: var(--warn); font-weight: 600; }
svg { display: block; } .band { fill: var(--band); } .mean { fill: none; stroke: var(--mean); stroke-width: 1.2; }
"""


def to_html(report: AuditReport) -> str:
    """The whole page."""
    rows = "\n".join(_row(report, series, column) for series in report.series for column in series.columns)
    problems = "".join(f'<li class="problem">{escape(problem)}</li>' for problem in report.problems())
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in words.remarks(report))
    notes = f"<ul>{problems}{remarks}</ul>" if problems or remarks else ""
    policy = report.policy
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Audit of {escape(report.name)}</title><style>{_STYLE}</style></head>
<body>
<h1>Audit of {escape(report.name)}</h1>
<p class="soft">{escape(words.headline(report))}</p>
{notes}
<div class="scroll"><table>
<thead><tr><th>Column</th><th>Along the rows</th><th class="n">Range</th><th class="n">Zeros</th>
<th class="n">Longest zero run</th><th class="n">Longest flat run</th><th>Stuck, code or commonest</th>
<th class="n">Missing</th><th class="n">Outliers</th><th>Random walk</th><th>What the policy does, and why</th>
</tr></thead>
<tbody>
{rows}
</tbody></table></div>
<p class="soft">Plots: mean (line) and range from minimum to maximum (band) of stretches of rows. Zeros: total, share,
isolated + in runs of two or more. Stuck: one value other than zero for more than
{escape(in_words(policy.stuck_run))} and {policy.stuck_steps} rows. Code: a number that stands for a missing value
and lies far outside the others. Outliers: |x − median| / (1.4826 MAD) above the limit. Random walk: variance ratios
over 2 to 16 steps within 20 % of 1 and no pull back to a level (Dickey–Fuller).</p>
</body></html>
"""


def plot(picture: Picture) -> str:
    """An SVG of the column along its rows: band from minimum to maximum, line through the means."""
    count = len(picture.mean)
    known = np.isfinite(picture.mean)
    if not known.any():
        return f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="no values"></svg>'
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
        shapes.append(f'<polygon class="band" points="{" ".join(outline)}"/>')
        line = " ".join(f"{a},{b}" for a, b in zip(xs, middle, strict=True))
        shapes.append(f'<polyline class="mean" points="{line}"/>')
    label = f"from {words.number(low)} to {words.number(high)}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{label}">{"".join(shapes)}</svg>'
    )


def _stretches(known: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> list[tuple[int, int]]:
    """First and last of each unbroken stretch of known places."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _row(report: AuditReport, series: SeriesAudit, column: ColumnAudit) -> str:
    found = column.statistics
    name = words.title(series, column)
    repeated = "<br>".join(escape(text) for text in words.repeated(column, series.frequency, report.policy))
    kinds = [action.kind.split()[0] for action in column.verdict.actions]
    doing = "<br>".join(
        f'<span class="{kind}">{escape(what)}</span>: {escape(why)}'
        for kind, (what, why) in zip(kinds, words.actions(column), strict=True)
    )
    limits = f"{words.number(found.low)} to {words.number(found.high)}" if found.finite else "–"
    cells = [
        f"<td><strong>{escape(name)}</strong></td>",
        f"<td>{plot(found.picture)}</td>",
        f'<td class="n">{limits}</td>',
        f'<td class="n">{escape(words.zeros(column))}</td>',
        f'<td class="n">{escape(words.run(found.zeros.longest, series.frequency))}</td>',
        f'<td class="n">{escape(words.run(found.values.longest, series.frequency))}</td>',
        f"<td>{repeated}</td>",
        f'<td class="n">{found.missing.total:,}</td>',
        f'<td class="n">{escape(words.outliers(column))}</td>',
        f'<td class="{words.walk(column)}">{words.walk(column)}</td>',
        f"<td>{doing}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"

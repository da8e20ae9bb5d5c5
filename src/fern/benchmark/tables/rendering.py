"""One table in many looks: Markdown, JSON, CSV, HTML, LaTeX, and the terminal.

Markdown, HTML, LaTeX and the terminal show the same in each cell: mean ± standard error, what is wrong, the paper's
number and the ratio to it. The best is bold and the second best underlined (Markdown has no underline: it is
italic there). JSON keeps the table's form with full precision. CSV has one record a cell.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from fern.benchmark.results import title_of
from fern.benchmark.tables.build import Column, Table
from fern.benchmark.tables.cells import Cell
from fern.errors import unknown_name
from fern.html.markup import number
from fern.text import safe_text

if TYPE_CHECKING:
    from rich.table import Table as RichTable


def render(table: Table, format_: str) -> str:
    """The table as text in one of ``FORMATS``.

    Example:
        >>> from fern.benchmark.tables.build import Line
        >>> cells = (Cell(mean=21.664, standard_error=0.31, done=2, place=1), Cell(mean=76.5, done=1, missing=1))
        >>> table = Table("Two models", ("dataset",), (Column("mse", "fern"), Column("mse", "dlinear")),
        ...     (Line(("LORENZ_BASE",), cells),))
        >>> print(render(table, "md"))
        ## Two models
        <BLANKLINE>
        | dataset | fern MSE | dlinear MSE |
        |:---|---:|---:|
        | LORENZ_BASE | **21.66 ± 0.31** | 76.5 [1 missing] |
        <BLANKLINE>
        >>> render(table, "htm")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: unknown format 'htm': did you mean 'html'? Known: csv, html, json, md, tex
    """
    if format_ not in FORMATS:
        raise unknown_name("format", format_, FORMATS)
    return FORMATS[format_](table)


def heading(column: Column) -> str:
    """What stands over a column.

    Example:
        >>> heading(Column("mse", "fern")), heading(Column("seconds_epoch"))
        ('fern MSE', 'seconds an epoch')
    """
    return f"{column.model} {title_of(column.metric)}".strip()


def cell_text(cell: Cell | None) -> str:
    """A cell without its marks.

    Example:
        >>> cell_text(Cell(mean=21.66, standard_error=0.312, done=2, paper=25.21))
        '21.66 ± 0.31 (paper 25.21, ×0.86)'
        >>> cell_text(Cell(mean=10.2, done=1, paper=6.62, by_last_batch=True, last_batch=6.63))
        '10.2 (last batch 6.63, paper 6.62, ×1.00)'
        >>> cell_text(Cell(diverged=2)), cell_text(None), cell_text(Cell(mean=1_025_000.0, done=1))
        ('diverged', '', '1,025,000')
    """
    if cell is None:
        return ""
    parts = []
    if cell.mean is not None:
        parts.append(number(cell.mean) + (f" ± {cell.standard_error:.2g}" if cell.standard_error else ""))
    if trouble := cell.trouble():
        parts.append(f"[{trouble}]" if parts else trouble)
    if cell.paper is not None:
        last = "" if cell.last_batch is None else f"last batch {number(cell.last_batch)}, "
        ratio = "" if cell.ratio is None else f", ×{cell.ratio:.2f}"
        parts.append(f"({last}paper {number(cell.paper)}{ratio})")
    return " ".join(parts)


def to_markdown(table: Table) -> str:
    """A Markdown table; the best is bold, the second best italic."""

    def cell(content: Cell | None) -> str:
        text = cell_text(content).replace("|", "\\|")
        mark = {1: "**", 2: "*"}.get(content.place or 0, "") if content is not None else ""
        return f"{mark}{text}{mark}"

    head = [safe_text(name, "markdown") for name in (*table.keys, *map(heading, table.columns))]
    rules = [":---"] * len(table.keys) + ["---:"] * len(table.columns)
    lines = [[*(safe_text(key, "markdown") for key in line.keys), *map(cell, line.cells)] for line in table.lines]
    notes = [f"- {safe_text(note, 'markdown')}" for note in table.notes]
    body = [f"| {' | '.join(head)} |", f"|{'|'.join(rules)}|", *(f"| {' | '.join(line)} |" for line in lines)]
    return "\n".join([f"## {safe_text(table.title, 'markdown')}", "", *body, *(["", *notes] if notes else []), ""])


def to_json(table: Table) -> str:
    """The table's own form; means, standard errors and the paper's numbers in full precision."""
    lines = [
        {
            **dict(zip(table.keys, line.keys, strict=True)),
            "cells": [
                None if cell is None else {**asdict(column), **_cell_record(cell)}
                for column, cell in zip(table.columns, line.cells, strict=True)
            ],
        }
        for line in table.lines
    ]
    whole = {"title": table.title, "keys": table.keys, "lines": lines, "notes": table.notes}
    return safe_text(json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False), "json") + "\n"


def to_csv(table: Table) -> str:
    """One record for each cell that applies."""
    names = list(dict.fromkeys([*table.keys, "model", "metric", *_cell_record(Cell())]))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for line in table.lines:
        about = {key: safe_text(value, "csv") for key, value in zip(table.keys, line.keys, strict=True)}
        for column, cell in zip(table.columns, line.cells, strict=True):
            if cell is not None:
                model = about.get("model", safe_text(column.model, "csv"))
                writer.writerow({**about, "model": model, "metric": column.metric, **_cell_record(cell)})
    return out.getvalue()


def to_html(table: Table) -> str:
    """A page of its own, from which nothing leaves."""
    from fern.html.markup import Entry, Head, bullet_list, element, join_html, listing
    from fern.html.page import Section, page

    def cell(content: Cell | None) -> Entry:
        text = cell_text(content)
        if content is None:
            return Entry(text, "")
        tag = {1: "strong", 2: "u"}.get(content.place or 0)
        sort = "" if content.mean is None else float(content.mean)
        return Entry(element(tag, {}, text) if tag else text, sort, "trouble" if content.trouble() else None)

    heads = [*(Head(key) for key in table.keys), *(Head(heading(column), numeric=True) for column in table.columns)]
    rows = [[*map(Entry, line.keys), *map(cell, line.cells)] for line in table.lines]
    notes = bullet_list(table.notes, kind="notes")
    body = join_html([listing(heads, rows, caption=table.title, filterable=True), notes])
    return page(table.title, [Section("table", "Figures", body)])


def to_tex(table: Table) -> str:
    """A LaTeX table (booktabs); the best is bold, the second best underlined."""

    def cell(content: Cell | None) -> str:
        text = safe_text(cell_text(content), "latex")
        mark = {1: r"\textbf", 2: r"\underline"}.get(content.place or 0) if content is not None else None
        return f"{mark}{{{text}}}" if mark else text

    form = "l" * len(table.keys) + "r" * len(table.columns)
    head = " & ".join(safe_text(name, "latex") for name in [*table.keys, *map(heading, table.columns)])
    lines = []
    for place, line in enumerate(table.lines):
        if line.starts_block and place:
            lines.append(r"\midrule")
        lines.append(" & ".join([*(safe_text(key, "latex") for key in line.keys), *map(cell, line.cells)]) + r" \\")
    notes = [rf"\par\footnotesize {safe_text(note, 'latex')}" for note in table.notes]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}[ht]",
            r"\centering",
            rf"\caption{{{safe_text(table.title, 'latex')}}}",
            rf"\begin{{tabular}}{{{form}}}",
            r"\toprule",
            rf"{head} \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
            "",
        ]
    )


def fit_width(table: Table, width: int) -> list[Table]:
    """The table in parts that a terminal of this width shows without cutting a number.

    A table that is too wide loses models without any figure, then all but the first metric of each model, and what is
    still too wide is drawn part below part, each with the names of its lines. The first part has the title, the last
    the notes, which say what is left out. A column that is wider than the terminal has a part of its own.

    Example:
        >>> from fern.benchmark.tables.build import Line
        >>> columns = tuple(Column(metric, model) for model in ("fern", "dlinear") for metric in ("mse", "wd"))
        >>> table = Table("Two models", ("dataset",), columns, (Line(("OU_BASE",), (Cell(mean=1.5, done=1),) * 4),))
        >>> [len(part.columns) for width in (80, 30, 16) for part in fit_width(table, width)]
        [4, 2, 1, 1]
    """
    left_out: list[str] = []
    if _total_width(table) > width:
        cells = [(column, line.cells[i]) for line in table.lines for i, column in enumerate(table.columns)]
        with_figure = {column.model for column, cell in cells if cell is not None and cell.mean is not None}
        bare = {column.model: None for column in table.columns if column.model and column.model not in with_figure}
        if bare:
            table = _keep_columns(table, [column for column in table.columns if column.model not in bare])
            left_out.append(f"models without a figure ({', '.join(bare)})")
    metrics = list(dict.fromkeys(column.metric for column in table.columns if column.model))
    if _total_width(table) > width and len(metrics) > 1:
        columns = [column for column in table.columns if not column.model or column.metric == metrics[0]]
        table = _keep_columns(table, columns)
        left_out.append(", ".join(title_of(metric) for metric in metrics[1:]))
    if any(cell is not None and cell.missing for line in table.lines for cell in line.cells):
        table = replace(table, notes=(*table.notes, "–: no result yet. *: fewer seeds than the task has."))
    if left_out:
        hint = "--out FILE.html (or .md, .csv) has all of it; --metrics picks some."
        table = replace(table, notes=(*table.notes, f"Left out here: {'; '.join(left_out)}. {hint}"))
    if _total_width(table) <= width:
        return [table]
    parts: list[list[Column]] = [[]]
    for column in table.columns:
        if parts[-1] and _total_width(_keep_columns(table, [*parts[-1], column])) > width:
            parts.append([])
        parts[-1].append(column)
    blocks = [_keep_columns(table, part) for part in parts]
    return [
        replace(part, title=part.title if part is blocks[0] else "", notes=part.notes if part is blocks[-1] else ())
        for part in blocks
    ]


def _keep_columns(table: Table, columns: Sequence[Column]) -> Table:
    places = [place for place, column in enumerate(table.columns) if column in columns]
    lines = tuple(replace(line, cells=tuple(line.cells[place] for place in places)) for line in table.lines)
    return replace(table, columns=tuple(table.columns[place] for place in places), lines=lines)


def _total_width(table: Table) -> int:
    """Characters of a line in a terminal, with two between columns."""
    texts = [(name, *(line.keys[i] for line in table.lines)) for i, name in enumerate(table.keys)]
    for i, column in enumerate(table.columns):
        cells = (_terminal_text(line.cells[i]) for line in table.lines)
        texts.append((column.model, title_of(column.metric), *cells))
    return sum(max(map(len, entries)) for entries in texts) + 2 * (len(texts) - 1)


def _terminal_text(cell: Cell | None) -> str:
    """The text of a cell, where runs that are only missing take one character, which a note explains."""
    if cell is None or not cell.missing or cell.diverged or cell.failed:
        return cell_text(cell)
    return "–" if cell.mean is None else f"{cell_text(replace(cell, missing=0))}*"


def to_rich(table: Table) -> "RichTable":
    """The table for a terminal; the best is bold green, the second best underlined."""
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable(title=table.title or None, box=None, header_style="bold", pad_edge=False)
    for key in table.keys:
        rich_table.add_column(key, no_wrap=True)
    for column in table.columns:
        head = f"{safe_text(column.model, 'line')}\n{title_of(column.metric)}".strip()
        rich_table.add_column(head, justify="right", no_wrap=True)

    def cell(content: Cell | None) -> Text:
        style = ""
        if content is not None:
            bad = content.diverged or content.failed
            style = "red" if bad else {1: "bold green", 2: "underline"}.get(content.place or 0, "")
        return Text(_terminal_text(content), style=style)

    for place, line in enumerate(table.lines):
        if line.starts_block and place:
            rich_table.add_section()
        rich_table.add_row(*(Text(safe_text(key, "line")) for key in line.keys), *map(cell, line.cells))
    return rich_table


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "md": to_markdown,
    "json": to_json,
    "csv": to_csv,
    "html": to_html,
    "tex": to_tex,
}
"""The formats of `render`."""


def _cell_record(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell), "ratio": cell.ratio}

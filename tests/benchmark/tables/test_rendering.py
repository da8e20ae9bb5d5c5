"""Every format shows the same table, and none is broken by what stands in it."""

import csv
import io
import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from fern.benchmark.tables.build import Column, Line, Table
from fern.benchmark.tables.cells import Cell
from fern.benchmark.tables.rendering import FORMATS, cell_text, fit_width, render, to_rich
from fern.errors import FernError

TABLE = Table(
    title="Shocks & <others>",
    keys=("dataset",),
    columns=(Column("mse", "fern"), Column("mse", "fern:no-rotation (a=1)"), Column("oracle_mse")),
    lines=(
        Line(
            ("OU_BASE",),
            (
                Cell(mean=21.6642, standard_error=0.3111, done=2, place=1, paper=25.21),
                Cell(mean=0.1 + 0.2, done=1, diverged=1),
                None,
            ),
        ),
        Line(("LORENZ_BASE",), (Cell(mean=2.0, done=1, place=2), Cell(missing=2), Cell(mean=1e-7, done=1)), True),
    ),
    notes=("failed: fern | on 50 % of_it:\nout of memory",),
)


@pytest.mark.parametrize("format_", ["md", "html", "tex"])
def test_each_format_for_readers_shows_mean_error_trouble_and_the_paper(format_):
    text = render(TABLE, format_)
    for part in ("21.66", "0.31", "25.21", "0.86", "1 diverged", "missing", "1e-07", "out of memory"):
        assert part in text


def test_markdown_marks_the_best_bold_and_keeps_one_column_for_each_cell():
    lines = [line for line in render(TABLE, "md").splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {5}
    assert "**21.66 ± 0.31 (paper 25.21, ×0.86)**" in lines[2]
    assert "*2*" in lines[3]


def test_json_keeps_every_bit():
    whole = json.loads(render(TABLE, "json"))
    cells = whole["lines"][0]["cells"]
    assert cells[1]["mean"] == 0.1 + 0.2
    assert (cells[0]["model"], cells[0]["metric"]) == ("fern", "mse")
    assert cells[0]["ratio"] == 21.6642 / 25.21
    assert cells[2] is None
    assert whole["notes"] == list(TABLE.notes)


def test_csv_has_one_record_for_each_cell_that_applies():
    records = list(csv.DictReader(io.StringIO(render(TABLE, "csv"))))
    assert len(records) == 5
    assert (records[0]["dataset"], records[0]["model"]) == ("OU_BASE", "fern")
    assert float(records[1]["mean"]) == 0.1 + 0.2
    assert (records[3]["mean"], records[3]["missing"]) == ("", "2")


def test_csv_takes_the_model_from_the_line_where_models_are_lines():
    table = Table(
        "t", ("dataset", "horizon", "model"), (Column("mse"),), (Line(("A", "96", "fern"), (Cell(mean=1.0),)),)
    )
    (record,) = csv.DictReader(io.StringIO(render(table, "csv")))
    assert (record["model"], record["metric"], record["horizon"]) == ("fern", "mse", "96")


def test_html_is_well_formed_and_escapes_what_it_is_given():
    class Checker(HTMLParser):
        depth = cells = 0

        def handle_starttag(self, tag, attrs):
            self.depth += tag != "meta"
            self.cells += tag == "td"

        def handle_endtag(self, tag):
            self.depth -= 1

    text = render(TABLE, "html")
    checker = Checker()
    checker.feed(text)
    assert (checker.depth, checker.cells) == (0, 6)
    assert "Shocks &amp; &lt;others&gt;" in text
    assert text.count("<script") == 1  # the page's own


def test_tex_escapes_what_latex_would_choke_on():
    text = render(TABLE, "tex")
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in body} == {3}
    assert r"OU\_BASE" in text
    assert r"50 \% of\_it" in text
    assert r"\textbf{21.66 $\pm$ 0.31 (paper 25.21, $\times$0.86)}" in text


def test_the_terminal_shows_all_of_it_and_takes_no_markup_from_names():
    console = Console(width=200, record=True, file=io.StringIO())
    table = Table(
        "t", ("dataset",), (Column("mse", "fern"),), (Line(("[red]x[/red]",), (Cell(mean=1.5, done=1, failed=1),)),)
    )
    console.print(to_rich(table))
    shown = console.export_text()
    assert "[red]x[/red]" in shown
    assert "1.5 [1 failed]" in shown


def wide_table(models=12):
    """A table as a sweep makes it: two metrics of many models, one of which has not run."""
    columns = [Column(metric, f"model-{n}") for n in range(models) for metric in ("mse", "wd")] + [Column("regret")]
    known = [Cell(mean=12.345 + n, standard_error=0.25, done=2, missing=n % 2) for n in range(len(columns))]
    cells = [
        Cell(missing=2) if column.model == "model-3" else cell for column, cell in zip(columns, known, strict=True)
    ]
    return Table("wide", ("dataset",), tuple(columns), (Line(("LORENZ_BASE",), tuple(cells)),), notes=("a note",))


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200, 1000])
def test_a_terminal_of_any_width_cuts_no_number(width):
    table = wide_table()
    parts = fit_width(table, width)
    console = Console(width=width, record=True, file=io.StringIO())
    for part in parts:
        console.print(to_rich(part))
    shown = console.export_text()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for part in parts:
        figures = [cell_text(replace(cell, missing=0)) for line in part.lines for cell in line.cells if cell.done]
        assert all(figure in shown for figure in figures)
        assert part.lines[0].keys == ("LORENZ_BASE",)
    assert [bool(part.notes) for part in parts] == [False] * (len(parts) - 1) + [True]


def test_what_a_terminal_has_no_room_for_is_said():
    whole, narrow = fit_width(wide_table(), 1000), fit_width(wide_table(), 80)
    assert len(whole) == 1
    assert len(whole[0].notes) == 2  # what it says itself, and what a dash and an asterisk mean
    assert {column.metric for part in narrow for column in part.columns} == {"mse", "regret"}
    assert "model-3" not in {column.model for part in narrow for column in part.columns}
    note = narrow[-1].notes[-1]
    assert "model-3" in note
    assert "WD" in note
    assert "--out" in note


def test_an_unknown_format_is_answered_with_the_nearest():
    assert set(FORMATS) == {"md", "json", "csv", "html", "tex"}
    with pytest.raises(FernError, match=r"unknown format 'latex': .*tex"):
        render(TABLE, "latex")

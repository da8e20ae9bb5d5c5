"""Text from files reaches terminal and tables as text: no escape codes, no markup, no formulas, no cells of its own."""

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.benchmark.support import row_for, tiny_plan
from tests.hostile.support import SCENARIO, Case, cases, check, hourly, run, write_files

from fern.benchmark.store import Store
from fern.benchmark.tables.build import Column, Line, Table
from fern.benchmark.tables.cells import Cell
from fern.benchmark.tables.rendering import render, to_rich
from fern.data import audit
from fern.data.auditing.page import audit_page
from fern.plot.canvas import save_figure
from fern.plot.forecasts import Fan, Fans, fan_figure, forecast_figure
from fern.text import safe_text, say, terminal

ESC = "\x1b]0;owned\x07\x1b[2J"
C1 = "\x9b31m"
TURNED = "\u202egnp.exe"
EVIL = {
    "escape": ESC,
    "C1": C1,
    "direction": TURNED,
    "close": "[/]",
    "tag": "[red]",
    "link": "[link=x]",
    "emoji": ":bomb:",
}
MARKS = ("\x1b", "\x07", "\x9b", "\u202e")
NAMES = {**EVIL, "formula": "=1+1", "pipe": "a|b", "html": "<script>", "math": "$\\frac$", "percent": "%s{0}",
         "lines": "a\nb", "backslash": "\\[/]"}  # fmt: skip


def table_with(name: str) -> bytes:
    held = io.BytesIO()
    times = pa.array(np.arange(60) * 3_600_000_000, pa.timestamp("us"))
    pq.write_table(pa.table({"date": times, name: np.arange(1.0, 61.0)}), held)
    return held.getvalue()


@cases(
    *(Case(f"audit of a column called {what}", ("audit", "x.parquet"), 0, "keep", {"x.parquet": table_with(name)},
           silent_on=MARKS) for what, name in NAMES.items()),
    *(Case(f"cleaning of a column called {what}", ("clean", "x.parquet", "-o", "c.csv"), 0, "60 out",
           {"x.parquet": table_with(name)}, made=("c.csv",), silent_on=MARKS) for what, name in NAMES.items()),
    *(Case(f"audit of a file called {what}", ("audit", f"{name}.csv"), 0, "keep", {f"{name}.csv": hourly()},
           silent_on=MARKS) for what, name in EVIL.items() if "/" not in name),
    *(Case(f"no file called {what}", ("audit", name), 2, "no such file", silent_on=MARKS)
      for what, name in EVIL.items()),
    *(Case(f"no scenario called {what}", ("simulate", name, "-o", "x.csv"), 2, "unknown scenario", silent_on=MARKS)
      for what, name in EVIL.items()),
    Case("no model called by all of them", ("stress", "".join(EVIL.values())), 2, "unknown model|TARGET",
         silent_on=MARKS),
    Case("a page over a table with markup in its name", ("audit", "[red]x.csv", "--html", "[red]x.csv"), 2,
         r"\[red\]x.csv: is also an input", {"[red]x.csv": hourly()}),
    Case("markup in an option that is not there", ("audit", "x.csv", "--[/]"), 2, "No such option"),
    Case("escape codes in an option that is not there", ("audit", "x.csv", f"--{ESC}"), 2, "No such option",
         silent_on=("\x07", "\x1b]0")),
    Case("escape codes in a further argument", ("audit", "x.csv", ESC), 2, "unexpected extra argument",
         silent_on=("\x07", "\x1b]0")),
    Case("markup in a scenario's setting", ("simulate", "s.toml", "-o", "x.csv"), 2, r"unknown setting '\[/\]'",
         {"s.toml": SCENARIO + '"[/]" = 1\n'}),
    Case("escape codes in a scenario's setting", ("simulate", "s.toml", "-o", "x.csv"), 2, "unknown setting",
         {"s.toml": SCENARIO + '"\\u001b[2J" = 1\n'}, silent_on=MARKS),
    Case("a scenario called by escape codes", ("simulate", "s.toml", "-o", "x.csv"), 0, "60 rows",
         {"s.toml": SCENARIO + 'id = "\\u001b[2J[/]"\n'}, made=("x.csv",), silent_on=MARKS),
)  # fmt: skip
@pytest.mark.usefixtures("forked")
def test_the_terminal_gets_text_and_nothing_else(case: Case, capsys) -> None:
    check(case, capsys)


EVIL_TABLE = Table(
    f"Title [/] {ESC}",
    ("dataset",),
    (Column("mse", "=cmd|' /C calc'!A0"), Column("mse", f"[/]{ESC}")),
    (Line(("+x|y<b>",), (Cell(mean=1.0, done=1, place=1), Cell(mean=-2.0, done=1))),),
    notes=(f"Skipped: [/] {ESC} <script>",),
)


@pytest.mark.parametrize("format_", ["md", "csv", "html", "tex", "json"])
def test_tables_hold_no_control_codes_in_any_format(format_: str) -> None:
    made = render(EVIL_TABLE, format_)
    assert not [mark for mark in MARKS if mark in made]


def test_markdown_has_as_many_cells_as_columns() -> None:
    lines = [line for line in render(EVIL_TABLE, "md").splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {4}
    assert "<b>" not in render(EVIL_TABLE, "md")


def test_csv_holds_no_formula_and_its_numbers_are_numbers() -> None:
    found = list(csv.DictReader(io.StringIO(render(EVIL_TABLE, "csv"))))
    assert [row["dataset"] for row in found] == ["'+x|y<b>"] * 2
    assert found[0]["model"].startswith("'=cmd")
    assert [row["mean"] for row in found] == ["1.0", "-2.0"]


def test_html_and_latex_hold_no_tags_of_others() -> None:
    assert "<b>" not in render(EVIL_TABLE, "html")
    assert render(EVIL_TABLE, "html").count("<script>") == 1
    assert r"\textless" not in render(EVIL_TABLE, "tex")
    assert json.loads(render(EVIL_TABLE, "json"))["title"] == EVIL_TABLE.title


def test_a_table_on_a_terminal_shows_markup_as_it_is() -> None:
    stream = io.StringIO()
    terminal(file=stream, width=140).print(to_rich(EVIL_TABLE))
    assert "[/]" in stream.getvalue()
    assert not [mark for mark in MARKS if mark in stream.getvalue()]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_rows_with_foreign_names_are_shown_in_tables_and_comparisons(name: str, capsys) -> None:
    store = Store("runs").for_writing()
    plan = tiny_plan(models=["dlinear", "last-value"])
    errors = {"mse": np.linspace(0.5, 1.5, 40, dtype=np.float32), "mae": np.linspace(0.2, 0.8, 40, dtype=np.float32)}
    for run_, model in zip(plan.runs, (name, "plain"), strict=True):
        row = row_for(run_, model=model, dataset=f"{name} data", task="mine", metrics={"mse": 1.0, "mae": 1.0})
        store.write(row, errors)
    failed = row_for(plan.runs[0], model="third", task="mine", status="failed", error=f"it said {name}", metrics={})
    store.write(failed)
    for command in (("table", "mine"), ("table", "mine", "--format", "csv"), ("compare", name, "plain")):
        ran = run("bench", *command, "--runs", "runs", capsys=capsys)
        assert ran.code == 0, ran.err
        assert not [mark for mark in MARKS if mark in ran.out + ran.err]


def test_figures_draw_foreign_names() -> None:
    values, names = np.arange(8.0), list(NAMES.values())
    fans = [Fan(name, np.arange(8), values, np.arange(8, 12), values[:4]) for name in names]
    save_figure(fan_figure(Fans(tuple(fans), label="".join(names))), "f.png")
    assert Path("f.png").stat().st_size > 1000
    one, joined = values[:, None].astype(np.float32), "".join(names)
    save_figure(forecast_figure(one, one[:4], {joined: one[:4]}, channel_names=(joined,), title=joined), "g.svg")
    ElementTree.parse("g.svg")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_the_page_of_an_audit_escapes_foreign_names(name: str) -> None:
    write_files({"x.parquet": table_with(name)})
    page = audit_page(audit("x.parquet"))
    assert page.count("<script>") == 1
    assert not [mark for mark in MARKS if mark in page]


@given(st.text())
def test_nothing_unseen_is_left_in_any_text(text: str) -> None:
    for medium in ("terminal", "line", "markdown", "csv", "html", "latex", "figure", "plotly"):
        made = safe_text(text, medium)
        made.encode()
        assert not [sign for sign in made if ord(sign) < 32 and sign not in "\t\n"]
        assert not set(made) & set(MARKS)
    assert json.loads(safe_text(json.dumps(text, ensure_ascii=False), "json")) == text


@given(st.text(alphabet=st.characters(codec="ascii", categories=("L", "N")), min_size=1))
def test_plain_text_stays_as_it_is(text: str) -> None:
    for medium in ("terminal", "line", "markdown", "csv", "html", "latex", "xml", "json", "figure", "plotly"):
        assert safe_text(text, medium) == text


def test_a_closed_stream_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    say("nobody hears", None)
    assert capsys.readouterr() == ("", "")

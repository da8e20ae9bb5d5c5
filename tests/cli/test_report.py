"""``fern report`` writes one page, whole or not at all."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.benchmark.support import row_for, tiny_plan
from tests.html.support import Seen

from fern.benchmark.store import Store
from fern.html.markup import number


@pytest.fixture
def runs():
    store = Store("runs").for_writing()
    for run in tiny_plan().runs:
        store.write(row_for(run, task="mine"))
    return store


@pytest.mark.parametrize("words", [("runs",), ("folder", "runs")])
def test_a_results_folder_becomes_a_page(fern, runs, words):
    ran = fern("report", *words, "-o", "report.html")
    assert ran.code == 0, ran.err
    assert "wrote report.html" in ran.out
    assert "3 runs: 3 models on 1 datasets" in Path("report.html").read_text()


def test_the_output_may_come_first(fern, runs):
    assert fern("report", "-o", "report.html", "./runs").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "-o", "x.html"), "nowhere: is not a folder"),
        (("runs", "-o", "x.txt"), "a page needs one of .html, .htm"),
        (("runs", "-o", "runs/rows/x.html"), "lies in runs/rows"),
        (("runs", "-o", "no/x.html"), "the folder no does not exist"),
        (("runs",), "--out"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_written(fern, runs, arguments, message):
    ran = fern("report", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert not list(Path().glob("**/*.html"))


def test_an_empty_folder_gives_a_page(fern):
    Path("empty").mkdir()
    assert fern("report", "empty", "-o", "report.html").code == 0
    assert "has no folder &#x27;rows&#x27;" in Path("report.html").read_text()


def test_an_audit_becomes_a_page(fern):
    pq.write_table(pa.table({"<b>": [float(value) for value in range(1, 60)]}), "x.parquet")
    ran = fern("report", "audit", "x.parquet", "-o", "report.html")
    assert ran.code == 0, ran.err
    assert "&lt;b&gt;" in Path("report.html").read_text()


def test_an_audit_draws_what_was_found_and_what_cleaning_leaves(fern):
    hours = np.datetime64("2024-01-01", "s") + np.arange(600) * np.timedelta64(1, "h")
    load = np.where(np.isin(np.arange(600), [50, 51, *range(300, 310)]), 0.0, np.arange(600) + 1.0)
    pq.write_table(pa.table({"ds": pa.array(hours), "load": load, "other": np.arange(600) + 1.0}), "x.parquet")
    assert fern("report", "audit", "x.parquet", "-o", "report.html").code == 0
    seen = Seen(Path("report.html").read_text())
    pictures = [given["aria-label"] for tag, given in seen.tags if tag == "svg" and given.get("class") != "plot"]
    assert pictures == ["load, 600 rows: zeros in 12 rows; 2 filled; 10 gone or missing after cleaning."]
    assert fern("audit", "x.parquet", "--html", "same.html").code == 0
    assert Path("same.html").read_text() == Path("report.html").read_text()


def test_an_audit_says_why_cleaning_is_not_drawn(fern):
    load = np.where(np.arange(600) % 100 == 0, 0.0, np.arange(600) + 1.0)
    pq.write_table(pa.table({"<load>": load}), "x.parquet")
    assert fern("report", "audit", "x.parquet", "-o", "report.html").code == 0
    assert (
        "What cleaning would do is not drawn: x.parquet: column '<load>'" in Seen(Path("report.html").read_text()).text
    )


def test_a_forecast_becomes_a_page(fern):
    days = np.datetime64("2024-01-01", "s") + np.arange(200) * np.timedelta64(1, "D").astype("timedelta64[s]")
    load = 10 + np.sin(np.arange(200) * 2 * np.pi / 7)
    pq.write_table(pa.table({"day": pa.array(days), "<load>": load}), "load.parquet")
    ran = fern("report", "forecast", "load.parquet", "--horizon", 7, "--model", "last-value", "-o", "report.html")
    assert ran.code == 0, ran.err
    seen = Seen(Path("report.html").read_text())
    assert "Forecast of load.parquet" in seen.text
    assert "<load>" in seen.text
    assert [given["id"] for tag, given in seen.tags if tag == "section"] == [
        "forecast",
        "coverage",
        "diagnostics",
        "data",
    ]
    forecast = next(table for table in seen.tables if "day" in table[0])
    assert [line[1] for line in forecast[1:]] == [number(float(load[-1]))] * 7
    assert "fern report forecast load.parquet" in seen.text


def test_a_horizon_is_asked_for_before_anything_is_read(fern):
    ran = fern("report", "forecast", "load.csv", "-o", "report.html")
    assert ran.code == 2
    assert "--horizon" in ran.err


def test_a_page_is_not_written_over_what_it_is_made_of(fern):
    pq.write_table(pa.table({"a": [float(value) for value in range(1, 60)]}), "x.html")
    ran = fern("report", "audit", "x.html", "-o", "x.html")
    assert ran.code == 2
    assert "is also an input" in ran.err

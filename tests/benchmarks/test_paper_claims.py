"""The page of the paper's claims says what the committed rows and the paper's tables say."""

from dataclasses import replace

from benchmarks.paper import claims

from fern.benchmark.store import Store

ROWS = Store(claims.RUNS).contents().results


def test_the_page_is_what_the_rows_make_it() -> None:
    assert claims.PAGE.read_text() == claims.page(ROWS), "run: python -m benchmarks.paper.claims"


def test_a_figure_of_the_page_follows_its_row() -> None:
    changed = [
        replace(row, metrics={**row.metrics, "mse": 12345.0})
        if (row.task, row.preset, row.dataset) == ("shock", "paper-compact", "OU_BASE")
        else row
        for row in ROWS
    ]
    assert "12345" not in claims.page(ROWS).replace(" ", "")
    assert "1.234e+04" in claims.page(changed)

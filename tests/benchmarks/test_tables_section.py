"""The tables of the page say what has to be known to read them."""

from benchmarks.sections.tables import data, run_twice
from tests.benchmarks.support import row


def test_a_run_that_two_tables_have_says_how_much_of_a_difference_is_rounding() -> None:
    rows = [row("fern", "LORENZ_BASE", 26.86), row("fern", "LORENZ_BASE", 28.6, task="ablation")]
    rows += [row("fern", "LORENZ_BASE", 25.0, task="ablation", preset="no-patching")]
    (told,) = run_twice(rows)
    assert "(LORENZ_BASE at 336, seed 7: 28.6 here and 26.86 there)" in told
    assert run_twice(rows[1:]) == []


def test_the_data_of_rows_are_told_by_fingerprint() -> None:
    rows = [row("fern", "OU_BASE", 1.0), row("dlinear", "OU_BASE", 2.0), row("fern", "OU_BASE", 1.0, share=0.01)]
    lines = data(rows)
    assert "| OU_BASE | steps 100 | OU_BASE0.0 |" in lines
    assert "| OU_BASE | noise 0.01, steps 100 | OU_BASE0.01 |" in lines

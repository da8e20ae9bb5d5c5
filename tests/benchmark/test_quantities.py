"""One table says what a run's figures are called and which way is better."""

from pathlib import Path

from fern.benchmark.results import QUANTITIES, direction_of, title_of
from fern.benchmark.store import Store
from fern.benchmark.tables.build import KINDS

ROWS = Store(Path(__file__).parents[2] / "benchmarks" / "runs").contents().results


def test_every_metric_of_a_row_and_of_a_table_stands_in_it() -> None:
    used = {name for row in ROWS for name in row.metrics} | {name for kind in KINDS.values() for name in kind.metrics}
    assert used <= QUANTITIES.keys()


def test_no_two_figures_share_a_title() -> None:
    titles = [quantity.title for quantity in QUANTITIES.values()]
    assert len(set(titles)) == len(titles)


def test_a_figure_that_it_does_not_know_is_called_by_its_name_and_not_ranked() -> None:
    assert title_of("seconds_total") == "seconds total"
    assert direction_of("seconds_total") == 0

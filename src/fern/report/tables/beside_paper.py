"""The paper's numbers in the cells of a table, each with that figure of ours which it can be compared with.

Most tables of the paper are of all test windows. The numbers of the detailed tables, of their averages and of the table
of recency fit the last batch of the test windows alone, as DLinear shows, of which there is only one kind (``fern bench
table detailed --paper``). So ratios in these tables are of the last batch, which rows record beside the figures of all
windows; the figures of all windows are what counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fern.benchmark.quantities import LAST
from fern.report.tables.cells import Case, Cell, Spot
from fern.report.tables.paper import paper_figures, paper_metrics, paper_value

LAST_BATCH_NOTE = (
    "The paper's numbers in this table fit the last batch of 128 test windows, which is seldom full, and not all test "
    "windows: × compares it with our figure over that batch ('last batch'; for SWD our WD, which is what fits). Our "
    "own figures, and what is marked best, are over all test windows."
)

RECENCY_NOTE = (
    "Which validation windows the paper scored is not known: × of validation compares with all of ours. Its best epoch "
    "is compared with the best by our last batch."
)

_POINT = {"mse": f"{LAST}mse", "mae": f"{LAST}mae", "swd": f"{LAST}wd", "ept": f"{LAST}ept"}
_RECENCY = {
    name: f"{LAST}{name}"
    for name in ("test_mse_epoch_1", "test_best_epoch", "validation_mse_best", "test_mse_best", "test_difference")
}
_COMPARED: Mapping[str, Mapping[str, str]] = {
    "detailed": _POINT,
    "detailed_average": _POINT,
    "main": _POINT,
    "recency": _RECENCY,
}


_INDIVISIBLE = frozenset({"seconds_train", "test_best_epoch", "test_difference"})
"""Seconds of another machine and another number of epochs, numbers of epochs, differences: no ratio says anything."""


def compared_figures(table: str) -> tuple[str, ...]:
    """The figures of ours that a table's numbers are compared with and which the table does not show itself.

    Example:
        >>> compared_figures("main"), compared_figures("shock")
        (('last_mse', 'last_mae', 'last_wd', 'last_ept'), ())
    """
    return tuple(_COMPARED.get(table, {}).values())


def beside_paper(table: str, cells: Mapping[Spot, Cell]) -> dict[Spot, Cell]:
    """The cells with the paper's numbers and, where these are of the last batch, with our figure over it."""
    return {spot: _beside(table, spot, cell, cells) for spot, cell in cells.items()}


def averages_beside_paper(table: str, cells: Mapping[Spot, Cell], cases: Sequence[Case]) -> dict[Spot, Cell]:
    """The same for means over horizons, where ours are over the horizons that the paper's are over."""
    average = "detailed_average" if table == "detailed" else table
    horizons = {dataset: {horizon for name, horizon in cases if name == dataset} for dataset, _ in cases}
    theirs: dict[str, set[int | None]] = {}
    for place in paper_figures("detailed" if table == "main" else table):
        theirs.setdefault(place.dataset, set()).add(place.horizon)
    alike = {spot: cell for spot, cell in cells.items() if horizons[spot.dataset] == theirs.get(spot.dataset)}
    return {**cells, **beside_paper(average, alike)}


def paper_notes(table: str) -> tuple[str, ...]:
    """What has to be said of the comparison."""
    notes = (LAST_BATCH_NOTE,) if table in _COMPARED else ()
    return (*notes, RECENCY_NOTE) if table == "recency" else notes


def _beside(table: str, spot: Spot, cell: Cell, cells: Mapping[Spot, Cell]) -> Cell:
    if spot.metric not in paper_metrics(table):
        return cell
    paper = paper_value(table, spot.model, spot.dataset, spot.horizon, spot.metric)
    cell = replace(cell, paper=paper, divisible=spot.metric not in _INDIVISIBLE)
    other = _COMPARED.get(table, {}).get(spot.metric)
    if other is None:
        return cell
    last = cells.get(spot._replace(metric=other))
    return replace(cell, by_last_batch=True, last_batch=None if last is None else last.mean)

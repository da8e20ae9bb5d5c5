"""The paper's numbers as printed, and the metric of ours that each is compared with."""

import csv
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from fern.benchmark.problem import TRAJECTORY
from fern.benchmark.results import LAST
from fern.benchmark.tables.cells import Case, Cell, Spot
from fern.errors import unknown_name

_SYSTEMS = {
    "Rossler": "ROSSLER",
    "Lorenz": "LORENZ",
    "Lorenz96": "LORENZ96",
    "Chua": "CHUA",
    "SLDS": "SLDS",
    "SAR": "SEASONAL_AR",
    "GARCH": "GARCH",
    "DW": "DOUBLEWELL",
    "OU": "OU",
}
_FOUR_HORIZONS = {"Lorenz": "LORENZ_MAIN", "Rossler": "ROSSLER_MAIN", "Chua": "CHUA_MAIN"}
_UNITS = {"minutes": 60.0, "seconds": 1.0}


@dataclass(frozen=True)
class PaperTable:
    """How to read one file: what its datasets are called with us, and the horizon that all its figures are for.

    ``title`` is the table's label in the paper.
    """

    datasets: Mapping[str, str]
    horizon: int | None = None
    title: str = ""
    file: str = ""


PAPER_TABLES: Mapping[str, PaperTable] = {
    "shock": PaperTable({}, 336, "tab:synthetic"),
    "author": PaperTable({}, 336, "tab:synthetic", file="shock"),
    "detailed": PaperTable(_FOUR_HORIZONS, None, "app:table:*"),
    "detailed_average": PaperTable(_FOUR_HORIZONS, None, "app:table:*, the averages over the four horizons"),
    "main": PaperTable(_FOUR_HORIZONS, None, "tab:main_results"),
    # The caption says 192, but the base rows are those of tab:synthetic and an EPT of 241 needs a longer horizon.
    "ablation": PaperTable({"Lorenz63": "LORENZ_BASE"}, 336, "tab:app:ablations-192-stacked"),
    # No horizon is said; DLinear's test error at its best epoch is that of the detailed tables at 192 and no other.
    "recency": PaperTable({}, 192, "tab:recency-etth1"),
    "footprint": PaperTable({"Lorenz": "LORENZ_BASE"}, 336, "app:tab:compute_time"),
    "real": PaperTable({}, None, "each model's own (PatchTST/42: table 3, DLinear: table 2; context 336)"),
}


@dataclass(frozen=True)
class Place:
    """Where a number of the paper stands, in our names; ``horizon`` None means an average or one not said."""

    model: str
    dataset: str
    horizon: int | None


@cache
def paper_figures(table: str) -> Mapping[Place, Mapping[str, float]]:
    """All figures of a table, by place and metric. What the paper leaves blank is left out.

    Example:
        >>> paper_figures("ablation")[Place("fern:no-rotation", "ETTh1", 336)]["mse"]
        11.84
    """
    if table not in PAPER_TABLES:
        raise unknown_name("paper table", table, PAPER_TABLES)
    by_place: dict[Place, dict[str, float]] = {}
    for record in _records(table):
        variant = record.get("variant", "base")
        model = record.get("model", "fern") + ("" if variant == "base" else f":{variant}")
        horizon = int(record["horizon"]) if "horizon" in record else PAPER_TABLES[table].horizon
        figures = {name: float(value) for name, value in _metrics(table, record).items() if value}
        by_place.setdefault(Place(model, dataset_of(table, record["dataset"]), horizon), {}).update(figures)
    return MappingProxyType({place: MappingProxyType(figures) for place, figures in by_place.items()})


def paper_value(table: str, model: str, dataset: str, horizon: int | None, metric: str) -> float | None:
    """The paper's number, or None where it has none for that model, dataset and horizon.

    An unknown table is an error, and so is a metric that no figure of the table has. A table that does not say its
    horizon answers for every one.

    Example:
        >>> paper_value("shock", "fern", "LORENZ_PARAM", 336, "mse"), paper_value("shock", "pfnn", "ETTh1", 336, "mse")
        (25.21, None)
        >>> paper_value("shok", "fern", "LORENZ_PARAM", 336, "mse")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        fern.errors.FernError: unknown paper table 'shok': did you mean 'shock'? Known: ...
    """
    figures = paper_figures(table)
    if metric not in paper_metrics(table):
        raise unknown_name(f"metric of the paper's table {table}", metric, paper_metrics(table))
    number = figures.get(Place(model, dataset, horizon)) or figures.get(Place(model, dataset, None)) or {}
    return number.get(metric)


def paper_metrics(table: str) -> set[str]:
    """The metrics of which a table has figures."""
    return {name for metrics in paper_figures(table).values() for name in metrics}


def contradictions(table: str) -> tuple[str, ...]:
    """What in the paper's table contradicts the paper, in words.

    Example:
        >>> contradictions("main")
        ('The column WD holds the averages of what the detailed tables call SWD.',)
    """
    paper_figures(table)
    notes = files("fern.benchmark.tables") / "paper_numbers" / "contradictions.toml"
    return tuple(tomllib.loads(notes.read_text(encoding="utf-8")).get(table, ()))


def dataset_of(table: str, printed: str) -> str:
    """Our name of a dataset that the paper's table calls so.

    Example:
        >>> dataset_of("shock", "SAR-Param"), dataset_of("detailed", "Chua"), dataset_of("shock", "ETTm1")
        ('SEASONAL_AR_PARAM', 'CHUA_MAIN', 'ETTm1')
    """
    system, dash, shock = printed.partition("-")
    if dash:
        return f"{_SYSTEMS[system]}_{shock.upper()}"
    return PAPER_TABLES[table].datasets.get(printed, printed)


def _records(table: str) -> list[dict[str, str]]:
    """The lines of a table's file; of ``real`` those of every model's file. Lines that start with # are comments."""
    folder = files("fern.benchmark.tables")
    paths = [folder / "paper_numbers" / f"{PAPER_TABLES[table].file or table}.csv"]
    if table == "real":
        paths = sorted((folder / "published_numbers").iterdir(), key=lambda path: path.name)
    texts = (path.read_text(encoding="utf-8").splitlines() for path in paths)
    return [record for text in texts for record in csv.DictReader(line for line in text if not line.startswith("#"))]


def _metrics(table: str, record: Mapping[str, str]) -> dict[str, str]:
    """The figures of a line of the file under our names, as text; empty where the paper has none."""
    figures = {
        name: value for name, value in record.items() if name not in ("dataset", "model", "variant", "horizon", "part")
    }
    if table == "recency":
        return {f"{record['part']}_{name}": value for name, value in figures.items()}
    if table == "main":
        figures["swd"] = figures.pop("wd")  # what the detailed tables call so
    if table == "ablation":
        figures["seconds_train"] = figures.pop("seconds")
    if table == "footprint":
        return {
            "parameters": repr(round(float(figures["parameters_millions"]) * 1e6)),
            "multiply_adds": repr(round(float(figures["giga_multiply_adds"]) * 1e9)),
            "seconds_train": repr(float(figures["training_time"]) * _UNITS[figures["time_unit"]]),
        }
    return figures


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


_READINGS: Mapping[str, str] = {"fern:paper-compact": "fern"}
"""Models of ours that are another reading of a model of the paper's."""

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
    return {spot: _add_paper_value(table, spot, cell, cells) for spot, cell in cells.items()}


def averages_beside_paper(table: str, cells: Mapping[Spot, Cell], cases: Sequence[Case]) -> dict[Spot, Cell]:
    """The same for means over horizons, where ours are over the horizons that the paper's are over."""
    average = "detailed_average" if table == "detailed" else table
    horizons = {dataset: {horizon for name, horizon in cases if name == dataset} for dataset, _ in cases}
    paper_horizons: dict[str, set[int | None]] = {}
    for place in paper_figures("detailed" if table == "main" else table):
        paper_horizons.setdefault(place.dataset, set()).add(place.horizon)
    alike = {spot: cell for spot, cell in cells.items() if horizons[spot.dataset] == paper_horizons.get(spot.dataset)}
    return {**cells, **beside_paper(average, alike)}


def paper_notes(table: str) -> tuple[str, ...]:
    """What has to be said of the comparison."""
    notes = (LAST_BATCH_NOTE,) if table in _COMPARED else ()
    return (*notes, RECENCY_NOTE) if table == "recency" else notes


def _add_paper_value(table: str, spot: Spot, cell: Cell, cells: Mapping[Spot, Cell]) -> Cell:
    if spot.metric not in paper_metrics(table):
        return cell
    model = _READINGS.get(spot.model, spot.model)
    dataset = spot.dataset.partition(f" ({TRAJECTORY}=")[0]
    paper = paper_value(table, model, dataset, spot.horizon, spot.metric)
    cell = replace(cell, paper=paper, divisible=spot.metric not in _INDIVISIBLE)
    last_metric = _COMPARED.get(table, {}).get(spot.metric)
    if last_metric is None:
        return cell
    last = cells.get(spot._replace(metric=last_metric))
    return replace(cell, by_last_batch=True, last_batch=None if last is None else last.mean)

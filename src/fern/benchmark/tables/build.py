"""From results to a table: means over seeds with standard errors, the best marked, the paper's numbers beside ours.

A `Table` is what every renderer in `fern.benchmark.tables.rendering` takes. `KINDS` has the layout of each kind of
table. Where models are lines, EPT in Lyapunov times follows EPT if the exponent of any dataset is known.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean, stdev
from typing import Literal

from fern.benchmark.problem import NOISE, START
from fern.benchmark.results import RunResult, direction_of
from fern.benchmark.significance import tied_ranks
from fern.benchmark.tables.cells import Cell, Grid, Spot, fill_grid, mark_best, means_of_case, shared_scores
from fern.benchmark.tables.published import (
    PAPER_TABLES,
    averages_beside_paper,
    beside_paper,
    compared_figures,
    contradictions,
    paper_notes,
)
from fern.benchmark.tasks import ORACLE, Task
from fern.errors import FernError, unknown_name

AVERAGE = "mean"
"""Stands for the horizon in lines that average over all of them."""

NOISY = (
    "noise: of observation, as a share of each channel's standard deviation, on the rows that models learn from and "
    "see; errors are against the true rows. The oracle knows the true state: no filter of noisy rows reaches that "
    "floor, and the error of the best one is not known."
)

_MOST_TOLD = 8  # reasons of failed runs listed under a table


@dataclass(frozen=True)
class Column:
    """A column of figures: of one metric, in tables with models across also of one model."""

    metric: str
    model: str = ""


@dataclass(frozen=True)
class Line:
    """A line of a table: what it is about, a cell for each column (None where it does not apply)."""

    keys: tuple[str, ...]
    cells: tuple[Cell | None, ...]
    starts_block: bool = False


@dataclass(frozen=True)
class Table:
    """A table without its looks. ``keys`` names what ``Line.keys`` holds."""

    title: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """How a kind of table is laid out.

    ``across``    models are columns, else lines.
    ``averages``  whether means over horizons follow, or are all there is.
    """

    metrics: tuple[str, ...]
    across: bool = False
    floor: bool = True
    averages: Literal["no", "too", "only"] = "no"


KINDS: Mapping[str, Layout] = {
    "shock": Layout(("mse", "wd"), across=True),
    "main": Layout(("mse", "mae", "swd"), averages="only"),
    "detailed": Layout(("mse", "mae", "swd", "ept"), averages="too"),
    "ablation": Layout(("mse", "mae", "wd", "ept", "seconds_train"), floor=False),
    "recency": Layout(
        (
            "validation_mse_epoch_1",
            "test_mse_epoch_1",
            "epoch_by_validation",
            "test_mse_by_validation",
            "test_best_epoch",
            "validation_mse_best",
            "test_mse_best",
            "test_difference",
        ),
        floor=False,
    ),
    "footprint": Layout(("parameters", "multiply_adds", "seconds_epoch", "seconds_train"), floor=False),
    "noise": Layout(("mse", "ept_lyapunov"), across=True),
    "author": Layout(("mse", "wd"), across=True),
    "spread": Layout(("mse",), across=True),
    "long": Layout(("mse", "ept")),
    "real": Layout(("mse", "mae", "seconds_train_cpu"), floor=False, averages="too"),
}


def kind_of(task: str, results: Sequence[RunResult]) -> str:
    """The kind of table that suits a task: its own, or by whether there are several horizons."""
    if task in KINDS:
        return task
    return "detailed" if len({result.horizon for result in results}) > 1 else "shock"


def build_table(
    results: Iterable[RunResult],
    *,
    task: str | Task,
    kind: str | None = None,
    metrics: Sequence[str] | None = None,
    paper: bool = False,
) -> Table:
    """The table of a task's results. With the `Task` itself, runs that are not there yet are shown as missing.

    ``kind``     default: the task's own where it is one of ``KINDS``.
    ``metrics``  in place of the kind's.
    ``paper``    puts the paper's numbers, and the ratio of ours to them, beside ours.

    Example:
        >>> given = dict(task="mine", preset="paper", data_fingerprint="ab", context_length=96, horizon=24,
        ...     split="shock", scaling="none", code_version="1", status="done", dataset="OU_BASE")
        >>> results = [
        ...     RunResult(**given, model=model, seed=seed, metrics={"mse": mse, "wd": 1.0})
        ...     for model, seed, mse in (("fern", 7, 1.0), ("fern", 8, 3.0), ("dlinear", 7, 4.0))
        ... ]
        >>> table = build_table(results, task="mine")
        >>> cell = table.lines[0].cells[0]
        >>> table.columns[0], cell.mean, cell.standard_error, cell.place
        (Column(metric='mse', model='fern'), 2.0, 1.0, 1)
    """
    name = task if isinstance(task, str) else task.name
    task_results = [result for result in results if result.task == name]
    if not task_results:
        raise FernError(f"task {name}: has no results here; to make some: fern bench run {name} --out DIR")
    kind = kind_of(name, task_results) if kind is None else kind
    if kind not in KINDS:
        raise unknown_name("kind of table", kind, KINDS)
    known = {metric for result in task_results if metrics for metric in Grid.figures_of(result)}
    for metric in metrics or ():
        if metric not in known:
            raise unknown_name("metric", metric, known)
    grid = fill_grid(task_results, expected=None if isinstance(task, str) else task)
    layout = replace(
        KINDS[kind],
        metrics=tuple(metrics or in_lyapunov_times(KINDS[kind], task_results)),
        floor=KINDS[kind].floor and any("oracle_mse" in result.metrics for result in grid.results),
    )
    printed = kind if paper and kind in PAPER_TABLES else None
    figures = (*layout.metrics, "oracle_mse", "regret", "mse", *(compared_figures(kind) if printed else ()))
    cells = mark_best(grid.cells(figures))
    if printed is not None:
        cells = beside_paper(printed, cells)
    lines = _make_wide_lines(grid, cells, layout) if layout.across else _make_long_lines(grid, cells, layout, printed)
    title = (task.title if isinstance(task, Task) else "") or f"Task {name}"
    notes = _notes(grid, cells, layout, printed)
    if paper and printed is None:
        notes.append("The paper has no such table.")
    return Table(title, _keys(grid, layout), _columns(grid, layout), tuple(lines), tuple(notes))


def in_lyapunov_times(layout: Layout, results: Sequence[RunResult]) -> tuple[str, ...]:
    """The metrics of a layout, where models are lines with EPT in Lyapunov times after EPT if any result has it."""
    known = any("ept_lyapunov" in Grid.figures_of(result) for result in results)
    if layout.across or not known or "ept" not in layout.metrics:
        return layout.metrics
    place = layout.metrics.index("ept") + 1
    return (*layout.metrics[:place], "ept_lyapunov", *layout.metrics[place:])


def _keys(grid: Grid, layout: Layout) -> tuple[str, ...]:
    if not layout.across:
        return ("dataset", "horizon", "model")
    return ("dataset", "horizon") if len({horizon for _, horizon in grid.cases}) > 1 else ("dataset",)


def _columns(grid: Grid, layout: Layout) -> tuple[Column, ...]:
    models = grid.forecasters if layout.across else [""]
    columns = [Column(metric, model) for model in models for metric in layout.metrics]
    floors = [Column(metric) for metric in ("oracle_mse", "regret") if layout.floor]
    return (*columns, *(column for column in floors if column not in columns))


def _make_wide_lines(grid: Grid, cells: Mapping[Spot, Cell], layout: Layout) -> list[Line]:
    """A line a dataset (and horizon), models across, then the oracle's MSE, the least regret, and average ranks."""
    keys, models = _keys(grid, layout), grid.forecasters
    lines = []
    for dataset, horizon in grid.cases:
        cells_of_line: list[Cell | None] = [
            cells.get(Spot(dataset, horizon, model, metric)) for model in models for metric in layout.metrics
        ]
        if layout.floor:
            cells_of_line += [_floor(grid, cells, dataset, horizon), _least_regret(cells, dataset, horizon, models)]
        lines.append(Line((dataset, str(horizon))[: len(keys)], tuple(cells_of_line)))
    ranks = {metric: _average_ranks(grid, cells, metric) for metric in layout.metrics}
    average_ranks: list[Cell | None] = [ranks[metric].get(model) for model in models for metric in layout.metrics]
    if any(average_ranks):
        padding = (None, None) if layout.floor else ()
        lines.append(Line(("average rank", "")[: len(keys)], (*average_ranks, *padding), starts_block=True))
    return lines


def _make_long_lines(grid: Grid, cells: Mapping[Spot, Cell], layout: Layout, paper: str | None) -> list[Line]:
    """A line for each dataset, horizon and model; then means over horizons, then average ranks."""
    metrics = [column.metric for column in _columns(grid, layout)]
    lines = []
    for dataset, horizon in grid.cases if layout.averages != "only" else ():
        models = [model for model in grid.models if Spot(dataset, horizon, model, "mse") in cells]
        for place, model in enumerate(models):
            line = tuple(cells.get(Spot(dataset, horizon, model, metric)) for metric in metrics)
            lines.append(Line((dataset, str(horizon), model), line, starts_block=place == 0))
    if layout.averages != "no":
        lines += _means_over_horizons(grid, cells, layout, paper)
    ranks = {metric: _average_ranks(grid, cells, metric) for metric in layout.metrics}
    for place, model in enumerate(grid.forecasters):
        average_ranks = tuple(ranks.get(metric, {}).get(model) for metric in metrics)
        if any(average_ranks):
            lines.append(Line(("average rank", "", model), average_ranks, starts_block=place == 0))
    return lines


def _means_over_horizons(grid: Grid, cells: Mapping[Spot, Cell], layout: Layout, paper: str | None) -> list[Line]:
    """For each dataset with several horizons, the mean of each model that has them all.

    The standard error comes from those of the horizons, as in the paper: sqrt(Σ se²) / number of horizons.
    """
    means: dict[Spot, Cell] = {}
    metrics = [column.metric for column in _columns(grid, layout)]
    compared = compared_figures(paper) if paper is not None else ()
    datasets = dict.fromkeys(dataset for dataset, _ in grid.cases)
    for dataset, model, metric in product(datasets, grid.models, (*metrics, *compared)):
        horizons = [horizon for name, horizon in grid.cases if name == dataset]
        parts = [cells.get(Spot(dataset, horizon, model, metric)) for horizon in horizons]
        if len(horizons) > 1 and (whole := _mean_cell(parts)):
            means[Spot(dataset, 0, model, metric)] = whole
    means = mark_best(means)
    if paper is not None:
        means = averages_beside_paper(paper, means, grid.cases)
    lines: list[Line] = []
    for dataset, model in dict.fromkeys((spot.dataset, spot.model) for spot in means):
        averages = tuple(means.get(Spot(dataset, 0, model, metric)) for metric in metrics)
        first = not lines or lines[-1].keys[0] != dataset
        lines.append(Line((dataset, AVERAGE, model), averages, starts_block=first))
    return lines


def _mean_cell(parts: Sequence[Cell | None]) -> Cell | None:
    present = [part for part in parts if part is not None and part.complete and part.mean is not None]
    if len(present) < len(parts):
        return None
    errors = [part.standard_error for part in present if part.standard_error is not None]
    return Cell(
        mean=sum(part.mean for part in present if part.mean is not None) / len(parts),
        standard_error=sum(e * e for e in errors) ** 0.5 / len(parts) if len(errors) == len(parts) else None,
        done=min(part.done for part in present),
    )


def _average_ranks(grid: Grid, cells: Mapping[Spot, Cell], metric: str) -> dict[str, Cell]:
    """Each model's mean rank over the cases in which all have a figure or diverged (which ranks last).

    Models that have few cases are not ranked, see `shared_scores`.
    """
    models, scores = shared_scores(grid, cells, metric)
    if direction_of(metric) == 0 or not scores:
        return {}
    ranks = [tied_ranks(model_scores) for model_scores in scores.values()]
    return {
        model: Cell(mean=float(sum(rank[place] for rank in ranks) / len(ranks)), done=len(ranks))
        for place, model in enumerate(models)
    }


def _floor(grid: Grid, cells: Mapping[Spot, Cell], dataset: str, horizon: int) -> Cell | None:
    """The oracle's MSE: its own run's, or what another model's result says of it."""
    oracle_cell = cells.get(Spot(dataset, horizon, ORACLE, "mse"))
    if oracle_cell is not None and oracle_cell.mean is not None:
        return replace(oracle_cell, place=None)
    oracle_cells = (cells.get(Spot(dataset, horizon, model, "oracle_mse")) for model in grid.models)
    known = (cell for cell in oracle_cells if cell is not None and cell.mean is not None)
    return next((Cell(mean=cell.mean, done=cell.done) for cell in known), None)


def _least_regret(cells: Mapping[Spot, Cell], dataset: str, horizon: int, models: Sequence[str]) -> Cell | None:
    regrets = means_of_case(cells, (dataset, horizon), models, "regret")
    if not regrets:
        return None
    least = min(regrets, key=lambda model: regrets[model])
    return replace(cells[Spot(dataset, horizon, least, "regret")], place=None)  # what is missing stands in the cell


def _notes(grid: Grid, cells: Mapping[Spot, Cell], layout: Layout, paper: str | None) -> list[str]:
    words = grid.seeds_in_words()
    seeds = f"Mean over {words}, ± standard error." if len(grid.seeds) > 1 else f"{words}."
    notes = [f"{seeds} Best and second best are marked; the oracle is not."]
    notes += filter(None, (grid.describe_inputs(), grid.describe_training(), grid.horizons_in_lyapunov_times()))
    if layout.floor:
        least = "of the best model" if layout.across else "of each model"
        notes.append(
            f"oracle: MSE of the best possible forecast. regret ({least}): (MSE − oracle MSE) / training variance."
        )
    if any(result.data_settings.get(NOISE) for result in grid.results):
        notes.append(NOISY)
    notes += _describe_starts(grid, cells, layout)
    ranked, shared = shared_scores(grid, cells, layout.metrics[0])
    if len(ranked) > 1 and direction_of(layout.metrics[0]):
        every = "every model" if len(ranked) == len(grid.forecasters) else "every ranked model"
        notes.append(
            f"Average rank: over the {len(shared)} of {len(grid.cases)} cases that {every} has; diverged runs last."
        )
    notes += grid.what_is_missing()
    notes += grid.troubles(most=_MOST_TOLD)
    if paper is not None:
        paper_count = sum(cell.paper is not None for cell in cells.values())
        source = f"paper: {PAPER_TABLES[paper].title}; × is our number divided by the paper's."
        notes.append(source if paper_count else f"{source} It has no number for these runs.")
        if paper_count:
            notes += [*paper_notes(paper), *(f"The paper: {text}" for text in contradictions(paper))]
    return notes


def _describe_starts(grid: Grid, cells: Mapping[Spot, Cell], layout: Layout) -> list[str]:
    """How a figure spreads over the initial states of one system, for each model that has several."""
    metric, notes = layout.metrics[0], []
    systems = dict.fromkeys(dataset.partition(" (")[0] for dataset, _ in grid.cases if f"({START}=" in dataset)
    for system in systems:
        for model in grid.forecasters:
            cases = [case for case in grid.cases if case[0] == system or case[0].startswith(f"{system} ({START}=")]
            known = [mean for case in cases for mean in means_of_case(cells, case, [model], metric).values()]
            if len(known) > 1:
                notes.append(
                    f"{model} on {system} from {len(known)} initial states: {metric} {fmean(known):.4g} on average, "
                    f"standard deviation {stdev(known):.4g}, from {min(known):.4g} to {max(known):.4g}."
                )
    return notes

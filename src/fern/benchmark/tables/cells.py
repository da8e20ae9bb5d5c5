"""The cells of a table: results gathered by dataset, horizon, model and metric, and averaged over seeds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, stdev
from typing import NamedTuple, TypeVar

from fern.benchmark.problem import dataset_name
from fern.benchmark.results import LAST, RunResult, direction_of
from fern.benchmark.tables.labels import Names, channels_seen, dataset_label, labels_of_task, name_results, newest
from fern.benchmark.tasks import ORACLE, Task, is_outside
from fern.errors import FernError
from fern.systems import SCENARIOS
from fern.systems.scenarios import scenario_from_mapping

T = TypeVar("T")
P = TypeVar("P")

_SEEN = {
    "own": "Its own channel alone",
    "near": "all channels by one map of its neighbours on a ring",
    "all": "all channels",
}

Case = tuple[str, int]
"""A dataset and a horizon: what models are compared on."""


class Spot(NamedTuple):
    """Where a cell belongs."""

    dataset: str
    horizon: int
    model: str
    metric: str


LEAST_SHARE = 0.5
"""Of the cases that the fullest model has: one with fewer is not ranked, it would take most of them from the others."""


@dataclass(frozen=True)
class Cell:
    """A figure over seeds, and how many runs gave it.

    ``place``  1 for the best, 2 for the second best of those it is compared with.
    ``paper``  the paper's number.
    ``by_last_batch``, ``last_batch``  whether that number is of the last batch of test windows, and our figure over it.
    ``divisible``  whether ours divided by the paper's means anything.
    """

    mean: float | None = None
    standard_error: float | None = None
    done: int = 0
    diverged: int = 0
    failed: int = 0
    missing: int = 0
    place: int | None = None
    paper: float | None = None
    by_last_batch: bool = False
    last_batch: float | None = None
    divisible: bool = True

    @property
    def complete(self) -> bool:
        """Whether every seed gave a figure."""
        return self.mean is not None and not (self.diverged or self.failed or self.missing)

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's, both over the same windows; None where ours is not known or it says nothing."""
        ours = self.last_batch if self.by_last_batch else self.mean
        return ours / self.paper if ours is not None and self.paper and self.divisible else None

    def trouble(self) -> str:
        """What keeps the cell from being complete, in a word or two; empty when nothing does.

        Example:
            >>> Cell(mean=1.0, done=1, diverged=1).trouble(), Cell(missing=2).trouble(), Cell(mean=1.0).trouble()
            ('1 diverged', 'missing', '')
        """
        counts = [(self.diverged, "diverged"), (self.failed, "failed"), (self.missing, "missing")]
        present = [(count, word) for count, word in counts if count]
        if len(present) == 1 and not self.done:
            return present[0][1]
        return ", ".join(f"{count} {word}" for count, word in present)


@dataclass(frozen=True)
class Grid:
    """The results of a table by case, model and seed, in the task's order.

    ``names``       what the model and dataset of each result are called, by its key.
    ``superseded``  results left out because a newer one of the same settings is there.
    ``absent``      cases, models and seeds that the task has and no result is about.
    """

    results: tuple[RunResult, ...]
    names: Mapping[str, Names]
    cases: tuple[Case, ...]
    models: tuple[str, ...]
    seeds: tuple[int, ...]
    planned: bool
    superseded: int
    absent: tuple[str, ...]

    @staticmethod
    def figures_of(result: RunResult) -> dict[str, float]:
        """All figures of a result under the names that tables use."""
        figures = dict(result.metrics)
        figures |= {f"seconds_{name}": value for name, value in result.seconds.items()}
        for name, value in (("parameters", result.parameters), ("multiply_adds", result.multiply_adds)):
            if value is not None:
                figures[name] = float(value)
        step = lyapunov_times_a_step(result)
        if step is not None and "ept" in result.metrics:
            figures["ept_lyapunov"] = step * result.metrics["ept"]
        return figures | _recency(result)

    @property
    def forecasters(self) -> list[str]:
        """All models but the oracle: its error stands in a column of its own."""
        return [model for model in self.models if model != ORACLE]

    @cached_property
    def _by_place(self) -> dict[tuple[Case, str], list[RunResult]]:
        places: dict[tuple[Case, str], list[RunResult]] = {}
        for result in sorted(self.results, key=lambda result: result.seed):
            names = self.names[result.key]
            places.setdefault(((names.dataset, result.horizon), names.model), []).append(result)
        return places

    def runs(self, case: Case, model: str) -> list[RunResult]:
        """The runs of a model on a case, by seed."""
        return self._by_place.get((case, model), [])

    def cells(self, metrics: Iterable[str]) -> dict[Spot, Cell]:
        """A cell for each case, model and metric; where no run was planned (an oracle of real data) there is none."""
        cells = {}
        for dataset, horizon in self.cases:
            known = any(
                "oracle_mse" in result.metrics for result in self.results if self.names[result.key].dataset == dataset
            )
            for model in self.models:
                runs = self.runs((dataset, horizon), model)
                if not runs and (model == ORACLE and not known):
                    continue
                for metric in dict.fromkeys(metrics):
                    cell = self._cell(runs, metric)
                    if cell is not None:
                        cells[Spot(dataset, horizon, model, metric)] = cell
        return cells

    def _cell(self, runs: Sequence[RunResult], metric: str) -> Cell | None:
        missing = max(0, len(self.seeds) - len(runs)) if self.planned else int(not runs)
        done = [result for result in runs if result.status == "done"]
        values = [figures[metric] for figures in map(self.figures_of, done) if metric in figures]
        if done and not values:
            return None  # the metric does not apply
        if not done and direction_of(metric) == 0 and not missing:
            return None
        return Cell(
            mean=fmean(values) if values else None,
            standard_error=stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None,
            done=len(values),
            diverged=sum(result.status == "diverged" for result in runs),
            failed=sum(result.status == "failed" for result in runs),
            missing=missing,
        )

    def seeds_in_words(self) -> str:
        """How many seeds, and which.

        A model without anything random gives the same figure under every seed; its standard error is 0.
        """
        return f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)} ({', '.join(map(str, self.seeds))})"

    def what_is_missing(self) -> list[str]:
        """Notes about what is not in the table."""
        notes = [f"No result yet: {', '.join(self.absent)}."] if self.absent else []
        if self.superseded:
            notes.append(f"{self.superseded} older results of the same settings but other data or code were skipped.")
        versions = sorted({result.code_version for result in self.results if not is_outside(result.model)})
        if len(versions) > 1:
            notes.append(f"Results of several versions of the code stand side by side: {', '.join(versions)}.")
        return notes

    def describe_training(self) -> str:
        """By which protocol the models were trained, for at most how many epochs; empty where none was."""
        pairs = {
            (result.train_settings["preset"], result.train_settings["epochs"])
            for result in self.results
            if {"preset", "epochs"} <= result.train_settings.keys()
        }
        parts = (f"preset {preset}, at most {epochs} epoch{'s' * (epochs > 1)}" for preset, epochs in sorted(pairs))
        return f"Training: {'; '.join(parts)}." if pairs else ""

    def describe_inputs(self) -> str:
        """Which models see which channels; empty where it is not known of any."""
        kinds: dict[str, list[str]] = {}
        for model in self.models:
            result = next(result for result in self.results if self.names[result.key].model == model)
            kind = channels_seen(result)
            if kind is not None:
                kinds.setdefault(kind, []).append(model)
        parts = (f"{_SEEN[kind]}: {', '.join(kinds[kind])}" for kind in _SEEN if kind in kinds)
        return f"What the forecast of a channel sees. {'; '.join(parts)}." if kinds else ""

    def horizons_in_lyapunov_times(self) -> str:
        """How long the horizons are for the systems whose exponent is known; empty where there is none."""
        steps: dict[str, list[str]] = {}
        for dataset in dict.fromkeys(dataset for dataset, _ in self.cases):
            step = next(
                lyapunov_times_a_step(result) for result in self.results if self.names[result.key].dataset == dataset
            )
            if step is not None:
                lengths = [f"{step * horizon:.2f}" for name, horizon in self.cases if name == dataset]
                steps.setdefault(", ".join(lengths), []).append(dataset)
        parts = "; ".join(f"{', '.join(names)} {lengths}" for lengths, names in steps.items())
        return f"Horizons in Lyapunov times (LT), where the exponent is known: {parts}." if steps else ""

    def troubles(self, *, most: int) -> list[str]:
        """What went wrong in runs that failed or diverged."""
        parts = [
            f"{result.status}: {result.describe()}: {result.error}"
            for result in self.results
            if result.status != "done"
        ]
        more = [f"… and {len(parts) - most} more that failed or diverged."] if len(parts) > most else []
        return [*parts[:most], *more]


def lyapunov_times_a_step(result: RunResult) -> float | None:
    """How many Lyapunov times a step of the result's data takes; None where the exponent is not known."""
    table = result.data_settings.get("scenario")  # whole, where it is none of the built-in ones
    try:
        plan = SCENARIOS.get(result.dataset) if table is None else scenario_from_mapping(table, where=result.dataset)
    except FernError:  # of a system that is not registered here
        return None
    return None if plan is None or plan.lyapunov_exponent is None else plan.dt * plan.lyapunov_exponent


def fill_grid(results: Sequence[RunResult], *, expected: Task | None) -> Grid:
    """Sort results into a grid. Of results that differ only in the values of the data or in code the newest counts.

    With a task, cases, models and seeds come in its order, and each model is expected on each case under each seed.
    """
    latest = tuple(newest(results))
    names = name_results(latest)
    cases = {
        (names[result.key].dataset, result.horizon): (names[result.key].plain_dataset, result.horizon)
        for result in latest
    }
    models = {names[result.key].model: names[result.key].plain_model for result in latest}
    planned_cases = [
        (dataset_label(dataset_name(choice), choice.noise, choice.start, choice.trajectory), horizon)
        for choice in (expected.datasets if expected else ())
        for horizon in choice.horizons or (expected.horizons if expected else ())
    ]
    planned_models = labels_of_task(expected) if expected else []
    seeds = {result.seed for result in latest}
    planned_seeds = list(expected.seeds) if expected else []
    absent = [
        f"{dataset} at {horizon}" for dataset, horizon in planned_cases if (dataset, horizon) not in cases.values()
    ]
    absent += [model for model in planned_models if model not in models.values()]
    absent += [f"seed {seed}" for seed in planned_seeds if seed not in seeds]
    return Grid(
        results=latest,
        names=names,
        cases=tuple(_sort_planned(cases, planned_cases)),
        models=tuple(_sort_planned(models, planned_models)),
        seeds=tuple(_sort_planned({seed: seed for seed in sorted(seeds)}, planned_seeds)),
        planned=expected is not None,
        superseded=len(results) - len(latest),
        absent=tuple(absent),
    )


def score_cell(cell: Cell | None, direction: int) -> float | None:
    """What a cell is ranked by, lower being better: the seeds that ran. None where none did, or one failed."""
    if cell is None or cell.failed:
        return None
    if cell.diverged:
        return float("inf")
    return None if cell.mean is None else -direction * cell.mean


def shared_scores(grid: Grid, cells: Mapping[Spot, Cell], metric: str) -> tuple[list[str], dict[Case, list[float]]]:
    """The models that are ranked, and what they are ranked by in the cases that all have, where they are several.

    Ranked are, the oracle aside, models with at least `LEAST_SHARE` of the cases that the fullest one has.
    """
    direction = direction_of(metric) or 1
    scores = {
        model: [score_cell(cells.get(Spot(*case, model, metric)), direction) for case in grid.cases]
        for model in grid.forecasters
    }
    counts = {model: sum(score is not None for score in model_scores) for model, model_scores in scores.items()}
    most = max(counts.values(), default=0)
    models = [model for model, count in counts.items() if count >= max(1, LEAST_SHARE * most)]
    by_case = {
        case: [score for model in models if (score := scores[model][place]) is not None]
        for place, case in enumerate(grid.cases)
    }
    return models, {case: case_scores for case, case_scores in by_case.items() if len(case_scores) == len(models) > 1}


def means_of_case(cells: Mapping[Spot, Cell], case: Case, models: Iterable[str], metric: str) -> dict[str, float]:
    """The means of these models in a case, the oracle aside; those without one are left out."""
    model_cells = {model: cells.get(Spot(*case, model, metric)) for model in models if model != ORACLE}
    return {model: cell.mean for model, cell in model_cells.items() if cell is not None and cell.mean is not None}


def mark_best(cells: Mapping[Spot, Cell]) -> dict[Spot, Cell]:
    """The cells with the best and the second best of each case and metric marked; equal figures share a mark.

    The oracle does not compete, nor does a model of which a run diverged or failed. While a run is missing nothing is
    marked there: it could be the best.
    """
    groups: dict[tuple[str, int, str], list[Spot]] = {}
    for spot in cells:
        if spot.model != ORACLE and direction_of(spot.metric):
            groups.setdefault((spot.dataset, spot.horizon, spot.metric), []).append(spot)
    marked = dict(cells)
    for (_, _, metric), group in groups.items():
        spots = [spot for spot in group if cells[spot].complete]
        if len(spots) < 2 or any(cells[spot].missing for spot in group):
            continue
        distinct = sorted({cells[spot].mean for spot in spots}, reverse=direction_of(metric) > 0)  # type: ignore[type-var]
        for place, value in enumerate(distinct[:2], start=1):
            for spot in spots:
                if cells[spot].mean == value:
                    marked[spot] = replace(marked[spot], place=place)
    return marked


def _recency(result: RunResult) -> dict[str, float]:
    """What the choice of an epoch decides, from a result that has validation and test figures of every epoch."""
    epochs = result.epoch_history()
    if not epochs or any(record.test is None for record in epochs):
        return {}
    first, by_validation, by_test = epochs.recency("mse")
    last_batch: dict[str, float] = {}  # the same where test means the last batch of test windows
    known = [(epoch, epoch.test[f"{LAST}mse"]) for epoch in epochs if epoch.test and f"{LAST}mse" in epoch.test]
    if len(known) == len(epochs):
        (best, least), (_, begin) = min(known, key=lambda entry: entry[1]), known[0]
        last_batch = {
            f"{LAST}test_mse_epoch_1": begin,
            f"{LAST}test_best_epoch": float(best.epoch),
            f"{LAST}validation_mse_best": best.validation["mse"],
            f"{LAST}test_mse_best": least,
            f"{LAST}test_difference": least - begin,
        }
    return last_batch | {
        "validation_mse_epoch_1": first.validation,
        "test_mse_epoch_1": first.test,
        "epoch_by_validation": float(by_validation.epoch),
        "test_mse_by_validation": by_validation.test,
        "test_best_epoch": float(by_test.epoch),
        "validation_mse_best": by_test.validation,
        "test_mse_best": by_test.test,
        "validation_difference": by_test.validation_change,
        "test_difference": by_test.test_change,
    }


def _sort_planned(present: Mapping[T, P], order: Sequence[P]) -> list[T]:
    """Those present, first in the order in which their plain names are wanted, then the rest as they come."""
    first = [entry for plain in order for entry, name in present.items() if name == plain]
    return [*first, *(entry for entry, name in present.items() if name not in order)]

"""Two models against each other: on each dataset by the errors of every test window, over all datasets by ranks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fern.benchmark.results import RunResult
from fern.benchmark.significance import EqualAccuracy, Ranks, diebold_mariano, friedman, nemenyi, tied_ranks
from fern.benchmark.store import Store
from fern.benchmark.tables.labels import name_results, newest
from fern.benchmark.tasks import ORACLE
from fern.errors import FernError, unknown_name

ALPHA = 0.05
LEAST_SCENARIOS = 3
"""Scenarios from which ranks are tested."""

METRICS = ("mse", "mae")
"""The errors that are kept of every window."""


class SharedProblem(NamedTuple):
    """What both models were run on: the same values, split, scaling and lengths, hence the same windows."""

    dataset: str
    horizon: int
    context_length: int
    split: str
    scaling: str
    data_fingerprint: str

    @property
    def scenario(self) -> str:
        """The dataset without what its name says of noise."""
        return self.dataset.partition(" (")[0]


@dataclass(frozen=True)
class PairVerdict:
    """One dataset: both errors, and whether their difference is one.

    ``test`` is None where errors of the windows were not kept or are too few; ``words`` say so.
    """

    dataset: str
    horizon: int
    first: float
    second: float
    seeds: int
    test: EqualAccuracy | None
    words: str


@dataclass(frozen=True)
class OverScenarios:
    """The Friedman test over all scenarios that the models share, and Nemenyi's critical difference."""

    models: tuple[str, ...]
    ranks: Ranks
    critical_difference: float
    words: str


@dataclass(frozen=True)
class Comparison:
    """Two models on everything that both were run on."""

    first: str
    second: str
    metric: str
    verdicts: tuple[PairVerdict, ...]
    over_scenarios: OverScenarios | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Side:
    """The finished runs of one model in one store, by case and seed."""

    model: str
    store: Store
    runs: Mapping[SharedProblem, Mapping[int, RunResult]]

    def figure(self, case: SharedProblem, metric: str, seeds: Sequence[int]) -> float:
        """The mean over seeds."""
        return fmean(self.runs[case][seed].metrics[metric] for seed in seeds)

    def windows(self, case: SharedProblem, metric: str, seeds: Sequence[int]) -> NDArray[np.float64]:  # (n,)
        """The error of each window, averaged over seeds; an error where it was not kept."""
        return mean_window_errors(self.store, [self.runs[case][seed] for seed in seeds], metric)


def mean_window_errors(store: Store, results: Sequence[RunResult], metric: str) -> NDArray[np.float64]:  # (n,)
    """The error of each test window, averaged over the runs of several seeds; an error where one was not kept."""
    gathered = []
    for result in results:
        errors = store.window_errors(result.key)
        if errors is None:
            raise FernError(f"per-window errors were not kept for {result.describe()}")
        if metric not in errors:
            raise FernError(f"{store.windows_path(result.key)}: is damaged (no list {metric!r})")
        gathered.append(np.asarray(errors[metric], dtype=np.float64))
    if len({len(errors) for errors in gathered}) > 1:
        raise FernError(f"the seeds of {results[0].model} were scored on different numbers of windows")
    mean: NDArray[np.float64] = np.mean(gathered, axis=0)
    return mean


def ranks_by_dataset(errors: Iterable[tuple[str, Sequence[float]]]) -> list[NDArray[np.float64]]:
    """The ranks of models on each dataset, of their errors in each of its cases.

    Horizons and noises of one dataset are no independent scenarios: their ranks are averaged to one.
    """
    ranks: dict[str, list[NDArray[np.float64]]] = {}
    for dataset, case_errors in errors:
        ranks.setdefault(dataset, []).append(tied_ranks(case_errors))
    return [np.mean(cases, axis=0) for cases in ranks.values()]


def compare(
    first: str,
    second: str,
    *,
    runs: Store,
    other: Store | None = None,
    task: str | None = None,
    metric: str = "mse",
) -> Comparison:
    """Model ``first`` against ``second``, both as tables name them, in one store or the second in ``other``.

    On each dataset: the errors of each test window, averaged over the seeds both have, by `diebold_mariano`. Over
    datasets: `friedman` and `nemenyi`, where at least three are shared; other models of the store that have them all
    take part, because a critical difference depends on how many were tried.
    """
    if metric not in METRICS:
        raise unknown_name("metric with errors of every window", metric, METRICS)
    notes: list[str] = []
    sides = _sides(runs, task, notes)
    other_sides = sides if other is None else _sides(other, task, notes)
    a, b = _side(first, sides, runs), _side(second, other_sides, other or runs)
    if other is None and first == second:
        problem = f"got {first} twice; give another model, or another results folder with --other"
        raise FernError(problem, argument="compare")
    shared = [case for case in a.runs if case in b.runs]
    if not shared:
        has = f"{first} has {_list_datasets(a)}, {second} has {_list_datasets(b)}"
        raise FernError(f"{first} and {second} have no finished runs on the same data; {has}", argument="compare")
    verdicts = tuple(_verdict(a, b, case, metric) for case in shared)
    alone = len(a.runs) + len(b.runs) - 2 * len(shared)
    if alone:
        notes.append(f"{alone} datasets that only one of the two has were skipped.")
    everyone = {**sides, first: a, second: b} if other is None else {first: a, f"{second} (other)": b}
    over = _rank_over_scenarios(everyone, shared, metric, (first, second if other is None else f"{second} (other)"))
    if len(verdicts) > 1:
        notes.append(
            f"Each dataset is tested on its own at {ALPHA:.0%}: of {len(verdicts)} without any difference, "
            f"{ALPHA * len(verdicts):.1f} would be called different by chance."
        )
    return Comparison(first, second, metric, verdicts, over, tuple(notes))


def _sides(store: Store, task: str | None, notes: list[str]) -> dict[str, Side]:
    """Every model of a store with its finished runs of one task; of the same settings the newest result counts."""
    contents = store.contents()
    notes += contents.notes
    tasks = {result.task for result in contents.results}
    if not tasks:
        raise FernError("has no results", where=store.folder)
    if task is None and len(tasks) > 1:
        problem = f"has results of the tasks {', '.join(sorted(tasks))}; choose one with --task"
        raise FernError(problem, where=store.folder)
    if task is not None and task not in tasks:
        raise unknown_name(f"task in {store.folder}", task, tasks)
    results = [result for result in contents.results if task is None or result.task == task]
    latest = newest(results)
    older = len(results) - len(latest)
    if older:
        notes.append(f"{older} older results of the same settings but other data or code were skipped.")
    names = name_results(latest)
    sides: dict[str, dict[SharedProblem, dict[int, RunResult]]] = {}
    for result in latest:
        runs = sides.setdefault(names[result.key].model, {})
        if result.status == "done" and not result.metrics.keys() >= set(METRICS):
            notes.append(f"Skipped: {result.describe()} has no {' or '.join(METRICS)}")
        elif result.status == "done":
            case = SharedProblem(*(getattr(result, name) for name in SharedProblem._fields))
            case = case._replace(dataset=names[result.key].plain_dataset)
            runs.setdefault(case, {})[result.seed] = result
    return {model: Side(model, store, runs) for model, runs in sides.items()}


def _side(model: str, sides: Mapping[str, Side], store: Store) -> Side:
    if model not in sides:
        raise unknown_name(f"model in {store.folder}", model, sides)
    if not sides[model].runs:
        raise FernError(f"all its runs in {store.folder} failed or diverged", argument=model)
    return sides[model]


def _list_datasets(side: Side) -> str:
    names = list(dict.fromkeys(case.dataset for case in side.runs))
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")


def _verdict(a: Side, b: Side, case: SharedProblem, metric: str) -> PairVerdict:
    common = sorted(set(a.runs[case]) & set(b.runs[case]))
    seeds_a, seeds_b = (common, common) if common else (sorted(a.runs[case]), sorted(b.runs[case]))
    first, second = a.figure(case, metric, seeds_a), b.figure(case, metric, seeds_b)
    try:
        errors = a.windows(case, metric, seeds_a), b.windows(case, metric, seeds_b)
        test = diebold_mariano(*errors, horizon=case.horizon)
        certainty = "a real difference" if test.p_value < ALPHA else "not distinguishable"
    except FernError as problem:
        test, certainty = None, str(problem)
    words = f"{difference_in_words(first, second)}, {certainty}"
    return PairVerdict(case.dataset, case.horizon, first, second, len(seeds_a), test, words)


def difference_in_words(first: float, second: float) -> str:
    """How the first error compares with the second.

    Example:
        >>> difference_in_words(0.95, 1.0), difference_in_words(3.0, 1.0), difference_in_words(1.0, 1.0)
        ('5 % lower', '3 times as high', 'equal')
    """
    if first == second:
        return "equal"
    if second <= 0.0:
        return "higher" if first > second else "lower"
    ratio = first / second
    if ratio >= 2.0:
        return f"{ratio:.3g} times as high"
    return f"{abs(ratio - 1.0) * 100:.2g} % {'lower' if ratio < 1.0 else 'higher'}"


def _rank_over_scenarios(
    sides: Mapping[str, Side], shared: Sequence[SharedProblem], metric: str, pair: tuple[str, str]
) -> OverScenarios | None:
    datasets = list(dict.fromkeys(case.scenario for case in shared))
    if len(datasets) < LEAST_SCENARIOS:
        return None
    other_models = [
        model
        for model, side in sides.items()
        if model not in (*pair, ORACLE) and all(case in side.runs for case in shared)
    ]
    models = (*pair, *other_models)
    errors = (
        (case.scenario, [sides[model].figure(case, metric, list(sides[model].runs[case])) for model in models])
        for case in shared
    )
    ranks = friedman(ranks_by_dataset(errors))
    critical = nemenyi(models=len(models), scenarios=len(datasets), alpha=ALPHA)
    gap = ranks.average[0] - ranks.average[1]
    better = pair[0] if gap < 0 else pair[1]
    if ranks.f_p_value >= ALPHA or (len(models) == 2 and abs(gap) <= critical):
        words = f"the {len(models)} models are not distinguishable over {len(datasets)} datasets"
    elif abs(gap) <= critical:
        words = f"the models differ, but not {pair[0]} and {pair[1]}: their ranks are within the critical difference"
    else:
        words = f"{better} ranks better than the critical difference asks for"
    return OverScenarios(models, ranks, critical, words)

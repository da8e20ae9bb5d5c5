"""Who is ahead over a whole task: average ranks with their significance, and each case's best against the others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fern.benchmark.significance import Ranks, diebold_mariano, friedman, nemenyi
from fern.benchmark.store import Store
from fern.benchmark.tables.cells import Case, Grid, Spot, means_of_case, score_cell, shared_scores
from fern.benchmark.tables.comparison import ALPHA, LEAST_SCENARIOS, mean_window_errors, ranks_by_dataset
from fern.errors import FernError


@dataclass(frozen=True)
class Standing:
    """One model over a task.

    ``rank``      average over the datasets that all ranked models have; None where it has too few cases.
    ``wins``      cases in which it is the best, ties counted for each.
    ``relative``  geometric mean of its error over the best one, over the cases it has; None where one is 0.
    """

    model: str
    rank: float | None
    cases: int
    wins: int
    relative: float | None


@dataclass(frozen=True)
class Standings:
    """The models of a task, best first; those without a rank last.

    ``ranks``, ``critical_difference``  None where fewer than three datasets are shared.
    ``alike``  groups of models whose ranks the critical difference cannot tell apart.
    """

    models: tuple[Standing, ...]
    datasets: int
    cases: int
    ranks: Ranks | None
    critical_difference: float | None
    alike: tuple[tuple[str, ...], ...]
    words: str

    def conclude(self) -> str:
        """The verdict in a sentence: who is best, how clearly, and by how much.

        Example:
            >>> models = (Standing("fern", 1.0, 4, 3, 1.02), Standing("dlinear", 2.0, 4, 1, 1.5))
            >>> Standings(models, 4, 4, None, None, (), "").conclude()
            'Best by MSE: fern, in 3 of 4 cases; dlinear follows with ×1.5 the best error. No test: too few datasets.'
        """
        ranked = [standing for standing in self.models if standing.rank is not None]
        if len(ranked) < 2:
            return "No comparison: fewer than two models have results on the same cases."
        best, second = ranked[:2]
        sentence = f"Best by MSE: {best.model}, in {best.wins} of {best.cases} cases; "
        behind = "" if second.relative is None else f" with ×{second.relative:.3g} the best error"
        sentence += f"{second.model} follows{behind}."
        if self.ranks is None:
            return f"{sentence} No test: too few datasets."
        equals = sorted({model for group in self.alike if best.model in group for model in group} - {best.model})
        if equals:
            return f"{sentence} Its rank is not significantly better than that of {', '.join(equals)}."
        return f"{sentence} Its rank is significantly better than that of every other model."


@dataclass(frozen=True)
class AgainstBest:
    """A model's error against the best one's on the same windows; ``p_value`` is None where that was not tested."""

    best: str
    p_value: float | None
    words: str

    @property
    def differs(self) -> bool:
        """Whether equal accuracy is ruled out."""
        return self.p_value is not None and self.p_value < ALPHA


def standings(grid: Grid) -> Standings:
    """Rank the models of a grid by their MSE.

    Example:
        >>> from fern.benchmark.results import RunResult
        >>> from fern.benchmark.tables.cells import fill_grid
        >>> given = dict(task="mine", preset="paper", data_fingerprint="ab", context_length=96, horizon=24,
        ...     split="shock", scaling="none", code_version="1", status="done", seed=7)
        >>> results = [RunResult(**given, model=model, dataset=dataset, metrics={"mse": mse})
        ...     for dataset in ("A", "B", "C") for model, mse in (("fern", 1.0), ("dlinear", 2.0))]
        >>> found = standings(fill_grid(results, expected=None))
        >>> [(standing.model, standing.rank, standing.wins, standing.relative) for standing in found.models]
        [('fern', 1.0, 3, 1.0), ('dlinear', 2.0, 0, 2.0)]
    """
    cells = grid.cells(["mse"])
    scores = {
        case: {
            model: score
            for model in grid.forecasters
            if (score := score_cell(cells.get(Spot(*case, model, "mse")), -1)) is not None
        }
        for case in grid.cases
    }
    ranked, shared = shared_scores(grid, cells, "mse")
    table = ranks_by_dataset((case[0].partition(" (")[0], case_scores) for case, case_scores in shared.items())
    average = dict(zip(ranked, np.mean(table, axis=0), strict=True)) if table else {}
    models = [
        Standing(
            model=model,
            rank=float(average[model]) if model in average else None,
            cases=sum(model in row for row in scores.values()),
            wins=sum(
                len(row) > 1 and model in row and row[model] == min(row.values()) < math.inf for row in scores.values()
            ),
            relative=_relative(model, scores),
        )
        for model in grid.forecasters
    ]
    models.sort(key=lambda standing: (math.inf if standing.rank is None else standing.rank, -standing.wins))
    ranks = friedman(table) if len(table) >= LEAST_SCENARIOS else None
    critical = nemenyi(models=len(ranked), scenarios=len(table), alpha=ALPHA) if ranks is not None else None
    alike = _alike([(standing.model, standing.rank) for standing in models if standing.rank is not None], critical)
    words = _words(len(ranked), len(table), len(shared), len(grid.cases), ranks, critical)
    return Standings(tuple(models), len(table), len(shared), ranks, critical, alike, words)


def against_best(grid: Grid, store: Store) -> Mapping[tuple[Case, str], AgainstBest]:
    """For each case and model: whether its windows' errors differ from those of the best model (Diebold-Mariano).

    Needs the errors of every test window, which a store keeps beside its results; where they are not there, or damaged,
    ``words`` say so.
    """
    tests: dict[tuple[Case, str], AgainstBest] = {}
    cells = grid.cells(["mse"])
    for case in grid.cases:
        done = means_of_case(cells, case, grid.models, "mse")
        best = min(done, key=lambda model: done[model], default="")
        for model in done:
            if model == best:
                continue
            runs = [[run for run in grid.runs(case, name) if run.status == "done"] for name in (best, model)]
            try:
                errors = [mean_window_errors(store, results, "mse") for results in runs]
                p_value = diebold_mariano(*errors, horizon=case[1]).p_value
            except FernError as error:
                tests[case, model] = AgainstBest(best, None, f"not tested: {error}")
                continue
            words = f"differs from {best}" if p_value < ALPHA else f"not distinguishable from {best}"
            tests[case, model] = AgainstBest(best, p_value, f"{words} (p = {p_value:.2g})")
    return tests


def _relative(model: str, scores: Mapping[Case, Mapping[str, float]]) -> float | None:
    pairs = [(ratios[model], min(ratios.values())) for ratios in scores.values() if model in ratios]
    if not pairs or any(not (0 < best < math.inf and score < math.inf) for score, best in pairs):
        return None
    return math.exp(sum(math.log(score / best) for score, best in pairs) / len(pairs))


def _alike(ranks: Sequence[tuple[str, float]], critical: float | None) -> tuple[tuple[str, ...], ...]:
    """Maximal stretches of models in order of rank, each wholly within the critical difference."""
    if critical is None:
        return ()
    groups: list[tuple[int, int]] = []
    for first, (_, lowest) in enumerate(ranks):
        last = max(place for place, (_, rank) in enumerate(ranks) if rank - lowest <= critical)
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return tuple(tuple(model for model, _ in ranks[a : b + 1]) for a, b in groups)


def _words(models: int, datasets: int, shared: int, cases: int, ranks: Ranks | None, critical: float | None) -> str:
    if models < 2:
        return "Ranks need at least two models that have the same cases."
    over = f"{shared} of {cases} cases on {datasets} dataset{'s' * (datasets != 1)} that all ranked models have"
    if ranks is None or critical is None:
        return f"Average ranks over {over}; too few datasets to test them (at least {LEAST_SCENARIOS} are needed)."
    verdict = "the models differ" if ranks.f_p_value < ALPHA else "the models are not distinguishable"
    return (
        f"Average ranks over {over}. Friedman test (Iman and Davenport's F): p = {ranks.f_p_value:.2g}, {verdict} at "
        f"{ALPHA:.0%}. Nemenyi's critical difference: {critical:.2f} ranks."
    )

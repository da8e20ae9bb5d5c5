"""Fern, DLinear and PatchTST on ETT and Weather, beside published numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.sections import Part, draw_table
from fern.benchmark.results import RunResult
from fern.benchmark.tables.cells import Case, fill_grid
from fern.benchmark.tables.labels import labels_of_task
from fern.benchmark.tables.published import paper_value
from fern.benchmark.tasks import read_task

TASK = read_task("real")
FERN, *OTHERS = labels_of_task(TASK)
TRAINED = ("dlinear", "patchtst")
TITLES = {
    FERN: "Fern",
    "dlinear": "DLinear",
    "patchtst": "PatchTST",
    "seasonal-naive": "last day",
    "last-value": "last value",
}
PUBLISHED = {"dlinear": "DLinear", "patchtst": "PatchTST/42", "timemixer": "TimeMixer"}


@dataclass(frozen=True)
class Figures:
    """MSE, MAE and processor seconds of training by case and model."""

    cases: tuple[Case, ...]
    ours: Mapping[tuple[Case, str, str], float]

    @classmethod
    def of(cls, runs: Sequence[RunResult]) -> "Figures":
        """The figures of the task's runs."""
        grid = fill_grid([run for run in runs if run.task == TASK.name], expected=TASK)
        cells = grid.cells(["mse", "mae", "seconds_train_cpu"])
        means = {
            ((spot.dataset, spot.horizon), spot.model, spot.metric): cell.mean
            for spot, cell in cells.items()
            if cell.mean is not None
        }
        return cls(grid.cases, means)

    def pair(self, case: Case, model: str) -> str:
        """MSE / MAE as run here."""
        return _pair(self.ours.get((case, model, "mse")), self.ours.get((case, model, "mae")))

    def shared(self, models: Sequence[str], metric: str = "mse") -> list[Case]:
        """The cases that all these models have."""
        return [case for case in self.cases if all((case, model, metric) in self.ours for model in models)]

    def average(self, model: str, cases: Sequence[Case], metric: str = "mse") -> float:
        """The mean of a metric over cases."""
        return fmean(self.ours[case, model, metric] for case in cases)


def real_part(runs: Sequence[RunResult]) -> Part:
    """The table of the task `real`."""
    figures = Figures.of(runs)
    own = [FERN, *TRAINED, *(name for name in OTHERS if name not in TRAINED)]
    heads = [
        "dataset",
        "horizon",
        *(TITLES[name] for name in own),
        *(f"{title}, published" for title in PUBLISHED.values()),
        *(f"{TITLES[name]} s" for name in (FERN, *TRAINED)),
    ]
    lines = []
    for case in figures.cases:
        cells = [figures.pair(case, name) for name in own]
        cells += [_pair(*(paper_value("real", name, *case, metric) for metric in ("mse", "mae"))) for name in PUBLISHED]
        seconds = [figures.ours.get((case, name, "seconds_train_cpu")) for name in (FERN, *TRAINED)]
        lines.append([*case, *cells, *("" if value is None else f"{value:,.0f}" for value in seconds)])
    line = (
        f"Test MSE / MAE of standardised values at context {TASK.context_length}, seed {TASK.seeds[0]}, usual borders, "
        "no window dropped; the first columns were run here, the published ones are as printed; processor seconds of "
        f"training. `fern bench run {TASK.name} --out benchmarks/runs`"
    )
    return Part(TASK.title, line, draw_table(heads, lines))


def judge_real(runs: Sequence[RunResult]) -> str:
    """On how many cells Fern is at or below its peers, and what training costs."""
    figures = Figures.of(runs)
    everyone = (FERN, *TRAINED)
    counts = [
        _count({case: figures.ours[case, name, "mse"] for case in figures.shared((name,))}, figures, name)
        for name in TRAINED
    ]
    printed = {case: paper_value("real", "patchtst", *case, "mse") for case in figures.cases}
    known = {case: value for case, value in printed.items() if value is not None}
    counts.append(_count(known, figures, "PatchTST/42 as published"))
    timed = figures.shared(everyone, "seconds_train_cpu")
    spent = {name: figures.average(name, timed, "seconds_train_cpu") for name in everyone}
    return (
        f"Fern's MSE is at or below that of {', '.join(counts)} cells; PatchTST trains "
        f"{spent['patchtst'] / spent[FERN]:.1f} times as long"
    )


def _count(theirs: Mapping[Case, float], figures: Figures, name: str) -> str:
    """On how many cells Fern is at or below, to the three digits that papers print."""
    cases = [case for case in figures.shared((FERN,)) if case in theirs]
    won = sum(round(figures.ours[case, FERN, "mse"], 3) <= round(theirs[case], 3) for case in cases)
    return f"{TITLES.get(name, name)} on {won} of {len(cases)}"


def _pair(mse: float | None, mae: float | None) -> str:
    return "" if mse is None or mae is None else f"{mse:.3f} / {mae:.3f}"

"""The section "Real series": Fern beside DLinear and PatchTST run here, what papers print, and what training costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from fern.benchmark.results import Row
from fern.benchmark.tables.cells import Case, Cell, Spot, fill_grid
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
RERUN_MISS = 0.02
AIM = 20
"""PatchTST's training time over Fern's that the project aims at."""

EXPLAINED = f"""\
Test MSE / MAE of standardised values at context {TASK.context_length}, seed {", ".join(map(str, TASK.seeds))}: usual
borders, every column, no window dropped, Weather's -9999 left in as the literature leaves them. The first columns were
run here: Fern with the model preset `level` and the training preset `distribution`, DLinear and PatchTST with their
authors' settings for each dataset but the training preset `default`, not their authors' schedules, at most
{TASK.train["epochs"]} epochs each. The published
columns are what the papers print (sources in `src/fern/report/tables/published_numbers/`; PatchTST/42 and DLinear see
336 rows, TimeMixer's context was searched). Of ModernTCN no number could be checked, so there is none. Seconds are
processor seconds of training with its validation, because the machine is shared.
"""


@dataclass(frozen=True)
class Figures:
    """MSE and MAE by case and model, of the runs here and of the papers, and processor seconds of training."""

    cases: tuple[Case, ...]
    ours: Mapping[tuple[Case, str, str], float]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Figures":
        """The figures of the task's rows."""
        grid = fill_grid([row for row in rows if row.task == TASK.name], expected=TASK)
        cells: Mapping[Spot, Cell] = grid.cells(["mse", "mae", "seconds_train_cpu"])
        found = {
            ((spot.dataset, spot.horizon), spot.model, spot.metric): cell.mean
            for spot, cell in cells.items()
            if cell.mean is not None
        }
        return cls(grid.cases, found)

    def pair(self, case: Case, model: str) -> str:
        """MSE / MAE as run here."""
        return _pair(self.ours.get((case, model, "mse")), self.ours.get((case, model, "mae")))

    def seconds(self, case: Case, model: str) -> float | None:
        """Processor seconds of training."""
        return self.ours.get((case, model, "seconds_train_cpu"))

    def shared(self, models: Sequence[str], metric: str = "mse") -> list[Case]:
        """The cases that all these models have."""
        return [case for case in self.cases if all((case, model, metric) in self.ours for model in models)]


def section(rows: Sequence[Row]) -> list[str]:
    """The lines of the section; none where the task has no row."""
    if not any(row.task == TASK.name for row in rows):
        return []
    figures = Figures.of(rows)
    own = [FERN, *TRAINED, *(name for name in OTHERS if name not in TRAINED)]
    head = [
        "dataset",
        "horizon",
        *(TITLES[name] for name in own),
        *(f"{title}, published" for title in PUBLISHED.values()),
        *(f"{TITLES[name]} s" for name in (FERN, *TRAINED)),
    ]
    lines = [f"| {' | '.join(head)} |", f"|:---|{'---:|' * (len(head) - 1)}"]
    for case in figures.cases:
        cells = [figures.pair(case, name) for name in own]
        cells += [_pair(*(_published(name, case, metric) for metric in ("mse", "mae"))) for name in PUBLISHED]
        cells += [_seconds(figures.seconds(case, name)) for name in (FERN, *TRAINED)]
        lines.append(f"| {case[0]} | {case[1]} | {' | '.join(cells)} |")
    missing = [f"{name} at {horizon}" for name, horizon in _planned() if (name, horizon) not in figures.cases]
    return [
        f"## {TASK.title}\n",
        EXPLAINED,
        *lines,
        "",
        *(f"- {text}" for text in verdicts(figures)),
        *([f"- No row yet: {', '.join(missing)}."] if missing else []),
        "",
        "`fern bench run real --out benchmarks/runs` continues from these rows.\n",
    ]


def verdicts(figures: Figures) -> list[str]:
    """Who wins where, Fern's losses first; then the means over what all have, and what training costs."""
    told = [text for name in TRAINED for text in _against_ours(figures, name)]
    told += [text for name in PUBLISHED for text in _against_published(figures, name)]
    told += [text for name in TRAINED for text in _rerun(figures, name)]
    everyone = (FERN, *TRAINED)
    common = figures.shared(everyone)
    if common:
        means = (
            f"{TITLES[name]} {fmean(figures.ours[case, name, 'mse'] for case in common):.4f} / "
            f"{fmean(figures.ours[case, name, 'mae'] for case in common):.4f}"
            for name in everyone
        )
        told.append(f"Mean MSE / MAE over the {len(common)} cells that all three have: {', '.join(means)}.")
    timed = figures.shared(everyone, "seconds_train_cpu")
    if timed:
        spent = {name: sum(figures.ours[case, name, "seconds_train_cpu"] for case in timed) for name in everyone}
        ratio = spent["patchtst"] / spent[FERN]
        listed = ", ".join(f"{TITLES[name]} {seconds:,.0f} s" for name, seconds in spent.items())
        told.append(
            f"Processor time of training over the {len(timed)} cells that all three have: {listed}. PatchTST takes "
            f"{ratio:.1f} times as long as Fern; the aim is {AIM}, which is {'met' if ratio >= AIM else 'not met'}."
        )
    return told


def _against_ours(figures: Figures, name: str) -> list[str]:
    cases = figures.shared((FERN, name))
    pairs = {case: (figures.ours[case, FERN, "mse"], figures.ours[case, name, "mse"]) for case in cases}
    return _told(pairs, f"{TITLES[name]} run here")


def _against_published(figures: Figures, name: str) -> list[str]:
    printed = {case: _published(name, case, "mse") for case in figures.shared((FERN,))}
    pairs = {case: (figures.ours[case, FERN, "mse"], theirs) for case, theirs in printed.items() if theirs is not None}
    return _told(pairs, f"{PUBLISHED[name]} as published")


def _rerun(figures: Figures, name: str) -> list[str]:
    """On which cells a rival comes out worse here than in its paper: there a win over our run of it counts less."""
    found = {
        case: (figures.ours[case, name, "mse"], printed)
        for case in figures.shared((name,))
        if (printed := _published(name, case, "mse")) is not None
    }
    worse = {case: pair for case, pair in found.items() if pair[0] > (1 + RERUN_MISS) * pair[1]}
    if not worse:
        return []
    told = ", ".join(f"{name} at {length} ({a:.3f} against {b:.3f})" for (name, length), (a, b) in worse.items())
    return [
        f"{TITLES[name]} run here is more than {RERUN_MISS:.0%} above its published MSE on {len(worse)} of "
        f"{len(found)} cells: {told}."
    ]


def _told(pairs: Mapping[Case, tuple[float, float]], other: str) -> list[str]:
    """Where the other's MSE is lower, then on how many cells it is not; papers print three digits."""
    if not pairs:
        return []
    lost = {case: pair for case, pair in pairs.items() if round(pair[1], 3) < round(pair[0], 3)}
    listed = ", ".join(f"{name} at {horizon} ({a:.3f} against {b:.3f})" for (name, horizon), (a, b) in lost.items())
    losses = (
        f"Fern's MSE is above that of {other} on {listed}; "
        if lost
        else f"Fern's MSE is nowhere above that of {other}; "
    )
    return [f"{losses}it is at or below it on {len(pairs) - len(lost)} of {len(pairs)} cells, to three digits."]


def _published(model: str, case: Case, metric: str) -> float | None:
    return paper_value("real", model, *case, metric)


def _planned() -> list[Case]:
    return [(choice.dataset, horizon) for choice in TASK.datasets for horizon in choice.horizons or TASK.horizons]


def _pair(mse: float | None, mae: float | None) -> str:
    return "" if mse is None or mae is None else f"{mse:.3f} / {mae:.3f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"

"""Fern by our training and beside simple rivals: under observation noise, over long horizons and on a field."""

from collections.abc import Sequence
from statistics import geometric_mean, median

from benchmarks.sections.winners import kind_of, mean_errors
from fern.benchmark.problem import NOISE
from fern.benchmark.results import Row
from fern.benchmark.tables.build import build_table
from fern.benchmark.tables.cells import lyapunov_times_a_step
from fern.benchmark.tables.labels import dataset_label, model_label
from fern.benchmark.tables.published import paper_value
from fern.benchmark.tables.rendering import render
from fern.benchmark.tasks import ORACLE, Task, read_task
from fern.systems import SCENARIOS

FERNS = ("fern", "fern-rolled")

NOISE_EXPLAINED = """\
Rows that models learn from and see carry independent normal noise; forecasts are judged by the true rows. `fern` and
`dlinear` are trained by the preset `default`, `fern-rolled` by `chaos`; `analog` and `polymap` are fitted and choose
their settings on noisy validation windows. The oracle knows the true state; what the best filter of noisy rows would
reach is not known.
"""
TRAINING_EXPLAINED = """\
The same model, series, split and seed; test MSE. The paper's protocol trains at a constant rate and stops early (task
`shock`), our default (task `training`) raises and lowers the rate, averages weights and clips gradients. It was chosen
by trials on LORENZ_BASE and ETTh1 with their test errors in view, so those two are no evidence for it. The rivals of
the shock table are not trained this way.
"""
LONG_EXPLAINED = """\
Horizons far beyond what is predictable. There MSE rewards a forecast of the mean: beyond EPT a model that goes on with
the dynamics is worse by it than one that gives up. So models are told apart by EPT, in Lyapunov times; it cannot pass
the horizon, and its mean is cut where windows reach it.
"""
FIELD_EXPLAINED = """\
The Kuramoto–Sivashinsky equation on 64 points; the horizon is {span:g} time units. The preset `ring` tells a model that
the points lie on a circle and are alike everywhere: one map for all of them, of a point's neighbours. `polymap:ring`
and `fern-rolled:ring` are told so, the others have to make do without. Of 64 channels each in its own right
`fern-rolled` starts from a polynomial of degree 2 of the 30 leading principal components; of all channels that is more
terms than `polymap` tries, which is left with a linear map. Under noise forecasts are judged by the true rows.
"""
TUNED_ON = ("LORENZ_BASE", "ETTh1")


def noise(rows: Sequence[Row]) -> list[str]:
    """The section on observation noise; nothing where there is no row."""
    own = [row for row in rows if row.task == "noise"]
    return _section("noise", own, NOISE_EXPLAINED, told=(*best_by_noise(own), ""))


def training(rows: Sequence[Row]) -> list[str]:
    """The paper's protocol beside our default training, on the series both have run; nothing where there is none."""
    task, pairs = read_task("training"), _trained_both_ways(rows)
    if not pairs:
        return []
    lines = [
        f"## {task.title}\n",
        TRAINING_EXPLAINED,
        "| dataset | paper's number | paper's protocol | our default | ratio |",
        "|:---|---:|---:|---:|---:|",
    ]
    for name, (theirs, ours) in pairs.items():
        printed = paper_value("shock", "fern", name, ours.horizon, "mse")
        lines.append(
            f"| {name} | {'' if printed is None else f'{printed:.4g}'} | {theirs.metrics['mse']:.4g} | "
            f"{ours.metrics['mse']:.4g} | {_ratio(theirs, ours):.2f} |"
        )
    return [*lines, "", training_in_words(rows), "", _command(task)]


def training_in_words(rows: Sequence[Row]) -> str:
    """On how many series our default training is better than the paper's protocol, and by how much."""
    ratios = {
        name: _ratio(theirs, ours) for name, (theirs, ours) in _trained_both_ways(rows).items() if name not in TUNED_ON
    }
    if not ratios:
        return ""
    better, worse = sum(ratio < 0.99 for ratio in ratios.values()), sum(ratio > 1.01 for ratio in ratios.values())
    means = [
        f"{geometric_mean(own):.2f} on {kind} ({len(own)})"
        for kind in dict.fromkeys(map(kind_of, ratios))
        if (own := [ratio for name, ratio in ratios.items() if kind_of(name) == kind])
    ]
    return (
        f"Our default is more than 1 % better on {better} of the {len(ratios)} series that it was not chosen by, more "
        f"than 1 % worse on {worse}; median ratio {median(ratios.values()):.2f}, geometric mean {', '.join(means)}."
    )


def _trained_both_ways(rows: Sequence[Row]) -> dict[str, tuple[Row, Row]]:
    """By dataset the rows of Fern by the paper's protocol and by our default training, where both are there."""
    task = read_task("training")
    ran = {
        name: {
            row.dataset: row
            for row in rows
            if (row.task, row.model, row.preset, row.seed) == (name, "fern", "paper", 7) and row.status == "done"
        }
        for name in ("shock", task.name)
    }
    common = [choice.dataset for choice in task.datasets if all(choice.dataset in own for own in ran.values())]
    return {name: (ran["shock"][name], ran[task.name][name]) for name in common}


def _ratio(theirs: Row, ours: Row) -> float:
    return ours.metrics["mse"] / theirs.metrics["mse"]


def long(rows: Sequence[Row]) -> list[str]:
    """The section on long horizons; nothing where there is no row."""
    return _section("long", rows, LONG_EXPLAINED, told=longest_in_words(rows))


def field(rows: Sequence[Row]) -> list[str]:
    """The section on a field in space; nothing where there is no row."""
    task = read_task("field")
    explained = FIELD_EXPLAINED.format(span=task.horizons[0] * SCENARIOS[task.datasets[0].dataset].dt)
    return _section("field", rows, explained, told=lowest_in_words(rows, "field"))


def longest_in_words(rows: Sequence[Row]) -> list[str]:
    """Whose forecast stays near the truth longest on each dataset of the task `long`, and how long each Fern's does."""
    own = _forecasts(rows, "long")
    ferns, lines = _ferns(own), []
    for dataset, ran in _ranked_by_dataset(own, "long", metric="ept").items():
        here = next(row for row in own if row.dataset == dataset)
        step = lyapunov_times_a_step(here)
        assert step is not None, f"{dataset}: the systems of `long` are those whose exponent is known"
        best, longest = list(ran.items())[-1]
        others = [f"{name} {step * ran[name]:.3g}" for name in sorted(ferns & set(ran) - {best})]
        told = [f"{best} ({step * longest:.3g} of {step * here.horizon:.3g} LT, of {len(ran)} models)", *others]
        lines.append(f"- {dataset}, longest EPT: {'; '.join(told)}.")
    return [*lines, ""] if lines else []


def lowest_in_words(rows: Sequence[Row], task: str) -> list[str]:
    """Who has the lowest MSE on each dataset of a task, and how far each Fern is above it and above the last value."""
    lines = []
    for share in sorted({row.data_settings.get(NOISE, 0.0) for row in rows if row.task == task}):
        own = _of_noise(_forecasts(rows, task), share)
        ferns = _ferns(own)
        for dataset, ran in _ranked_by_dataset(own, task).items():
            best, lowest = next(iter(ran.items()))
            told = [f"lowest MSE: {best} ({lowest:.3g}, of {len(ran)} models)"]
            for name in sorted(ferns & set(ran) - {best}):
                naive = ran.get("last-value")
                lost = f", worse than the last value repeated ({naive:.4g})" if naive and naive < ran[name] else ""
                told.append(f"{name} has {ran[name] / lowest:.3g} times that ({ran[name]:.4g}){lost}")
            lines.append(f"- {dataset_label(dataset, share)}, {'; '.join(told)}.")
    return [*lines, ""] if lines else []


def best_by_noise(rows: Sequence[Row]) -> list[str]:
    """A line for each noise: who has the lowest MSE on which system, of how many models that have run there."""
    lines = []
    for share in sorted({row.data_settings.get(NOISE, 0.0) for row in rows}):
        told = []
        for dataset, ran in _ranked_by_dataset(_of_noise(_forecasts(rows, "noise"), share), "noise").items():
            best, lowest = next(iter(ran.items()))
            told.append(f"{best} on {dataset} ({lowest:.3g}, of {len(ran)} models)")
        lines.append(f"- Lowest MSE at noise {share:.0%}: {'; '.join(told)}.")
    return lines


def horizons_in_words(rows: Sequence[Row]) -> str:
    """How many Lyapunov times the horizon of the task `noise` is on each system; nothing where there is no row."""
    own = _forecasts(rows, "noise")
    told = []
    for choice in dict.fromkeys(choice.dataset for choice in read_task("noise").datasets):
        here = next((row for row in own if row.dataset == choice), None)
        step = None if here is None else lyapunov_times_a_step(here)
        if here is not None and step is not None:
            told.append(f"{step * here.horizon:.2g} on {choice}")
    return f"The horizon in Lyapunov times: {', '.join(told)}." if told else ""


def _forecasts(rows: Sequence[Row], task: str) -> list[Row]:
    return [row for row in rows if row.task == task and row.model != ORACLE and row.status == "done"]


def _of_noise(rows: Sequence[Row], share: float) -> list[Row]:
    return [row for row in rows if row.data_settings.get(NOISE, 0.0) == share]


def _ferns(rows: Sequence[Row]) -> set[str]:
    return {model_label(row) for row in rows if row.model in FERNS}


def _ranked_by_dataset(rows: Sequence[Row], task: str, *, metric: str = "mse") -> dict[str, dict[str, float]]:
    """The metric of every model that has run, lowest first, for each dataset of the task that has a row."""
    found, ranked = mean_errors(rows, metric), {}
    for dataset in dict.fromkeys(choice.dataset for choice in read_task(task).datasets):
        ran = [(value, model) for (model, name), value in found.items() if name == dataset]
        if ran:
            ranked[dataset] = {model: value for value, model in sorted(ran)}
    return ranked


def _section(name: str, rows: Sequence[Row], explained: str, *, told: Sequence[str] = ()) -> list[str]:
    """A task's title, what it is, its table, what is told of it, and its command; nothing where there is no row."""
    task = read_task(name)
    own = [row for row in rows if row.task == name]
    if not own:
        return []
    table = render(build_table(own, task=task), "md").partition("\n")[2].strip()
    return [f"## {task.title}\n", explained, table, "", *told, _command(task)]


def _command(task: Task) -> str:
    return f"`fern bench run {task.name} --out benchmarks/runs` continues from these rows.\n"

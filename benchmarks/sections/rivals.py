"""What wins where: Fern beside simple rivals on the shock scenarios, under observation noise and over long horizons."""

from collections.abc import Mapping, Sequence
from statistics import fmean, geometric_mean

from fern.benchmark.problem import NOISE
from fern.benchmark.rows import Row
from fern.benchmark.significance.ranks import friedman, nemenyi
from fern.benchmark.tasks import ORACLE, read_task
from fern.report.tables.labels import model_label, seen_by
from fern.report.tables.paper import paper_value
from fern.report.tables.rendering import render
from fern.report.tables.tables import build_table

COMPARED = ("fern", "dlinear", "analog", "polymap", "last-value")
"""The models of the shock table that are compared over all datasets: those whose runs are complete, or nearly."""

BASELINES = ("timemixer", "patchtst", "koopa", "moderntcn", "pfnn")
"""The paper's dear baselines: compared too, under one seed, where they have run on enough datasets."""

BASELINE_SEED, BASELINE_DATASETS = 7, 10

ALPHA = 0.05
LEAST_DATASETS = 3

NOISE_EXPLAINED = """\
Rows that models learn from and see carry independent normal noise; forecasts are judged by the true rows. `fern` and
`dlinear` are trained by the preset `default`, `fern-rolled` by `chaos`; `analog` and `polymap` are fitted and choose
their settings on noisy validation windows. The oracle knows the true state; what the best filter of noisy rows would
reach is not known.
"""
TRAINING_EXPLAINED = """\
The same model, series, split and seed; test MSE. The paper's protocol trains at a constant rate and stops early (task
`shock`), our default (task `training`) raises and lowers the rate, averages weights and clips gradients; seconds are of
training, one thread, with whatever else ran beside it.
"""
LONG_EXPLAINED = """\
Horizons so long that EPT, in Lyapunov times, does not end with them.
"""
FIELD_EXPLAINED = """\
The Kuramoto–Sivashinsky equation on 64 points. `fern-rolled` starts from a polynomial of degree 2 of the 30 leading
principal components of the state; of all 64 channels that is more terms than `polymap` tries, which is left with a
linear map.
"""

Errors = Mapping[tuple[str, str], float]  # of model and dataset


def what_wins_where(rows: Sequence[Row], models: Sequence[str] = COMPARED) -> str:
    """Which of the models has the lowest MSE on which datasets, and whether ranks tell them apart; from shock rows."""
    own = [row for row in rows if row.task == "shock" and row.status == "done" and row.preset in ("paper", "default")]
    found, sees = _errors(own), {row.model: seen_by(row) for row in own}
    present = [model for model in models if model in sees]
    order = [choice.dataset for choice in read_task("shock").datasets]
    common = [name for name in order if all((model, name) in found for model in present)]
    if len(present) < 2 or not common:
        return ""
    won: dict[str, list[str]] = {}
    for name in common:
        won.setdefault(min(present, key=lambda model: found[model, name]), []).append(name)
    told = "; ".join(
        f"{model} ({_channels(sees[model])}) on {', '.join(won[model])}"
        for model in sorted(won, key=lambda model: -len(won[model]))
    )
    listed = ", ".join(present[:-1]) + f" and {present[-1]}"
    where = f"on the {len(common)} of {len(order)} datasets that all of them have run"
    return "\n".join([f"Of {listed}, {where}, the lowest MSE has {told}.", *_ranked(found, present, common)])


def beside_baselines(rows: Sequence[Row]) -> str:
    """The same with those of `BASELINES` that have run on `BASELINE_DATASETS` or more, under one seed; else empty."""
    own = [row for row in rows if row.seed == BASELINE_SEED]
    ran = {(row.model, row.dataset) for row in own if row.task == "shock" and row.status == "done"}
    enough = [name for name in BASELINES if sum(model == name for model, _ in ran) >= BASELINE_DATASETS]
    told = what_wins_where(own, (*COMPARED, *enough)) if enough else ""
    return f"Seed {BASELINE_SEED}. {told}" if told else ""


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
        "| dataset | paper's number | paper's protocol | our default | ratio | seconds: protocol | default |",
        "|:---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (theirs, ours) in pairs.items():
        printed = paper_value("shock", "fern", name, ours.horizon, "mse")
        lines.append(
            f"| {name} | {'' if printed is None else f'{printed:.4g}'} | {theirs.metrics['mse']:.4g} | "
            f"{ours.metrics['mse']:.4g} | {_ratio(theirs, ours):.2f} | {theirs.seconds['train']:.0f} | "
            f"{ours.seconds['train']:.0f} |"
        )
    command = f"`fern bench run {task.name} --out benchmarks/runs` continues from these rows.\n"
    return [*lines, "", training_in_words(rows), "", command]


def training_in_words(rows: Sequence[Row]) -> str:
    """On how many series our default training is better than the paper's protocol, and by how much."""
    ratios = [_ratio(theirs, ours) for theirs, ours in _trained_both_ways(rows).values()]
    better, worse = sum(ratio < 0.99 for ratio in ratios), sum(ratio > 1.01 for ratio in ratios)
    return (
        f"Our default is more than 1 % better on {better} of {len(ratios)}, more than 1 % worse on {worse}; geometric "
        f"mean of the ratios {geometric_mean(ratios):.2f}."
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
    return _section("long", rows, LONG_EXPLAINED, told=lowest_in_words(rows, "long"))


def field(rows: Sequence[Row]) -> list[str]:
    """The section on a field in space; nothing where there is no row."""
    return _section("field", rows, FIELD_EXPLAINED, told=lowest_in_words(rows, "field"))


def lowest_in_words(rows: Sequence[Row], task: str) -> list[str]:
    """Who has the lowest MSE on each dataset of a task, and how far each Fern is above it."""
    own = [row for row in rows if row.task == task and row.model != ORACLE and row.status == "done"]
    ferns, lines = {model_label(row) for row in own if row.model in ("fern", "fern-rolled")}, []
    for dataset, ran in _ranked_by_dataset(own, task).items():
        best, lowest = next(iter(ran.items()))
        behind = [f"{name} has {ran[name] / lowest:.3g} times that" for name in sorted(ferns & set(ran) - {best})]
        told = f"lowest MSE: {best} ({lowest:.3g}, of {len(ran)} models)"
        lines.append(f"- {dataset}, {'; '.join([told, *behind])}.")
    return [*lines, ""] if lines else []


def best_by_noise(rows: Sequence[Row]) -> list[str]:
    """A line for each noise: who has the lowest MSE on which system, of how many models that have run there."""
    lines = []
    for share in sorted({row.data_settings.get(NOISE, 0.0) for row in rows}):
        here = [row for row in rows if row.data_settings.get(NOISE, 0.0) == share and row.model != ORACLE]
        told = []
        for dataset, ran in _ranked_by_dataset([row for row in here if row.status == "done"], "noise").items():
            best, lowest = next(iter(ran.items()))
            told.append(f"{best} on {dataset} ({lowest:.3g}, of {len(ran)} models)")
        lines.append(f"- Lowest MSE at noise {share:.0%}: {'; '.join(told)}.")
    return lines


def _ranked_by_dataset(rows: Sequence[Row], task: str) -> dict[str, dict[str, float]]:
    """The MSE of every model that has run, lowest first, for each dataset of the task that has a row."""
    found, ranked = _errors(rows), {}
    for dataset in dict.fromkeys(choice.dataset for choice in read_task(task).datasets):
        ran = [(mse, model) for (model, name), mse in found.items() if name == dataset]
        if ran:
            ranked[dataset] = {model: mse for mse, model in sorted(ran)}
    return ranked


def _section(name: str, rows: Sequence[Row], explained: str, *, told: Sequence[str] = ()) -> list[str]:
    """A task's title, what it is, its table, what is told of it, and its command; nothing where there is no row."""
    task = read_task(name)
    own = [row for row in rows if row.task == name]
    if not own:
        return []
    table = render(build_table(own, task=task), "md").partition("\n")[2].strip()
    command = f"`fern bench run {name} --out benchmarks/runs` continues from these rows.\n"
    return [f"## {task.title}\n", explained, table, "", *told, command]


def _errors(rows: Sequence[Row]) -> Errors:
    """The mean MSE over seeds."""
    gathered: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        gathered.setdefault((model_label(row), row.dataset), []).append(row.metrics["mse"])
    return {place: fmean(values) for place, values in gathered.items()}


def _ranked(found: Errors, models: Sequence[str], datasets: Sequence[str]) -> list[str]:
    """The Friedman test over the datasets, and which models Nemenyi's critical difference keeps apart from Fern."""
    if len(datasets) < LEAST_DATASETS:
        return []
    ranks = friedman([[found[model, name] for model in models] for name in datasets])
    critical = nemenyi(models=len(models), scenarios=len(datasets), alpha=ALPHA)
    average = dict(zip(models, (float(rank) for rank in ranks.average), strict=True))
    told = ", ".join(f"{model} {average[model]:.2f}" for model in sorted(models, key=lambda model: average[model]))
    head = f"Average ranks over them: {told}; critical difference (Nemenyi, {ALPHA:.0%}) {critical:.2f}."
    if ranks.f_p_value >= ALPHA:
        return [f"{head} The models are not distinguishable."]
    first = models[0]
    apart = [model for model in models[1:] if abs(average[model] - average[first]) > critical]
    alike = [model for model in models[1:] if model not in apart]
    better = [model for model in apart if average[model] < average[first]]
    worse = [model for model in apart if model not in better]
    verdicts = [
        f"{word} {first}: {', '.join(names)}"
        for word, names in (("better than", better), ("not distinguishable from", alike), ("worse than", worse))
        if names
    ]
    return [f"{head} By it, {'; '.join(verdicts)}."]


def _channels(sees: str | None) -> str:
    return {"own": "own channel", "all": "all channels"}.get(sees or "", "unknown channels")

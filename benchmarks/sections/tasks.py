"""Tables and verdicts of the benchmark's tasks, from ``benchmarks/runs``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median

from benchmarks.sections import Part, draw_table
from fern.benchmark.problem import NOISE
from fern.benchmark.results import RunResult
from fern.benchmark.tables.build import build_table
from fern.benchmark.tables.cells import lyapunov_times_a_step
from fern.benchmark.tables.labels import dataset_label, labels_of_task, model_label
from fern.benchmark.tables.published import paper_value
from fern.benchmark.tables.rendering import render
from fern.benchmark.tasks import ORACLE, Task, read_task
from fern.systems import SCENARIOS

FERN = "fern:paper-compact"
"""Fern by the paper's text, which has run everywhere; `fern` as its author's code has it takes four times as long."""

COMPARED = (FERN, "dlinear", "analog", "polymap")
"""The models of the shock table that have run on all datasets under both seeds."""

BASELINES = ("timemixer", "patchtst", "koopa", "moderntcn", "pfnn")
"""The paper's other baselines, which run under one seed."""

BASELINE_SEED = 7
ORDER = tuple(choice.dataset for choice in read_task("shock").datasets)
DETAILED = ("LORENZ_MAIN", "ROSSLER_MAIN")
"""The datasets of the task `detailed` that Fern runs on here."""

TIE = 0.01
"""A lead by less than this share is no win: test windows overlap, and few of them are independent."""

MISS = 0.15
TUNED_ON = ("LORENZ_BASE", "ETTh1")
"""Series that our default training was chosen by."""

KINDS = {"Flow": "chaotic flows", "Diffusion": "random systems", "Recursion": "random systems"}
REAL = "real series"

Errors = Mapping[tuple[str, str], float]  # (model, dataset) -> mean over seeds


def shock_parts(runs: Sequence[RunResult]) -> list[Part]:
    """The shock table of the models that ran everywhere, and that of the paper's other baselines."""
    task = read_task("shock")
    every = task.narrowed(models=("fern", *COMPARED, "last-value", "oracle"))
    ran = {run.dataset for run in select_shock(runs) if run.model in BASELINES}
    beside = task.narrowed(
        models=(FERN, *BASELINES, "oracle"), datasets=[name for name in ORDER if name in ran], seeds=[BASELINE_SEED]
    )
    line = (
        "Test MSE and Wasserstein distance at 336 → 336 by the paper's protocol, mean over seeds 7 and 1955 ± standard "
        "error; in brackets the paper's number and ours divided by it. `polymap` sees all channels, the others one. "
        f"{_command(task)}"
    )
    other = f"Seed {BASELINE_SEED} only; `missing` has not been run. {_command(task)}"
    return [
        Part(task.title, line, _table(runs, every)),
        Part("The paper's other baselines", other, _table(runs, beside)),
    ]


def paper_parts(runs: Sequence[RunResult]) -> list[Part]:
    """The paper's other tables, as far as they have been run."""
    parts = []
    for name in ("detailed", "ablation", "recency", "footprint"):
        task = read_task(name)
        if name == "detailed":
            task = task.narrowed(datasets=DETAILED, seeds=[BASELINE_SEED])
        if any(run.task == name for run in runs):
            line = f"Beside the paper's numbers where it prints them. {_command(task)}"
            parts.append(Part(task.title, line, _table(runs, task)))
    return parts


def chaos_parts(runs: Sequence[RunResult]) -> list[Part]:
    """Observation noise, horizons beyond what is predictable, and a field in space."""
    lines = {
        "noise": "Models learn from and see noisy rows and are scored on the true ones, 336 → 336, seed 7; the oracle "
        "knows the true state.",
        "long": "Beyond the Lyapunov time MSE rewards the mean, so compare EPT in Lyapunov times (LT).",
        "field": "The Kuramoto–Sivashinsky equation on 64 points; the preset `ring` assumes a periodic, "
        "translation-invariant grid.",
    }
    parts = []
    for name, line in lines.items():
        task = read_task(name)
        if any(run.task == name for run in runs):
            parts.append(Part(task.title, f"{line} {_command(task)}", _table(runs, task, paper=False)))
    return parts


def training_part(runs: Sequence[RunResult]) -> Part:
    """Fern by the paper's protocol beside Fern by our default training."""
    task = read_task("training")
    lines = []
    for name, (theirs, ours) in pair_trainings(runs).items():
        printed = paper_value("shock", "fern", name, ours.horizon, "mse")
        ratio = ours.metrics["mse"] / theirs.metrics["mse"]
        figures = (theirs.metrics["mse"], ours.metrics["mse"])
        lines.append(
            [name, "" if printed is None else f"{printed:.4g}", *(f"{x:.4g}" for x in figures), f"{ratio:.2f}"]
        )
    line = (
        f"Test MSE of the same model, series and split, seed 7; {' and '.join(TUNED_ON)} chose the default training "
        f"and are no evidence for it. {_command(task)}"
    )
    heads = ["dataset", "paper's number", "paper's protocol", "our default", "ratio"]
    return Part(task.title, line, draw_table(heads, lines))


def data_part(runs: Sequence[RunResult]) -> Part:
    """Fingerprints of the values that the runs were made of."""
    fingerprints: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        settings = ", ".join(f"{name} {value}" for name, value in sorted(run.data_settings.items()) if value != "none")
        fingerprints.setdefault((run.dataset, settings), set()).add(run.data_fingerprint[:16])
    lines = [[*place, ", ".join(sorted(marks))] for place, marks in sorted(fingerprints.items())]
    line = "What the runs of `benchmarks/runs` were made of, by fingerprint; two if the data changed."
    return Part("Data", line, draw_table(["dataset", "settings", "fingerprint"], lines, words=3))


def count_wins(runs: Sequence[RunResult], models: Sequence[str] = COMPARED) -> dict[str, dict[str, int]]:
    """By kind of dataset, how many each model wins on the lowest MSE; ``tie`` where several are within 1 %."""
    errors = average_errors(select_shock(runs))
    common = [name for name in ORDER if all((model, name) in errors for model in models)]
    counts: dict[str, dict[str, int]] = {}
    for name in common:
        lowest = min(errors[model, name] for model in models)
        near = [model for model in models if errors[model, name] * (1 - TIE) <= lowest]
        own = counts.setdefault(kind_of(name), dict.fromkeys([*models, "tie"], 0))
        own[near[0] if len(near) == 1 else "tie"] += 1
    return counts


def judge_shocks(runs: Sequence[RunResult]) -> str:
    """Who wins on how many scenarios."""
    counts = count_wins(runs)
    return "Lowest MSE by the paper's protocol: " + "; ".join(
        f"{kind} {', '.join(f'{model} {n}' for model, n in own.items() if n)}" for kind, own in counts.items()
    )


def judge_baselines(runs: Sequence[RunResult]) -> str:
    """On how many scenarios Fern has a lower MSE than each of the paper's baselines."""
    errors = average_errors([run for run in select_shock(runs) if run.seed == BASELINE_SEED])
    counts = []
    for model in ("dlinear", *BASELINES):
        common = [name for name in ORDER if {(model, name), (FERN, name)} <= errors.keys()]
        won = sum(errors[FERN, name] < errors[model, name] for name in common)
        counts.append(f"{model} on {won} of {len(common)}")
    return f"The MSE of `{FERN}` is lower than that of {', '.join(counts)} scenarios"


def judge_paper(runs: Sequence[RunResult]) -> str:
    """How near Fern by the paper's protocol comes to the paper's numbers, by its author's code and by the text."""
    errors = average_errors(select_shock(runs))
    printed = {name: paper_value("shock", "fern", name, 336, "mse") for name in ORDER}
    said = []
    for model in ("fern", FERN):
        ratios = {
            name: errors[model, name] / theirs for name, theirs in printed.items() if theirs and (model, name) in errors
        }
        if ratios:
            higher = sum(ratio > 1 + MISS for ratio in ratios.values())
            worst = max(ratios, key=lambda name: ratios[name])
            said.append(
                f"of `{model}` is at most {1 + MISS:g} × the paper's on {len(ratios) - higher} of {len(ratios)} "
                f"scenarios (worst {worst}, ×{ratios[worst]:.2f})"
            )
    return f"By the paper's protocol the MSE {', that '.join(said)}"


def judge_training(runs: Sequence[RunResult]) -> str:
    """On how many series our default training beats the paper's protocol."""
    ratios = [
        ours.metrics["mse"] / theirs.metrics["mse"]
        for name, (theirs, ours) in pair_trainings(runs).items()
        if name not in TUNED_ON
    ]
    better, worse = sum(ratio < 1 - TIE for ratio in ratios), sum(ratio > 1 + TIE for ratio in ratios)
    return (
        f"Our default training lowers Fern's MSE on {better} of {len(ratios)} series and raises it on {worse}; the "
        f"median ratio is {median(ratios):.2f}"
    )


def judge_noise(runs: Sequence[RunResult]) -> str:
    """Who has the lowest MSE on how many chaotic flows, by observation noise."""
    said = []
    for share in sorted({_noise(run) for run in runs if run.task == "noise"}):
        ranked = rank_by_dataset([run for run in runs if run.task == "noise" and _noise(run) == share], "noise")
        winners = [next(iter(errors)) for errors in ranked.values()]
        counts = ", ".join(f"{model} {winners.count(model)}" for model in dict.fromkeys(winners))
        said.append(f"at {share:.0%} noise {counts}")
    return f"Lowest MSE on {len(ranked)} chaotic flows: {'; '.join(said)}"


def judge_long(runs: Sequence[RunResult]) -> str:
    """Whose forecasts of a chaotic flow stay near the truth longest."""
    said = []
    for dataset, ept in rank_by_dataset([run for run in runs if run.task == "long"], "long", metric="ept").items():
        here = next(run for run in runs if run.task == "long" and run.dataset == dataset)
        step = lyapunov_times_a_step(here)
        if step is None:
            continue
        best = list(ept)[-1]
        ours = max((name for name in ept if name.startswith("fern")), key=lambda name: ept[name])
        said.append(
            f"{dataset} {best} {step * ept[best]:.1f}" + ("" if ours == best else f", {ours} {step * ept[ours]:.1f}")
        )
    return f"Longest EPT in Lyapunov times: {'; '.join(said)}"


def judge_field(runs: Sequence[RunResult]) -> str:
    """Who has the lowest MSE on the field in space, by observation noise."""
    said = []
    for share in sorted({_noise(run) for run in runs if run.task == "field"}):
        own = [run for run in runs if run.task == "field" and _noise(run) == share]
        for dataset, errors in rank_by_dataset(own, "field").items():
            best = next(iter(errors))
            said.append(f"{dataset_label(dataset, share)} {best} ({errors[best]:.2g})")
    return f"Lowest MSE on a field of 64 points: {'; '.join(said)}"


def select_shock(runs: Sequence[RunResult]) -> list[RunResult]:
    """Finished runs of the task `shock` with the models as they are, no ablations."""
    usual = ("paper", "paper-compact", "default")
    return [run for run in runs if run.task == "shock" and run.status == "done" and run.preset in usual]


def average_errors(runs: Sequence[RunResult], metric: str = "mse") -> Errors:
    """The mean over seeds of a metric, by model and dataset."""
    gathered: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        gathered.setdefault((model_label(run), run.dataset), []).append(run.metrics[metric])
    return {place: fmean(values) for place, values in gathered.items()}


def rank_by_dataset(runs: Sequence[RunResult], task: str, *, metric: str = "mse") -> dict[str, dict[str, float]]:
    """The metric of every model but the oracle, lowest first, for each dataset of the task."""
    errors = average_errors([run for run in runs if run.model != ORACLE and run.status == "done"], metric)
    ranked = {}
    for dataset in dict.fromkeys(choice.dataset for choice in read_task(task).datasets):
        own = sorted((value, model) for (model, name), value in errors.items() if name == dataset)
        if own:
            ranked[dataset] = {model: value for value, model in own}
    return ranked


def pair_trainings(runs: Sequence[RunResult]) -> dict[str, tuple[RunResult, RunResult]]:
    """By dataset Fern by the paper's protocol and by our default training, where both have run."""
    task = read_task("training")
    ran = {
        name: {
            run.dataset: run
            for run in runs
            if (run.task, model_label(run), run.seed) == (name, FERN, 7) and run.status == "done"
        }
        for name in ("shock", task.name)
    }
    common = [choice.dataset for choice in task.datasets if all(choice.dataset in own for own in ran.values())]
    return {name: (ran["shock"][name], ran[task.name][name]) for name in common}


def kind_of(dataset: str) -> str:
    """Chaotic flows, random systems or real series."""
    plan = SCENARIOS.get(dataset)
    return REAL if plan is None else KINDS[type(plan.source).__name__]


def _noise(run: RunResult) -> float:
    return float(run.data_settings.get(NOISE, 0.0))


def _table(runs: Sequence[RunResult], task: Task, *, paper: bool = True) -> list[str]:
    """The lines of a task's table without its heading and notes."""
    models, datasets = labels_of_task(task), {choice.dataset for choice in task.datasets}
    own = [
        run
        for run in runs
        if run.task == task.name and model_label(run) in models and run.dataset in datasets and run.seed in task.seeds
    ]
    text = render(replace(build_table(own, task=task, paper=paper), notes=()), "md")
    return text.partition("\n")[2].strip().splitlines()


def _command(task: Task) -> str:
    return f"`fern bench run {task.name} --out benchmarks/runs`"

"""The tables of public tasks: our results beside what others published, and what they say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

from benchmarks.public.published import SEASONAL_NAIVE, published_figures
from benchmarks.public.tasks import TASKS, Benchmark, Task
from benchmarks.sections import Part, draw_table, percent

Results = Sequence[Mapping[str, Any]]

MEASURES: Mapping[Benchmark, tuple[str, str]] = {
    "chronos": ("MASE", "WQL"),
    "gift": ("MASE", "WQL"),
    "fev": ("MASE", "SQL"),
    "m4": ("OWA", "MSIS"),
}
"""The measures that rank a benchmark's models, the second one of distributions."""
TITLES: Mapping[Benchmark, str] = {
    "chronos": "Chronos Benchmark II",
    "gift": "GIFT-Eval",
    "fev": "fev-bench, electricity prices with covariates",
    "m4": "M4 Hourly and Weekly, by the competition's measures",
}
COMMAND = "`python -m benchmarks.public --run development`"
BASELINE = "seasonal-naive"


@dataclass(frozen=True)
class Place:
    """Where a model of ours stands among the published ones, over the tasks that it has run on.

    ``relative`` are geometric means of both measures over those of the published seasonal naive; ``rank`` is by the
    second one, among ``models`` (ours included) that have all these tasks and were trained on none of them;
    ``seconds`` is the median over tasks of the processor seconds of fit and forecasts.
    """

    tasks: int
    relative: tuple[float, float]
    rank: int
    models: int
    best: str
    best_relative: tuple[float, float]
    seconds: float


def list_tasks() -> str:
    """One line a task: size, protocol, and whether its data is here.

    Example:
        >>> list_tasks().splitlines()[0].split()
        ['task', 'horizon', 'season', 'windows', 'known', 'benchmarks', 'data']
    """
    lines = [f"{'task':18} {'horizon':>7} {'season':>6} {'windows':>7} {'known':>5}  {'benchmarks':14} data"]
    for task in TASKS.values():
        windows = "10 %" if task.windows is None else str(task.windows)
        kind = "" if task.development else " (kept for judging)"
        data = f"needs {', '.join(task.missing_files)}" if task.missing_files else "here"
        lines.append(
            f"{task.name:18} {task.horizon:7} {task.season:6} {windows:>7} {len(task.known):5}  "
            f"{', '.join(task.published):14} {data}{kind}"
        )
    return "\n".join(lines)


def public_parts(results: Results) -> list[Part]:
    """For each benchmark the ranks and the tasks, and what all of it costs."""
    parts = []
    for benchmark in MEASURES:
        tasks = [task for task in TASKS.values() if benchmark in task.published and _own(results, task.name)]
        if tasks:
            parts += [_task_part(benchmark, tasks, results)]
            parts += [] if benchmark == "m4" else [_rank_part(benchmark, tasks, results)]
    return [*parts, _cost_part(results)]


def judge_public(results: Results) -> list[str]:
    """How far our models are from the best published one: a sentence on panels, and one on covariates."""
    sentences = []
    groups: tuple[tuple[Benchmark, ...], ...] = (("chronos", "gift"), ("fev",))
    for benchmarks in groups:
        told = [said for benchmark in benchmarks if (said := _judge(benchmark, results))]
        if told:
            measures = " / ".join(MEASURES[benchmarks[0]])
            sentences.append(f"{measures} relative to seasonal naive: {'. '.join(told)}")
    return sentences


def judge_competition(results: Results, model: str = "fern") -> str:
    """Our overall weighted average on the M4 tasks, beside the best of the competition's entries."""
    told = []
    for task in TASKS.values():
        own = _own(results, task.name, model)
        if "m4" in task.published and own:
            entries = [
                entry.metrics["OWA"] for entry in published_figures("m4", task).values() if "OWA" in entry.metrics
            ]
            mean = fmean(result["metrics"]["OWA"] for result in own)
            rank = 1 + sum(entry < mean for entry in entries)
            told.append(
                f"{task.name.removeprefix('m4_').capitalize()} {mean:.3f} (best entry {min(entries):.3f}, rank {rank})"
            )
    return ", ".join(told)


def _judge(benchmark: Benchmark, results: Results) -> str:
    places = {model: find_place(benchmark, model, results) for model in list_models(results) if model != BASELINE}
    told, bests = [], []
    for model, place in places.items():
        if place is not None:
            told.append(
                f"`{model}` {_shares(place.relative)} (rank {place.rank} of {place.models} on {place.tasks} tasks, "
                f"{place.seconds:.3g} s a task)"
            )
            bests.append(f"{place.best} {_shares(place.best_relative)}")
    best = ", ".join(dict.fromkeys(bests))
    return f"{TITLES[benchmark]}: {', '.join(told)}; best published {best}" if told else ""


def _shares(relative: tuple[float, float]) -> str:
    return f"{relative[0]:.3f} / {relative[1]:.3f}"


def list_models(results: Results) -> list[str]:
    """Our models in the order of the tables, the baseline last."""
    return sorted({result["model"] for result in results}, key=lambda name: (name == BASELINE, name))


def find_place(benchmark: Benchmark, model: str, results: Results) -> Place | None:
    """See `Place`; None where the model has run on no task of the benchmark."""
    tasks = [task for task in TASKS.values() if benchmark in task.published and _own(results, task.name, model)]
    if not tasks:
        return None
    others = published_means(benchmark, tasks)
    own = _relative(benchmark, tasks, {task.name: _means(benchmark, results, task.name, model) for task in tasks})
    best = min(others, key=lambda name: others[name][1])
    rank = 1 + sum(relative[1] < own[1] for relative in others.values())
    seconds = median(
        fmean(result["fit_seconds"] + result["predict_seconds"] for result in _own(results, task.name, model))
        for task in tasks
    )
    return Place(len(tasks), own, rank, len(others) + 1, best, others[best], seconds)


def published_means(benchmark: Benchmark, tasks: Sequence[Task]) -> dict[str, tuple[float, float]]:
    """Relative means of the published models that have all the tasks and were trained on none of them."""
    figures = {task.name: published_figures(benchmark, task) for task in tasks}
    measures = MEASURES[benchmark]
    complete = [
        name
        for name in figures[tasks[0].name]
        if all(
            name in of and not of[name].trained and all(m in of[name].metrics for m in measures)
            for of in figures.values()
        )
    ]
    return {
        name: _relative(
            benchmark, tasks, {task: {m: of[name].metrics[m] for m in measures} for task, of in figures.items()}
        )
        for name in complete
    }


def _relative(
    benchmark: Benchmark, tasks: Sequence[Task], figures: Mapping[str, Mapping[str, float]]
) -> tuple[float, float]:
    """Geometric means over tasks of a model's figures over those of the published seasonal naive."""
    first, second = (
        float(np.exp(fmean(np.log(figures[task.name][measure] / _naive(benchmark, task)[measure]) for task in tasks)))
        for measure in MEASURES[benchmark]
    )
    return first, second


def _naive(benchmark: Benchmark, task: Task) -> Mapping[str, float]:
    return published_figures(benchmark, task)[SEASONAL_NAIVE[benchmark]].metrics


def _own(results: Results, task: str, model: str | None = None) -> list[Mapping[str, Any]]:
    return [result for result in results if result["task"] == task and model in (None, result["model"])]


def _means(benchmark: Benchmark, results: Results, task: str, model: str) -> dict[str, float]:
    return {
        measure: fmean(result["metrics"][measure] for result in _own(results, task, model))
        for measure in MEASURES[benchmark]
    }


def _task_part(benchmark: Benchmark, tasks: Sequence[Task], results: Results) -> Part:
    measures, models = MEASURES[benchmark], list_models(results)
    lines = []
    for task in tasks:
        figures = published_figures(benchmark, task)
        known = [entry for entry in figures.values() if measures[1] in entry.metrics]
        best = min(known, key=lambda entry: entry.metrics[measures[1]])
        star = " ★" if best.trained else ""
        naive = _naive(benchmark, task)
        lines.append(
            [task.name]
            + [_cell(_own(results, task.name, model), measures) for model in models]
            + [f"{best.model}{star} {_pair(best.metrics, measures)}", _pair(naive, measures)]
        )
    line = (
        f"{' / '.join(measures)}; ± is the standard deviation over seeds; ★ trained on the task; best published by "
        f"{measures[1]}. {COMMAND}"
    )
    return Part(
        f"{TITLES[benchmark]}, task by task",
        line,
        draw_table(["task", *models, "best published", "seasonal naive, published"], lines),
    )


def _rank_part(benchmark: Benchmark, tasks: Sequence[Task], results: Results) -> Part:
    first, second = MEASURES[benchmark]
    means = published_means(benchmark, tasks)
    for model in list_models(results):
        if all(_own(results, task.name, model) for task in tasks):
            figures = {task.name: _means(benchmark, results, task.name, model) for task in tasks}
            means[f"**Fern: {model}**"] = _relative(benchmark, tasks, figures)
    ordered = sorted(means.items(), key=lambda item: item[1][1])
    lines = [[name, f"{values[0]:.3f}", f"{values[1]:.3f}"] for name, values in ordered]
    missing = [model for model in list_models(results) if f"**Fern: {model}**" not in means]
    line = (
        f"Geometric means over the {len(tasks)} tasks, relative to the published seasonal naive; models that were "
        f"trained on one of them are left out{f'; not run on all: {chr(44).join(missing)}' if missing else ''}."
    )
    return Part(f"{TITLES[benchmark]}, ranks", line, draw_table(["model", first, second], lines))


def _cost_part(results: Results) -> Part:
    lines = []
    for task in TASKS.values():
        for model in list_models(results):
            own = _own(results, task.name, model)
            if own:
                mase, error, cover = (
                    fmean(result["metrics"][name] for result in own) for name in ("MASE", "MASE_error", "coverage_80")
                )
                fit, predict = (fmean(result[name] for result in own) for name in ("fit_seconds", "predict_seconds"))
                lines.append(
                    [
                        *(task.name, model, len(own), f"{own[0]['windows']} × {own[0]['series']}"),
                        *(f"{mase:.4g} ± {error:.2g} ({own[0]['spread_over']})", percent(cover)),
                        *(f"{fit:.1f}", f"{predict:.1f}"),
                    ]
                )
    line = (
        "Coverage of 80 % intervals, and processor seconds of the fit and of all forecasts, means over seeds; the "
        "error of MASE is a standard error over windows, or over series where there is one window."
    )
    heads = ["task", "model", "seeds", "windows × series", "MASE", "80 % covers", "fit s", "forecasts s"]
    return Part("Coverage and cost", line, draw_table(heads, lines, words=2))


def _cell(own: Results, measures: Sequence[str]) -> str:
    if not own:
        return "not run"
    told = []
    for measure in measures:
        values = [result["metrics"][measure] for result in own]
        told.append(f"{fmean(values):.4g}" + (f" ± {stdev(values):.2g}" if len(values) > 1 else ""))
    return " / ".join(told)


def _pair(metrics: Mapping[str, float], measures: Sequence[str]) -> str:
    return " / ".join(f"{metrics[measure]:.4g}" if measure in metrics else "–" for measure in measures)

"""The tables of public tasks: our rows beside what others published, as Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.public.published import SEASONAL_NAIVE, published_figures
from benchmarks.public.tasks import TASKS, Benchmark, Task

MEASURES: Mapping[Benchmark, tuple[str, ...]] = {
    "chronos": ("MASE", "WQL"),
    "gift": ("MASE", "WQL"),
    "fev": ("MASE", "SQL"),
    "m4": ("OWA", "MSIS"),
}
"""The measures that rank a benchmark's models, the second one of distributions."""
TITLES: Mapping[Benchmark, str] = {
    "chronos": "Chronos Benchmark II, development tasks",
    "gift": "GIFT-Eval, 14 configurations",
    "fev": "fev-bench, electricity prices with covariates",
    "m4": "M4 Hourly and Weekly, by the competition's measures",
}


@dataclass(frozen=True)
class Mean:
    """The mean of a measure over seeds, with the sample standard deviation over them, if there are several."""

    value: float
    deviation: float | None
    seeds: int


def list_tasks() -> str:
    """One line a task: size, protocol, and whether its data is here.

    Example:
        >>> list_tasks().splitlines()[0].split()
        ['task', 'horizon', 'season', 'windows', 'known', 'benchmarks', 'data']
    """
    lines = [f"{'task':18} {'horizon':>7} {'season':>6} {'windows':>7} {'known':>5}  {'benchmarks':24} data"]
    for task in TASKS.values():
        windows = "10 %" if task.windows is None else str(task.windows)
        names = ", ".join(task.published)
        kind = "" if task.development else " (kept for judging)"
        data = f"needs {', '.join(task.missing_files)}" if task.missing_files else "here"
        lines.append(
            f"{task.name:18} {task.horizon:7} {task.season:6} {windows:>7} {len(task.known):5}  {names:24} {data}{kind}"
        )
    return "\n".join(lines)


def write_tables(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of each benchmark by task, its ranks beside the published models, and what it costs."""
    parts = []
    for benchmark in MEASURES:
        tasks = [task for task in TASKS.values() if benchmark in task.published and _ran(task, rows)]
        if tasks:
            parts += [f"## {TITLES[benchmark]}\n", *_by_task(benchmark, tasks, rows), ""]
            parts += [*_ranks(benchmark, tasks, rows), ""]
    if rows:
        parts += ["## Coverage and cost\n", *_costs(rows), ""]
    return "\n".join(parts).rstrip() + "\n"


def mean_over_seeds(rows: Sequence[Mapping[str, Any]], task: str, model: str, measure: str) -> Mean | None:
    """The mean of a model's rows on a task; None where it has none."""
    values = [row["metrics"][measure] for row in rows if row["task"] == task and row["model"] == model]
    if not values:
        return None
    return Mean(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None, len(values))


def relative_means(
    benchmark: Benchmark, tasks: Sequence[Task], rows: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[float, ...]]:
    """For every model that has all the tasks, the geometric mean of its measures over seasonal naive's published ones.

    Published models that have learnt from one of the tasks are left out. Ours are named ``ours: …``.
    """
    measures = MEASURES[benchmark]
    ratios: dict[str, list[list[float]]] = {}
    for task in tasks:
        figures = published_figures(benchmark, task)
        base = figures[SEASONAL_NAIVE[benchmark]].metrics
        for name, entry in figures.items():
            if not entry.trained and all(measure in entry.metrics for measure in measures):
                ratios.setdefault(name, []).append([entry.metrics[m] / base[m] for m in measures])
        for name in sorted({row["model"] for row in rows}):
            means = [mean_over_seeds(rows, task.name, name, measure) for measure in measures]
            if all(means):
                ratios.setdefault(f"ours: {name}", []).append(
                    [mean.value / base[m] for mean, m in zip(means, measures, strict=True) if mean]
                )
    complete = {name: values for name, values in ratios.items() if len(values) == len(tasks)}
    return {name: tuple(np.exp(np.log(values).mean(axis=0)).tolist()) for name, values in complete.items()}


def _ran(task: Task, rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(row["task"] == task.name for row in rows)


def _models(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({row["model"] for row in rows}, key=lambda name: (name == "seasonal-naive", name))


def _by_task(benchmark: Benchmark, tasks: Sequence[Task], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    measures, models = MEASURES[benchmark], _models(rows)
    lines = [
        f"{' and '.join(measures)} of each task; ± is the standard deviation over seeds; ★ trained on it.\n",
        f"| task | {' | '.join(models)} | best published | seasonal naive, published |",
        "|---" * (len(models) + 3) + "|",
    ]
    for task in tasks:
        cells = [_cell(rows, task.name, model, measures) for model in models]
        figures = published_figures(benchmark, task)
        known = [entry for entry in figures.values() if measures[-1] in entry.metrics]
        best = min(known, key=lambda entry: entry.metrics[measures[-1]])
        naive = figures[SEASONAL_NAIVE[benchmark]].metrics
        star = " ★" if best.trained else ""
        told = " / ".join(f"{best.metrics[m]:.4g}" if m in best.metrics else "–" for m in measures)
        base = " / ".join(f"{naive[m]:.4g}" if m in naive else "–" for m in measures)
        lines.append(f"| {task.name} | {' | '.join(cells)} | {best.model}{star} {told} | {base} |")
    return lines


def _cell(rows: Sequence[Mapping[str, Any]], task: str, model: str, measures: Sequence[str]) -> str:
    means = [mean_over_seeds(rows, task, model, measure) for measure in measures]
    told = [
        f"{mean.value:.4g}" + (f" ± {mean.deviation:.2g}" if mean.deviation is not None else "")
        for mean in means
        if mean
    ]
    return " / ".join(told) or "not run"


def _ranks(benchmark: Benchmark, tasks: Sequence[Task], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if benchmark == "m4":  # the competition has no such aggregate; its naive has no MSIS
        return []
    first, second = MEASURES[benchmark]
    means = sorted(relative_means(benchmark, tasks, rows).items(), key=lambda item: item[1][1])
    lines = [
        f"Geometric mean over these {len(tasks)} tasks, relative to the published seasonal naive; models that were "
        "trained on one of them are left out.\n",
        f"| rank | model | {first} | {second} |",
        "|---|---|---|---|",
    ]
    for rank, (name, values) in enumerate(means, start=1):
        shown = f"**{name}**" if name.startswith("ours") else name
        lines.append(f"| {rank} | {shown} | {values[0]:.3f} | {values[1]:.3f} |")
    return lines


def _costs(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "Coverage of the 80 % interval, and processor seconds of the fit and of all forecasts, means over seeds; the "
        "error of MASE is a standard error over windows, or over series where there is one window.\n",
        "| task | model | seeds | windows × series | MASE ± error | coverage 80 % | fit | forecast |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task in TASKS.values():
        for model in _models(rows):
            own = [row for row in rows if row["task"] == task.name and row["model"] == model]
            if not own:
                continue
            mase, error, cover = (
                float(np.mean([row["metrics"][name] for row in own])) for name in ("MASE", "MASE_error", "coverage_80")
            )
            fit, predict = (float(np.mean([row[name] for row in own])) for name in ("fit_seconds", "predict_seconds"))
            lines.append(
                f"| {task.name} | {model} | {len(own)} | {own[0]['windows']} × {own[0]['series']} | "
                f"{mase:.4g} ± {error:.2g} ({own[0]['spread_over']}) | {100 * cover:.1f} % | {fit:.1f} s | "
                f"{predict:.1f} s |"
            )
    return lines

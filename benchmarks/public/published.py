"""Figures that others published for the public tasks; sources stand in ``published/SOURCES.md``."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from benchmarks.public.tasks import Benchmark, Task

FOLDER = Path(__file__).parent / "published"
SEASONAL_NAIVE: Mapping[Benchmark, str] = {
    "chronos": "seasonal_naive",
    "gift": "seasonal_naive",
    "fev": "seasonal_naive",
    "m4": "sNaive",
}
"""What each source calls it."""


@dataclass(frozen=True)
class Figures:
    """What a source gives for one model on one task; ``trained`` where the model has learnt from the task's series."""

    model: str
    metrics: Mapping[str, float]
    trained: bool


def published_figures(benchmark: Benchmark, task: Task) -> dict[str, Figures]:
    """All published figures of a task, by model.

    Example:
        >>> from benchmarks.public.tasks import named_task
        >>> figures = published_figures("gift", named_task("m4_hourly"))
        >>> figures["seasonal_naive"].metrics["MASE"], figures["chronos_bolt_small"].trained
        (1.19321, True)
    """
    label = task.published[benchmark]
    return {figures.model: figures for name, figures in _read(benchmark) if name == label}


@cache
def _read(benchmark: Benchmark) -> tuple[tuple[str, Figures], ...]:
    with (FOLDER / f"{benchmark}.csv").open(newline="") as file:
        return tuple((record["dataset"], _figures(record)) for record in csv.DictReader(file))


def _figures(record: dict[str, str]) -> Figures:
    metrics = {
        name: float(value) for name, value in record.items() if value and name not in ("dataset", "model", "trained")
    }
    return Figures(record["model"], MappingProxyType(metrics), record["trained"] == "yes")

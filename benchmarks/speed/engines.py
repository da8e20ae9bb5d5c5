"""Engines: two jobs against one, and what the engine costs a run of a minute."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.speed.harness import Effort, Measurement
from fern.benchmark.engines.local import LocalEngine
from fern.benchmark.plan import Plan, make_plan
from fern.benchmark.results import RunResult
from fern.benchmark.runs import Run
from fern.benchmark.store import Store
from fern.benchmark.sweep import Watcher, run_sweep
from fern.benchmark.tasks import task_from_mapping

PACKAGES = ("numpy", "numba", "torch")


def plan(effort: Effort, *, seeds: int, epochs: int) -> Plan:
    """Runs of Fern at the paper's sizes on a short series; every epoch takes the same time."""
    length = effort.size(336, least=24)
    values = {
        "schema": 1,
        "models": ["fern"],
        "datasets": [{"dataset": "LORENZ_BASE", "steps": effort.size(7000, least=600)}],
        "context_length": length,
        "horizons": [length],
        "seeds": list(range(seeds)),
        "train": {"preset": "shock", "epochs": epochs, "patience": epochs, "grace": 0},
    }
    return make_plan(task_from_mapping(values, name="engines"))


class Clock(Watcher):
    """Notes when each run had its row."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_run_end(self, run: Run, row: RunResult, *, elsewhere: bool) -> None:
        self.ends.append(time.perf_counter())


@dataclass(frozen=True)
class Swept:
    """A sweep: its seconds, processes' start included, and of its runs when they ended and their rows."""

    seconds: float
    runs: tuple[list[float], list[RunResult]]


def keys(runs: Plan) -> list[str]:
    """What tells the runs of a plan from others."""
    return [run.key for run in runs.runs]


def swept(runs: Plan, *, slots: int) -> Swept:
    """A sweep with one thread a run."""
    folder, clock = Path(tempfile.mkdtemp(prefix="fern-engines-")), Clock()
    try:
        began = time.perf_counter()
        summary = run_sweep(runs, Store(folder), LocalEngine(folder, slots=slots, threads=1), watcher=clock)
        spent = time.perf_counter() - began
    finally:
        shutil.rmtree(folder)
    if summary.count("done") != len(runs.runs):
        raise AssertionError([row.error for row in summary.results])
    return Swept(spent, (clock.ends, summary.results))


def measure(effort: Effort) -> list[Measurement]:
    epochs = effort.rounds(6)
    short = plan(effort, seeds=effort.size(6, least=2), epochs=epochs)
    sweeps: dict[int, list[Swept]] = {1: [], 2: []}
    for _ in range(effort.rounds(2)):  # in turns: what disturbs the machine disturbs both
        for slots, done in sweeps.items():
            done.append(swept(short, slots=slots))
    one, two = (min(each.seconds for each in done) for done in sweeps.values())
    minute = max(1, epochs * round(60 * effort.share / (one / len(short.runs))))  # the epochs of about one
    long = plan(effort, seeds=effort.size(3, least=2), epochs=minute)
    # At the sizes of a smoke run these are the runs of the first sweep.
    ends, rows = (sweeps[1][0] if keys(long) == keys(short) else swept(long, slots=1)).runs
    # Runs in a worker that is warm, as most of a sweep are: from the end of the one before to its own end.
    wall = sum(later - earlier for earlier, later in pairwise(ends)) / (len(ends) - 1)
    bare = sum(row.seconds["train"] + row.seconds["evaluate"] for row in rows[1:]) / (len(rows) - 1)
    return [
        Measurement(
            name=f"{len(short.runs)} runs of Fern, 336 to 336, two jobs of one thread",
            ours=two,
            peer=one,
            unit="s",
            peer_name="one job of one thread",
            target="ratio >= 1.7",
        ),
        Measurement(
            name="a run of about a minute in a local sweep, with its messages, claim and row",
            ours=wall,
            peer=bare,
            unit="s",
            peer_name="its training and scoring alone",
            target="ratio >= 0.97 (overhead below 3 %)",
        ),
    ]

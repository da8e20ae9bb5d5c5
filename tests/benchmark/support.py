"""What the benchmark's tests share: a task of seconds, and engines that need no processes."""

import itertools
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fern.benchmark.engines.base import Finished
from fern.benchmark.execute import Outcome, RunCache, RunContext, execute_run
from fern.benchmark.plan import make_plan
from fern.benchmark.results import RunResult
from fern.benchmark.runs import Run
from fern.benchmark.store import Store
from fern.benchmark.tasks import task_from_mapping

TINY: dict[str, Any] = {
    "schema": 1,
    "models": ["dlinear", "last-value", "oracle"],
    "datasets": [{"dataset": "OU_PARAM", "steps": 700}],
    "context_length": 24,
    "horizons": [12],
    "seeds": [7],
    "train": {"preset": "shock", "epochs": 3, "grace": 0},
}


def tiny_task(**changes):
    return task_from_mapping({**TINY, **changes}, name="tiny")


def tiny_plan(**changes):
    return make_plan(tiny_task(**changes))


def row_for(run: Run, **changes) -> RunResult:
    """A row as if the run had been done."""
    return RunResult(**{**asdict(run.settings), "status": "done", "metrics": {"mse": 1.0}, **changes})


def reproducible(result: RunResult) -> dict[str, Any]:
    """What two runs of the same settings must agree on: all but timings, the machine and the commit."""
    whole = {name: value for name, value in asdict(result).items() if name not in ("seconds", "machine", "finished")}
    whole["versions"] = {name: value for name, value in result.versions.items() if name != "commit"}
    return whole


class InlineEngine:
    """Executes runs within this process, one at a time."""

    slots, threads = 1, 1

    def __init__(self, folder: Path) -> None:
        self._store, self._bench, self._next = Store(folder), RunCache(), None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def submit(self, run):
        self._next = run

    def wait(self, seconds):
        if self._next is None:
            time.sleep(seconds / 50)
            return []
        run, self._next = self._next, None
        place = RunContext(checkpoints=self._store.checkpoint_path(run.key))
        return [Finished(run.key, execute_run(run, place, self._bench))]


class ScriptedEngine:
    """Answers each run with what a function makes of it, after a moment; computes nothing."""

    threads = 1

    def __init__(self, answer=lambda run: Finished(run.key, Outcome(row_for(run))), *, slots=2, delays=(0.0,)) -> None:
        self.slots, self._answer, self._delays = slots, answer, itertools.cycle(delays)
        self.submitted: list[str] = []
        self._under_way: list[tuple[float, Run]] = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def submit(self, run):
        assert len(self._under_way) < self.slots
        self.submitted.append(run.key)
        self._under_way.append((time.monotonic() + next(self._delays), run))

    def wait(self, seconds):
        time.sleep(0.001)
        ready = [entry for entry in self._under_way if entry[0] <= time.monotonic()]
        self._under_way = [entry for entry in self._under_way if entry not in ready]
        return [self._answer(run) for _, run in ready]

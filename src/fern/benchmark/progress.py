"""Progress of a sweep: a line per finished run with the remaining time, and on a terminal bars of the active ones."""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from fern.benchmark.results import RunResult
from fern.benchmark.runs import Run
from fern.benchmark.store import Damaged
from fern.benchmark.sweep import Watcher

if TYPE_CHECKING:
    from rich.console import Console


class Pace:
    """Estimates from finished runs: those of the same model and dataset, else of the same model, else of all.

    Example:
        >>> format_duration(4000)
        '1 h 6 min'
    """

    def __init__(self, results: Iterable[RunResult] = ()) -> None:
        self._seen: dict[tuple[str, ...], list[float]] = {}
        for result in results:
            self.add(result)

    def add(self, result: RunResult) -> None:
        """Learn from a finished run; failed runs are ignored."""
        if result.status != "done" or "total" not in result.seconds:
            return
        spent = max(result.seconds["total"], result.seconds.get("train", 0.0) + result.seconds.get("evaluate", 0.0))
        for place in ((result.model, result.dataset), (result.model,), ()):
            self._seen.setdefault(place, []).append(spent)

    def seconds(self, run: Run) -> float | None:
        """The expected duration of a run, or None if nothing is known yet."""
        for place in ((run.settings.model, run.settings.dataset), (run.settings.model,), ()):
            if place in self._seen:
                return sum(self._seen[place]) / len(self._seen[place])
        return None

    def remaining(self, waiting: Iterable[Run], under_way: Sequence[tuple[Run, float]], *, slots: int) -> float | None:
        """Seconds until all are done; ``under_way`` holds the active runs and their elapsed time."""
        estimates = [(self.seconds(run), 0.0) for run in waiting]
        estimates += [(self.seconds(run), spent) for run, spent in under_way]
        known = [max(0.0, whole - spent) for whole, spent in estimates if whole is not None]
        if len(known) < len(estimates) or not estimates:
            return None
        return max(sum(known) / slots, max(known))


def format_duration(seconds: float) -> str:
    """A length of time in two units at most.

    Example:
        >>> format_duration(9.4), format_duration(75), format_duration(200_000)
        ('9 s', '1 min 15 s', '2 d 7 h')
    """
    whole = round(seconds)
    for size, name, part, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // part} {small}"
    return f"{whole} s"


class SweepProgress(Watcher):
    """A line for each finished run; on a terminal, below them, bars of the active runs and of the sweep."""

    def __init__(self, console: "Console") -> None:
        self.console = console
        self.pace = Pace()
        self.waiting: dict[str, Run] = {}
        self.under_way: dict[str, tuple[Run, float]] = {}
        self.total = self.done = 0
        self.slots = 1
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        self.bars = Progress(
            *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
        )
        self._sweep = self.bars.add_task("runs", total=None)
        self._active: dict[str, TaskID] = {}

    def start(
        self, *, runs: Sequence[Run], results: Sequence[RunResult], damaged: Sequence[Damaged], slots: int
    ) -> None:
        """Count the remaining runs, and say what is skipped."""
        self.pace = Pace(results)
        self.waiting = {run.key: run for run in runs}
        self.done, self.slots = len(results), slots
        bad = sum(result.status != "done" for result in results)
        self.total = len(runs) + len(results) + len(damaged)
        self.say(f"{self.total} runs: {len(results)} done, {len(runs)} remaining, {slots} in parallel")
        if bad:
            self.say(f"{bad} of the finished runs failed or diverged; use --retry-failed to rerun them")
        for file in damaged:
            self.say(f"skipped: {file.problem} (use --retry-failed to rerun it)")
        self.bars.update(self._sweep, completed=self.done, total=self.total)
        self.bars.start()

    def on_run_start(self, run: Run) -> None:
        """A run moves from waiting to under way."""
        self.waiting.pop(run.key, None)
        self.under_way[run.key] = (run, time.monotonic())
        self._active[run.key] = self.bars.add_task(run.settings.describe(), total=None)

    def on_epoch(self, run: Run, *, epoch: int, epochs: int) -> None:
        """Move the run's bar."""
        self.bars.update(self._active[run.key], completed=epoch, total=epochs)

    def on_run_taken(self, run: Run) -> None:
        """Say that another process is doing the run."""
        self.say(f"{run.settings.describe()}: being run by another process")

    def on_run_end(self, run: Run, result: RunResult, *, elsewhere: bool) -> None:
        """The run's line in place of its bar."""
        self.waiting.pop(run.key, None)
        self.under_way.pop(run.key, None)
        self.done += 1
        self.pace.add(result)
        parts = (f"[{self.done}/{self.total}]", _line(result, elsewhere), self.describe_remaining())
        self.say("  ".join(part for part in parts if part))
        if run.key in self._active:
            self.bars.remove_task(self._active.pop(run.key))
        self.bars.update(self._sweep, completed=self.done)

    def on_worker_lost(self, run: Run, reason: str, *, again: bool) -> None:
        """Say what happened."""
        self.say(f"{run.settings.describe()}: {reason}; {'restarting' if again else 'giving up'}")

    def stop(self) -> None:
        """Remove the bars; the summary follows."""
        if not self.bars.disable:
            self.bars.stop()

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def describe_remaining(self) -> str:
        """The remaining time, in words."""
        now = time.monotonic()
        under_way = [(run, now - start_time) for run, start_time in self.under_way.values()]
        seconds = self.pace.remaining(self.waiting.values(), under_way, slots=self.slots)
        return "" if seconds is None else f"about {format_duration(seconds)} remaining"


def _line(result: RunResult, elsewhere: bool) -> str:
    whose = " (by another process)" if elsewhere else ""
    if result.status != "done":
        return f"{result.describe()}: {result.status}: {result.error}{whose}"
    skill = f", skill {result.metrics['skill']:.3f}" if "skill" in result.metrics else ""
    seconds = format_duration(result.seconds["total"])
    return f"{result.describe()}: mse {result.metrics['mse']:.4g}{skill}, {seconds}{whose}"

"""A sweep: the runs of a plan that a store does not have yet, shared with other sweeps on the same store."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from fern.benchmark.engines.base import Advanced, Engine, Event, Finished, Lost
from fern.benchmark.execute import Outcome, RunContext, fail_run
from fern.benchmark.locks import Claims
from fern.benchmark.plan import Plan
from fern.benchmark.results import RunResult
from fern.benchmark.runs import Run
from fern.benchmark.store import Damaged, Store
from fern.errors import FernError, NotWritten

ATTEMPTS = 3
"""How many workers may die on a run before it counts as failed."""

_GLANCE = 0.5  # seconds between two looks at what other sweeps have done


class Watcher:
    """Is notified of everything that happens in a sweep and shows nothing; subclasses override what they show."""

    def start(
        self, *, runs: Sequence[Run], results: Sequence[RunResult], damaged: Sequence[Damaged], slots: int
    ) -> None:
        """The sweep starts: these runs remain, these results exist already."""

    def on_run_start(self, run: Run) -> None:
        """This process has started a run."""

    def on_epoch(self, run: Run, *, epoch: int, epochs: int) -> None:
        """A run of this process finished an epoch."""

    def on_run_taken(self, run: Run) -> None:
        """A run is being done by another process; the sweep waits for its result."""

    def on_run_end(self, run: Run, result: RunResult, *, elsewhere: bool) -> None:
        """A run is finished; ``elsewhere`` if another process did it."""

    def on_worker_lost(self, run: Run, reason: str, *, again: bool) -> None:
        """A worker died on a run, which is started ``again`` or given up."""

    def stop(self) -> None:
        """The sweep is over, or was interrupted."""


@dataclass
class SweepSummary:
    """The result of a sweep: every result of the plan, how many it made itself, and the files it could not read."""

    results: list[RunResult] = field(default_factory=list)
    made: int = 0
    damaged: tuple[Damaged, ...] = ()

    def count(self, status: str) -> int:
        """Results with this status."""
        return sum(result.status == status for result in self.results)


def run_sweep(
    plan: Plan, store: Store, engine: Engine, *, retry_failed: bool = False, watcher: Watcher | None = None
) -> SweepSummary:
    """Do the runs of the plan that have no result in the store, and wait for those that other processes are doing.

    ``retry_failed`` reruns those that failed, diverged, or whose result or window file is damaged. Without it a damaged
    result file is named in the summary and left alone.
    """
    sweep = _Sweep(plan, store.for_writing(), engine, retry_failed=retry_failed, watcher=watcher or Watcher())
    return sweep.run()


class _Sweep:
    """The state of a sweep: each run is done, under way here, waiting its turn, or another sweep's."""

    def __init__(self, plan: Plan, store: Store, engine: Engine, *, retry_failed: bool, watcher: Watcher) -> None:
        self._store, self._engine, self._watcher = store, engine, watcher
        self._summary = SweepSummary()
        self._waiting: deque[Run] = deque()
        self._elsewhere: deque[Run] = deque()
        self._under_way: dict[str, Run] = {}
        self._deaths: dict[str, int] = {}
        self._former: dict[str, bytes | None] = {}  # what stood in the result file of a run that is to be done again
        self._sort(plan, retry_failed)

    def _sort(self, plan: Plan, retry_failed: bool) -> None:
        """Which runs there are to do."""
        self._store.remove_leftovers()
        damaged = []
        for run in plan.runs:
            result = self._store.read(run.key)
            if isinstance(result, Damaged) and not retry_failed:
                damaged.append(result)
            elif isinstance(result, RunResult) and not (retry_failed and self._is_broken(result)):
                self._summary.results.append(result)
            else:
                self._former[run.key] = None if result is None else self._store.text(run.key)
                self._waiting.append(run)
        self._summary.damaged = tuple(damaged)

    def _is_broken(self, result: RunResult) -> bool:
        """Whether a run failed or diverged, or the errors of its windows were kept and cannot be read."""
        try:
            self._store.window_errors(result.key)
        except FernError:
            return True
        return result.status != "done"

    def run(self) -> SweepSummary:
        """The sweep itself."""
        summary = self._summary
        self._watcher.start(
            runs=tuple(self._waiting), results=tuple(summary.results), damaged=summary.damaged, slots=self._engine.slots
        )
        try:
            with Claims(self._store.folder / "claims") as claims, self._engine:
                while self._waiting or self._elsewhere or self._under_way:
                    self._fill_slots(claims)
                    for event in self._engine.wait(_GLANCE):
                        self._handle(event, claims)
        finally:
            self._watcher.stop()
        return summary

    def _fill_slots(self, claims: Claims) -> None:
        """Begin runs while there is room: those nobody has, then those whose owners may have gone."""
        for queue in (self._waiting, self._elsewhere):
            for _ in range(len(queue)):
                if len(self._under_way) >= self._engine.slots:
                    break
                run = queue.popleft()
                if not self._start_run(run, claims):
                    self._elsewhere.append(run)
                    if queue is self._waiting:
                        self._watcher.on_run_taken(run)
        # With all slots busy, rows that others made are still noticed.
        for _ in range(len(self._elsewhere)):
            run = self._elsewhere.popleft()
            if not self._adopt_result(run):
                self._elsewhere.append(run)

    def _start_run(self, run: Run, claims: Claims) -> bool:
        """Begin the run, unless it has its result meanwhile; False when it belongs to another sweep."""
        if self._adopt_result(run):
            return True
        if not claims.take(run.key):
            return False
        if self._adopt_result(run):  # between the look and the claim
            claims.release(run.key)
            return True
        self._under_way[run.key] = run
        self._watcher.on_run_start(run)
        if run.trouble is not None:
            self._finish(run, fail_run(run, RunContext(threads=self._engine.threads), run.trouble), claims)
            return True
        self._engine.submit(run)
        return True

    def _adopt_result(self, run: Run) -> bool:
        """Take over the result that another sweep has made since this one began."""
        if self._store.text(run.key) == self._former[run.key]:
            return False
        result = self._store.read(run.key)
        if not isinstance(result, RunResult):
            return False
        self._summary.results.append(result)
        self._watcher.on_run_end(run, result, elsewhere=True)
        return True

    def _handle(self, event: Event, claims: Claims) -> None:
        run = self._under_way[event.key]
        if isinstance(event, Advanced):
            self._watcher.on_epoch(run, epoch=event.epoch, epochs=event.epochs)
        elif isinstance(event, Finished):
            self._finish(run, event.outcome, claims)
        elif isinstance(event, Lost):
            self._deaths[run.key] = self._deaths.get(run.key, 0) + 1
            again = self._deaths[run.key] < ATTEMPTS
            self._watcher.on_worker_lost(run, event.reason, again=again)
            if again:
                self._engine.submit(run)
            else:
                reason = f"{event.reason}, {ATTEMPTS} times in a row"
                self._finish(run, fail_run(run, RunContext(threads=self._engine.threads), reason), claims)

    def _finish(self, run: Run, outcome: Outcome, claims: Claims) -> None:
        try:
            self._store.write(outcome.result, outcome.windows)
        except NotWritten as error:
            raise NotWritten(
                f"{error}; the result of {run.settings.describe()} is missing: make room and run the same command again"
            ) from None
        claims.release(run.key)
        del self._under_way[run.key]
        self._summary.results.append(outcome.result)
        self._summary.made += 1
        self._watcher.on_run_end(run, outcome.result, elsewhere=False)

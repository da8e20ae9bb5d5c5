"""The interface of an engine and the events it reports to the sweep."""

from dataclasses import dataclass
from typing import Protocol, Self

from fern.benchmark.execute import Outcome
from fern.benchmark.runs import Run
from fern.errors import FernError, require_memory, show_value
from fern.training.runtime import PROCESS_BYTES, require_threads


@dataclass(frozen=True)
class Finished:
    """A run finished, successfully or not."""

    key: str
    outcome: Outcome


@dataclass(frozen=True)
class Lost:
    """The worker of a run died; another worker can take the run."""

    key: str
    reason: str


@dataclass(frozen=True)
class Advanced:
    """A run has finished an epoch."""

    key: str
    epoch: int
    epochs: int


Event = Finished | Lost | Advanced


class Engine(Protocol):
    """Executes runs, ``slots`` at a time with ``threads`` threads each, within a ``with`` block."""

    slots: int
    threads: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def submit(self, run: Run) -> None:
        """Start a run; at most ``slots`` run at the same time."""

    def wait(self, seconds: float) -> list[Event]:
        """The events since the last call, waiting at most ``seconds`` for the first."""


def share_threads(*, cores: int, jobs: int | None, threads: int | None) -> tuple[int, int]:
    """The number of jobs and of threads per job; what is None is chosen so that the cores are shared evenly.

    By default one job per core with one thread each. Results can depend on the number of threads in the last digits,
    because sums are then taken in another order, but not on the number of jobs.

    Example:
        >>> share_threads(cores=8, jobs=None, threads=None), share_threads(cores=8, jobs=3, threads=None)
        ((8, 1), (3, 2))
        >>> share_threads(cores=8, jobs=None, threads=4)
        (2, 4)
    """
    for name, value in (("jobs", jobs), ("threads", threads)):
        if value is not None and value < 1:
            raise FernError(argument=name, got=value, expected="at least 1")
    if threads is not None:
        require_threads(threads)
    if jobs is None:
        jobs = max(1, cores // (threads or 1))
    else:
        require_memory(f"jobs: {show_value(jobs)} processes", PROCESS_BYTES * min(jobs, 10**9))
    return jobs, threads or max(1, cores // jobs)

"""Engines: how runs are executed. Each takes runs, and tells what became of them; rows do not depend on which it is."""

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self, get_args

from fern.benchmark.plan import Plan, Run
from fern.benchmark.provenance import usable_cores
from fern.benchmark.runs import Outcome
from fern.errors import FernError, unknown_name

EngineName = Literal["local", "ray"]


@dataclass(frozen=True)
class Finished:
    """A run came to its end, good or bad."""

    key: str
    outcome: Outcome


@dataclass(frozen=True)
class Lost:
    """The worker of a run died; the run can be given to another."""

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def submit(self, run: Run) -> None:
        """Begin a run; no more than ``slots`` are under way at a time."""

    def wait(self, seconds: float) -> list[Event]:
        """What happened, waiting for it at most so long."""


def share_threads(*, cores: int, jobs: int | None, threads: int | None) -> tuple[int, int]:
    """Jobs and threads of each, where either may be left open: the cores are divided fairly.

    Nothing given: one job a core, one thread each. Rows can depend on the number of threads in the last digits,
    because sums are then taken in another order, but not on the number of jobs.

    Example:
        >>> share_threads(cores=8, jobs=None, threads=None), share_threads(cores=8, jobs=3, threads=None)
        ((8, 1), (3, 2))
        >>> share_threads(cores=8, jobs=None, threads=4)
        (2, 4)
    """
    for name, value in (("jobs", jobs), ("threads", threads)):
        if value is not None and value < 1:
            raise FernError(f"{name}: got {value}, needs at least 1")
    if jobs is None:
        jobs = max(1, cores // threads) if threads is not None else cores
    return jobs, threads if threads is not None else max(1, cores // jobs)


def open_engine(
    name: str,
    plan: Plan,
    folder: Path,
    *,
    jobs: int | None = None,
    threads: int | None = None,
    address: str | None = None,
) -> Engine:
    """The engine of this name for the runs of a plan; ``folder`` is the store's, where checkpoints go."""
    if name not in get_args(EngineName):
        raise unknown_name("engine", name, get_args(EngineName))
    if name == "local":
        if address is not None:
            raise FernError(f"address: got {address!r}, which is for the engine 'ray'; this one is 'local'")
        from fern.benchmark.engines.local import LocalEngine

        slots, each = share_threads(cores=usable_cores(), jobs=jobs, threads=threads)
        return LocalEngine(folder, slots=slots, threads=each)
    from fern.benchmark.engines.ray import RayEngine

    return RayEngine(plan, folder, jobs=jobs, threads=threads, address=address)

"""Engines execute runs and report what became of them; results do not depend on the engine."""

from pathlib import Path
from typing import Literal, get_args

from fern.benchmark.engines.base import Advanced, Engine, Event, Finished, Lost, share_threads
from fern.benchmark.plan import Plan
from fern.errors import FernError, unknown_name
from fern.training.runtime import usable_cores

__all__ = ["Advanced", "Engine", "EngineName", "Event", "Finished", "Lost", "open_engine", "share_threads"]

EngineName = Literal["local", "ray"]


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
            raise FernError(
                f"got {address!r}, which only the engine 'ray' takes; the engine is 'local'", argument="address"
            )
        from fern.benchmark.engines.local import LocalEngine

        slots, each = share_threads(cores=usable_cores(), jobs=jobs, threads=threads)
        return LocalEngine(folder, slots=slots, threads=each)
    from fern.benchmark.engines.ray import RayEngine

    return RayEngine(plan, folder, jobs=jobs, threads=threads, address=address)

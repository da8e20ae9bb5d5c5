"""The engine of a Ray cluster: one Ray task a run, data shipped once through Ray's object store.

Results are written by the sweep, which alone needs the store's folder. Workers keep checkpoints in it where they can
see it (the same machine, or a shared file system): a run whose worker is lost then resumes, and elsewhere it starts
again. Every node needs the same version of fern; a worker with another refuses to work.
"""

import time
import uuid
from functools import cache
from pathlib import Path
from typing import Any, Self

from fern.benchmark.engines.base import Event, Finished, Lost, share_threads
from fern.benchmark.engines.local import THREAD_VARIABLES
from fern.benchmark.execute import Outcome, RunCache, RunContext, execute_run
from fern.benchmark.plan import Plan
from fern.benchmark.problem import Dataset
from fern.benchmark.runs import Run
from fern.benchmark.store import Store
from fern.errors import FernError, NotWritten
from fern.extras import add_search_folder, import_modules, list_imported_modules
from fern.training.runtime import RaySession


class RayEngine:
    """Runs as Ray tasks: on the cluster at ``address``, in the Ray session there is already, or in one of its own."""

    slots: int
    threads: int

    def __init__(self, plan: Plan, folder: Path, *, jobs: int | None, threads: int | None, address: str | None) -> None:
        self._session = RaySession(address)
        self._ray = self._session.ray
        self._plan, self._folder = plan, folder.resolve()
        try:
            self.slots, self.threads = self._divide(jobs, threads)
        except FernError:
            self._session.leave()
            raise
        variables = dict.fromkeys(THREAD_VARIABLES, str(self.threads))
        # A lost worker is told to the sweep, which decides about another try: Ray itself makes none.
        self._task = self._ray.remote(work).options(
            num_cpus=self.threads, max_retries=0, runtime_env={"env_vars": variables}
        )
        self._shipped: dict[str, Any] = {}  # datasets in the object store by their fingerprints
        self._under_way: dict[Any, str] = {}
        self._modules = (str(Path.cwd()), list_imported_modules())
        self._token = f".sweep-{uuid.uuid4().hex}"

    def __enter__(self) -> Self:
        Store(self._folder).for_writing()
        (self._folder / "claims" / self._token).touch()
        return self

    def __exit__(self, *exception: object) -> None:
        for reference in self._under_way:
            self._ray.cancel(reference, force=True)
        (self._folder / "claims" / self._token).unlink(missing_ok=True)
        self._shipped.clear()
        self._session.leave()

    def submit(self, run: Run) -> None:
        """Hand the run to Ray, with a reference to its data."""
        fingerprint = run.settings.data_fingerprint
        if fingerprint not in self._shipped:
            self._shipped[fingerprint] = self._ray.put(self._plan.datasets[fingerprint])
        task = self._task if run.accelerator == "cpu" else self._task.options(num_gpus=1)
        reference = task.remote(
            run, self._shipped[fingerprint], str(self._folder), self._token, self.threads, self._modules
        )
        self._under_way[reference] = run.key

    def wait(self, seconds: float) -> list[Event]:
        """The runs that ended and those whose workers were lost."""
        if not self._under_way:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=seconds)
        events: list[Event] = []
        for reference in ready:
            key = self._under_way.pop(reference)
            try:
                events.append(Finished(key, self._ray.get(reference)))
            except FernError as error:  # the worker itself is wrong, not the run
                cause = getattr(error, "cause", error)
                raise NotWritten(str(cause)) if isinstance(cause, NotWritten) else FernError(str(cause)) from None
            except self._ray.exceptions.RayError as error:
                events.append(Lost(key, f"its Ray worker was lost ({type(error).__name__})"))
        return events

    def _divide(self, jobs: int | None, threads: int | None) -> tuple[int, int]:
        """Jobs and threads for the cluster as it is now: a job must fit on a node."""
        cores = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        largest = max(cores, default=0)
        if largest < 1:
            raise FernError("engine ray: the cluster has no CPUs")
        slots, each = share_threads(cores=sum(cores), jobs=jobs, threads=threads or (1 if jobs is None else None))
        each = each if threads is not None else min(each, largest)
        if each > largest:
            raise FernError(f"got {each}, but the largest node of the cluster has {largest} cores", argument="threads")
        fits = sum(count // each for count in cores)
        return (slots if jobs is not None else fits), each


def work(
    run: Run, dataset: Dataset, folder: str, token: str, threads: int, modules: tuple[str, tuple[str, ...]] = ("", ())
) -> Outcome:
    """A Ray task: do one run and bring back its outcome; ``modules`` are to be imported, and where they lie."""
    if modules[1]:
        add_search_folder(modules[0])
        import_modules(modules[1])
    store, bench = Store(folder), _bench()
    bench.add_dataset(dataset)
    shared = (store.folder / "claims" / token).exists()
    checkpoints = store.checkpoint_path(run.key) if shared else None
    return execute_run(run, RunContext(threads=threads, checkpoints=checkpoints), bench)


@cache
def _bench() -> RunCache:
    """What the tasks of one worker process share."""
    return RunCache()

"""The engine of one machine: worker processes that live for the whole sweep, with the cores divided among them.

Workers are started anew, never forked: a fork of a process in which torch or numba has threads can hang. They share
nothing with the sweep but a pipe, and end when the sweep does, however it ends.
"""

import multiprocessing
import signal
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Self

from fern.benchmark.engines.base import Advanced, Event, Finished, Lost
from fern.benchmark.execute import RunCache, RunContext, execute_run
from fern.benchmark.runs import Run
from fern.benchmark.store import Store
from fern.errors import FernError
from fern.extras import import_modules, list_imported_modules
from fern.processes import describe_exit, end_with_parent, spawn
from fern.training.evaluation import EpochRecord
from fern.training.logging import Progress

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Read by the libraries when they are loaded, so a worker must be born with them."""

_GOODBYE = 5.0  # seconds that a worker has to end by itself


class LocalEngine:
    """Runs on this machine, in ``slots`` worker processes of ``threads`` threads."""

    def __init__(self, folder: Path, *, slots: int, threads: int) -> None:
        self.slots, self.threads = slots, threads
        self._folder = folder.resolve()
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._workers:
            if worker.key is not None:
                worker.process.terminate()  # its checkpoint stays
            worker.pipe.close()
        for worker in self._workers:
            worker.end()

    def submit(self, run: Run) -> None:
        """Give the run to an idle worker; workers are started as they are needed."""
        idle = next((worker for worker in self._workers if worker.key is None), None)
        if idle is None:
            idle = _Worker(self._folder, self.threads)
            self._workers.append(idle)
        idle.begin(run)

    def wait(self, seconds: float) -> list[Event]:
        """What the workers said, and which of them died."""
        pipes = {worker.pipe: worker for worker in self._workers}
        events: list[Event] = []
        for pipe in wait(list(pipes), seconds):
            worker = pipes[pipe]  # type: ignore[index]  # only pipes were given
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                self._workers.remove(worker)
                worker.end()
                if worker.key is not None:
                    events.append(Lost(worker.key, f"the worker process {describe_exit(worker.process.exitcode)}"))
                continue
            if isinstance(message, FernError):
                raise message
            if isinstance(message, Finished):
                worker.key = None
            events.append(message)
        return events


class _Worker:
    """One worker process, and the run it has."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.key: str | None = None
        self.pipe, worker_end = multiprocessing.get_context("spawn").Pipe()
        variables = dict.fromkeys(THREAD_VARIABLES, str(threads))
        self.process = spawn(
            serve,
            worker_end,
            str(folder),
            threads,
            list_imported_modules(),
            daemon=True,
            name="fern",
            variables=variables,
        )
        worker_end.close()  # else its end could not be noticed here

    def begin(self, run: Run) -> None:
        self.key = run.key
        with suppress(OSError):  # died already: wait() finds out
            self.pipe.send(run)

    def end(self) -> None:
        """Make sure that it is gone."""
        self.pipe.close()
        self.process.join(_GOODBYE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class _Teller(Progress):
    """Tells the sweep each finished epoch; a message a step would cost too much."""

    def __init__(self, pipe: Connection, key: str) -> None:
        self._pipe, self._key, self._epochs = pipe, key, 0

    def start(self, *, epochs: int, steps: int, done: int) -> None:
        """Remember how many epochs there are."""
        self._epochs = epochs

    def epoch(self, record: EpochRecord, *, kept: bool) -> None:
        """Tell the epoch."""
        self._pipe.send(Advanced(self._key, record.epoch, self._epochs))


def serve(pipe: Connection, folder: str, threads: int, modules: tuple[str, ...] = ()) -> None:
    """A worker's life: take runs from the pipe, do them, answer, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the sweep's to handle
    end_with_parent()
    import_modules(modules)
    store, bench = Store(folder), RunCache()
    with suppress(EOFError, OSError):
        while True:
            run: Run = pipe.recv()
            checkpoints, progress = store.checkpoint_path(run.key), _Teller(pipe, run.key)
            place = RunContext(threads=threads, checkpoints=checkpoints, progress=progress)
            try:
                pipe.send(Finished(run.key, execute_run(run, place, bench)))
            except FernError as error:  # the worker itself is wrong, not the run
                pipe.send(error)

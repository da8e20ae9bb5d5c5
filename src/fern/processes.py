"""Processes of our own: how they are born, that they end with their parent and with all they started."""

import multiprocessing
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any

_MARK = "FERN_PROCESS_OF"  # in the environment of a servant and of what it starts, to know them by
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of Linux
_SAFE_PATH = "PYTHONSAFEPATH"
_OURS = "fern"  # any text has the effect; this one says who set it


def spawn(
    target: Callable[..., None], *arguments: Any, daemon: bool, name: str, variables: Mapping[str, str] | None = None
) -> SpawnProcess:
    """A new process that has been started with these environment variables besides its parent's.

    Python looks for modules in the current folder before anywhere else while such a process is born: a ``random.py``
    that lies there would be executed. That is switched off; what the process starts itself is as it always is.
    """
    process = multiprocessing.get_context("spawn").Process(
        target=_run_target, args=(target, *arguments), daemon=daemon, name=name
    )
    safe = {} if os.environ.get(_SAFE_PATH) else {_SAFE_PATH: _OURS}
    with _environment(safe):
        resource_tracker.ensure_running()  # serves this process and must not inherit what is meant for the other
        with _environment(variables or {}):
            process.start()
    return process


class Servant:
    """A process at the other end of a pipe, in a session of its own; `end` ends it and all that it has started.

    ``target`` is called with the pipe and the arguments, and begins by `serve_alone`.
    """

    def __init__(self, target: Callable[..., None], *arguments: Any, name: str) -> None:
        self._mark = uuid.uuid4().hex
        self._pipe, theirs = multiprocessing.get_context("spawn").Pipe()
        # Not a daemon: those may not have children, and somebody else's model may want some.
        self._process = spawn(target, theirs, *arguments, daemon=False, name=name, variables={_MARK: self._mark})
        theirs.close()

    def send(self, message: object) -> None:
        """Send a message; that the other end is dead is found out by `take`."""
        with suppress(OSError):
            self._pipe.send(message)

    def take(self, seconds: float) -> Any:
        """The next message. `TimeoutError` when there is none in time, `EOFError` when the process has died: how."""
        if not wait([self._pipe, self._process.sentinel], seconds):
            raise TimeoutError
        with suppress(EOFError, OSError):
            if self._pipe.poll():
                return self._pipe.recv()
        self._process.join(1.0)
        raise EOFError(f"its process {describe_exit(self._process.exitcode)}")

    def end(self) -> None:
        """Kill the process and what it started, also what has left its session or outlived it."""
        self._pipe.close()
        _end_descendants(self._process.pid or 0)
        with suppress(ProcessLookupError, PermissionError, AttributeError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        for _ in range(3):  # a process may start another while the first is ended
            if not _end_marked(self._mark):
                break


def serve_alone() -> None:
    """From now on this process has a session of its own and ends with its parent.

    On Linux it adopts what its children leave behind: a process that forks twice and clears its environment is still
    among its descendants, and ends with it.
    """
    with suppress(OSError, AttributeError):
        os.setsid()
    with suppress(OSError, AttributeError, ImportError):
        import ctypes

        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    end_with_parent()


def _end_descendants(process_id: int) -> None:
    """Kill what a process has started, while it lives: its orphans would be another's."""
    for _ in range(10):  # a process may start another while the first is ended
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError, IndexError):
                state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
                if state != "Z":
                    children.setdefault(int(parent), []).append(int(entry.name))
        waiting, descendants = [process_id], []
        while waiting:
            offspring = children.get(waiting.pop(), [])
            waiting += offspring
            descendants += offspring
        if not descendants:
            return
        for descendant in descendants:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, signal.SIGKILL)


def _end_marked(mark: str) -> int:
    """Kill the processes that have this mark in their environment; how many there were (none where /proc is not)."""
    ended = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            if f"{_MARK}={mark}".encode() in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                ended += 1
    return ended


def _run_target(target: Callable[..., None], *arguments: Any) -> None:
    if os.environ.get(_SAFE_PATH) == _OURS:
        del os.environ[_SAFE_PATH]
    target(*arguments)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for processes started within the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Terminated(BaseException):
    """SIGTERM or SIGHUP, as an exception: blocks are left in order. Not an `Exception`, which a model may catch."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """`Terminated` in this block when the process gets SIGTERM or SIGHUP, so that it ends its workers first.

    A signal that is ignored, as under nohup, or handled already, stays so.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise Terminated(number)

    numbers = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, leave)
                numbers.append(number)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def unwind_on_signals() -> Iterator[None]:
    """On SIGTERM or SIGHUP the block is left in order, files with it, and then the process ends by that signal.

    For functions that people call from programs of their own; a signal that the program handles stays its own.
    """
    try:
        with raise_on_signals():
            yield
    except Terminated as ended:
        number = ended.exit_code - 128
        if signal.getsignal(number) is signal.SIG_DFL:  # as it was before the block
            os.kill(os.getpid(), number)
        raise


def end_with_parent() -> None:
    """From now on this process ends when the one that started it does, however that one ends."""
    threading.Thread(target=_wait_for_parent, daemon=True, name="end with parent").start()


def describe_exit(exit_code: int | None) -> str:
    """The end of a process in words, from `multiprocessing.Process.exitcode`."""
    if exit_code is not None and exit_code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-exit_code).name}"
    return f"exited with code {exit_code}"


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        mark = os.environ.get(_MARK)
        if mark:
            _end_descendants(os.getpid())
            _end_marked(mark)  # this process is among them
        os._exit(1)

"""What worker processes share: how they are born, that they end with their parent, and how they ended."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.context import SpawnProcess
from typing import Any

_SAFE_PATH = "PYTHONSAFEPATH"
_OURS = "fern"  # any text has the effect; this one says who set it


def spawned(
    target: Callable[..., None], *arguments: Any, daemon: bool, name: str, variables: Mapping[str, str] | None = None
) -> SpawnProcess:
    """A new process that has been started with these environment variables besides its parent's.

    Python looks for modules in the current folder before anywhere else while such a process is born: a ``random.py``
    that lies there would be executed. That is switched off; what the process starts itself is as it always is.
    """
    process = multiprocessing.get_context("spawn").Process(
        target=_born, args=(target, *arguments), daemon=daemon, name=name
    )
    safe = {} if os.environ.get(_SAFE_PATH) else {_SAFE_PATH: _OURS}
    with _environment({**safe, **(variables or {})}):
        process.start()
    return process


def _born(target: Callable[..., None], *arguments: Any) -> None:
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


def end_with_parent() -> None:
    """From now on this process ends when the one that started it does, however that one ends."""
    threading.Thread(target=_wait_for_parent, daemon=True, name="end with parent").start()


def how_it_ended(exit_code: int | None) -> str:
    """The end of a process in words, from `multiprocessing.Process.exitcode`.

    Example:
        >>> how_it_ended(-9), how_it_ended(3)
        ('was killed by SIGKILL', 'exited with code 3')
    """
    if exit_code is not None and exit_code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-exit_code).name}"
    return f"exited with code {exit_code}"


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

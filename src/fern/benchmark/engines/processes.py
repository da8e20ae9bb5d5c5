"""What worker processes share: they end with their parent, and how they ended is reported."""

import multiprocessing
import os
import signal
import threading
from contextlib import suppress


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

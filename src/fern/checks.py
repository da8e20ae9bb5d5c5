"""Checks of single settings, with one wording for all parts of the package.

A truth value is no number here: ``True`` where a count is wanted is a mistake. NumPy's integers are refused too:
settings are compared, hashed and written as JSON, which knows Python's numbers alone; ``int(value)`` makes one.
"""

import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard

from fern.errors import FernError


def is_whole(value: object, *, least: int) -> TypeGuard[int]:
    """Whether this is a Python int of at least ``least``.

    Example:
        >>> is_whole(3, least=1), is_whole(True, least=1), is_whole(3.0, least=1), is_whole(0, least=1)
        (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def require_whole(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least ``least``.

    Example:
        >>> require_whole("horizon", 0, 1)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: horizon: got 0, needs a whole number of at least 1
    """
    if not is_whole(value, least=least):
        raise FernError(argument=name, got=value, expected=f"a whole number of at least {least}")


def require_number(name: str, value: object, needs: str, fits: Callable[[float], bool]) -> None:
    """Refuse what is not a finite number for which ``fits`` holds; ``needs`` says in the message what that is.

    Example:
        >>> require_number("dt", float("nan"), "a finite number above 0", lambda value: value > 0)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: dt: got nan, needs a finite number above 0
    """
    if not is_number(value) or not fits(value):
        raise FernError(argument=name, got=value, expected=needs)


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a finite number of Python; a truth value and a number beyond float64 are none.

    Example:
        >>> is_number(3), is_number(0.5), is_number("3"), is_number(True), is_number(10**400)
        (True, True, False, False, False)
    """
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def require_level(level: float) -> float:
    """The level, if it is a percentage that a region can have.

    Example:
        >>> require_level(0)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: level: got 0, needs a percentage between 0 and 100 (both excluded), such as 90
    """
    if not 0 < level < 100:
        hint = f" (did you mean {100 * level:g}?)" if 0 < level < 1 else ""
        raise FernError(
            argument="level", got=level, expected=f"a percentage between 0 and 100 (both excluded), such as 90{hint}"
        )
    return float(level)


ALWAYS_THERE = 1 << 24
"""Bytes that a process can have on any machine: not worth looking up how much there is."""


def memory_size() -> int | None:
    """The bytes of memory this process may have: the machine's, or fewer where a container limits it."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


def require_memory(what: str, needed: float) -> None:
    """Refuse what needs more bytes of memory than there are, before any are taken.

    Example:
        >>> require_memory("steps: 10^15 steps", 24e15)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        fern.errors.FernError: steps: 10^15 steps would need about 24 PB of memory, this machine has ...
    """
    if needed <= ALWAYS_THERE:
        return
    there = memory_size()
    if there is not None and needed > there:
        raise FernError(
            f"{what} would need about {format_bytes(needed)} of memory, this machine has {format_bytes(there)}"
        )


def format_bytes(count: float) -> str:
    """A number of bytes as people say it.

    Example:
        >>> format_bytes(2_500_000), format_bytes(4e14), format_bytes(10**400)
        ('2.5 MB', '400 TB', 'more than 1000 EB')
    """
    for size, unit in ((1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB"), (1e18, "EB")):
        if count < 1000 * size:
            return f"{count / size:.3g} {unit}"
    return "more than 1000 EB"

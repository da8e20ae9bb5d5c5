"""Compiled loops whose machine code is kept on disk where there is a place for it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any


def cached_njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's ``njit`` with its cache on disk; without one where no folder can be written, or the disk is full.

    Numba alone refuses to compile there: a read-only installation without a writable home would be of no use.

    Example:
        >>> @cached_njit(nogil=True)
        ... def double(x):
        ...     return 2 * x
        >>> double(4)
        8
    """
    from numba import njit

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            made = njit(cache=True, **options)(function)
        except RuntimeError:  # no folder for it
            return njit(**options)(function)
        keep = made._cache.save_overload

        def save(*arguments: Any) -> None:
            with suppress(OSError):
                keep(*arguments)

        made._cache.save_overload = save
        return made

    return decorate

"""Compiled loops: whether they are used, and their machine code kept on disk where there is a place for it."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def kernels_enabled() -> bool:
    """Whether compiled kernels may take the place of plain torch operations: not with ``FERN_KERNELS=off``.

    Both compute the same up to rounding. Other devices than the CPU, and tracing (`torch.compile`, `torch.export`),
    take the plain path in any case.
    """
    return os.environ.get("FERN_KERNELS", "on") != "off"


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

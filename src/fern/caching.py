"""Compiled loops: whether they are used, and their machine code kept on disk where there is a place for it."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from fern.errors import FernError


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
            compiled = njit(cache=True, **options)(function)
        except RuntimeError:  # no folder for it
            return njit(**options)(function)
        keep = compiled._cache.save_overload

        def save(*arguments: Any) -> None:
            with suppress(OSError):
                keep(*arguments)

        compiled._cache.save_overload = save
        return compiled

    return decorate


@cache
def compile_function(function: Callable[..., None], signature: Any) -> Any:
    """``function`` compiled for ``signature``, from Numba's cache on disk where its source is a file.

    Example:
        >>> def decay(state, params, out):
        ...     out[0] = -params[0] * state[0]
        >>> import numpy as np
        >>> out = np.empty(1)
        >>> from numba import float64, void
        >>> signature = void(float64[::1], float64[::1], float64[::1])
        >>> compile_function(decay, signature)(np.array([3.0]), np.array([2.0]), out)
        >>> float(out[0])
        -6.0
    """
    from numba import njit

    plain = getattr(function, "py_func", function)
    try:
        return njit(signature, cache=True)(plain)
    except Exception:  # noqa: BLE001 - a function without a module or source file of its own cannot be cached
        pass
    try:
        return njit(signature)(plain)
    except Exception as error:
        name = getattr(plain, "__name__", repr(plain))
        raise FernError(f"the function {name!r} cannot be compiled for {signature}: {error}") from error


def kernel(*arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Compile the decorated loop for these argument types at its first call, not at import."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def call(*values: Any) -> None:
            from numba import types

            compile_function(function, types.void(*arguments))(*values)

        call.__doc__ = function.__doc__
        call.__name__ = function.__name__
        return call

    return decorate

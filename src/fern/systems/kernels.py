"""Compiled functions: equations with one fixed signature, called by integrators through their address.

An integrator takes the equations as an argument. Passing a first-class function type, rather than letting Numba
specialise on each function, means that an integrator is compiled once for all systems and that its cache on disk is
good for every process.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from numba import njit, types

from fern.errors import FernError

VECTOR = types.float64[::1]
MATRIX = types.float64[:, ::1]
CUBE = types.float64[:, :, ::1]

EQUATIONS = types.void(VECTOR, VECTOR, VECTOR)
"""``f(state, params, out)``: writes the derivative (or drift, or noise scale) at ``state`` into ``out``."""

RECURSION = types.void(VECTOR, VECTOR, types.int64, VECTOR, VECTOR)
"""``f(state, params, step, noise, out)``: writes the state after step number ``step`` into ``out``."""

SPECTRAL = types.void(VECTOR, MATRIX, VECTOR)
"""``f(coefficients, tables, out)``: writes the non-linear term's coefficients into ``out``."""


@cache
def compiled(function: Callable[..., None], signature: Any) -> Any:
    """``function`` compiled for ``signature``, from Numba's cache on disk where its source is a file.

    Example:
        >>> def decay(state, params, out):
        ...     out[0] = -params[0] * state[0]
        >>> import numpy as np
        >>> out = np.empty(1)
        >>> compiled(decay, EQUATIONS)(np.array([3.0]), np.array([2.0]), out)
        >>> float(out[0])
        -6.0
    """
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
            compiled(function, types.void(*arguments))(*values)

        call.__doc__ = function.__doc__
        call.__name__ = function.__name__
        return call

    return decorate

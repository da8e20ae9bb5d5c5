"""The soft clamps and affine updates of `fern.models.coupling` as compiled loops: one pass over memory each.

Arrays are contiguous and of one floating type. ``raw`` (N, 2n) holds n scales and then n shifts before clamping;
``bounds`` (2, 5) holds low, high, linear low, linear high and knee, of the scales and of the shifts.

The kernels run on one thread: at the sizes of a training step they take microseconds, less than threads cost to
wake, and NaN goes through them as through torch's operations (no fast-math assumption about it is made).
"""

from typing import Any

import numpy as np
from numba import njit

from fern.models.softclamp import FAR

Array = Any
_FAST = {"contract", "arcp", "nsz", "reassoc"}


@njit(inline="always", fastmath=_FAST)
def _parts(x: Any, bounds: Array) -> Any:
    """(c, w, r) of `soft_clamp`."""
    one, far = bounds.dtype.type(1.0), bounds.dtype.type(FAR)
    c = min(max(x, bounds[2]), bounds[3])
    w = (x - c) / bounds[4]
    w = -far if w < -far else w
    w = far if w > far else w
    return c, w, one / np.sqrt(one + w * w)


@njit(inline="always", fastmath=_FAST)
def _clamped(x: Any, bounds: Array) -> Any:
    c, w, r = _parts(x, bounds)
    y = c + bounds[4] * w * r
    y = bounds[0] if y < bounds[0] else y
    return bounds[1] if y > bounds[1] else y


@njit(inline="always", fastmath=_FAST)
def _slope(x: Any, bounds: Array) -> Any:
    r = _parts(x, bounds)[2]
    return r * r * r


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def clamp(raw: Array, bounds: Array, scale: Array, shift: Array) -> None:
    """Write the clamped scales and shifts."""
    n = scale.shape[1]
    for i in range(raw.shape[0]):
        for j in range(n):
            scale[i, j] = _clamped(raw[i, j], bounds[0])
        for j in range(n):
            shift[i, j] = _clamped(raw[i, n + j], bounds[1])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def clamp_backward(raw: Array, bounds: Array, grad_scale: Array, grad_shift: Array, grad_raw: Array) -> None:
    """The gradient of `clamp`."""
    n = grad_scale.shape[1]
    for i in range(raw.shape[0]):
        for j in range(n):
            grad_raw[i, j] = grad_scale[i, j] * _slope(raw[i, j], bounds[0])
        for j in range(n):
            grad_raw[i, n + j] = grad_shift[i, j] * _slope(raw[i, n + j], bounds[1])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def affine(raw: Array, state: Array, bounds: Array, out: Array) -> None:
    """out = scale · state + shift."""
    n = state.shape[1]
    for i in range(raw.shape[0]):
        for j in range(n):
            scale = _clamped(raw[i, j], bounds[0])
            out[i, j] = scale * state[i, j] + _clamped(raw[i, n + j], bounds[1])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def affine_backward(raw: Array, state: Array, bounds: Array, grad: Array, grad_raw: Array, grad_state: Array) -> None:
    """The gradient of `affine`."""
    n = state.shape[1]
    for i in range(raw.shape[0]):
        for j in range(n):
            g = grad[i, j]
            grad_raw[i, j] = g * state[i, j] * _slope(raw[i, j], bounds[0])
            grad_raw[i, n + j] = g * _slope(raw[i, n + j], bounds[1])
            grad_state[i, j] = g * _clamped(raw[i, j], bounds[0])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def rotate(raw: Array, state: Array, bounds: Array, out: Array) -> None:
    """out = (a + ib)(u + iv) + shift for each pair (u, v) of neighbours; a last odd element is scaled by a."""
    n = state.shape[1]
    for i in range(raw.shape[0]):
        for k in range(n // 2):
            j = 2 * k
            a, b = _clamped(raw[i, j], bounds[0]), _clamped(raw[i, j + 1], bounds[0])
            u, v = state[i, j], state[i, j + 1]
            out[i, j] = a * u - b * v + _clamped(raw[i, n + j], bounds[1])
            out[i, j + 1] = b * u + a * v + _clamped(raw[i, n + j + 1], bounds[1])
        if n % 2:
            j = n - 1
            a = _clamped(raw[i, j], bounds[0])
            out[i, j] = a * state[i, j] + _clamped(raw[i, n + j], bounds[1])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def rotate_backward(raw: Array, state: Array, bounds: Array, grad: Array, grad_raw: Array, grad_state: Array) -> None:
    """The gradient of `rotate`."""
    n = state.shape[1]
    for i in range(raw.shape[0]):
        for k in range(n // 2):
            j = 2 * k
            a, b = _clamped(raw[i, j], bounds[0]), _clamped(raw[i, j + 1], bounds[0])
            u, v, gu, gv = state[i, j], state[i, j + 1], grad[i, j], grad[i, j + 1]
            grad_raw[i, j] = (gu * u + gv * v) * _slope(raw[i, j], bounds[0])
            grad_raw[i, j + 1] = (gv * u - gu * v) * _slope(raw[i, j + 1], bounds[0])
            grad_state[i, j] = a * gu + b * gv
            grad_state[i, j + 1] = a * gv - b * gu
        if n % 2:
            j = n - 1
            grad_raw[i, j] = grad[i, j] * state[i, j] * _slope(raw[i, j], bounds[0])
            grad_state[i, j] = grad[i, j] * _clamped(raw[i, j], bounds[0])
        for j in range(n):
            grad_raw[i, n + j] = grad[i, j] * _slope(raw[i, n + j], bounds[1])

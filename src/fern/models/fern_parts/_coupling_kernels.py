"""The soft clamps and affine updates of `fern.models.fern_parts.coupling` as compiled loops: one pass over memory each.

Arrays are contiguous and of one floating type. ``raw`` (N, 2n) holds n scales and then n shifts before clamping;
``bounds`` holds, for the scales and for the shifts, (low, high, linear low, linear high, knee, 1, FAR) as numbers of
that type: tuples, because a loop that reads bounds from memory it might be writing to is not vectorised.

Each inner loop writes one row of one array, which the compiler can vectorise; loops that write several are not.
The kernels run on one thread: at the sizes of a training step they take microseconds, less than threads cost to
wake, and NaN goes through them as through torch's operations (no fast-math assumption about it is made).
"""

from typing import Any

import numpy as np
from numba import njit

from fern.caching import cached_njit

Array = Any
Bounds = Any
_FAST = {"contract", "arcp", "nsz", "reassoc"}


@njit(inline="always", fastmath=_FAST)
def _parts(x: Any, bounds: Bounds) -> Any:
    """(c, w, r) of `soft_clamp`."""
    _, _, linear_low, linear_high, knee, one, far = bounds
    c = min(max(x, linear_low), linear_high)
    w = (x - c) / knee
    w = -far if w < -far else w
    w = far if w > far else w
    return c, w, one / np.sqrt(one + w * w)


@njit(inline="always", fastmath=_FAST)
def _clamped(x: Any, bounds: Bounds) -> Any:
    c, w, r = _parts(x, bounds)
    low, high, _, _, knee, _, _ = bounds
    y = c + knee * w * r
    y = low if y < low else y
    return high if y > high else y


@njit(inline="always", fastmath=_FAST)
def _slope(x: Any, bounds: Bounds) -> Any:
    r = _parts(x, bounds)[2]
    return r * r * r


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def clamp(raw: Array, bounds: Bounds, scale: Array, shift: Array) -> None:
    """Write the clamped scales and shifts."""
    of_scale, of_shift = bounds
    n = scale.shape[1]
    for i in range(raw.shape[0]):
        for j in range(n):
            scale[i, j] = _clamped(raw[i, j], of_scale)
        for j in range(n):
            shift[i, j] = _clamped(raw[i, n + j], of_shift)


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def clamp_backward(raw: Array, bounds: Bounds, grad_scale: Array, grad_shift: Array, grad_raw: Array) -> None:
    """The gradient of `clamp`."""
    of_scale, of_shift = bounds
    n = grad_scale.shape[1]
    for i in range(raw.shape[0]):
        for j in range(n):
            grad_raw[i, j] = grad_scale[i, j] * _slope(raw[i, j], of_scale)
        for j in range(n):
            grad_raw[i, n + j] = grad_shift[i, j] * _slope(raw[i, n + j], of_shift)


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def affine(raw: Array, state: Array, bounds: Bounds, out: Array) -> None:
    """out = scale · state + shift."""
    of_scale, of_shift = bounds
    n = state.shape[1]
    for i in range(raw.shape[0]):
        for j in range(n):
            scale = _clamped(raw[i, j], of_scale)
            out[i, j] = scale * state[i, j] + _clamped(raw[i, n + j], of_shift)


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def affine_backward(raw: Array, state: Array, bounds: Bounds, grad: Array, grad_raw: Array, grad_state: Array) -> None:
    """The gradient of `affine`."""
    of_scale, of_shift = bounds
    n = state.shape[1]
    for i in range(raw.shape[0]):
        for j in range(n):
            grad_raw[i, j] = grad[i, j] * state[i, j] * _slope(raw[i, j], of_scale)
        for j in range(n):
            grad_raw[i, n + j] = grad[i, j] * _slope(raw[i, n + j], of_shift)
        for j in range(n):
            grad_state[i, j] = grad[i, j] * _clamped(raw[i, j], of_scale)


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def rotate(raw: Array, state: Array, bounds: Bounds, out: Array) -> None:
    """out = (a + ib)(u + iv) + shift for each pair (u, v) of neighbours; a last odd element is scaled by a."""
    of_scale, of_shift = bounds
    n = state.shape[1]
    scale = np.empty(n, raw.dtype)
    for i in range(raw.shape[0]):
        for j in range(n):
            scale[j] = _clamped(raw[i, j], of_scale)
        for j in range(n):
            out[i, j] = _clamped(raw[i, n + j], of_shift)
        for k in range(n // 2):
            j = 2 * k
            out[i, j] += scale[j] * state[i, j] - scale[j + 1] * state[i, j + 1]
            out[i, j + 1] += scale[j + 1] * state[i, j] + scale[j] * state[i, j + 1]
        if n % 2:
            out[i, n - 1] += scale[n - 1] * state[i, n - 1]


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def rotate_backward(raw: Array, state: Array, bounds: Bounds, grad: Array, grad_raw: Array, grad_state: Array) -> None:
    """The gradient of `rotate`."""
    of_scale, of_shift = bounds
    n = state.shape[1]
    scale, slope = np.empty(n, raw.dtype), np.empty(n, raw.dtype)
    for i in range(raw.shape[0]):
        for j in range(n):
            scale[j] = _clamped(raw[i, j], of_scale)
        for j in range(n):
            slope[j] = _slope(raw[i, j], of_scale)
        for j in range(n):
            grad_raw[i, n + j] = grad[i, j] * _slope(raw[i, n + j], of_shift)
        for k in range(n // 2):
            j = 2 * k
            u, v, gu, gv = state[i, j], state[i, j + 1], grad[i, j], grad[i, j + 1]
            grad_raw[i, j] = (gu * u + gv * v) * slope[j]
            grad_raw[i, j + 1] = (gv * u - gu * v) * slope[j + 1]
            grad_state[i, j] = scale[j] * gu + scale[j + 1] * gv
            grad_state[i, j + 1] = scale[j] * gv - scale[j + 1] * gu
        if n % 2:
            grad_raw[i, n - 1] = grad[i, n - 1] * state[i, n - 1] * slope[n - 1]
            grad_state[i, n - 1] = grad[i, n - 1] * scale[n - 1]

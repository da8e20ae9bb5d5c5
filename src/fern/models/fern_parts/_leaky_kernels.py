"""The clamp that leaks and its slope, in one pass over memory each, eight numbers at a time.

Arrays are flat, of float32. ``x`` has rows of a width that is a multiple of 8, ``stride`` apart, so that it may be half
of a wider array; ``out`` has them one after the other. With v = β(x - high) and e = exp(-|v|),
log(1 + exp(v)) = max(v, 0) + log(1 + e), the logarithm by a polynomial within 1e-8 on [0, 1]; the slope needs
1 / (1 + exp(-v)) = 1/2 ± (1 - e) / (1 + e) / 2, the sign that of v.
"""

from typing import Any

import numpy as np
from numba import njit

from fern.caching import cached_njit
from fern.transport._lanes import (
    LANES,
    LOG2_E,
    add,
    copysign,
    exponential,
    fma,
    load,
    magnitude,
    maximum,
    mul,
    neg,
    reciprocal,
    spread,
    store,
)

Array = Any
Value = Any
Bounds = Any  # (low, high, sharpness, 1 - leak) in float32

_LOG2_E = np.float32(-LOG2_E)
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = (  # of log(1 + e), interpolated at Chebyshev's points
    np.float32(c)
    for c in (
        6.057847723450749e-09,
        0.9999987830867273,
        -0.4999589446848032,
        0.33278533800065746,
        -0.24618967719166315,
        0.18421386356488156,
        -0.12447194563436598,
        0.06573552558543269,
        -0.0226280072114605,
        0.003662242215796141,
    )
)


@njit(inline="always")
def _softplus(v: Value) -> Value:
    """log(1 + exp(v))."""
    e = exponential(mul(magnitude(v), spread(_LOG2_E)))
    p = fma(spread(_C9), e, spread(_C8))
    p = fma(p, e, spread(_C7))
    p = fma(p, e, spread(_C6))
    p = fma(p, e, spread(_C5))
    p = fma(p, e, spread(_C4))
    p = fma(p, e, spread(_C3))
    p = fma(p, e, spread(_C2))
    p = fma(p, e, spread(_C1))
    p = fma(p, e, spread(_C0))
    return add(maximum(v, spread(_ZERO)), p)


@njit(inline="always")
def _sigmoid(v: Value) -> Value:
    """1 / (1 + exp(-v))."""
    e = exponential(mul(magnitude(v), spread(_LOG2_E)))
    half = mul(spread(_HALF), mul(add(spread(_ONE), neg(e)), reciprocal(add(spread(_ONE), e))))
    return add(copysign(half, v), spread(_HALF))


@cached_njit(nogil=True, error_model="numpy")
def clamp(x: Array, stride: int, width: int, bounds: Bounds, out: Array) -> None:
    """out = x - kept·ζ(x - high) + kept·ζ(low - x)."""
    low, high, sharpness, kept = bounds
    share = kept / sharpness
    for row in range(out.size // width):
        for n in range(0, width, LANES):
            value = load(x, row * stride + n)
            above = _softplus(mul(add(value, spread(-high)), spread(sharpness)))
            below = _softplus(mul(add(spread(low), neg(value)), spread(sharpness)))
            store(out, row * width + n, fma(add(below, neg(above)), spread(share), value))


@cached_njit(nogil=True, error_model="numpy")
def slope(x: Array, stride: int, width: int, bounds: Bounds, out: Array) -> None:
    """The derivative of `clamp`."""
    low, high, sharpness, kept = bounds
    for row in range(out.size // width):
        for n in range(0, width, LANES):
            value = load(x, row * stride + n)
            above = _sigmoid(mul(add(value, spread(-high)), spread(sharpness)))
            below = _sigmoid(mul(add(spread(low), neg(value)), spread(sharpness)))
            store(out, row * width + n, fma(add(above, below), spread(-kept), spread(_ONE)))

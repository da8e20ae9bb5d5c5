"""GELU with dropout, and its gradient, in one pass over memory each, eight numbers at a time.

Φ, the normal distribution function, is Hastings' rational approximation (Abramowitz and Stegun 7.1.26, within
8e-8): it needs exp(-h²/2), from which the density φ of the gradient follows at no further cost. Arrays are flat, of
float32, and as long as a multiple of 16.
"""

from typing import Any

import numpy as np
from numba import njit

from fern.caching import cached_njit
from fern.models.layers._lane_functions import (
    LOG2_E,
    copysign,
    exponential,
    hashed,
    kept_high,
    kept_low,
    magnitude,
    reciprocal,
    spread,
)
from fern.transport._lanes import LANES, add, fma, load, mul, neg, store

Array = Any
Value = Any
Keys = Any  # of `fern.models.layers.dropout`

_HALF_LOG2_E = np.float32(-0.5 * LOG2_E)
_RATE = np.float32(0.3275911 / 2.0**0.5)
_A1, _A2, _A3, _A4, _A5 = (
    np.float32(a / 2.0) for a in (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
)
_DENSITY = np.float32((2.0 * np.pi) ** -0.5)
_HALF, _ONE = np.float32(0.5), np.float32(1.0)


@njit(inline="always")
def _normal(h: Value) -> Any:
    """Φ(h) and exp(-h²/2)."""
    size = magnitude(h)
    bell = exponential(mul(mul(h, h), spread(_HALF_LOG2_E)))
    t = reciprocal(fma(size, spread(_RATE), spread(_ONE)))
    tail = fma(fma(fma(fma(spread(_A5), t, spread(_A4)), t, spread(_A3)), t, spread(_A2)), t, spread(_A1))
    beyond = fma(mul(tail, t), neg(bell), spread(_HALF))  # Φ(|h|) - 1/2
    return add(copysign(beyond, h), spread(_HALF)), bell


@njit(inline="always")
def _value(h: Value) -> Value:
    return mul(h, _normal(h)[0])


@njit(inline="always")
def _both(h: Value) -> Any:
    """GELU and its slope."""
    share, bell = _normal(h)
    return mul(h, share), fma(mul(h, spread(_DENSITY)), bell, share)


@cached_njit(nogil=True, error_model="numpy")
def gelu(h: Array, start: int, keys: Keys) -> None:
    """h ← mask · h Φ(h), with the masks of entries ``start``, start + 1, … of the whole; 16 divides start."""
    first, second, last, scale = keys
    if scale == _ONE:
        for n in range(0, h.size, LANES):
            store(h, n, _value(load(h, n)))
        return
    for n in range(0, h.size, 2 * LANES):  # a hash decides for two
        drawn = hashed(first, second, np.uint32((start + n) // (2 * LANES)))
        store(h, n, mul(_value(load(h, n)), kept_high(drawn, last, scale)))
        store(h, n + LANES, mul(_value(load(h, n + LANES)), kept_low(drawn, last, scale)))


@njit(inline="always")
def _store_both(h: Array, n: int, mask: Value, grad: Array) -> None:
    value, slope = _both(load(h, n))
    store(h, n, mul(value, mask))
    store(grad, n, mul(load(grad, n), mul(slope, mask)))


@cached_njit(nogil=True, error_model="numpy")
def gelu_backward(h: Array, start: int, keys: Keys, grad: Array) -> None:
    """`gelu` again, and grad ← grad · mask · (Φ(h) + h φ(h))."""
    first, second, last, scale = keys
    if scale == _ONE:
        for n in range(0, h.size, LANES):
            _store_both(h, n, spread(_ONE), grad)
        return
    for n in range(0, h.size, 2 * LANES):
        drawn = hashed(first, second, np.uint32((start + n) // (2 * LANES)))
        _store_both(h, n, kept_high(drawn, last, scale), grad)
        _store_both(h, n + LANES, kept_low(drawn, last, scale), grad)

"""Dropout as a compiled loop: one pass over memory, its mask computed on the way and again on the way back.

The mask of entry n is a hash of n under two keys, so it needs neither memory nor a generator's state for each entry.
"""

from typing import Any

import numpy as np
from numba import njit

from fern.caching import cached_njit

Array = Any  # of float32, one-dimensional, contiguous
Keys = Any  # of `fern.models.layers.dropout`

ROUNDS = ((16, 0x21F0AAAD), (15, 0x735A2D97))
"""Shifts and factors of a 32-bit mixing function with little bias (Wellons, hash-prospector)."""
LAST_ROUND = (15, 0x85EBCA6B)
"""One more round, after the second key."""

_SHIFTS = tuple(np.uint32(shift) for shift, _ in (*ROUNDS, LAST_ROUND))
_FACTORS = tuple(np.uint32(factor) for _, factor in (*ROUNDS, LAST_ROUND))
_UPPER = np.uint32(16)


@njit(inline="always")
def _round(x: Any, number: int) -> Any:
    return np.uint32(np.uint32(x ^ np.uint32(x >> _SHIFTS[number])) * _FACTORS[number])


@cached_njit(nogil=True)
def mask(x: Array, keys: Keys, out: Array) -> None:
    """out[n] = scale · x[n] where the upper 16 bits of the hash of n are at most ``last``, else 0."""
    first, second, last, scale = keys
    for n in range(x.size):
        drawn = _round(_round(np.uint32(np.uint32(n) ^ first), 0), 1)
        drawn = _round(np.uint32(drawn ^ second), 2)
        out[n] = x[n] * (scale if np.uint32(drawn >> _UPPER) <= last else np.float32(0.0))

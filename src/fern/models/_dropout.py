"""Dropout masks as compiled loops: a hash of a number's place under two keys, so that no mask need be stored.

The hash is a 32-bit mixing function with little bias (Wellons, hash-prospector), with one more round after the second
key. Keys are those of `fern.models.layers.Dropout`.
"""

from typing import Any

import numpy as np
from numba import njit

from fern.caching import cached_njit

Array = Any  # of float32, contiguous
Keys = Any  # of `fern.models.layers`

TOGETHER = 8
"""Rows of attention whose weights are numbered together."""

_SHIFTS = np.array([16, 15, 15], np.uint32)
_FACTORS = np.array([0x21F0AAAD, 0x735A2D97, 0x85EBCA6B], np.uint32)
_HALF, _LOWER, _MIXED = np.uint32(16), np.uint32(0xFFFF), np.uint32(15)


@njit(inline="always")
def _round(x: Any, number: int) -> Any:
    return np.uint32(np.uint32(x ^ np.uint32(x >> _SHIFTS[number])) * _FACTORS[number])


@njit(inline="always")
def _hash(place: Any, first: Any, second: Any) -> Any:
    return _round(np.uint32(_round(_round(np.uint32(place ^ first), 0), 1) ^ second), 2)


@cached_njit(nogil=True)
def mask(x: Array, keys: Keys, out: Array) -> None:
    """out[n] = scale · x[n] where the upper 16 bits of the hash of n are at most ``last``, else 0."""
    first, second, last, scale = keys
    for n in range(x.size):
        kept = np.uint32(_hash(np.uint32(n), first, second) >> _HALF) <= last
        out[n] = x[n] * (scale if kept else np.float32(0.0))


@cached_njit(nogil=True)
def attention_mask(heads: int, keys: Keys, out: Array) -> None:  # (rows · heads, tokens, tokens)
    """``scale`` or 0 for each weight; two neighbouring keys of a query take the upper and the lower half of a hash."""
    first, second, last, scale = keys
    tokens = out.shape[1]
    pairs = (tokens + 1) // 2
    for n in range(out.shape[0]):
        row, head = n // heads, n % heads
        block, lane = row // TOGETHER, row % TOGETHER
        for query in range(tokens):
            begin = ((block * heads + head) * tokens + query) * pairs
            for key in range(tokens):
                drawn = _hash(np.uint32((begin + key // 2) * TOGETHER + lane), first, second)
                if key % 2:  # the lower bits of a product depend on lower bits only: the upper ones are mixed in
                    drawn = np.uint32(np.uint32(drawn ^ np.uint32(drawn >> _MIXED)) & _LOWER)
                else:
                    drawn = np.uint32(drawn >> _HALF)
                out[n, query, key] = scale if drawn <= last else np.float32(0.0)

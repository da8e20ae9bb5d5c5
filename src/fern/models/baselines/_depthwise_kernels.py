"""Short depthwise convolutions as compiled loops: one pass over the rows for the values, one for each gradient."""

from typing import Any

import numpy as np

from fern.caching import cached_njit

Array = Any  # of float32, contiguous


@cached_njit(nogil=True, error_model="numpy")
def convolve(rows: Array, weights: Array, out: Array) -> None:
    """out[r, b, n] = Σ_j weights[r, j] rows[r, b, n + j - k // 2], zeros beyond the ends; rows (R, B, N)."""
    length, taps = rows.shape[2], weights.shape[1]
    half = taps // 2
    padded = np.zeros(length + taps - 1, rows.dtype)
    for r in range(rows.shape[0]):
        for b in range(rows.shape[1]):
            for n in range(length):
                padded[half + n] = rows[r, b, n]
                out[r, b, n] = np.float32(0.0)
            for j in range(taps):
                weight = weights[r, j]
                for n in range(length):
                    out[r, b, n] += weight * padded[n + j]


@cached_njit(nogil=True, error_model="numpy")
def correlate(rows: Array, grad: Array, out: Array) -> None:
    """out[r, j] = Σ_bn grad[r, b, n] rows[r, b, n + j - k // 2]: the gradient of `convolve` in its weights."""
    length, taps = rows.shape[2], out.shape[1]
    half = taps // 2
    padded = np.zeros(length + taps - 1, rows.dtype)
    sums = np.empty((taps, length), rows.dtype)  # of each place, so that no sum runs along a row: lanes stay apart
    for r in range(rows.shape[0]):
        sums[:] = np.float32(0.0)
        for b in range(rows.shape[1]):
            for n in range(length):
                padded[half + n] = rows[r, b, n]
            for j in range(taps):
                for n in range(length):
                    sums[j, n] += grad[r, b, n] * padded[n + j]
        for j in range(taps):
            out[r, j] = sums[j].sum()

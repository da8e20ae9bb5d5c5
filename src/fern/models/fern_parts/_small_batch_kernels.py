"""Fern's network for a few series at once, as one compiled call on the CPU.

For one window the network is a dozen products of a matrix and three vectors: most of their time in torch goes into
preparing each. Here every weight is read once, row by row, and the rows of the batch take it from the cache.

Numba's cache watches the file of a cached kernel only: after a change in ``_coupling_kernels.py``, touch this file.
"""

from typing import Any

import numpy as np

from fern.caching import cached_njit
from fern.models.fern_parts import _coupling_kernels as kernels

Array = Any
Linear = Any  # (weight (out, in), bias (out,))
_FAST = {"contract", "arcp", "nsz", "reassoc"}  # NaN and infinity must come through


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def _dot(weights: Array, x: Array) -> Any:
    s = x.dtype.type(0)
    for k in range(x.shape[0]):
        s += weights[k] * x[k]
    return s


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def _three_dots(weights: Array, x: Array, y: Array, z: Array) -> Any:
    """One row of weights, loaded once, with three vectors: more sums at once leave the compiler too few registers."""
    s, t, u = x.dtype.type(0), x.dtype.type(0), x.dtype.type(0)
    for k in range(x.shape[0]):
        s += weights[k] * x[k]
        t += weights[k] * y[k]
        u += weights[k] * z[k]
    return s, t, u


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def _linear(linear: Linear, x: Array, out: Array) -> None:
    """out = x weightᵀ + bias."""
    weight, bias = linear
    n = x.shape[0]
    for j in range(weight.shape[0]):
        for i in range(0, n - 2, 3):
            s, t, u = _three_dots(weight[j], x[i], x[i + 1], x[i + 2])
            out[i, j], out[i + 1, j], out[i + 2, j] = s + bias[j], t + bias[j], u + bias[j]
        for i in range(n - n % 3, n):
            out[i, j] = _dot(weight[j], x[i]) + bias[j]


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def _features(linear: Linear, x: Array, out: Array) -> None:
    """out = relu(x weightᵀ + bias)."""
    _linear(linear, x, out)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = out[i, j] if not out[i, j] < 0 else out.dtype.type(0)


@cached_njit(nogil=True, error_model="numpy")
def _apart(rows: int, width: int, like: Array) -> Array:
    """An array two rows away from all other memory: see `fern.models.fern_parts.coupling`."""
    return np.empty((rows + 4, width), like.dtype)[2 : rows + 2]


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def run(
    x: Array,  # (N, L)
    z: Array,  # (N, latent), overwritten
    features: Any,  # the linear maps H_x, H_z and the hidden layer of ψ
    heads_x: Any,  # K linear maps
    heads_z: Any,  # K - 1 linear maps
    spectrum: Linear,
    vectors: Linear,
    tables: Any,  # bounds of plain and rotating updates, and of ψ's pair
    out: Any,  # scales (N, n), places (N, n), vectors (N, R·n)
) -> None:
    """The coupling layers and ψ: see `fern.models.fern.Fern`."""
    plain, rotating, of_head = tables
    features_x, features_z, hidden = features
    n = x.shape[0]
    h, h2 = np.empty((n, hidden[0].shape[0]), x.dtype), np.empty((n, hidden[0].shape[0]), x.dtype)
    raw_z, raw_x = _apart(n, 2 * z.shape[1], x), _apart(n, 2 * x.shape[1], x)
    state = x
    for i in range(len(heads_x)):
        _features(features_x, state, h)
        _linear(heads_x[i], h, raw_z)
        kernels.affine(raw_z, z, plain, z)
        if i + 1 < len(heads_x):
            _features(features_z, z, h)
            _linear(heads_z[i], h, raw_x)
            updated = _apart(n, x.shape[1], x)
            if i % 2 == 1:
                kernels.rotate(raw_x, state, rotating, updated)
            else:
                kernels.affine(raw_x, state, plain, updated)
            state = updated
    _features(features_z, z, h)
    _features(hidden, h, h2)
    raw = _apart(n, spectrum[0].shape[0], x)
    _linear(spectrum, h2, raw)
    kernels.clamp(raw, of_head, out[0], out[1])
    _linear(vectors, h2, out[2])

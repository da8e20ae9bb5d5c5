"""Compiled loops of Fern's network on the CPU, called from `coupling` and `heads`.

First the soft clamps and affine updates of the coupling layers, one pass over memory each. Arrays are contiguous and of
one floating type. ``raw`` (N, 2n) holds n scales and then n shifts before clamping; ``bounds`` holds, for the scales
and for the shifts, (low, high, linear low, linear high, knee, 1, FAR) as numbers of that type: tuples, because a loop
that reads bounds from memory it might be writing to is not vectorised. Each inner loop writes one row of one array,
which the compiler can vectorise; loops that write several are not. They run on one thread: at the sizes of a training
step they take microseconds, less than threads cost to wake, and NaN goes through them as through torch's operations (no
fast-math assumption about it is made).

Then the network for a few series at once, as one call. For one window it is a dozen products of a matrix and three
vectors: most of their time in torch goes into preparing each. Here every weight is read once, row by row, and the rows
of the batch take it from the cache.

Last the author's clamp that leaks and its slope, eight numbers at a time. Arrays are flat, of float32. ``x`` has rows
of a width that is a multiple of 8, ``stride`` apart, so that it may be half of a wider array; ``out`` has them one
after the other. With v = β(x - high) and e = exp(-|v|), log(1 + exp(v)) = max(v, 0) + log(1 + e), the logarithm by a
polynomial within 1e-8 on [0, 1]; the slope needs 1 / (1 + exp(-v)) = 1/2 ± (1 - e) / (1 + e) / 2, the sign that of v.
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
def _soft_clamp(x: Any, bounds: Bounds) -> Any:
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
            scale[i, j] = _soft_clamp(raw[i, j], of_scale)
        for j in range(n):
            shift[i, j] = _soft_clamp(raw[i, n + j], of_shift)


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
            scale = _soft_clamp(raw[i, j], of_scale)
            out[i, j] = scale * state[i, j] + _soft_clamp(raw[i, n + j], of_shift)


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
            grad_state[i, j] = grad[i, j] * _soft_clamp(raw[i, j], of_scale)


@cached_njit(nogil=True, fastmath=_FAST, error_model="numpy")
def rotate(raw: Array, state: Array, bounds: Bounds, out: Array) -> None:
    """out = (a + ib)(u + iv) + shift for each pair (u, v) of neighbours; a last odd element is scaled by a."""
    of_scale, of_shift = bounds
    n = state.shape[1]
    scale = np.empty(n, raw.dtype)
    for i in range(raw.shape[0]):
        for j in range(n):
            scale[j] = _soft_clamp(raw[i, j], of_scale)
        for j in range(n):
            out[i, j] = _soft_clamp(raw[i, n + j], of_shift)
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
            scale[j] = _soft_clamp(raw[i, j], of_scale)
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


Linear = Any  # (weight (out, in), bias (out,))


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
def run_network(
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
        affine(raw_z, z, plain, z)
        if i + 1 < len(heads_x):
            _features(features_z, z, h)
            _linear(heads_z[i], h, raw_x)
            updated = _apart(n, x.shape[1], x)
            if i % 2 == 1:
                rotate(raw_x, state, rotating, updated)
            else:
                affine(raw_x, state, plain, updated)
            state = updated
    _features(features_z, z, h)
    _features(hidden, h, h2)
    raw = _apart(n, spectrum[0].shape[0], x)
    _linear(spectrum, h2, raw)
    clamp(raw, of_head, out[0], out[1])
    _linear(vectors, h2, out[2])


Value = Any
LeakyBounds = Any  # (low, high, sharpness, 1 - leak) in float32

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
def leaky_clamp(x: Array, stride: int, width: int, bounds: LeakyBounds, out: Array) -> None:
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
def leaky_slope(x: Array, stride: int, width: int, bounds: LeakyBounds, out: Array) -> None:
    """The derivative of `leaky_clamp`."""
    low, high, sharpness, kept = bounds
    for row in range(out.size // width):
        for n in range(0, width, LANES):
            value = load(x, row * stride + n)
            above = _sigmoid(mul(add(value, spread(-high)), spread(sharpness)))
            below = _sigmoid(mul(add(spread(low), neg(value)), spread(sharpness)))
            store(out, row * width + n, fma(add(above, below), spread(-kept), spread(_ONE)))

"""The reflections as Numba kernels for float32 and float64 on the CPU, eight sets side by side.

Each kernel takes flat arrays, the strides of their rows, and a range of sets. A block of eight sets is
transposed into a scratch that stays in the first-level cache (R·p·8 numbers), so that entry k of all eight is
one `Lanes` value; everything then runs along k. Lanes beyond the last set hold zeros, which reflect nothing.
"""

from typing import Any

import numpy as np
from numba import njit

from fern.transport._lanes import (
    LANES,
    add,
    fma,
    load,
    mul,
    neg,
    reflection_weight,
    store,
    transpose,
    zero,
)

Array = Any  # a one-dimensional contiguous array of float32 or float64
Value = Any  # a `Lanes` value

UNROLLED = 4  # entries a loop turn: as many sums run at once, to hide the latency of fused multiply-adds


def _kernel(function: Any) -> Any:
    # Released GIL: the caller splits the sets over threads. No fastmath: NaN and infinity must come through.
    return njit(nogil=True, cache=True, error_model="numpy")(function)


@_kernel
def _padded(p: int) -> int:
    """p rounded up to whole loop turns."""
    return (p + UNROLLED - 1) // UNROLLED * UNROLLED


@_kernel
def _gather(into: Array, at: int, source: Array, first: int, stride: int, count: int, p: int) -> None:
    """Entries [0, p) of ``count`` <= 8 rows of source, ``stride`` apart, to lanes; zeros elsewhere."""
    whole = p // LANES * LANES if count == LANES else 0
    for k in range(0, whole, LANES):
        transpose(into, at + k * LANES, LANES, source, first + k, stride)
    for k in range(whole, p):
        for lane in range(count):
            into[at + k * LANES + lane] = source[first + lane * stride + k]
        for lane in range(count, LANES):
            into[at + k * LANES + lane] = 0.0
    for k in range(p * LANES, _padded(p) * LANES):
        into[at + k] = 0.0


@_kernel
def _scatter(source: Array, at: int, into: Array, first: int, stride: int, count: int, p: int) -> None:
    """The way back of `_gather`."""
    whole = p // LANES * LANES if count == LANES else 0
    for k in range(0, whole, LANES):
        transpose(into, first + k, stride, source, at + k * LANES, LANES)
    for k in range(whole, p):
        for lane in range(count):
            into[first + lane * stride + k] = source[at + k * LANES + lane]


@_kernel
def _dot(a: Array, i: int, b: Array, j: int, size: int) -> Value:
    s0, s1, s2, s3 = zero(a), zero(a), zero(a), zero(a)
    for k in range(0, size, UNROLLED * LANES):
        s0 = fma(load(a, i + k), load(b, j + k), s0)
        s1 = fma(load(a, i + k + LANES), load(b, j + k + LANES), s1)
        s2 = fma(load(a, i + k + 2 * LANES), load(b, j + k + 2 * LANES), s2)
        s3 = fma(load(a, i + k + 3 * LANES), load(b, j + k + 3 * LANES), s3)
    return add(add(s0, s1), add(s2, s3))


@_kernel
def _step(v: Array, i: int, j: int, x: Array, k: int, by: Value, total: Value) -> Value:
    moved = fma(by, load(v, i + k), load(x, k))
    store(x, k, moved)
    return fma(moved, load(v, j + k), total)


@_kernel
def _add_and_dot(v: Array, i: int, j: int, x: Array, by: Value, size: int) -> Value:
    """X += by · v_i, and the dot product of the new x with v_j, in one pass."""
    s0, s1, s2, s3 = zero(x), zero(x), zero(x), zero(x)
    for k in range(0, size, UNROLLED * LANES):
        s0 = _step(v, i, j, x, k, by, s0)
        s1 = _step(v, i, j, x, k + LANES, by, s1)
        s2 = _step(v, i, j, x, k + 2 * LANES, by, s2)
        s3 = _step(v, i, j, x, k + 3 * LANES, by, s3)
    return add(add(s0, s1), add(s2, s3))


@_kernel
def _walk(v: Array, weight: Array, x: Array, reflections: int, size: int, back: bool) -> None:
    """X = U x, or Uᵀ x where ``back``."""
    if reflections == 0:
        return
    way = -1 if back else 1
    i = reflections - 1 if back else 0
    along = _dot(v, i * size, x, 0, size)
    for turn in range(reflections):
        following = i + way if turn + 1 < reflections else i
        by = neg(mul(load(weight, i * LANES), along))
        along = _add_and_dot(v, i * size, following * size, x, by, size)
        i = following


@_kernel
def _retrace(v: Array, weight: Array, x: Array, g: Array, into: Array, reflections: int, size: int, back: bool) -> None:
    """Undo `_walk`: from its result x and the gradient g there to what they were before it.

    With a = w vᵀx and f = w vᵀg before a reflection is undone, it gives x - a v and g - f v, and adds
    a (g - f v) - f (x - a v) to the gradient of v.
    """
    if reflections == 0:
        return
    way = 1 if back else -1
    i = 0 if back else reflections - 1
    along, slope = _dot(v, i * size, x, 0, size), _dot(v, i * size, g, 0, size)
    for turn in range(reflections):
        following = i + way if turn + 1 < reflections else i
        a = mul(load(weight, i * LANES), along)
        by, down = neg(a), neg(mul(load(weight, i * LANES), slope))
        s0, s1, t0, t1 = zero(x), zero(x), zero(x), zero(x)
        row, other = i * size, following * size
        for k in range(0, size, 2 * LANES):
            q = k + LANES
            v0, v1 = load(v, row + k), load(v, row + q)
            x0, x1 = fma(by, v0, load(x, k)), fma(by, v1, load(x, q))
            g0, g1 = fma(down, v0, load(g, k)), fma(down, v1, load(g, q))
            store(x, k, x0)
            store(x, q, x1)
            store(g, k, g0)
            store(g, q, g1)
            store(into, row + k, fma(a, g0, fma(down, x0, load(into, row + k))))
            store(into, row + q, fma(a, g1, fma(down, x1, load(into, row + q))))
            next0, next1 = load(v, other + k), load(v, other + q)
            s0, s1 = fma(x0, next0, s0), fma(x1, next1, s1)
            t0, t1 = fma(g0, next0, t0), fma(g1, next1, t1)
        along, slope = add(s0, s1), add(t0, t1)
        i = following


@_kernel
def _gather_sets(
    v: Array, weight: Array, source: Array, first: int, strides: Any, count: int, reflections: int, p: int
) -> None:
    """The vectors of eight sets to lanes, and their weights 2 / vᵀv."""
    size = _padded(p) * LANES
    for i in range(reflections):
        _gather(v, i * size, source, first + i * strides[1], strides[0], count, p)
        store(weight, i * LANES, reflection_weight(_dot(v, i * size, v, i * size, size)))


@_kernel
def _scale(x: Array, by: Array, size: int) -> None:
    for k in range(0, size, LANES):
        store(x, k, mul(load(x, k), load(by, k)))


@_kernel
def reflect(
    sets: Any,  # (start, stop) of this call, and N of the whole
    shape: Any,  # (S, R, p)
    vectors: Array,
    vector_strides: Any,  # (set, reflection)
    x: Array,
    x_strides: Any,  # (right-hand side, set)
    y: Array,  # (S, N, p) out
    back: bool,
) -> None:
    """Y = U x, or Uᵀ x where ``back``."""
    start, stop, n = sets
    repeats, r, p = shape
    size = _padded(p) * LANES
    v, weight = np.empty(r * size, x.dtype), np.empty(r * LANES, x.dtype)
    state = np.empty(size, x.dtype)
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        _gather_sets(v, weight, vectors, first * vector_strides[0], vector_strides, count, r, p)
        for s in range(repeats):
            _gather(state, 0, x, s * x_strides[0] + first * x_strides[1], x_strides[1], count, p)
            _walk(v, weight, state, r, size, back)
            _scatter(state, 0, y, (s * n + first) * p, p, count, p)


@_kernel
def reflect_backward(
    sets: Any,
    shape: Any,
    vectors: Array,
    vector_strides: Any,
    x: Array,
    x_strides: Any,
    grad: Array,
    grad_strides: Any,
    back: bool,
    grad_vectors: Array,  # (N, R, p) out
    grad_x: Array,  # (S, N, p) out
) -> None:
    """Gradients of `reflect`, from its argument x: the result is computed again and retraced."""
    start, stop, n = sets
    repeats, r, p = shape
    size = _padded(p) * LANES
    v, weight, into = np.empty(r * size, x.dtype), np.empty(r * LANES, x.dtype), np.empty(r * size, x.dtype)
    state, g = np.empty(size, x.dtype), np.empty(size, x.dtype)
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        _gather_sets(v, weight, vectors, first * vector_strides[0], vector_strides, count, r, p)
        into[:] = 0.0
        for s in range(repeats):
            _gather(state, 0, x, s * x_strides[0] + first * x_strides[1], x_strides[1], count, p)
            _gather(g, 0, grad, s * grad_strides[0] + first * grad_strides[1], grad_strides[1], count, p)
            _walk(v, weight, state, r, size, back)
            _retrace(v, weight, state, g, into, r, size, back)
            _scatter(g, 0, grad_x, (s * n + first) * p, p, count, p)
        for i in range(r):
            _scatter(into, i * size, grad_vectors, (first * r + i) * p, r * p, count, p)


@_kernel
def push(
    sets: Any,
    shape: Any,
    vectors: Array,
    vector_strides: Any,
    eigenvalues: Array,
    eigenvalue_stride: int,
    x: Array,
    x_strides: Any,
    y: Array,  # (S, N, p) out
    turned: Array,  # (S, N, p) out
) -> None:
    """Turned = U x and y = Uᵀ Λ turned."""
    start, stop, n = sets
    repeats, r, p = shape
    size = _padded(p) * LANES
    v, weight = np.empty(r * size, x.dtype), np.empty(r * LANES, x.dtype)
    state, scale = np.empty(size, x.dtype), np.empty(size, x.dtype)
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        _gather_sets(v, weight, vectors, first * vector_strides[0], vector_strides, count, r, p)
        _gather(scale, 0, eigenvalues, first * eigenvalue_stride, eigenvalue_stride, count, p)
        for s in range(repeats):
            _gather(state, 0, x, s * x_strides[0] + first * x_strides[1], x_strides[1], count, p)
            _walk(v, weight, state, r, size, False)
            _scatter(state, 0, turned, (s * n + first) * p, p, count, p)
            _scale(state, scale, size)
            _walk(v, weight, state, r, size, True)
            _scatter(state, 0, y, (s * n + first) * p, p, count, p)


@_kernel
def push_backward(
    sets: Any,
    shape: Any,
    vectors: Array,
    vector_strides: Any,
    eigenvalues: Array,
    eigenvalue_stride: int,
    turned: Array,
    turned_strides: Any,
    grad: Array,
    grad_strides: Any,
    grad_vectors: Array,  # (N, R, p) out
    grad_eigenvalues: Array,  # (N, p) out
    grad_x: Array,  # (S, N, p) out
) -> None:
    """Gradients of `push`, from ``turned`` = U x: y is computed again, and both halves retraced."""
    start, stop, n = sets
    repeats, r, p = shape
    size = _padded(p) * LANES
    dtype = turned.dtype
    v, weight, into = np.empty(r * size, dtype), np.empty(r * LANES, dtype), np.empty(r * size, dtype)
    middle, state, g = np.empty(size, dtype), np.empty(size, dtype), np.empty(size, dtype)
    scale, slope = np.empty(size, dtype), np.empty(size, dtype)
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        _gather_sets(v, weight, vectors, first * vector_strides[0], vector_strides, count, r, p)
        _gather(scale, 0, eigenvalues, first * eigenvalue_stride, eigenvalue_stride, count, p)
        into[:] = 0.0
        slope[:] = 0.0
        for s in range(repeats):
            at = s * turned_strides[0] + first * turned_strides[1]
            _gather(middle, 0, turned, at, turned_strides[1], count, p)
            _gather(g, 0, grad, s * grad_strides[0] + first * grad_strides[1], grad_strides[1], count, p)
            for k in range(0, size, LANES):
                store(state, k, mul(load(middle, k), load(scale, k)))
            _walk(v, weight, state, r, size, True)
            _retrace(v, weight, state, g, into, r, size, True)
            for k in range(0, size, LANES):
                store(slope, k, fma(load(g, k), load(middle, k), load(slope, k)))
            _scale(g, scale, size)
            _retrace(v, weight, middle, g, into, r, size, False)
            _scatter(g, 0, grad_x, (s * n + first) * p, p, count, p)
        for i in range(r):
            _scatter(into, i * size, grad_vectors, (first * r + i) * p, r * p, count, p)
        _scatter(slope, 0, grad_eigenvalues, first * p, p, count, p)

"""The reflections as Numba kernels for float32 and float64 on the CPU, eight sets side by side.

Each kernel takes flat arrays, the strides of their rows, and a range of sets. A block of eight sets is
transposed into a scratch that stays in the first-level cache (R·p·8 numbers), so that entry k of all eight is
one `Lanes` value; everything then runs along k. Lanes beyond the last set hold zeros, which reflect nothing.

A kernel has one scratch array; ``weight``, ``v``, ``x``, ``g`` and so on are places in it.
"""

from typing import Any

import numpy as np
from numba import njit

from fern.caching import cached_njit
from fern.transport._lanes import LANES, add, fma, load, mul, neg, reflection_weight, store, transpose, zero

Array = Any  # a one-dimensional contiguous array of float32 or float64
Value = Any  # a `Lanes` value

UNROLLED = 4  # entries a loop turn: as many sums run at once, to hide the latency of fused multiply-adds


def _kernel(function: Any) -> Any:
    # Released GIL: the caller splits the sets over threads. No fastmath: NaN and infinity must come through.
    return cached_njit(nogil=True, error_model="numpy")(function)


def _part(function: Any) -> Any:
    return njit(nogil=True, error_model="numpy")(function)


@_part
def _round_up(p: int) -> int:
    """p rounded up to whole loop turns."""
    return (p + UNROLLED - 1) // UNROLLED * UNROLLED


@_part
def _gather(scratch: Array, at: int, source: Array, first: int, stride: int, count: int, p: int) -> None:
    """Entries [0, p) of ``count`` <= 8 rows of source, ``stride`` apart, to lanes; zeros elsewhere."""
    whole = p // LANES * LANES if count == LANES else 0
    for k in range(0, whole, LANES):
        transpose(scratch, at + k * LANES, LANES, source, first + k, stride)
    for k in range(whole, p):
        for lane in range(count):
            scratch[at + k * LANES + lane] = source[first + lane * stride + k]
        for lane in range(count, LANES):
            scratch[at + k * LANES + lane] = 0.0
    for k in range(p * LANES, _round_up(p) * LANES):
        scratch[at + k] = 0.0


@_part
def _scatter(scratch: Array, at: int, into: Array, first: int, stride: int, count: int, p: int) -> None:
    """The way back of `_gather`."""
    whole = p // LANES * LANES if count == LANES else 0
    for k in range(0, whole, LANES):
        transpose(into, first + k, stride, scratch, at + k * LANES, LANES)
    for k in range(whole, p):
        for lane in range(count):
            into[first + lane * stride + k] = scratch[at + k * LANES + lane]


@_part
def _dot(scratch: Array, a: int, b: int, size: int) -> Value:
    s0, s1, s2, s3 = zero(scratch), zero(scratch), zero(scratch), zero(scratch)
    for k in range(0, size, UNROLLED * LANES):
        s0 = fma(load(scratch, a + k), load(scratch, b + k), s0)
        s1 = fma(load(scratch, a + k + LANES), load(scratch, b + k + LANES), s1)
        s2 = fma(load(scratch, a + k + 2 * LANES), load(scratch, b + k + 2 * LANES), s2)
        s3 = fma(load(scratch, a + k + 3 * LANES), load(scratch, b + k + 3 * LANES), s3)
    return add(add(s0, s1), add(s2, s3))


@_part
def _step(scratch: Array, row: int, other: int, x: int, by: Value, total: Value) -> Value:
    moved = fma(by, load(scratch, row), load(scratch, x))
    store(scratch, x, moved)
    return fma(moved, load(scratch, other), total)


@_part
def _add_and_dot(scratch: Array, row: int, other: int, x: int, by: Value, size: int) -> Value:
    """X += by · row, and the dot product of the new x with the other row, in one pass."""
    s0, s1, s2, s3 = zero(scratch), zero(scratch), zero(scratch), zero(scratch)
    for k in range(0, size, UNROLLED * LANES):
        k1, k2, k3 = k + LANES, k + 2 * LANES, k + 3 * LANES
        s0 = _step(scratch, row + k, other + k, x + k, by, s0)
        s1 = _step(scratch, row + k1, other + k1, x + k1, by, s1)
        s2 = _step(scratch, row + k2, other + k2, x + k2, by, s2)
        s3 = _step(scratch, row + k3, other + k3, x + k3, by, s3)
    return add(add(s0, s1), add(s2, s3))


@_part
def _walk(scratch: Array, weight: int, v: int, x: int, reflections: int, size: int, back: bool) -> None:
    """X = U x, or Uᵀ x where ``back``."""
    if reflections == 0:
        return
    way = -1 if back else 1
    i = reflections - 1 if back else 0
    along = _dot(scratch, v + i * size, x, size)
    for turn in range(reflections):
        following = i + way if turn + 1 < reflections else i
        by = neg(mul(load(scratch, weight + i * LANES), along))
        along = _add_and_dot(scratch, v + i * size, v + following * size, x, by, size)
        i = following


@_part
def _retrace(
    scratch: Array, weight: int, v: int, x: int, g: int, into: int, reflections: int, size: int, back: bool
) -> None:
    """Undo `_walk`: from its result x and the gradient g there to what they were before it.

    With a = w vᵀx and f = w vᵀg before a reflection is undone, it gives x - a v and g - f v, and adds
    a (g - f v) - f (x - a v) to the gradient of v.
    """
    if reflections == 0:
        return
    way = 1 if back else -1
    i = 0 if back else reflections - 1
    along, slope = _dot(scratch, v + i * size, x, size), _dot(scratch, v + i * size, g, size)
    for turn in range(reflections):
        following = i + way if turn + 1 < reflections else i
        a = mul(load(scratch, weight + i * LANES), along)
        by, down = neg(a), neg(mul(load(scratch, weight + i * LANES), slope))
        s0, s1, t0, t1 = zero(scratch), zero(scratch), zero(scratch), zero(scratch)
        row, other, out = v + i * size, v + following * size, into + i * size
        for k in range(0, size, 2 * LANES):
            q = k + LANES
            v0, v1 = load(scratch, row + k), load(scratch, row + q)
            x0, x1 = fma(by, v0, load(scratch, x + k)), fma(by, v1, load(scratch, x + q))
            g0, g1 = fma(down, v0, load(scratch, g + k)), fma(down, v1, load(scratch, g + q))
            store(scratch, x + k, x0)
            store(scratch, x + q, x1)
            store(scratch, g + k, g0)
            store(scratch, g + q, g1)
            store(scratch, out + k, fma(a, g0, fma(down, x0, load(scratch, out + k))))
            store(scratch, out + q, fma(a, g1, fma(down, x1, load(scratch, out + q))))
            next0, next1 = load(scratch, other + k), load(scratch, other + q)
            s0, s1 = fma(x0, next0, s0), fma(x1, next1, s1)
            t0, t1 = fma(g0, next0, t0), fma(g1, next1, t1)
        along, slope = add(s0, s1), add(t0, t1)
        i = following


@_part
def _gather_sets(
    scratch: Array,
    weight: int,
    v: int,
    source: Array,
    first: int,
    strides: Any,
    count: int,
    reflections: int,
    p: int,
) -> None:
    """The vectors of eight sets to lanes, and their weights 2 / vᵀv."""
    size = _round_up(p) * LANES
    for i in range(reflections):
        row = v + i * size
        _gather(scratch, row, source, first * strides[0] + i * strides[1], strides[0], count, p)
        store(scratch, weight + i * LANES, reflection_weight(_dot(scratch, row, row, size)))


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
    size = _round_up(p) * LANES
    weight, v = 0, r * LANES
    state = v + r * size
    scratch = np.empty(state + size, x.dtype)
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        _gather_sets(scratch, weight, v, vectors, first, vector_strides, count, r, p)
        for s in range(repeats):
            _gather(scratch, state, x, s * x_strides[0] + first * x_strides[1], x_strides[1], count, p)
            _walk(scratch, weight, v, state, r, size, back)
            _scatter(scratch, state, y, (s * n + first) * p, p, count, p)


@_kernel
def reflect_backward(
    sets: Any,
    shape: Any,
    vectors: Array,
    vector_strides: Any,
    y: Array,
    y_strides: Any,
    grad: Array,
    grad_strides: Any,
    back: bool,
    grad_vectors: Array,  # (N, R, p) out
    grad_x: Array,  # (S, N, p) out
) -> None:
    """Gradients of `reflect`, from its result y, which is retraced."""
    start, stop, n = sets
    repeats, r, p = shape
    size = _round_up(p) * LANES
    weight, v = 0, r * LANES
    into = v + r * size
    state = into + r * size
    g = state + size
    scratch = np.empty(g + size, y.dtype)
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        _gather_sets(scratch, weight, v, vectors, first, vector_strides, count, r, p)
        scratch[into:state] = 0.0
        for s in range(repeats):
            _gather(scratch, state, y, s * y_strides[0] + first * y_strides[1], y_strides[1], count, p)
            _gather(scratch, g, grad, s * grad_strides[0] + first * grad_strides[1], grad_strides[1], count, p)
            _retrace(scratch, weight, v, state, g, into, r, size, back)
            _scatter(scratch, g, grad_x, (s * n + first) * p, p, count, p)
        for i in range(r):
            _scatter(scratch, into + i * size, grad_vectors, (first * r + i) * p, r * p, count, p)


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
    size = _round_up(p) * LANES
    weight, v = 0, r * LANES
    scale = v + r * size
    state = scale + size
    scratch = np.empty(state + size, x.dtype)
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        _gather_sets(scratch, weight, v, vectors, first, vector_strides, count, r, p)
        _gather(scratch, scale, eigenvalues, first * eigenvalue_stride, eigenvalue_stride, count, p)
        for s in range(repeats):
            _gather(scratch, state, x, s * x_strides[0] + first * x_strides[1], x_strides[1], count, p)
            _walk(scratch, weight, v, state, r, size, False)
            _scatter(scratch, state, turned, (s * n + first) * p, p, count, p)
            for k in range(0, size, LANES):
                store(scratch, state + k, mul(load(scratch, state + k), load(scratch, scale + k)))
            _walk(scratch, weight, v, state, r, size, True)
            _scatter(scratch, state, y, (s * n + first) * p, p, count, p)


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
    size = _round_up(p) * LANES
    weight, v = 0, r * LANES
    into = v + r * size
    slope = into + r * size
    scale, middle, state, g = slope + size, slope + 2 * size, slope + 3 * size, slope + 4 * size
    scratch = np.empty(g + size, turned.dtype)
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        _gather_sets(scratch, weight, v, vectors, first, vector_strides, count, r, p)
        _gather(scratch, scale, eigenvalues, first * eigenvalue_stride, eigenvalue_stride, count, p)
        scratch[into:scale] = 0.0  # and the slope
        for s in range(repeats):
            at = s * turned_strides[0] + first * turned_strides[1]
            _gather(scratch, middle, turned, at, turned_strides[1], count, p)
            _gather(scratch, g, grad, s * grad_strides[0] + first * grad_strides[1], grad_strides[1], count, p)
            for k in range(0, size, LANES):
                store(scratch, state + k, mul(load(scratch, middle + k), load(scratch, scale + k)))
            _walk(scratch, weight, v, state, r, size, True)
            _retrace(scratch, weight, v, state, g, into, r, size, True)
            for k in range(0, size, LANES):
                turn = load(scratch, g + k)
                store(scratch, slope + k, fma(turn, load(scratch, middle + k), load(scratch, slope + k)))
                store(scratch, g + k, mul(turn, load(scratch, scale + k)))
            _retrace(scratch, weight, v, middle, g, into, r, size, False)
            _scatter(scratch, g, grad_x, (s * n + first) * p, p, count, p)
        for i in range(r):
            _scatter(scratch, into + i * size, grad_vectors, (first * r + i) * p, r * p, count, p)
        _scatter(scratch, slope, grad_eigenvalues, first * p, p, count, p)

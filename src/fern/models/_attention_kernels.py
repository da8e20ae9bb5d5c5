"""Attention of a row's tokens on each other as Numba kernels, eight rows side by side, one a lane.

Heads are a few numbers wide and rows have some dozens of tokens: too small for matrix products, whose every call
costs more than its work, and too large for the memory of all weights at once. Here the queries, keys and values of
eight rows and one head are gathered into a scratch that stays in the first-level cache, so that entry (i, c) of
all eight is one `Lanes` value; everything then runs along tokens, without sums across lanes or remainders.

``qkv`` (N, P, 3·W) holds queries, keys and values, each with the heads one after the other. Scores are
(blocks of eight rows, heads, P, P, 8). Widths are padded with zeros to whole groups of four entries, which a loop
keeps in registers. A kernel has one scratch array; ``q``, ``k`` and so on are places in it.

Dropout is a hash of a number's place under two keys: its mask is never stored.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types

from fern.caching import cached_njit
from fern.transport._lanes import (
    LANES,
    LOG2_E,
    Lanes,
    add,
    exponential,
    fma,
    load,
    maximum,
    mul,
    neg,
    operation,
    reciprocal,
    splat,
    spread,
    spread_scalar,
    store,
    zero,
)

Array = Any  # of float32, contiguous
Value = Any  # a `Lanes` value
Keys = Any  # of `fern.models.layers`


@operation
def hashed(typing: Any, first: Any, second: Any, counter: Any) -> Any:
    """The hash of this module of 8 · counter + lane under the two keys, in every lane."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        bits = ir.VectorType(ir.IntType(32), LANES)
        count = builder.mul(args[2], ir.IntType(32)(LANES))
        x = builder.xor(
            builder.add(spread_scalar(builder, count), ir.Constant(bits, list(range(LANES)))),
            spread_scalar(builder, args[0]),
        )
        for shift, factor in ROUNDS:
            x = builder.mul(builder.xor(x, builder.lshr(x, splat(bits, shift))), splat(bits, factor))
        x = builder.xor(x, spread_scalar(builder, args[1]))
        shift, factor = LAST_ROUND
        return builder.mul(builder.xor(x, builder.lshr(x, splat(bits, shift))), splat(bits, factor))

    word = types.uint32
    return Lanes(word)(word, word, word), generate


@operation
def kept_high(typing: Any, drawn: Any, last: Any, scale: Any) -> Any:
    """``scale`` where the upper 16 bits drawn are at most ``last``, 0 elsewhere."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        return _chosen(builder, builder.lshr(args[0], splat(args[0].type, 16)), *args[1:])

    return Lanes(scale)(drawn, types.uint32, scale), generate


@operation
def kept_low(typing: Any, drawn: Any, last: Any, scale: Any) -> Any:
    """``scale`` where the lower 16 bits drawn are at most ``last``, 0 elsewhere."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        # The lower bits of a product depend on lower bits only: the upper ones are mixed in.
        mixed = builder.xor(args[0], builder.lshr(args[0], splat(args[0].type, 15)))
        return _chosen(builder, builder.and_(mixed, splat(args[0].type, 0xFFFF)), *args[1:])

    return Lanes(scale)(drawn, types.uint32, scale), generate


def _chosen(builder: Any, drawn: Any, last: Any, scale: Any) -> Any:
    value = spread_scalar(builder, scale)
    return builder.select(
        builder.icmp_signed("<=", drawn, spread_scalar(builder, last)), value, ir.Constant(value.type, [0.0] * LANES)
    )


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


GROUP = 4
_LOG2_E = np.float32(LOG2_E)
_ONE = np.float32(1.0)


def _kernel(function: Any) -> Any:
    return cached_njit(nogil=True, error_model="numpy")(function)


def _part(function: Any) -> Any:
    return njit(nogil=True, error_model="numpy")(function)


@_part
def _gather(scratch: Array, at: int, source: Array, row: int, first: int, width: int, padded: int) -> None:
    """Entries [first, first + width) of each token of rows row, row + 1, … to lanes; zeros elsewhere."""
    count = min(LANES, source.shape[0] - row)
    for token in range(source.shape[1]):
        for c in range(padded):
            place = at + (token * padded + c) * LANES
            if c < width and count == LANES:
                for lane in range(LANES):
                    scratch[place + lane] = source[row + lane, token, first + c]
            else:
                for lane in range(LANES):
                    inside = c < width and lane < count
                    scratch[place + lane] = source[row + lane, token, first + c] if inside else np.float32(0.0)


@_part
def _scatter(scratch: Array, at: int, into: Array, row: int, first: int, width: int, padded: int) -> None:
    """The way back of `_gather`."""
    count = min(LANES, into.shape[0] - row)
    for token in range(into.shape[1]):
        for lane in range(count):
            for c in range(width):
                into[row + lane, token, first + c] = scratch[at + (token * padded + c) * LANES + lane]


@_part
def _products(scratch: Array, s: int, q: int, k: int, tokens: int, padded: int, fresh: bool) -> None:
    """s[j] = q · k[j] for every token j, added to what is there unless it is ``fresh``."""
    for c in range(0, padded * LANES, GROUP * LANES):
        q0, q1 = load(scratch, q + c), load(scratch, q + c + LANES)
        q2, q3 = load(scratch, q + c + 2 * LANES), load(scratch, q + c + 3 * LANES)
        new = fresh and c == 0
        for j in range(tokens):
            at = k + j * padded * LANES + c
            even = mul(q0, load(scratch, at))
            odd = mul(q1, load(scratch, at + LANES))
            even = fma(q2, load(scratch, at + 2 * LANES), even)
            odd = fma(q3, load(scratch, at + 3 * LANES), odd)
            if not new:
                even = add(even, load(scratch, s + j * LANES))
            store(scratch, s + j * LANES, add(even, odd))


@_part
def _weighted_sum(scratch: Array, out: int, p: int, v: int, tokens: int, padded: int) -> None:
    """out = Σⱼ p[j] v[j]."""
    for c in range(0, padded * LANES, GROUP * LANES):
        o0, o1, o2, o3 = zero(scratch), zero(scratch), zero(scratch), zero(scratch)
        for j in range(tokens):
            at = v + j * padded * LANES + c
            by = load(scratch, p + j * LANES)
            o0 = fma(by, load(scratch, at), o0)
            o1 = fma(by, load(scratch, at + LANES), o1)
            o2 = fma(by, load(scratch, at + 2 * LANES), o2)
            o3 = fma(by, load(scratch, at + 3 * LANES), o3)
        store(scratch, out + c, o0)
        store(scratch, out + c + LANES, o1)
        store(scratch, out + c + 2 * LANES, o2)
        store(scratch, out + c + 3 * LANES, o3)


@_part
def _add_outer(scratch: Array, into: int, p: int, x: int, tokens: int, padded: int) -> None:
    """into[j] += p[j] x for every token j."""
    for c in range(0, padded * LANES, GROUP * LANES):
        x0, x1 = load(scratch, x + c), load(scratch, x + c + LANES)
        x2, x3 = load(scratch, x + c + 2 * LANES), load(scratch, x + c + 3 * LANES)
        for j in range(tokens):
            at = into + j * padded * LANES + c
            by = load(scratch, p + j * LANES)
            store(scratch, at, fma(by, x0, load(scratch, at)))
            store(scratch, at + LANES, fma(by, x1, load(scratch, at + LANES)))
            store(scratch, at + 2 * LANES, fma(by, x2, load(scratch, at + 2 * LANES)))
            store(scratch, at + 3 * LANES, fma(by, x3, load(scratch, at + 3 * LANES)))


@_part
def _exponentials(scratch: Array, s: int, tokens: int) -> Value:
    """s = exp(s - max s) along tokens; returns 1 / Σ s."""
    top = load(scratch, s)
    for j in range(1, tokens):
        top = maximum(load(scratch, s + j * LANES), top)
    by = spread(_LOG2_E)
    offset = neg(mul(top, by))
    total = zero(scratch)
    for j in range(tokens):
        e = exponential(fma(load(scratch, s + j * LANES), by, offset))
        store(scratch, s + j * LANES, e)
        total = add(total, e)
    return reciprocal(total)


@_part
def _masks(scratch: Array, m: int, number: int, tokens: int, keys: Keys) -> None:
    """What attention dropout multiplies the weights of query ``number`` by; an odd last one is written past the end."""
    first, second, last, scale = keys
    pairs = (tokens + 1) // 2
    for j in range(pairs):
        drawn = hashed(first, second, np.uint32(number * pairs + j))
        store(scratch, m + 2 * j * LANES, kept_high(drawn, last, scale))
        store(scratch, m + (2 * j + 1) * LANES, kept_low(drawn, last, scale))


@_part
def _multiply(scratch: Array, into: int, by: int, tokens: int) -> None:
    for j in range(0, tokens * LANES, LANES):
        store(scratch, into + j, mul(load(scratch, into + j), load(scratch, by + j)))


@_part
def _scale(scratch: Array, at: int, size: int, factor: Value) -> None:
    for j in range(0, size, LANES):
        store(scratch, at + j, mul(load(scratch, at + j), factor))


@_part
def _fill(scratch: Array, at: int, size: int) -> None:
    for j in range(0, size, LANES):
        store(scratch, at + j, zero(scratch))


@_part
def _copy(into: Array, to: int, source: Array, at: int, size: int) -> None:
    for j in range(0, size, LANES):
        store(into, to + j, load(source, at + j))


@_kernel
def attend(qkv: Array, before: Array, heads: int, scale: Any, keys: Keys, out: Array, scores: Array) -> None:
    """out = dropout(softmax(scale · Q Kᵀ + before)) V; ``before`` and ``scores`` are flat and may be empty."""
    rows, tokens, width = out.shape
    head = width // heads
    padded = (head + GROUP - 1) // GROUP * GROUP
    size, line = tokens * padded * LANES, tokens * LANES
    q, k, v, s, m = 0, size, 2 * size, 3 * size, 3 * size + line
    scratch = np.empty(3 * size + 2 * line + LANES, qkv.dtype)
    for block in range((rows + LANES - 1) // LANES):
        row = block * LANES
        for h in range(heads):
            _gather(scratch, q, qkv, row, h * head, head, padded)
            _gather(scratch, k, qkv, row, width + h * head, head, padded)
            _gather(scratch, v, qkv, row, 2 * width + h * head, head, padded)
            _scale(scratch, q, size, spread(scale))
            for i in range(tokens):
                number = (block * heads + h) * tokens + i
                own = q + i * padded * LANES
                if before.size:
                    _copy(scratch, s, before, number * line, line)
                _products(scratch, s, own, k, tokens, padded, before.size == 0)
                if scores.size:
                    _copy(scores, number * line, scratch, s, line)
                share = _exponentials(scratch, s, tokens)
                if keys[3] != _ONE:
                    _masks(scratch, m, number, tokens, keys)
                    _multiply(scratch, s, m, tokens)
                _weighted_sum(scratch, own, s, v, tokens, padded)  # the query is done with: its place is reused
                _scale(scratch, own, padded * LANES, share)
            _scatter(scratch, q, out, row, h * head, head, padded)


@_kernel
def attend_backward(
    qkv: Array,
    scores: Array,
    heads: int,
    scale: Any,
    keys: Keys,
    grad: Array,
    grad_scores: Array,
    grad_qkv: Array,
    grad_before: Array,
) -> None:
    """The gradient of `attend`; without ``scores`` they are those of the queries and keys alone."""
    rows, tokens, width = grad.shape
    head = width // heads
    padded = (head + GROUP - 1) // GROUP * GROUP
    size, line = tokens * padded * LANES, tokens * LANES
    q, k, v, g, dk, dv = 0, size, 2 * size, 3 * size, 4 * size, 5 * size
    p, dp, m = 6 * size, 6 * size + line, 6 * size + 2 * line
    scratch = np.empty(6 * size + 3 * line + LANES, qkv.dtype)
    for block in range((rows + LANES - 1) // LANES):
        row = block * LANES
        for h in range(heads):
            _gather(scratch, q, qkv, row, h * head, head, padded)
            _gather(scratch, k, qkv, row, width + h * head, head, padded)
            _gather(scratch, v, qkv, row, 2 * width + h * head, head, padded)
            _gather(scratch, g, grad, row, h * head, head, padded)
            _scale(scratch, q, size, spread(scale))
            _fill(scratch, dk, 2 * size)
            for i in range(tokens):
                number = (block * heads + h) * tokens + i
                own, towards = q + i * padded * LANES, g + i * padded * LANES
                if scores.size:
                    _copy(scratch, p, scores, number * line, line)
                else:
                    _products(scratch, p, own, k, tokens, padded, True)
                # p holds weights without their common factor, which the gradient towards the output takes over.
                share = _exponentials(scratch, p, tokens)
                _scale(scratch, towards, padded * LANES, share)
                _products(scratch, dp, towards, v, tokens, padded, True)
                if keys[3] != _ONE:
                    _masks(scratch, m, number, tokens, keys)
                    _multiply(scratch, dp, m, tokens)
                    _multiply(scratch, m, p, tokens)
                    _add_outer(scratch, dv, m, towards, tokens, padded)
                else:
                    _add_outer(scratch, dv, p, towards, tokens, padded)
                total = zero(scratch)
                for j in range(0, line, LANES):
                    total = fma(load(scratch, p + j), load(scratch, dp + j), total)
                less = neg(mul(total, share))
                for j in range(0, line, LANES):
                    store(scratch, dp + j, mul(load(scratch, p + j), add(load(scratch, dp + j), less)))
                if grad_scores.size:
                    for j in range(0, line, LANES):
                        store(scratch, dp + j, add(load(scratch, dp + j), load(grad_scores, number * line + j)))
                if grad_before.size:
                    _copy(grad_before, number * line, scratch, dp, line)
                _add_outer(scratch, dk, dp, own, tokens, padded)
                _weighted_sum(scratch, own, dp, k, tokens, padded)
            _scale(scratch, q, size, spread(scale))
            _scatter(scratch, q, grad_qkv, row, h * head, head, padded)
            _scatter(scratch, dk, grad_qkv, row, width + h * head, head, padded)
            _scatter(scratch, dv, grad_qkv, row, 2 * width + h * head, head, padded)

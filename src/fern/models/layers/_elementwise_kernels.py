"""Dropout and GELU as compiled loops: one pass over memory forward and one backward, eight numbers at a time."""

from math import log
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from fern.caching import cached_njit
from fern.transport._lanes import LANES, Lanes, add, fma, load, mul, neg, store

LOG2_E = 1.0 / log(2.0)
_EXPONENTIAL = tuple(  # of 2^f for |f| <= 1/2: Taylor's, to 2e-8
    log(2.0) ** k / factorial for k, factorial in enumerate((1, 1, 2, 6, 24, 120, 720))
)
_ROUNDING = 1.5 * 2.0**23  # a float32 of this size has no places behind the point, and its last bits count
_SMALLEST = -126.0  # 2^x below is no normal float32


def _operation(function: Any) -> Any:
    """Seen from outside, an intrinsic has its arguments without the typing context: no checker knows that."""
    return intrinsic(function)


def _splat(kind: Any, number: float) -> Any:
    return ir.Constant(kind, [number] * LANES)


def _spread(builder: Any, scalar: Any) -> Any:
    """The scalar in every lane."""
    vector = ir.VectorType(scalar.type, LANES)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(
        first, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    )


@_operation
def spread(typing: Any, number: Any) -> Any:
    """The number in every lane."""
    return Lanes(number)(number), lambda _context, builder, _, args: _spread(builder, args[0])


@_operation
def maximum(typing: Any, a: Any, b: Any) -> Any:
    """The larger one; NaN where a is NaN."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), args[1], args[0])

    return a(a, a), generate


@_operation
def reciprocal(typing: Any, a: Any) -> Any:
    """1 / a."""
    return a(a), lambda _context, builder, _, args: builder.fdiv(_splat(args[0].type, 1.0), args[0])


def _named(builder: Any, name: str, *args: Any) -> Any:
    """One of LLVM's own functions of lanes."""
    kind = args[0].type
    signature = ir.FunctionType(kind, [kind] * len(args))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.v{LANES}f32")  # type: ignore[no-untyped-call]
    return builder.call(function, args)


@_operation
def magnitude(typing: Any, a: Any) -> Any:
    """|a| in float32."""
    return a(a), lambda _context, builder, _, args: _named(builder, "fabs", *args)


@_operation
def copysign(typing: Any, a: Any, b: Any) -> Any:
    """|a| with the sign of b, in float32."""
    return a(a, a), lambda _context, builder, _, args: _named(builder, "copysign", *args)


@_operation
def exponential(typing: Any, scaled: Any) -> Any:
    """2^x in float32 for x <= 0, within 2e-7 of itself; 2^-126 below that, NaN of NaN."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        kind = args[0].type
        bits = ir.VectorType(ir.IntType(32), LANES)
        low = _splat(kind, _SMALLEST)
        x = builder.select(builder.fcmp_ordered("<", args[0], low), low, args[0])
        shifted = builder.fadd(x, _splat(kind, _ROUNDING))
        fraction = builder.fsub(x, builder.fsub(shifted, _splat(kind, _ROUNDING)))
        value = _splat(kind, _EXPONENTIAL[-1])
        for coefficient in reversed(_EXPONENTIAL[:-1]):
            value = _named(builder, "fma", value, fraction, _splat(kind, coefficient))
        exponent = builder.shl(builder.bitcast(shifted, bits), _splat(bits, 23))
        power = builder.bitcast(builder.add(exponent, _splat(bits, 127 << 23)), kind)
        return builder.fmul(value, power)

    return scaled(scaled), generate


@_operation
def hashed(typing: Any, first: Any, second: Any, counter: Any) -> Any:
    """The hash of `fern.models.layers._elementwise_kernels` of 8 · counter + lane under the two keys, in every lane."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        bits = ir.VectorType(ir.IntType(32), LANES)
        count = builder.mul(args[2], ir.IntType(32)(LANES))
        x = builder.xor(
            builder.add(_spread(builder, count), ir.Constant(bits, list(range(LANES)))), _spread(builder, args[0])
        )
        for shift, factor in ROUNDS:
            x = builder.mul(builder.xor(x, builder.lshr(x, _splat(bits, shift))), _splat(bits, factor))
        x = builder.xor(x, _spread(builder, args[1]))
        shift, factor = LAST_ROUND
        return builder.mul(builder.xor(x, builder.lshr(x, _splat(bits, shift))), _splat(bits, factor))

    word = types.uint32
    return Lanes(word)(word, word, word), generate


@_operation
def kept_high(typing: Any, drawn: Any, last: Any, scale: Any) -> Any:
    """``scale`` where the upper 16 bits drawn are at most ``last``, 0 elsewhere."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        return _chosen(builder, builder.lshr(args[0], _splat(args[0].type, 16)), *args[1:])

    return Lanes(scale)(drawn, types.uint32, scale), generate


@_operation
def kept_low(typing: Any, drawn: Any, last: Any, scale: Any) -> Any:
    """``scale`` where the lower 16 bits drawn are at most ``last``, 0 elsewhere."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        # The lower bits of a product depend on lower bits only: the upper ones are mixed in.
        mixed = builder.xor(args[0], builder.lshr(args[0], _splat(args[0].type, 15)))
        return _chosen(builder, builder.and_(mixed, _splat(args[0].type, 0xFFFF)), *args[1:])

    return Lanes(scale)(drawn, types.uint32, scale), generate


def _chosen(builder: Any, drawn: Any, last: Any, scale: Any) -> Any:
    value = _spread(builder, scale)
    return builder.select(
        builder.icmp_signed("<=", drawn, _spread(builder, last)), value, ir.Constant(value.type, [0.0] * LANES)
    )


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


Value = Any

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

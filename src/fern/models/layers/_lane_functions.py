"""What layers need of the eight lanes of `fern.transport._lanes` beyond adding and multiplying.

Numba's cache watches the file of a cached kernel only: after a change here, touch ``_attention_kernels.py`` and
``_gelu_kernels.py``.
"""

from math import log
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fern.models.layers._dropout_kernels import LAST_ROUND, ROUNDS
from fern.transport._lanes import LANES, Lanes

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
    """The hash of `fern.models.layers._dropout_kernels` of 8 · counter + lane under the two keys, in every lane."""

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

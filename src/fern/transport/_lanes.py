"""A small SIMD vocabulary for Numba: a value of eight lanes, and what kernels need to do with it.

Eight sets of reflections run side by side, one a lane. A dot product over p entries is then eight of them at
once, with no sum across lanes and no remainder for any p. Numba's own vectoriser cannot keep such a sum in a
register (it must assume that arrays overlap), so the lanes are an LLVM vector type of their own. LLVM lowers it
to whatever the processor has (one AVX register in float32, two in float64, two or four NEON ones).

Numba's cache watches the file of a cached kernel only: after a change here, touch the files of the kernels.
"""

from math import log
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 8
LOG2_E = 1.0 / log(2.0)
_EXPONENTIAL = tuple(  # of 2^f for |f| <= 1/2: Taylor's, to 2e-8
    log(2.0) ** k / factorial for k, factorial in enumerate((1, 1, 2, 6, 24, 120, 720))
)
_ROUNDING = 1.5 * 2.0**23  # a float32 of this size has no places behind the point, and its last bits count
_SMALLEST = -126.0  # 2^x below is no normal float32


class Lanes(types.Type):
    """The Numba type of eight numbers of one dtype, held in registers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        element = dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(element, LANES))  # type: ignore[no-untyped-call]


def operation(function: Any) -> Any:
    """Seen from outside, an intrinsic has its arguments without the typing context: no checker knows that."""
    return intrinsic(function)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    vector = ir.VectorType(context.get_value_type(kind.dtype), LANES)
    return builder.bitcast(builder.gep(data, [index], inbounds=True), vector.as_pointer())


def _load(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    value = builder.load(_pointer(context, builder, kind, array, index))
    value.align = kind.dtype.bitwidth // 8  # of one element: rows may start anywhere
    return value


def _store(context: Any, builder: Any, kind: Any, array: Any, index: Any, value: Any) -> None:
    pointer = _pointer(context, builder, kind, array, index)
    builder.store(value, pointer, align=kind.dtype.bitwidth // 8)


@operation
def load(typing: Any, array: Any, index: Any) -> Any:
    """Lanes from array[index : index + 8]."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return _load(context, builder, array, args[0], args[1])

    return Lanes(array.dtype)(array, types.intp), generate


@operation
def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """array[index : index + 8] = value."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        _store(context, builder, array, *args)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


@operation
def zero(typing: Any, array: Any) -> Any:
    """Eight zeros of the array's dtype."""
    lanes = Lanes(array.dtype)

    def generate(context: Any, _builder: Any, _: Any, _args: Any) -> Any:
        return ir.Constant(context.get_value_type(lanes), [0.0] * LANES)

    return lanes(array), generate


@operation
def add(typing: Any, a: Any, b: Any) -> Any:
    """A + b."""
    return a(a, a), lambda _context, builder, _, args: builder.fadd(*args)


@operation
def mul(typing: Any, a: Any, b: Any) -> Any:
    """A · b."""
    return a(a, a), lambda _context, builder, _, args: builder.fmul(*args)


@operation
def neg(typing: Any, a: Any) -> Any:
    """-a."""
    return a(a), lambda _context, builder, _, args: builder.fneg(args[0])


@operation
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """A · b + c, rounded once."""
    return a(a, a, a), lambda _context, builder, _, args: _call_intrinsic(builder, "fma", *args)


@operation
def reflection_weight(typing: Any, squared: Any) -> Any:
    """2 / squared; 0 where it is below the smallest normal number, NaN where it is infinite."""
    tiny = float(np.finfo(str(squared.dtype)).tiny)

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        value, kind = args[0], args[0].type
        vanishing = builder.fcmp_ordered("<", value, splat(kind, tiny))
        overflown = builder.fcmp_ordered("==", value, splat(kind, float("inf")))
        weight = builder.fdiv(splat(kind, 2.0), value)
        weight = builder.select(overflown, splat(kind, float("nan")), weight)
        return builder.select(vanishing, splat(kind, 0.0), weight)

    return squared(squared), generate


@operation
def transpose(
    typing: Any,
    target: Any,
    target_at: Any,
    target_stride: Any,
    source: Any,
    source_at: Any,
    source_stride: Any,
) -> Any:
    """target[target_at + k·target_stride + l] = source[source_at + l·source_stride + k] for k, l < 8."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        into, into_at, into_stride, given, given_at, given_stride = args

        def row(start: Any, stride: Any, number: int) -> Any:
            return builder.add(start, builder.mul(stride, ir.Constant(start.type, number)))

        rows = [_load(context, builder, source, given, row(given_at, given_stride, k)) for k in range(LANES)]
        for k, value in enumerate(_transpose_rows(builder, rows)):
            _store(context, builder, target, into, row(into_at, into_stride, k), value)
        return context.get_dummy_value()

    places = (types.intp, types.intp)
    return types.void(target, *places, source, *places), generate


def _transpose_rows(builder: Any, rows: list[Any]) -> list[Any]:
    """Swap the off-diagonal quarters of the square, then of each quarter, and so on down to single entries."""
    half = LANES // 2
    while half:
        low = [c if not c & half else LANES + c - half for c in range(LANES)]
        high = [c + half if not c & half else LANES + c for c in range(LANES)]
        indices = ir.VectorType(ir.IntType(32), LANES)
        for i in range(LANES):
            if not i & half:
                a, b = rows[i], rows[i + half]
                rows[i] = builder.shuffle_vector(a, b, ir.Constant(indices, low))
                rows[i + half] = builder.shuffle_vector(a, b, ir.Constant(indices, high))
        half //= 2
    return rows


def splat(kind: Any, number: float) -> Any:
    """A constant in every lane of a type of LLVM."""
    return ir.Constant(kind, [number] * LANES)


def spread_scalar(builder: Any, scalar: Any) -> Any:
    """The scalar in every lane."""
    vector = ir.VectorType(scalar.type, LANES)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(
        first, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    )


@operation
def spread(typing: Any, number: Any) -> Any:
    """The number in every lane."""
    return Lanes(number)(number), lambda _context, builder, _, args: spread_scalar(builder, args[0])


@operation
def maximum(typing: Any, a: Any, b: Any) -> Any:
    """The larger one; NaN where a is NaN."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), args[1], args[0])

    return a(a, a), generate


@operation
def reciprocal(typing: Any, a: Any) -> Any:
    """1 / a."""
    return a(a), lambda _context, builder, _, args: builder.fdiv(splat(args[0].type, 1.0), args[0])


def _call_intrinsic(builder: Any, name: str, *args: Any) -> Any:
    """One of LLVM's own functions of lanes."""
    kind = args[0].type
    signature = ir.FunctionType(kind, [kind] * len(args))
    full_name = f"llvm.{name}.v{LANES}{kind.element.intrinsic_name}"
    function = cgutils.get_or_insert_function(builder.module, signature, full_name)  # type: ignore[no-untyped-call]
    return builder.call(function, args)


@operation
def magnitude(typing: Any, a: Any) -> Any:
    """|a| in float32."""
    return a(a), lambda _context, builder, _, args: _call_intrinsic(builder, "fabs", *args)


@operation
def copysign(typing: Any, a: Any, b: Any) -> Any:
    """|a| with the sign of b, in float32."""
    return a(a, a), lambda _context, builder, _, args: _call_intrinsic(builder, "copysign", *args)


@operation
def exponential(typing: Any, scaled: Any) -> Any:
    """2^x in float32 for x <= 0, within 2e-7 of itself; 2^-126 below that, NaN of NaN."""

    def generate(_context: Any, builder: Any, _: Any, args: Any) -> Any:
        kind = args[0].type
        bits = ir.VectorType(ir.IntType(32), LANES)
        low = splat(kind, _SMALLEST)
        x = builder.select(builder.fcmp_ordered("<", args[0], low), low, args[0])
        shifted = builder.fadd(x, splat(kind, _ROUNDING))
        fraction = builder.fsub(x, builder.fsub(shifted, splat(kind, _ROUNDING)))
        value = splat(kind, _EXPONENTIAL[-1])
        for coefficient in reversed(_EXPONENTIAL[:-1]):
            value = _call_intrinsic(builder, "fma", value, fraction, splat(kind, coefficient))
        exponent = builder.shl(builder.bitcast(shifted, bits), splat(bits, 23))
        power = builder.bitcast(builder.add(exponent, splat(bits, 127 << 23)), kind)
        return builder.fmul(value, power)

    return scaled(scaled), generate

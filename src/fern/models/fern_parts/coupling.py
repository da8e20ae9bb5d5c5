"""The affine updates of the coupling layers (paper, Alg. 1), fused with the soft clamps of their scales and shifts.

Each update exists as plain torch operations, which define it and run on any device and under ``torch.compile``, and
as a compiled loop for float32 and float64 on the CPU, where the clamps would otherwise cost much of a training step.
A test holds the two equal, values and gradients.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fern.caching import kernels_enabled
from fern.models.fern_parts import _coupling_kernels as kernels
from fern.models.fern_parts.clamps import (
    FAR,
    LEAKY_RESIDUAL,
    LEAKY_ROTATION,
    LEAKY_SCALE,
    LEAKY_SHIFT,
    ROTATION,
    SCALE,
    SHIFT,
    LeakyBounds,
    SoftBounds,
    clamp_slope,
    plain_leaky_clamp,
    soft_clamp,
    unrecorded_clamp,
)

ALIGNED = 16
"""Numbers in a cache line of float32: arrays begin on one."""

_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


def clamped_pair(
    raw: Tensor,  # (N, 2n): n scales, n shifts, unbounded
    *,
    scale_bounds: SoftBounds = SCALE,
    shift_bounds: SoftBounds = SHIFT,
) -> tuple[Tensor, Tensor]:  # (N, n), (N, n)
    """The scales and shifts within their bounds.

    Example:
        >>> clamped_pair(torch.tensor([[1.0, -2.0]]))
        (tensor([[1.]]), tensor([[-2.]]))
    """
    if compiled(raw):
        pair: tuple[Tensor, Tensor] = _ClampedPair.apply(raw, scale_bounds, shift_bounds)  # type: ignore[no-untyped-call]
        return pair
    return _plain_pair(raw, scale_bounds, shift_bounds)


def affine_update(
    raw: Tensor,  # (N, 2n)
    state: Tensor,  # (N, n)
) -> Tensor:  # (N, n)
    """s ⊙ state + t, with (s, t) = `clamped_pair` of ``raw``.

    Example:
        >>> affine_update(torch.tensor([[2.0, 3.0, -1.0, 1.0]]), torch.tensor([[10.0, 20.0]]))
        tensor([[19., 61.]])
    """
    return _update(raw, state, rotating=False)


def rotating_update(
    raw: Tensor,  # (N, 2n): pairs (a, b), then n shifts
    state: Tensor,  # (N, n)
) -> Tensor:  # (N, n)
    """The block-complex update: neighbours (u, v) become (a + ib)(u + iv) plus their shifts.

    a and b are clamped to [-4.5, 4.5]. Where n is odd the last element has no partner and is scaled by its a.

    Example:
        >>> rotating_update(torch.tensor([[0.0, 1.0, 0.0, 0.0]]), torch.tensor([[10.0, 20.0]]))
        tensor([[-20.,  10.]])
    """
    return _update(raw, state, rotating=True)


def _update(raw: Tensor, state: Tensor, *, rotating: bool) -> Tensor:
    if compiled(raw) and state.dtype == raw.dtype:
        updated: Tensor = _Update.apply(raw, state, rotating)  # type: ignore[no-untyped-call]
        return updated
    return _plain_update(raw, state, rotating=rotating)


def compiled(tensor: Tensor) -> bool:
    """Whether the compiled loops take it: on the CPU, float32 or float64, and nobody traces."""
    plain = not kernels_enabled() or torch.compiler.is_compiling()
    return not plain and tensor.device.type == "cpu" and tensor.dtype in _NUMPY


def _plain_pair(raw: Tensor, scale_bounds: SoftBounds, shift_bounds: SoftBounds = SHIFT) -> tuple[Tensor, Tensor]:
    scale, shift = raw.chunk(2, dim=-1)
    return soft_clamp(scale, scale_bounds), soft_clamp(shift, shift_bounds)


def _plain_update(raw: Tensor, state: Tensor, *, rotating: bool) -> Tensor:
    scale, shift = _plain_pair(raw, ROTATION if rotating else SCALE)
    if not rotating:
        return scale * state + shift
    paired = state.shape[-1] // 2 * 2
    a, b = scale[..., 0:paired:2], scale[..., 1:paired:2]
    u, v = state[..., 0:paired:2], state[..., 1:paired:2]
    turned = torch.stack((a * u - b * v, b * u + a * v), dim=-1).flatten(-2)
    unpaired = scale[..., paired:] * state[..., paired:]
    return torch.cat((turned, unpaired), dim=-1) + shift


class _ClampedPair(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, raw: Tensor, scale_bounds: SoftBounds, shift_bounds: SoftBounds) -> tuple[Tensor, Tensor]:
        raw = raw.contiguous()
        rows, width = raw.shape
        scale, shift = (_apart(raw, rows, width // 2) for _ in range(2))
        kernels.clamp(_array(raw), bounds_table(raw.dtype, scale_bounds, shift_bounds), _array(scale), _array(shift))
        ctx.save_for_backward(raw)
        ctx.bounds = scale_bounds, shift_bounds
        return scale, shift

    @staticmethod
    def backward(ctx: Any, grad_scale: Tensor, grad_shift: Tensor) -> tuple[Tensor | None, ...]:
        (raw,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: autograd follows the plain operations
            pair = _plain_pair(raw, *ctx.bounds)
            return *torch.autograd.grad(pair, raw, (grad_scale, grad_shift), create_graph=True), None, None
        grad_raw = _apart(raw, *raw.shape)
        table = bounds_table(raw.dtype, *ctx.bounds)
        kernels.clamp_backward(_array(raw), table, _array(grad_scale), _array(grad_shift), _array(grad_raw))
        return grad_raw, None, None


class _Update(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, raw: Tensor, state: Tensor, rotating: bool) -> Tensor:
        raw, state = raw.contiguous(), state.contiguous()
        out = _apart(raw, *state.shape)
        kernel = kernels.rotate if rotating else kernels.affine
        kernel(_array(raw), _array(state), bounds_table(raw.dtype, ROTATION if rotating else SCALE), _array(out))
        ctx.save_for_backward(raw, state)
        ctx.rotating = rotating
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        raw, state = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *_recorded(_plain_update(raw, state, rotating=ctx.rotating), (raw, state), grad), None
        grad_raw, grad_state = _apart(raw, *raw.shape), _apart(raw, *state.shape)
        kernel = kernels.rotate_backward if ctx.rotating else kernels.affine_backward
        table = bounds_table(raw.dtype, ROTATION if ctx.rotating else SCALE)
        kernel(_array(raw), _array(state), table, _array(grad), _array(grad_raw), _array(grad_state))
        return grad_raw, grad_state, None


def _recorded(out: Tensor, inputs: tuple[Tensor, ...], grad: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, for the inputs that need one."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
    return tuple(next(found) if tensor.requires_grad else None for tensor in inputs)


def _apart(raw: Tensor, rows: int, width: int) -> Tensor:  # (rows, width)
    """An array to write to whose memory keeps a row of ``raw`` away from all other memory.

    Before a loop over rows the compiled code asks whether what it writes may overlap what it reads, and counts a row
    too many; where it may, it runs a loop of another rounding. Without the distance the last bit of a result would
    depend on where an array happens to lie, and a seed would not give the same bits again.
    """
    distance = -(-raw.shape[1] // ALIGNED) * ALIGNED
    return raw.new_empty(rows * width + 2 * distance)[distance : distance + rows * width].view(rows, width)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


@cache
def bounds_table(dtype: torch.dtype, scale_bounds: SoftBounds, shift_bounds: SoftBounds = SHIFT) -> Any:
    """The bounds as the kernels read them."""
    number = _NUMPY[dtype]
    return tuple(
        tuple(number(v) for v in (b.low, b.high, b.linear_low, b.linear_high, b.knee, 1.0, FAR))
        for b in (scale_bounds, shift_bounds)
    )


def leaky_update(
    scale: Tensor,  # (N, n), before its clamp
    shift: Tensor,  # (N, n), before its clamp
    state: Tensor,  # (N, n)
    *,
    residual: bool,
    rotating: bool = False,
) -> Tensor:  # (N, n)
    """s ⊙ state + t, and the state itself beside it where the update is ``residual``; s and t are clamped here.

    ``rotating``: s is block-complex, neighbours in time are multiplied as complex numbers. The bounds of a residual
    scale are one lower: with the state itself its factor lies within the same [0, 5.5].

    Example:
        >>> state = torch.tensor([[10.0, 20.0]])
        >>> leaky_update(torch.full((1, 2), 2.0), torch.zeros(1, 2), state, residual=True).round(decimals=1)
        tensor([[29.5000, 59.1000]])
    """
    bounds = LEAKY_ROTATION if rotating else LEAKY_RESIDUAL if residual else LEAKY_SCALE
    if torch.compiler.is_compiling() or not kernels_enabled():
        return _plain_leaky_update(scale, shift, state, bounds, residual, rotating)
    updated: Tensor = _LeakyUpdate.apply(scale, shift, state, bounds, residual, rotating)  # type: ignore[no-untyped-call]
    return updated


def _plain_leaky_update(
    scale: Tensor, shift: Tensor, state: Tensor, bounds: LeakyBounds, residual: bool, rotating: bool
) -> Tensor:
    factor, moved = plain_leaky_clamp(scale, bounds), plain_leaky_clamp(shift, LEAKY_SHIFT)
    moved = moved + state if residual else moved
    return moved + (_turned(factor, state) if rotating else factor * state)


class _LeakyUpdate(torch.autograd.Function):
    """`_plain_leaky_update` as one node of autograd's graph in place of some twenty."""

    @staticmethod
    def forward(
        ctx: Any, scale: Tensor, shift: Tensor, state: Tensor, bounds: LeakyBounds, residual: bool, rotating: bool
    ) -> Tensor:
        factor = unrecorded_clamp(scale, bounds)
        ctx.save_for_backward(scale, shift, state, factor)
        ctx.settings = bounds, residual, rotating
        out = unrecorded_clamp(shift, LEAKY_SHIFT)
        out = out.add_(state) if residual else out
        return out.add_(_turned(factor, state)) if rotating else out.addcmul_(factor, state)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scale, shift, state, factor = ctx.saved_tensors
        bounds, residual, rotating = ctx.settings
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: autograd follows the plain operations
            inputs = [tensor for tensor in (scale, shift, state) if tensor.requires_grad]
            out = _plain_leaky_update(scale, shift, state, bounds, residual, rotating)
            made = iter(torch.autograd.grad(out, inputs, grad, create_graph=True))
            return *(next(made) if tensor.requires_grad else None for tensor in (scale, shift, state)), None, None, None
        if rotating:
            grad_factor, grad_state = _turned_backward(factor, state, grad)
        else:
            grad_factor, grad_state = grad * state, grad * factor
        grad_state = grad_state.add_(grad) if residual else grad_state
        grad_scale = grad_factor.mul_(clamp_slope(scale, bounds))
        return grad_scale, clamp_slope(shift, LEAKY_SHIFT).mul_(grad), grad_state, None, None, None


def _turned(factor: Tensor, state: Tensor) -> Tensor:  # (N, n)
    """(a + ib)(u + iv) for each pair of neighbours; a last odd element is scaled by its a."""
    paired = state.shape[-1] // 2 * 2
    out = torch.empty_like(state)
    a, b = factor[:, 0:paired:2], factor[:, 1:paired:2]
    u, v = state[:, 0:paired:2], state[:, 1:paired:2]
    out[:, 0:paired:2] = a * u - b * v
    out[:, 1:paired:2] = b * u + a * v
    out[:, paired:] = factor[:, paired:] * state[:, paired:]
    return out


def _turned_backward(factor: Tensor, state: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    paired = state.shape[-1] // 2 * 2
    a, b = factor[:, 0:paired:2], factor[:, 1:paired:2]
    u, v = state[:, 0:paired:2], state[:, 1:paired:2]
    gu, gv = grad[:, 0:paired:2], grad[:, 1:paired:2]
    grad_factor, grad_state = torch.empty_like(state), torch.empty_like(state)
    grad_factor[:, 0:paired:2] = gu * u + gv * v
    grad_factor[:, 1:paired:2] = gv * u - gu * v
    grad_state[:, 0:paired:2] = a * gu + b * gv
    grad_state[:, 1:paired:2] = a * gv - b * gu
    grad_factor[:, paired:] = grad[:, paired:] * state[:, paired:]
    grad_state[:, paired:] = grad[:, paired:] * factor[:, paired:]
    return grad_factor, grad_state

"""The affine updates of the coupling layers (paper, Alg. 1), fused with the clamps of their scales and shifts.

Two clamps: the paper's, which bends, and its author's, which leaks. Each update exists as plain torch operations, which
define it and run on any device and under ``torch.compile``, and as a compiled loop for float32 and float64 on the CPU,
where the clamps would otherwise cost much of a training step. A test holds the two equal, values and gradients.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad, softplus

from fern.caching import kernels_enabled
from fern.models.fern_parts import _kernels as kernels
from fern.transport._compiled import fits_kernels
from fern.transport._lanes import LANES

KNEE = 0.1
"""The share of the range, at each end, in which the clamp bends."""

FAR = 1e9
"""Distances from the linear part, in knees, are cut here: their squares stay finite and the result is the bound."""


@dataclass(frozen=True)
class SoftBounds:
    """The bounds [low, high] of a soft clamp, which is the identity on [linear_low, linear_high].

    ``bend`` is the width of the bend at each end; None makes it `KNEE` of the range.

    Example:
        >>> SoftBounds(-15.0, 15.0).linear_high
        12.0
    """

    low: float
    high: float
    bend: float | None = None

    @property
    def knee(self) -> float:
        """The width of the bend at each end."""
        return KNEE * (self.high - self.low) if self.bend is None else self.bend

    @property
    def linear_low(self) -> float:
        """Where the identity begins."""
        return self.low + self.knee

    @property
    def linear_high(self) -> float:
        """Where the identity ends."""
        return self.high - self.knee


SCALE = SoftBounds(0.0, 5.5)
"""Eigenvalues, and the scales of the coupling layers."""

ROTATION = SoftBounds(-4.5, 4.5)
"""Real and imaginary parts of the block-complex scales."""

SHIFT = SoftBounds(-15.0, 15.0)
"""Shifts."""

RESIDUAL = SoftBounds(-1.0, 4.5)
"""The scales of a coupling layer beside the state itself, where the clamp does not leak."""


def soft_clamp(x: Tensor, bounds: SoftBounds) -> Tensor:
    """The identity inside, and a smooth approach to the bounds outside, in plain torch operations.

    With c = x cut to the linear part, k the knee, w = (x - c) / k and r = 1/√(1 + w²)::

        y = c + k·w·r        dy/dx = r³

    so y is strictly inside (low, high), increasing, twice continuously differentiable, and exactly x on the linear
    part. The gradient falls off like |w|⁻³ and not exponentially: a saturated value can still come back.

    Example:
        >>> soft_clamp(torch.tensor([-1.0, 1.0, 4.0, 10.0]), SCALE)
        tensor([0.0317, 1.0000, 4.0000, 5.4968])
    """
    centre = x.clamp(bounds.linear_low, bounds.linear_high)
    w = ((x - centre) / bounds.knee).clamp(-FAR, FAR)
    return (centre + bounds.knee * w * torch.rsqrt(1.0 + w.square())).clamp(bounds.low, bounds.high)


@dataclass(frozen=True)
class LeakyBounds:
    """The bounds of a clamp whose slope outside is ``leak`` and not 0; ``sharpness`` is that of its bends.

    Example:
        >>> LeakyBounds(-15.0, 15.0).leak
        0.1
    """

    low: float
    high: float
    sharpness: float = 0.8
    leak: float = 0.1


LEAKY_SCALE = LeakyBounds(0.0, 5.5)
"""The scales of the coupling layers."""

LEAKY_RESIDUAL = LeakyBounds(-1.0, 4.5)
"""The same beside the state itself; the author's eigenvalues too, which are then floored."""

LEAKY_ROTATION = LeakyBounds(-4.5, 4.5)
"""Real and imaginary parts of the block-complex scales."""

LEAKY_SHIFT = LeakyBounds(-15.0, 15.0)
"""Shifts."""


def leaky_clamp(x: Tensor, bounds: LeakyBounds) -> Tensor:
    """About the identity between the bounds, and a line of slope ``leak`` outside.

    With ζ(u) = log(1 + exp(βu)) / β, β the sharpness and l the leak::

        y = x - (1 - l)·ζ(x - high) + (1 - l)·ζ(low - x)

    Example:
        >>> leaky_clamp(torch.tensor([-20.0, 0.0, 20.0]), LeakyBounds(-5.0, 5.0))
        tensor([-6.5000,  0.0000,  6.5000])
    """
    if torch.compiler.is_compiling() or not kernels_enabled():
        return plain_leaky_clamp(x, bounds)
    clamped: Tensor = _LeakyClamp.apply(x, bounds)  # type: ignore[no-untyped-call]
    return clamped


def plain_leaky_clamp(x: Tensor, bounds: LeakyBounds) -> Tensor:
    """`leaky_clamp` in plain operations, which define it."""
    above = softplus(x - bounds.high, beta=bounds.sharpness)
    below = softplus(bounds.low - x, beta=bounds.sharpness)
    return torch.add(x, below - above, alpha=1.0 - bounds.leak)


def _plain_slope(x: Tensor, bounds: LeakyBounds) -> Tensor:
    """dy/dx of the clamp."""
    above = torch.sigmoid_((x - bounds.high).mul_(bounds.sharpness))
    below = torch.sigmoid_((bounds.low - x).mul_(bounds.sharpness))
    return above.add_(below).mul_(bounds.leak - 1.0).add_(1.0)


def clamp_unrecorded(x: Tensor, bounds: LeakyBounds) -> Tensor:
    """`leaky_clamp` without a record for gradients."""
    return _by_kernel(kernels.leaky_clamp, x, bounds) if _fits_leaky_kernels(x) else plain_leaky_clamp(x, bounds)


def clamp_slope(x: Tensor, bounds: LeakyBounds) -> Tensor:
    """dy/dx of `leaky_clamp`."""
    return _by_kernel(kernels.leaky_slope, x, bounds) if _fits_leaky_kernels(x) else _plain_slope(x, bounds)


def _fits_leaky_kernels(x: Tensor) -> bool:
    """Whether the kernels take it."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and type(x.data) is Tensor


def _by_kernel(kernel: Any, x: Tensor, bounds: LeakyBounds) -> Tensor:
    numbers = tuple(np.float32(v) for v in (bounds.low, bounds.high, bounds.sharpness, 1.0 - bounds.leak))
    if x.ndim == 2 and x.stride(1) == 1 and x.shape[1] % LANES == 0 and x.numel():  # half of a wider array, maybe
        (rows, width), stride = x.shape, x.stride(0)
        flat = x.detach().as_strided(((rows - 1) * stride + width,), (1,))
        out = x.new_empty(rows, width)
        kernel(flat.numpy(), stride, width, numbers, out.view(-1).numpy())
        return out
    size = x.numel()
    whole = -(-size // LANES) * LANES
    values = pad(x.detach().reshape(-1), (0, whole - size))
    out = torch.empty_like(values)
    kernel(values.numpy(), whole, max(whole, LANES), numbers, out.numpy())
    return out[:size].view(x.shape)


class _LeakyClamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bounds: LeakyBounds) -> Tensor:
        ctx.save_for_backward(x)
        ctx.bounds = bounds
        return clamp_unrecorded(x, bounds)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return clamp_slope(x, ctx.bounds).mul_(grad), None


ALIGNED = 16
"""Numbers in a cache line of float32: arrays begin on one."""

_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


def clamp_pair(
    raw: Tensor,  # (N, 2n): n scales, n shifts, unbounded
    *,
    scale_bounds: SoftBounds = SCALE,
    shift_bounds: SoftBounds = SHIFT,
) -> tuple[Tensor, Tensor]:  # (N, n), (N, n)
    """The scales and shifts within their bounds.

    Example:
        >>> clamp_pair(torch.tensor([[1.0, -2.0]]))
        (tensor([[1.]]), tensor([[-2.]]))
    """
    if fits_kernels(raw):
        pair: tuple[Tensor, Tensor] = _ClampedPair.apply(raw, scale_bounds, shift_bounds)  # type: ignore[no-untyped-call]
        return pair
    return _plain_pair(raw, scale_bounds, shift_bounds)


def affine_update(
    raw: Tensor,  # (N, 2n)
    state: Tensor,  # (N, n)
) -> Tensor:  # (N, n)
    """s ⊙ state + t, with (s, t) = `clamp_pair` of ``raw``.

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
    if fits_kernels(raw) and state.dtype == raw.dtype:
        updated: Tensor = _Update.apply(raw, state, rotating)  # type: ignore[no-untyped-call]
        return updated
    return _plain_update(raw, state, rotating=rotating)


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
    @once_differentiable
    def backward(ctx: Any, grad_scale: Tensor, grad_shift: Tensor) -> tuple[Tensor | None, ...]:
        (raw,) = ctx.saved_tensors
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
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        raw, state = ctx.saved_tensors
        grad_raw, grad_state = _apart(raw, *raw.shape), _apart(raw, *state.shape)
        kernel = kernels.rotate_backward if ctx.rotating else kernels.affine_backward
        table = bounds_table(raw.dtype, ROTATION if ctx.rotating else SCALE)
        kernel(_array(raw), _array(state), table, _array(grad), _array(grad_raw), _array(grad_state))
        return grad_raw, grad_state, None


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
    return moved + (_multiply_pairs(factor, state) if rotating else factor * state)


class _LeakyUpdate(torch.autograd.Function):
    """`_plain_leaky_update` as one node of autograd's graph in place of some twenty."""

    @staticmethod
    def forward(
        ctx: Any, scale: Tensor, shift: Tensor, state: Tensor, bounds: LeakyBounds, residual: bool, rotating: bool
    ) -> Tensor:
        factor = clamp_unrecorded(scale, bounds)
        ctx.save_for_backward(scale, shift, state, factor)
        ctx.settings = bounds, residual, rotating
        out = clamp_unrecorded(shift, LEAKY_SHIFT)
        out = out.add_(state) if residual else out
        return out.add_(_multiply_pairs(factor, state)) if rotating else out.addcmul_(factor, state)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scale, shift, state, factor = ctx.saved_tensors
        bounds, residual, rotating = ctx.settings
        if rotating:
            grad_factor, grad_state = _multiply_pairs_backward(factor, state, grad)
        else:
            grad_factor, grad_state = grad * state, grad * factor
        grad_state = grad_state.add_(grad) if residual else grad_state
        grad_scale = grad_factor.mul_(clamp_slope(scale, bounds))
        return grad_scale, clamp_slope(shift, LEAKY_SHIFT).mul_(grad), grad_state, None, None, None


def _multiply_pairs(factor: Tensor, state: Tensor) -> Tensor:  # (N, n)
    """(a + ib)(u + iv) for each pair of neighbours; a last odd element is scaled by its a."""
    paired = state.shape[-1] // 2 * 2
    out = torch.empty_like(state)
    a, b = factor[:, 0:paired:2], factor[:, 1:paired:2]
    u, v = state[:, 0:paired:2], state[:, 1:paired:2]
    out[:, 0:paired:2] = a * u - b * v
    out[:, 1:paired:2] = b * u + a * v
    out[:, paired:] = factor[:, paired:] * state[:, paired:]
    return out


def _multiply_pairs_backward(factor: Tensor, state: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
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

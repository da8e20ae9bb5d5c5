"""The clamps that bound scales, shifts and eigenvalues: the paper's, which bends, and its author's, which leaks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from fern.caching import kernels_enabled
from fern.models.fern_parts import _leaky_kernels as kernels
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


def unrecorded_clamp(x: Tensor, bounds: LeakyBounds) -> Tensor:
    """`leaky_clamp` without a record for gradients."""
    return _by_kernel(kernels.clamp, x, bounds) if _compiled(x) else plain_leaky_clamp(x, bounds)


def clamp_slope(x: Tensor, bounds: LeakyBounds) -> Tensor:
    """dy/dx of `leaky_clamp`."""
    return _by_kernel(kernels.slope, x, bounds) if _compiled(x) else _plain_slope(x, bounds)


def _compiled(x: Tensor) -> bool:
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
        return unrecorded_clamp(x, bounds)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: autograd follows the plain operations
            return *torch.autograd.grad(plain_leaky_clamp(x, ctx.bounds), x, grad, create_graph=True), None
        return clamp_slope(x, ctx.bounds).mul_(grad), None

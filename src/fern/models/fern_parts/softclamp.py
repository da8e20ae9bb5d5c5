"""The soft clamp that bounds scales and shifts (paper, "Architectural Details")."""

from dataclasses import dataclass

import torch
from torch import Tensor

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

"""What polynomials of a state are made of: its monomials, and the neighbours of a channel on a ring."""

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Literal

import torch
from torch import Tensor


def monomial_count(variables: int, degree: int) -> int:
    """How many monomials so many variables have up to a degree, the constant among them."""
    return comb(variables + degree, degree)


def monomials(
    values: Tensor,  # (..., v, n)
    degree: int,
) -> Tensor:  # (..., monomials, n)
    """1, the values, their products of two, …, up to the degree, each monomial once."""
    *batch, variables, width = values.shape
    products = [values.new_ones(*batch, 1, width)]
    for lower, variable in _recipe(variables, degree, values.device):
        products.append(products[-1].index_select(-2, lower) * values.index_select(-2, variable))
    return torch.cat(products, dim=-2)


@cache
def _recipe(variables: int, degree: int, device: torch.device) -> tuple[tuple[Tensor, Tensor], ...]:
    """For each degree, of which monomial of the degree below and which variable its monomials are the products."""
    layers, last = [], [0]  # the least variable that each of the last may be multiplied by
    for _ in range(degree):
        factors = [(lower, variable) for lower, least in enumerate(last) for variable in range(least, variables)]
        layers.append(tuple(torch.tensor(entries, device=device) for entries in zip(*factors, strict=True)))
        last = [variable for _, variable in factors]
    return tuple((lower, variable) for lower, variable in layers)


Layout = Literal["free", "ring"]
"""How channels lie to each other: each in its own right, or as points of a ring that are alike everywhere."""

LEAST_WAVE = 1e-4
"""Mean square of a wave, relative to the strongest, below which it is left out of a state."""


@dataclass(frozen=True)
class Ring:
    """So many channels in a circle, each seen with its neighbours up to ``reach`` on either side.

    Example:
        >>> ring = Ring(channels=5, reach=1)
        >>> ring.around(torch.arange(5.0))[0]
        tensor([4., 0., 1.])
        >>> ring.width, Ring(channels=6, reach=9).width
        (3, 6)
    """

    channels: int
    reach: int

    @property
    def width(self) -> int:
        """Channels that one is seen with, itself among them; each counts once, however far the reach."""
        return min(2 * self.reach + 1, self.channels)

    def around(self, values: Tensor) -> Tensor:  # (..., C) -> (..., C, width)
        """Every channel's neighbours in their order round the ring, itself in the middle, or just before it."""
        places = torch.arange(self.channels, device=values.device)
        away = torch.arange(self.width, device=values.device) - (self.width - 1) // 2
        return values[..., (places[:, None] + away) % self.channels]


def strong_waves(
    rows: Tensor,  # (n, C), about their level
    *,
    least: float = LEAST_WAVE,
) -> Tensor:  # (C, C), symmetric, its own square
    """The projection of a state onto the waves round the ring that these rows have.

    With P_k the mean square of wave k over the rows, those with P_k ≥ ``least``·max P are kept. A map that is fitted to
    rows does not know what becomes of waves that the rows do not have, and rolled on it makes them grow.
    """
    channels = rows.shape[1]
    strength = torch.fft.rfft(rows.double(), dim=1).abs().square().mean(0)
    kept = (strength >= least * strength.max()).to(torch.complex128)
    single = torch.fft.irfft(kept, n=channels)  # what the first channel alone becomes
    places = torch.arange(channels, device=rows.device)
    projection: Tensor = single[(places[:, None] - places) % channels].to(rows.dtype)
    return projection

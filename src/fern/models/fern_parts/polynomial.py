"""The polynomial that a rolled Fern starts from: what its terms are made of, and their fit by least squares."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

import torch
from torch import Tensor

from fern.models.monomials import monomial_count, monomials

MOST_TERMS = 512
"""Of a polynomial."""

STATES_A_TERM = 10
"""Training states that each term needs, one of each window, on a ring one of each channel of it; with fewer the degree
is cut, or components are left out."""

LEAST_DEGREE = 2
"""Below which the degree is not cut for the sake of many channels: a linear map of a flow that is none runs away."""

RIDGE = 1e-10
"""For terms of components and of neighbours: products of small components, and differences of neighbours in a smooth
field, are told by rounding alone; without it coefficients grow so large that float32 loses their sum."""

LEAST_DEVIATION = 1e-6
"""Of the largest component, in units of a state: channels that never move have none, and float32 knows no less."""


@dataclass(frozen=True)
class PolynomialTerms:
    """What a polynomial is made of.

    ``channels``   of a state.
    ``variables``  that are multiplied: the channels or, where too many terms would come of them, so many of the leading
                   principal components of the state.
    ``degree``     of the polynomial.

    Example:
        >>> PolynomialTerms.of(3, degree=3), PolynomialTerms.of(64, degree=3)
        (PolynomialTerms(channels=3, variables=3, degree=3), PolynomialTerms(channels=64, variables=30, degree=2))
        >>> PolynomialTerms.of(2, degree=2).terms
        ((), (0,), (1,), (0, 0), (0, 1), (1, 1))
    """

    channels: int
    variables: int
    degree: int

    @classmethod
    def of(cls, channels: int, *, degree: int) -> "PolynomialTerms":
        """The highest degree, up to this one, of all channels; else the lowest of as many components as can be."""
        least = min(degree, LEAST_DEGREE)
        for possible in range(degree, least - 1, -1):
            if monomial_count(channels, possible) <= MOST_TERMS:
                return cls(channels, channels, possible)
        variables = max(count for count in range(1, channels) if monomial_count(count, least) <= MOST_TERMS)
        return cls(channels, variables, least)

    @property
    def reduced(self) -> bool:
        """Whether components are multiplied, not channels."""
        return self.variables < self.channels

    @cached_property
    def terms(self) -> tuple[tuple[int, ...], ...]:
        """The variables whose product is each term, the constant first, then by degree."""
        powers = (combinations_with_replacement(range(self.variables), power) for power in range(self.degree + 1))
        return tuple(term for found in powers for term in found)

    def told_by(self, states: int) -> list[int]:
        """The terms that so many states can tell, each by `STATES_A_TERM`, by place; the constant is always one.

        Of channels those of the highest degree that leaves each enough, of components those of as many as do.
        """
        makes = [PolynomialTerms(self.channels, self.variables, degree) for degree in range(self.degree + 1)]
        if self.reduced:
            makes = [PolynomialTerms(self.channels, count, self.degree) for count in range(self.variables + 1)]
        enough = [one for one in makes if len(one.terms) * STATES_A_TERM <= states]
        told = set(enough[-1].terms) if enough else {()}
        return [place for place, term in enumerate(self.terms) if term in told]

    def axes(self, states: Tensor) -> Tensor:  # (n, channels) -> (channels, variables)
        """The directions of the leading components, in units of the largest one's deviation.

        One unit for all: each in its own would make as much of the smallest as of the largest.
        """
        size, directions = torch.linalg.eigh(states.T @ states / len(states))  # ascending
        largest = size[-1].clamp_min(LEAST_DEVIATION**2)
        leading: Tensor = directions[:, -self.variables :].flip(1) / largest.sqrt()
        return leading

    def features(self, values: Tensor) -> Tensor:  # (B, variables) -> (B, terms)
        """Every term at these values."""
        return monomials(values.mT, self.degree).mT.contiguous()

    def fit(
        self,
        features: Tensor,  # (n, terms) float64
        wanted: Tensor,  # (n, m) float64
        *,
        beside: Tensor | None = None,  # (n, k) float64
        ridge: float = 0.0,
    ) -> Tensor:  # (terms + k, m)
        """The coefficients of least squares, those of the terms that so many states cannot tell 0.

        ``beside`` are other values that the result may be linear in; their coefficients come last. ``ridge``, times
        the number of states, keeps those small that rounding alone would tell.
        """
        told = self.told_by(len(features))
        used = features[:, told] if beside is None else torch.cat((features[:, told], beside), dim=1)
        if ridge > 0.0:
            more = ridge * len(used) * torch.eye(used.shape[1], dtype=used.dtype, device=used.device)
            found = torch.linalg.solve(used.T @ used + more, used.T @ wanted)
        else:
            found = torch.linalg.lstsq(used, wanted, driver="gelsd").solution
        whole: Tensor = found.new_zeros(len(self.terms) + used.shape[1] - len(told), found.shape[1])
        whole[[*told, *range(len(self.terms), len(whole))]] = found
        return whole

"""The least squares behind `Polymap`: what follows each state, and the weights of every candidate at once."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fern.models.monomials import monomial_count, monomials
from fern.models.ring import Ring

MOST_FEATURES = 350
"""Polynomials with more monomials are not tried."""

_ROWS_AT_ONCE = 4096
_MOST_ROWS = 200_000


class State(NamedTuple):
    """What a polynomial is one of: past rows so many steps apart, of all channels or of a channel's neighbours."""

    delays: int
    spacing: int
    ring: Ring | None

    def variables(self, channels: int) -> int:
        """Values in a state."""
        return self.delays * (channels if self.ring is None else self.ring.width)

    @property
    def past(self) -> int:
        """How far back it goes."""
        return (self.delays - 1) * self.spacing


class Candidate(NamedTuple):
    """A map, and the settings that it was solved with."""

    state: State
    degree: int
    ridge: float
    share: float
    coefficients: Tensor  # (features, C), on a ring (features, 1)


def solve(
    scaled: Sequence[Tensor],  # each (T_i, C)
    state: State,
    *,
    degrees: Sequence[int],
    ridges: Sequence[float],
    shares: Sequence[float],
) -> list[Candidate]:
    """The least-squares solutions for one make-up of the state, of every degree, ridge and share of the rows.

    Columns are ordered by degree, so that the R of one QR factorisation holds those of all lower degrees; rows are
    added newest first, so that it holds the shares on its way.
    """
    variables = state.variables(scaled[0].shape[1])
    degrees = [degree for degree in degrees if monomial_count(variables, degree) <= MOST_FEATURES]
    if not degrees:
        return []
    states, steps = _pairs(scaled, state)
    if len(states) == 0:
        return []
    features = monomial_count(variables, max(degrees))
    found = []
    triangle, done = states.new_zeros(0, features + steps.shape[1]), 0
    for share in sorted(shares):
        wanted = max(1, round(share * len(states)))
        for first in range(done, wanted, _ROWS_AT_ONCE):
            part = slice(len(states) - min(first + _ROWS_AT_ONCE, wanted), len(states) - first)
            block = torch.cat((monomials(states[part].T, max(degrees)).T, steps[part]), dim=1)
            triangle = torch.linalg.qr(torch.cat((triangle, block)), mode="r")[1]
        done = wanted
        for degree in degrees:
            count = monomial_count(variables, degree)
            if count < wanted:  # more equations than unknowns
                solutions = _least_squares(triangle, count, features, rows=wanted, ridges=ridges)
                found += [
                    Candidate(state, degree, ridge, share, weights)
                    for ridge, weights in zip(ridges, solutions, strict=True)
                ]
    return found


def _pairs(stretches: Sequence[Tensor], state: State) -> tuple[Tensor, Tensor]:  # (n, variables), (n, C); ring: (n, 1)
    """Every state with its delays, newest first in a row, and the step that followed it; at most `_MOST_ROWS`.

    Those of several stretches are ordered by how far from its stretch's end each is, as a share of it, so that the last
    ones are the newest of every stretch, whatever the order of the list. On a ring each channel has a state of its own
    at every time: there are plenty, and those that are too many are left out evenly, not the oldest of them.
    """
    states, steps, ages = [], [], []
    for rows in stretches:
        if len(rows) > state.past + 1:
            ends = len(rows) - 1
            lagged = [rows[state.past - j * state.spacing : ends - j * state.spacing] for j in range(state.delays)]
            states.append(torch.stack(lagged, dim=1))
            steps.append(rows[state.past + 1 :] - rows[state.past : -1])
            count = ends - state.past
            ages.append((torch.arange(count, 0, -1, dtype=torch.float64, device=rows.device) - 0.5) / count)
    if not states:
        channels, empty = stretches[0].shape[1], stretches[0].new_empty
        return empty(0, state.variables(channels)), empty(0, channels if state.ring is None else 1)
    newest = torch.cat(ages).argsort(descending=True, stable=True)
    ring = state.ring
    if ring is None:
        newest = newest[-_MOST_ROWS:]
        return torch.cat(states)[newest].flatten(1), torch.cat(steps)[newest]
    newest = newest[:: -(-len(newest) * ring.channels // _MOST_ROWS)]
    around = ring.around(torch.cat(states)[newest]).transpose(1, 2)  # (n, C, delays, width)
    return around.flatten(2).flatten(0, 1), torch.cat(steps)[newest].flatten()[:, None]


def _least_squares(
    triangle: Tensor,  # (r, p + C): the R of [features | steps]
    count: int,
    features: int,
    *,
    rows: int,
    ridges: Sequence[float],
) -> list[Tensor]:  # (count, C) each
    """The ridge solutions of the first ``count`` features, from one singular value decomposition."""
    own, targets = triangle[:count, :count], triangle[:count, features:]
    size = own.norm(dim=0) / rows**0.5
    size = torch.where(size > 0, size, 1.0)
    left, singular, right = torch.linalg.svd(own / size, full_matrices=False)
    projected = left.mT @ targets
    kept = singular > 1e-14 * singular[0] * rows
    found = []
    for ridge in ridges:
        filtered = torch.where(kept, singular / (singular.square() + ridge * rows), 0.0)
        found.append(right.mT @ (filtered[:, None] * projected) / size[:, None])
    return found

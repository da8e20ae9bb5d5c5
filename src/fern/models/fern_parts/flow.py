"""The flow that a rolled Fern starts from: the units of a state, and the polynomial, fitted by least squares, that
what follows it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import ceil
from typing import Literal

import torch
from torch import Tensor, nn

from fern.models.fern_parts.normalisation import RowStatistics
from fern.models.polynomial import Ring, monomial_count, monomials, strong_waves

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
        by_degree = (combinations_with_replacement(range(self.variables), power) for power in range(self.degree + 1))
        return tuple(term for terms in by_degree for term in terms)

    def select_terms(self, states: int) -> list[int]:
        """The terms that so many states can tell, each by `STATES_A_TERM`, by place; the constant is always one.

        Of channels those of the highest degree that leaves each enough, of components those of as many as do.
        """
        candidates = [PolynomialTerms(self.channels, self.variables, degree) for degree in range(self.degree + 1)]
        if self.reduced:
            candidates = [PolynomialTerms(self.channels, count, self.degree) for count in range(self.variables + 1)]
        affordable = [candidate for candidate in candidates if len(candidate.terms) * STATES_A_TERM <= states]
        kept = set(affordable[-1].terms) if affordable else {()}
        return [place for place, term in enumerate(self.terms) if term in kept]

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
        targets: Tensor,  # (n, m) float64
        *,
        beside: Tensor | None = None,  # (n, k) float64
        ridge: float = 0.0,
    ) -> Tensor:  # (terms + k, m)
        """The coefficients of least squares, those of the terms that so many states cannot tell 0.

        ``beside`` are other values that the result may be linear in; their coefficients come last. ``ridge``, times
        the number of states, keeps those small that rounding alone would tell.
        """
        places = self.select_terms(len(features))
        used = features[:, places] if beside is None else torch.cat((features[:, places], beside), dim=1)
        if ridge > 0.0:
            more = ridge * len(used) * torch.eye(used.shape[1], dtype=used.dtype, device=used.device)
            solution = torch.linalg.solve(used.T @ used + more, used.T @ targets)
        else:
            solution = torch.linalg.lstsq(used, targets, driver="gelsd").solution
        rows = len(self.terms) + used.shape[1] - len(places)
        coefficients: Tensor = solution.new_zeros(rows, solution.shape[1])
        coefficients[[*places, *range(len(self.terms), rows)]] = solution
        return coefficients


Earlier = Literal["chosen", "none"]
"""Whether the earlier rows may be taken beside the polynomial of the newest."""

UNKNOWN = 1e6
"""Deviations that a flow which has seen no training rows holds values within."""

LEAST_UNIT = 1e-6
"""Deviations that what the polynomial leaves counts as, at least: float32 knows no less."""

MOST_FITTED = 100_000
"""States that the polynomial of a ring is fitted to; every channel of a window is one."""

JUDGED = 256
"""Training windows, at least, over which the ways to fit are rolled, where there are so many; less than twice that."""

CLEAR = 0.9
"""Share of the plain way's error that the earlier rows must get below to be taken."""


class PolynomialFlow(nn.Module):
    """x_last + P(x_last) + Σ B_j (x_{last-j} - x_last) of standardised rows, fitted to the training windows.

    P is a polynomial and the B_j are linear, by least squares together. The earlier rows average noise of observation
    out of the newest one; where there is none they tell nothing new, and rolled on they may run away. So both ways are
    fitted, with and without them, and rolled over the horizon of some training windows: they are taken where that
    lowers the windows' geometric mean square error clearly, which a few windows that lost the attractor do not decide.
    Elsewhere the B_j are 0.

    ``unit`` is the deviation of what is left, over all channels: what a network has to find, and `context` is what it
    reads. ``earlier`` "none" leaves the B_j out. Without training windows P and B are 0 and the units are those of the
    data.

    Example:
        >>> rows = (0.1 * torch.arange(400.0))[:, None] + torch.tensor([0.0, torch.pi / 2])
        >>> windows = rows.sin().unfold(0, 10, 1).mT
        >>> flow = PolynomialFlow(
        ...     channels=2, seen=3, step=2, degree=1, earlier="chosen", margin=0.1, ring=None
        ... )
        >>> flow.learn([(windows[:, :8], windows[:, 8:])])
        >>> forecast = flow.restore(flow(flow.standardise(windows[:, 5:8])))
        >>> bool((forecast - windows[:, 8:]).abs().max() < 1e-4)
        True
    """

    level: Tensor  # (C,)
    scale: Tensor  # (C,)
    lowest: Tensor  # (C,) standardised, as is
    highest: Tensor  # (C,)
    unit: Tensor  # ()
    polynomial: Tensor  # (terms, step·C), on a ring (terms, step)
    linear: Tensor  # ((seen - 1)·variables, as above); no rows where the earlier ones are left out
    axes: Tensor  # (C or width, variables), where the polynomial is one of components
    pace: Tensor  # (seen - 1, 1): how far the earlier rows are from the newest, root mean square
    waves: Tensor  # (C, C), on a ring

    def __init__(
        self,
        *,
        channels: int,
        seen: int,
        step: int,
        degree: int,
        earlier: Earlier,
        margin: float,
        ring: Ring | None,
    ) -> None:
        super().__init__()
        self.channels, self.seen, self.step, self.margin, self.ring = channels, seen, step, margin, ring
        self.basis = PolynomialTerms.of(channels if ring is None else ring.width, degree=degree)
        self.register_buffer("level", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))
        self.register_buffer("lowest", torch.full((channels,), -UNKNOWN))
        self.register_buffer("highest", torch.full((channels,), UNKNOWN))
        self.register_buffer("unit", torch.ones(()))
        outputs = step * channels if ring is None else step
        self.register_buffer("polynomial", torch.zeros(len(self.basis.terms), outputs))
        rows = seen - 1 if degree and earlier == "chosen" else 0  # a constant alone knows no row
        self.register_buffer("linear", torch.zeros(rows * self.basis.variables, outputs))
        if self.basis.reduced:
            self.register_buffer("axes", torch.zeros(self.basis.channels, self.basis.variables))
        self.register_buffer("pace", torch.ones(seen - 1, 1))
        if ring is not None:
            self.register_buffer("waves", torch.eye(channels))

    def learn(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:  # (B, L, C), (B, H, C)
        """Learn level and scale of each channel from the contexts, then the polynomial and what it leaves."""
        stats: RowStatistics | None = None
        contexts, patches, judged = [], [], _EvenSample()
        for past, future in batches:
            rows = past.flatten(0, 1) if self.ring is None else past.reshape(-1, 1)
            stats = RowStatistics.of(rows) if stats is None else stats.and_of(rows)
            contexts.append(past[:, -self.seen :])
            patches.append(future[:, : self.step])
            judged.add(past[:, -self.seen :], future)
        if stats is None:
            return
        self.level.copy_(stats.level)
        self.scale.copy_(stats.scale)
        low, high = self.standardise(torch.stack((stats.low, stats.high)))
        beyond = self.margin * (high - low)
        self.lowest.copy_(low - beyond)
        self.highest.copy_(high + beyond)
        self._fit(torch.cat(contexts), torch.cat(patches), judged.windows())

    def _fit(
        self,
        contexts: Tensor,  # (n, seen, C)
        patches: Tensor,  # (n, step, C)
        judged: tuple[Tensor, Tensor],  # (m, seen, C), (m, H, C)
    ) -> None:
        """The way that rolls best, by least squares in float64, and the deviation of what it leaves."""
        if self.ring is not None:
            self.waves.copy_(strong_waves(self.standardise(contexts[:, -1])))
            thinned = slice(None, None, ceil(len(contexts) * self.channels / MOST_FITTED))
            contexts, patches = contexts[thinned], patches[thinned]
        seen, following = (self._prepare_rows(values) for values in (contexts, patches))
        self.pace.copy_(self._away(seen).square().mean(dim=(0, 2))[:, None].sqrt().clamp_min(LEAST_UNIT))
        x = self.standardise(contexts.double())
        rise = self.standardise(patches.double()) - x[:, -1:]
        targets = rise.flatten(1) if self.ring is None else rise.transpose(1, 2).flatten(0, 1)
        if self.basis.reduced:
            self.axes.copy_(self.basis.axes(self._state(x[:, -1])))
        features, earlier = self._features(x[:, -1]), self._earlier(x)
        ridge = 0.0 if self.ring is None and not self.basis.reduced else RIDGE
        coefficients = self.basis.fit(features, targets, ridge=ridge)
        known = len(self.basis.select_terms(len(features))) + earlier.shape[1]
        if earlier.shape[1] > 0 and known * STATES_A_TERM <= len(features):
            extended = self.basis.fit(features, targets, beside=earlier, ridge=ridge)
            if self._score_rollout(extended, *judged) < CLEAR * self._score_rollout(coefficients, *judged):
                coefficients = extended
        self._take(coefficients)
        residual = targets - torch.cat((features, earlier), dim=1)[:, : len(coefficients)] @ coefficients
        if self.ring is not None:  # a network there is compared with states that have no weak waves
            residual = following - self.without_weak_waves(self(seen))
        self.unit.copy_(residual.square().mean().sqrt().clamp_min(LEAST_UNIT))

    def _take(self, coefficients: Tensor) -> None:  # (terms, m) or (terms + earlier, m)
        """Go by these coefficients; those of earlier rows that are not there are 0."""
        terms = len(self.polynomial)
        self.polynomial.copy_(coefficients[:terms])
        self.linear.zero_()[: len(coefficients) - terms].copy_(coefficients[terms:])

    def _score_rollout(
        self,
        coefficients: Tensor,  # (terms, m) or (terms + earlier, m)
        past: Tensor,  # (n, seen, C)
        future: Tensor,  # (n, H, C)
    ) -> float:
        """The geometric mean over windows of the mean square that the flow alone misses by, standardised."""
        self._take(coefficients)
        x, target = self._prepare_rows(past), self.standardise(future)
        path: list[Tensor] = []
        while len(path) * self.step < target.shape[1]:
            path.append(self.without_weak_waves(self(x)))
            x = self.after(x, path[-1])
        error = (torch.cat(path, dim=1)[:, : target.shape[1]] - target).square().flatten(1).mean(dim=1)
        return float(error.clamp_min(LEAST_UNIT**2).log().mean().exp())

    def forward(self, x: Tensor) -> Tensor:  # (B, seen, C) -> (B, step, C)
        """What follows the rows, held within the range: far out a polynomial knows nothing."""
        last = x[:, -1]
        rise = self._features(last) @ self.polynomial
        if len(self.linear):
            rise = rise + self._earlier(x) @ self.linear
        if self.ring is None:
            rise = rise.view(len(last), -1, self.channels)
        else:
            rise = rise.view(len(last), self.channels, -1).transpose(1, 2)
        return self.clamp(last[:, None] + rise)

    def context(self, x: Tensor) -> Tensor:  # (B, seen, C), on a ring (B, seen·width, C)
        """What a network reads for each channel: the newest row, and how the earlier ones differ from it.

        Differences are in units of their size. Those of neighbouring rows are small, and under noise all that tells
        the state from what was observed is in them.
        """
        x = torch.cat((self._away(x) / self.pace, x[:, -1:]), dim=1)
        return x if self.ring is None else self.ring.around(x).transpose(2, 3).flatten(1, 2)

    def without_weak_waves(self, values: Tensor) -> Tensor:  # (B, T, C)
        """On a ring the waves that the training rows have; else the values."""
        return values if self.ring is None else values @ self.waves

    def clamp(self, values: Tensor) -> Tensor:  # (B, T, C)
        """Within the range of the contexts of the training windows, and a margin."""
        return values.clamp(self.lowest, self.highest)

    def after(self, x: Tensor, following: Tensor) -> Tensor:  # (B, seen, C), (B, step, C) -> (B, seen, C)
        """What is seen after a patch, held within the range."""
        return torch.cat((x, self.clamp(following)), dim=1)[:, -self.seen :]

    def standardise(self, values: Tensor) -> Tensor:  # (..., C)
        """In deviations from the level."""
        return (values - self.level) / self.scale

    def restore(self, values: Tensor) -> Tensor:  # (..., C)
        """In the units of the data."""
        return values * self.scale + self.level

    def _prepare_rows(self, values: Tensor) -> Tensor:  # (B, T, C)
        """Standardised, in the numbers that the model counts in, without weak waves."""
        return self.without_weak_waves(self.standardise(values).to(self.level.dtype))

    def _state(self, row: Tensor) -> Tensor:  # (B, C) -> (B, C), on a ring (B·C, width)
        """What the polynomial is one of."""
        return row if self.ring is None else self.ring.around(row).flatten(0, 1)

    def _variables(self, row: Tensor) -> Tensor:  # (B, C) -> (n, variables)
        """The state, or its leading components."""
        state = self._state(row)
        return state @ self.axes.to(state.dtype) if self.basis.reduced else state

    def _features(self, row: Tensor) -> Tensor:  # (B, C) -> (n, terms)
        return self.basis.features(self._variables(row))

    def _earlier(self, x: Tensor) -> Tensor:  # (B, seen, C) -> (n, earlier·variables)
        """The variables of how the earlier rows differ from the newest; nothing where they have no coefficients."""
        away = self._away(x) if len(self.linear) else x[:, :0]
        columns = [self._variables(row) for row in away.unbind(1)]
        return torch.cat(columns, dim=1) if columns else self._variables(x[:, -1])[:, :0]

    def _away(self, x: Tensor) -> Tensor:  # (B, seen, C) -> (B, seen - 1, C)
        """How the earlier rows differ from the newest."""
        return x[:, :-1] - x[:, -1:]


class _EvenSample:
    """Windows taken evenly from all that come: at least `JUDGED` of them if there are so many, less than twice that."""

    def __init__(self) -> None:
        self._pairs: list[tuple[Tensor, Tensor]] = []
        self._count, self._stride = 0, 1

    def add(self, past: Tensor, future: Tensor) -> None:  # (B, seen, C), (B, H, C)
        """Every window whose number the stride divides; it is doubled when there are too many."""
        for number in range(-self._count % self._stride, len(past), self._stride):
            self._pairs.append((past[number].clone(), future[number].clone()))
        self._count += len(past)
        while len(self._pairs) >= 2 * JUDGED:
            self._pairs, self._stride = self._pairs[::2], 2 * self._stride

    def windows(self) -> tuple[Tensor, Tensor]:  # (n, seen, C), (n, H, C)
        pasts, futures = zip(*self._pairs, strict=True)
        return torch.stack(pasts), torch.stack(futures)

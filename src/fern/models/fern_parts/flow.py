"""The flow that a rolled Fern starts from: the units of a state, and what follows it by a polynomial."""

from collections.abc import Iterable
from math import ceil

import torch
from torch import Tensor, nn

from fern.models.fern_parts.polynomial import MakeUp
from fern.models.fern_parts.row_statistics import RowStatistics
from fern.models.ring import Ring, strong_waves

UNKNOWN = 1e6
"""Deviations that a flow which has seen no training rows holds values within."""

LEAST_UNIT = 1e-6
"""Deviations that what the polynomial leaves counts as, at least: float32 knows no less."""

MOST_FITTED = 100_000
"""States that the polynomial of a ring is fitted to; every channel of a window is one."""


class PolynomialFlow(nn.Module):
    """x_last + P(x_last) of standardised rows, with P fitted to the training windows by least squares.

    ``unit`` is the deviation of what P leaves, over all channels. Without training windows P is 0 and the units are
    those of the data.

    Example:
        >>> rows = (0.1 * torch.arange(400.0))[:, None] + torch.tensor([0.0, torch.pi / 2])
        >>> windows = rows.sin().unfold(0, 10, 1).mT
        >>> flow = PolynomialFlow(channels=2, step=2, degree=1, margin=0.1, ring=None)
        >>> flow.learn([(windows[:, :8], windows[:, 8:])])
        >>> made = flow.restored(flow(flow.standardised(windows[:, 7])))
        >>> bool((made - windows[:, 8:]).abs().max() < 1e-4)
        True
    """

    level: Tensor  # (C,)
    scale: Tensor  # (C,)
    lowest: Tensor  # (C,) standardised, as is
    highest: Tensor  # (C,)
    unit: Tensor  # ()
    polynomial: Tensor  # (terms, step·C), on a ring (terms, step)
    axes: Tensor  # (C or width, variables), where the polynomial is one of components
    waves: Tensor  # (C, C), on a ring

    def __init__(self, *, channels: int, step: int, degree: int, margin: float, ring: Ring | None) -> None:
        super().__init__()
        self.channels, self.step, self.margin, self.ring = channels, step, margin, ring
        self.make_up = MakeUp.of(channels if ring is None else ring.width, degree=degree)
        self.register_buffer("level", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))
        self.register_buffer("lowest", torch.full((channels,), -UNKNOWN))
        self.register_buffer("highest", torch.full((channels,), UNKNOWN))
        self.register_buffer("unit", torch.ones(()))
        made = step * channels if ring is None else step
        self.register_buffer("polynomial", torch.zeros(len(self.make_up.terms), made))
        if self.make_up.reduced:
            self.register_buffer("axes", torch.zeros(self.make_up.channels, self.make_up.variables))
        if ring is not None:
            self.register_buffer("waves", torch.eye(channels))

    def learn(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:  # (B, L, C), (B, H, C)
        """Learn level and scale of each channel from the contexts, then the polynomial and what it leaves."""
        seen: RowStatistics | None = None
        states, patches = [], []
        for past, future in batches:
            rows = past.flatten(0, 1) if self.ring is None else past.reshape(-1, 1)
            seen = RowStatistics.of(rows) if seen is None else seen.and_of(rows)
            states.append(past[:, -1])
            patches.append(future[:, : self.step])
        if seen is None:
            return
        self.level.copy_(seen.level)
        self.scale.copy_(seen.scale)
        low, high = self.standardised(torch.stack((seen.low, seen.high)))
        beyond = self.margin * (high - low)
        self.lowest.copy_(low - beyond)
        self.highest.copy_(high + beyond)
        self._fit(torch.cat(states), torch.cat(patches))

    def _fit(
        self,
        states: Tensor,  # (n, C)
        patches: Tensor,  # (n, step, C)
    ) -> None:
        """The polynomial by least squares in float64, and the deviation of what it leaves."""
        if self.ring is not None:
            self.waves.copy_(strong_waves(self.standardised(states)))
            thinned = slice(None, None, ceil(len(states) * self.channels / MOST_FITTED))
            states, patches = states[thinned], patches[thinned]
        rows = self.standardised(states.double())
        rise = self.standardised(patches.double()) - rows[:, None]
        state = self._state(rows)
        wanted = rise.flatten(1) if self.ring is None else rise.transpose(1, 2).flatten(0, 1)
        if self.make_up.reduced:
            self.axes.copy_(self.make_up.axes(state))
        features = self._features(state)
        found = self.make_up.fit(features, wanted)
        left = wanted - features @ found
        self.polynomial.copy_(found)
        self.unit.copy_(left.square().mean().sqrt().clamp_min(LEAST_UNIT))

    def forward(self, last: Tensor) -> Tensor:  # (B, C) -> (B, step, C)
        """What follows a row, held within the range: far out a polynomial knows nothing."""
        found = self._features(self._state(last)) @ self.polynomial
        if self.ring is None:
            rise = found.view(len(last), -1, self.channels)
        else:
            rise = found.view(len(last), self.channels, -1).transpose(1, 2)
        return self.held(last[:, None] + rise)

    def around(self, x: Tensor) -> Tensor:  # (B, T, C), on a ring (B, T·width, C)
        """The rows that each channel is forecast from, as a context of its own."""
        return x if self.ring is None else self.ring.around(x).transpose(2, 3).flatten(1, 2)

    def without_weak_waves(self, values: Tensor) -> Tensor:  # (B, T, C)
        """On a ring the waves that the training rows have; else the values."""
        return values if self.ring is None else values @ self.waves

    def held(self, values: Tensor) -> Tensor:  # (B, T, C)
        """Within the range of the contexts of the training windows, and a margin."""
        return values.clamp(self.lowest, self.highest)

    def standardised(self, values: Tensor) -> Tensor:  # (..., C)
        """In deviations from the level."""
        return (values - self.level) / self.scale

    def restored(self, values: Tensor) -> Tensor:  # (..., C)
        """In the units of the data."""
        return values * self.scale + self.level

    def _state(self, row: Tensor) -> Tensor:  # (B, C) -> (B, C), on a ring (B·C, width)
        """What the polynomial is one of."""
        return row if self.ring is None else self.ring.around(row).flatten(0, 1)

    def _features(self, state: Tensor) -> Tensor:  # (n, variables) -> (n, terms)
        return self.make_up.features(state @ self.axes.to(state.dtype) if self.make_up.reduced else state)

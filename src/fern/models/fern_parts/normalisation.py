"""What stands around Fern's network: the level and spread that are taken off a context and given back to the
distribution of its future, and paths over the horizon (cut into patches, begun by a linear map, smoothed).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor, cat, nn
from torch.nn.functional import avg_pool1d, pad

Normalisation = Literal["none", "instance", "last"]

SPREAD_FLOOR = 1e-2
"""A context's spread counts as no less than this share of the mean spread of the training contexts."""

ROUNDING = 4.0
"""Spreads of so many roundings of the level (machine epsilons) are not told from none."""


@dataclass(frozen=True)
class Frame:
    """The level and the scale (> 0) of each series: x = level + scale · normalised."""

    level: Tensor  # (B, C)
    scale: Tensor  # (B, C)


class Normaliser(nn.Module):
    """Takes the level and the spread off every context: the mean (``instance``) or the last value, and the deviation.

    The scale is √(variance + floor² + rounding²): a context without spread is divided by the floor, not by 0. The
    floor is learnt by `prepare`, `SPREAD_FLOOR` of the mean deviation of the training contexts in each channel, so that
    a distribution stays as wide there as the data make sense of; a channel that never moves, and a model that was not
    prepared, divide a constant by 1. The rounding is that of numbers as large as the level: a series near 1e6 in
    float32 has no spread below 0.5. No gradient passes level and scale.

    Example:
        >>> x, frame = Normaliser("instance", channels=1).normalise(torch.tensor([[[1.0, 3.0]]]))
        >>> x, frame.level, frame.scale
        (tensor([[[-1.,  1.]]]), tensor([[2.]]), tensor([[1.]]))
    """

    floor: Tensor  # (C,)

    def __init__(self, kind: Literal["instance", "last"], *, channels: int) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("floor", torch.zeros(channels))

    def prepare(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Learn the floor from the training contexts, the first of each pair (B, L, C)."""
        total, count = self.floor.new_zeros(self.floor.shape, dtype=torch.float64), 0
        for past, _ in batches:
            total += past.double().std(1, correction=0).sum(0).to(total.device)
            count += past.shape[0]
        mean = total / max(count, 1)
        self.floor.copy_(torch.where(mean > 0, SPREAD_FLOOR * mean, 1.0))

    def normalise(
        self,
        x: Tensor,  # (B, C, L)
    ) -> tuple[Tensor, Frame]:  # (B, C, L)
        """The contexts without level and spread, and what gives them back."""
        variance, mean = torch.var_mean(x, dim=-1, correction=0)
        level = mean if self.kind == "instance" else x[..., -1]
        rounding = ROUNDING * torch.finfo(x.dtype).eps * mean
        squared = variance + self.floor.square() + rounding.square()
        scale = torch.where(squared > 0, squared, 1.0).sqrt()
        return (x - level.unsqueeze(-1)).div_(scale.unsqueeze(-1)), Frame(level, scale)


@dataclass(frozen=True)
class RowStatistics:
    """Of all rows seen so far: how many, their sums, and their range; in float64.

    The sums are those of the values, of their squares, and of both about the first row: far from 0 a small deviation is
    lost to the rounding of squares, about one of the rows it is not.

    Example:
        >>> rows = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
        >>> seen = RowStatistics.of(rows[:1]).and_of(rows[1:])
        >>> seen.level.tolist(), seen.scale.tolist(), seen.high.tolist()
        ([2.0, 5.0], [1.0, 1.0], [3.0, 5.0])
    """

    count: int
    first: Tensor  # (C,)
    sums: Tensor  # (4, C)
    low: Tensor  # (C,)
    high: Tensor  # (C,)

    @classmethod
    def of(cls, rows: Tensor) -> "RowStatistics":  # (n, C), n > 0
        """The statistics of these rows."""
        rows = rows.double()
        none = rows.new_zeros(4, rows.shape[1])
        return cls(0, rows[0], none, rows[0], rows[0]).and_of(rows)

    def and_of(self, rows: Tensor) -> "RowStatistics":  # (n, C)
        """Those of the rows so far and these."""
        rows = rows.double()
        away = rows - self.first
        sums = self.sums + torch.stack([part.sum(0) for part in (rows, rows.square(), away, away.square())])
        low, high = rows.aminmax(dim=0)
        return RowStatistics(
            self.count + len(rows), self.first, sums, torch.minimum(self.low, low), torch.maximum(self.high, high)
        )

    @property
    def level(self) -> Tensor:  # (C,)
        """The mean."""
        return self.sums[0] / self.count

    @property
    def scale(self) -> Tensor:  # (C,)
        """The deviation; 1 where a channel never moves."""
        mean, square, mean_away, square_away = self.sums / self.count
        deviation = (square - mean.square()).clamp_min(0.0).sqrt()
        exact = (square_away - mean_away.square()).clamp_min(0.0).sqrt()
        deviation = torch.where(deviation <= 1e-6 * mean.abs(), exact, deviation)
        return torch.where(self.high > self.low, deviation, 1.0)


def in_patches(values: Tensor, patches: int, patch_size: int, *, filler: float) -> Tensor:  # (..., H) -> (..., g, p)
    """The horizon cut into patches, the last filled up."""
    missing = patches * patch_size - values.shape[-1]
    if missing:
        values = pad(values, (0, missing), value=filler)
    return values.view(*values.shape[:-1], patches, patch_size)


class ContextMap(nn.Linear):
    """A linear map of the context to the horizon, shared over channels, that starts as the mean of the context."""

    def __init__(self, length: int, horizon: int) -> None:
        super().__init__(length, horizon)
        self.initialise_parameters(None)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Weights 1/L and no bias; nothing is drawn."""
        nn.init.constant_(self.weight, 1.0 / self.in_features)
        nn.init.zeros_(self.bias)


def smooth(
    path: Tensor,  # (..., H)
    width: int,
) -> Tensor:  # (..., H)
    """The path after two moving averages of ``width`` steps (odd), a triangular window of 2·width − 1.

    Beyond its ends a path goes on as its own point reflection, 2·y_1 − y_(1+k): a straight line stays as it is, and
    the first step is not drawn towards the later ones.

    Example:
        >>> import torch
        >>> smooth(torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0]), 3).tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    rows = path.reshape(-1, path.shape[-1])
    for _ in range(2):
        reach = min(width // 2, rows.shape[-1] - 1)
        if reach < 1:
            break
        before = 2 * rows[:, :1] - rows[:, 1 : reach + 1].flip(-1)
        after = 2 * rows[:, -1:] - rows[:, -reach - 1 : -1].flip(-1)
        rows = avg_pool1d(cat((before, rows, after), dim=-1).unsqueeze(1), 2 * reach + 1, stride=1).squeeze(1)
    return rows.view(path.shape)

"""Level, deviation and range of each channel, from batches of windows that are seen once."""

from dataclasses import dataclass

import torch
from torch import Tensor


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

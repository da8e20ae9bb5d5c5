"""A small picture of a column along its rows: mean, minimum and maximum of each stretch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fern.caching import cached_njit

Floats = NDArray[np.float64]

STRETCHES = 512


@dataclass(frozen=True)
class Picture:
    """Mean, minimum and maximum of each stretch of ``rows`` rows; NaN where a stretch has no value."""

    rows: int
    mean: Floats  # (n,)
    low: Floats  # (n,)
    high: Floats  # (n,)


class PictureScan:
    """Up to 512 stretches of equal length; when they are full they merge in pairs.

    Example:
        >>> scan = PictureScan()
        >>> scan.add(np.arange(1024.0))
        >>> picture = scan.finish()
        >>> picture.rows, float(picture.mean[0])
        (2, 0.5)
    """

    def __init__(self) -> None:
        self._stretches = _empty(STRETCHES)
        self._rows_each = 1
        self._rows = 0

    def add(self, values: Floats) -> None:
        """The next rows, missing ones as NaN."""
        while self._rows + len(values) > STRETCHES * self._rows_each:
            pairs = self._stretches.reshape(-1, 2, 4)
            merged = _empty(STRETCHES)
            merged[: STRETCHES // 2, :2] = pairs[:, :, :2].sum(axis=1)
            merged[: STRETCHES // 2, 2] = pairs[:, :, 2].min(axis=1)
            merged[: STRETCHES // 2, 3] = pairs[:, :, 3].max(axis=1)
            self._stretches = merged
            self._rows_each *= 2
        _draw(values, self._rows, self._rows_each, self._stretches)
        self._rows += len(values)

    def finish(self) -> Picture:
        """The picture of the rows so far."""
        used = self._stretches[: -(-self._rows // self._rows_each)]
        empty = used[:, 0] == 0
        mean = np.divide(used[:, 1], used[:, 0], out=np.full(len(used), np.nan), where=~empty)
        low, high = (np.where(empty, np.nan, used[:, k]) for k in (2, 3))
        return Picture(self._rows_each, mean, low, high)


def _empty(stretches: int) -> Floats:
    return np.tile(np.array([0.0, 0.0, np.inf, -np.inf]), (stretches, 1))


@cached_njit(nogil=True)
def _draw(values: Floats, rows: int, rows_each: int, stretches: Floats) -> None:
    first = 0
    while first < len(values):
        place = (rows + first) // rows_each
        last = min(len(values), (place + 1) * rows_each - rows)
        count, total, low, high = 0, 0.0, np.inf, -np.inf
        for i in range(first, last):
            value = values[i]
            if np.isfinite(value):
                count += 1
                total += value
                low = min(low, value)
                high = max(high, value)
        stretches[place, 0] += count
        stretches[place, 1] += total
        stretches[place, 2] = min(stretches[place, 2], low)
        stretches[place, 3] = max(stretches[place, 3], high)
        first = last

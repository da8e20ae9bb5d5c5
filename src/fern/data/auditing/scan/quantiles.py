"""Median, spread and outliers of a column, from an even sample and its extreme values."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROOM = 1 << 17
"""A column of up to this many values is kept whole: its quantiles are exact."""
TAIL = 2048
NORMAL_MAD = 1.4826
"""The standard deviation of a normal law over its median absolute deviation."""


@dataclass(frozen=True)
class Outliers:
    """Values further than ``limit`` robust standard deviations from the median: z = |x - median| / (1.4826 MAD).

    ``count`` is None where more than half of the values are equal (MAD = 0). ``exact`` is False where a column
    of more than 131,072 values has so many outliers that they are counted in its sample.
    """

    limit: float
    median: float
    mad: float
    count: int | None
    largest_z: float | None
    exact: bool


class QuantileScan:
    """Keeps one value of each block of rows, at a place drawn by hash in it; blocks double when the room is full.

    Against a plain reservoir: every part of the series has its share, and no step of a cycle is favoured.
    Beside it the 2,048 lowest and highest values, so that rare outliers are counted exactly.

    Example:
        >>> scan = QuantileScan()
        >>> scan.add(np.array([1.0, 2, 3, 4, 100]))
        >>> scan.outliers(5.0).count, scan.median()
        (1, 3.0)
    """

    def __init__(self) -> None:
        self._sample = np.empty(1024)
        self._sampled, self._seen, self._stride = 0, 0, 1
        self._low, self._high = _Tail(sign=-1), _Tail(sign=1)

    def add(self, values: Floats) -> None:
        """The next finite values."""
        if len(values) == 0:
            return
        self._low.add(values)
        self._high.add(values)
        end = self._seen + len(values)
        while True:
            # Blocks whose place lies in these rows, as far as the room goes.
            blocks = np.arange(self._sampled, min(end // self._stride + 1, ROOM))
            places = blocks * self._stride + _drawn(blocks, self._stride)
            places = places[: np.searchsorted(places, end)]
            self._keep(values[places - self._seen])
            if end <= ROOM * self._stride:
                break
            pairs = self._sample[:ROOM].reshape(-1, 2)
            second = _drawn(np.arange(ROOM // 2), 2 * self._stride) >= self._stride
            self._sample[: ROOM // 2] = np.where(second, pairs[:, 1], pairs[:, 0])
            self._sampled, self._stride = ROOM // 2, 2 * self._stride
        self._seen = end

    def median(self) -> float:
        """The median of the sample."""
        return float(np.median(self._sample[: self._sampled]))

    def outliers(self, limit: float) -> Outliers:
        """The outliers by robust z-score."""
        sample = self._sample[: self._sampled]
        median = self.median()
        mad = float(np.median(np.abs(sample - median)))
        if mad == 0:
            return Outliers(limit, median, mad, None, None, exact=True)
        reach = limit * NORMAL_MAD * mad
        largest = max(self._high.top() - median, median + self._low.top()) / (NORMAL_MAD * mad)
        above, below = self._high.beyond(median + reach), self._low.beyond(reach - median)
        if self._stride == 1 or above is None or below is None:
            count = int((np.abs(sample - median) > reach).sum()) * self._stride
        else:
            count = above + below
        exact = self._stride == 1 or (above is not None and below is not None)
        return Outliers(limit, median, mad, count, float(largest), exact)

    def _keep(self, values: Floats) -> None:
        needed = self._sampled + len(values)
        if needed > len(self._sample):
            grown = np.empty(min(ROOM, max(needed, 2 * len(self._sample))))
            grown[: self._sampled] = self._sample[: self._sampled]
            self._sample = grown
        self._sample[self._sampled : needed] = values
        self._sampled = needed


class _Tail:
    """The highest values; with sign -1 the lowest, kept as their negatives."""

    def __init__(self, *, sign: int) -> None:
        self._sign = sign
        self._values = np.empty(0)
        self._bar = -np.inf
        self._dropped = False

    def add(self, values: Floats) -> None:
        higher = values[values > self._bar] if self._sign > 0 else -values[values < -self._bar]
        if len(higher) == 0:
            return
        held = np.concatenate([self._values, higher])
        if len(held) > 2 * TAIL:
            held = np.partition(held, len(held) - TAIL)[-TAIL:]
            self._bar, self._dropped = float(held.min()), True
        self._values = held

    def top(self) -> float:
        return float(self._values.max())

    def beyond(self, bar: float) -> int | None:
        """How many values are above the bar; None where some of them were dropped."""
        if self._dropped and bar < self._bar:
            return None
        return int((self._values > bar).sum())


def _drawn(blocks: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """A number below ``size``, a power of two, for each block: the same in every run."""
    z = blocks.astype(np.uint64) + np.uint64(size * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) & np.uint64(size - 1)).astype(np.int64)

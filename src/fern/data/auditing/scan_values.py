"""The most frequent values, quantiles, spread and outliers of a column, from tables and samples of fixed size."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.caching import cached_njit

Integers = NDArray[np.int64]

SLOTS = 1 << 15
_FIRST_SLOTS = 1 << 6  # a table with thousands of columns has as many of these
_SAMPLED = 512


@dataclass(frozen=True)
class CommonValue:
    """A value, how often it occurs (at least) and its longest run."""

    value: float
    count: int
    longest_run: int


class CommonValues:
    """Counts values other than zero (frequent-items sketch: Misra & Gries 1982, with median decrements as in
    Anderson et al. 2017, "A high-performance algorithm for identifying frequent items in data streams").

    Up to 24,576 different values the counts are exact. Beyond, all counters lose the same amount whenever the
    table is full and those left with nothing go: a count is then too low by at most ``slack``, and any value
    that occurs more often than ``slack`` is in the table.

    Example:
        >>> common = CommonValues()
        >>> common.add(np.array([7.0, 8.0, 7.0]), np.array([3, 1, 2]))
        >>> common.top(1)
        [CommonValue(value=7.0, count=5, longest_run=3)]
    """

    def __init__(self) -> None:
        self._keys = np.zeros(_FIRST_SLOTS, np.uint64)
        self._counts = np.zeros(_FIRST_SLOTS, np.int64)
        self._runs = np.zeros(_FIRST_SLOTS, np.int64)
        self._used = 0
        self.slack = 0

    def add(self, values: NDArray[np.float64], lengths: Integers) -> None:
        """Runs of values and their lengths."""
        bits, done = values.view(np.uint64), 0
        while True:
            table = self._keys, self._counts, self._runs
            done, self._used, self.slack = _count(bits, lengths, *table, done, self._used, self.slack)
            if done == len(bits):
                return
            slots = 2 * len(self._keys)
            keys, counts, runs = np.zeros(slots, np.uint64), np.zeros(slots, np.int64), np.zeros(slots, np.int64)
            _move(*table, keys, counts, runs, 0)
            self._keys, self._counts, self._runs = keys, counts, runs

    def distinct(self) -> int | None:
        """How many different values there are; None where there are too many to know."""
        return self._used if self.slack == 0 else None

    def top(self, count: int) -> list[CommonValue]:
        """The commonest values."""
        return self._rank(self._counts, count)

    def longest(self, count: int) -> list[CommonValue]:
        """The values with the longest runs."""
        return self._rank(self._runs * (self._counts > 0), count)

    def _rank(self, order: Integers, count: int) -> list[CommonValue]:
        values = self._keys.view(np.float64)
        # Equal ones by value, so that the answer does not depend on the place in the table.
        best = np.lexsort((values, -order))[:count]
        return [
            CommonValue(float(values[i]), int(self._counts[i]), int(self._runs[i])) for i in best if self._counts[i] > 0
        ]


@cached_njit(nogil=True, inline="always")
def _slot(key: Any, slots: int) -> Any:
    """A hash of the value's bits."""
    mixed = (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(40)) & np.uint64(slots - 1))


@cached_njit(nogil=True)
def _count(
    bits: Any,
    lengths: Integers,
    keys: Any,
    counts: Integers,
    runs: Integers,
    first: int,
    used: int,
    slack: int,
) -> tuple[int, int, int]:
    """Count from ``first`` on; returns how far it came before the table was too small, and (used, slack)."""
    slots = len(keys)
    for i in range(first, len(bits)):
        if used > slots * 3 // 4:
            if slots < SLOTS:
                return i, used, slack
            used, cut = _thin(keys, counts, runs)
            slack += cut
        key, length = bits[i], lengths[i]
        slot = _slot(key, slots)
        while counts[slot] > 0 and keys[slot] != key:
            slot = (slot + 1) & (slots - 1)
        if counts[slot] == 0:
            keys[slot] = key
            used += 1
        counts[slot] += length
        runs[slot] = max(runs[slot], length)
    if used > slots * 3 // 4 and slots >= SLOTS:
        used, cut = _thin(keys, counts, runs)
        slack += cut
    return len(bits), used, slack


@cached_njit(nogil=True)
def _thin(keys: Any, counts: Integers, runs: Integers) -> tuple[int, int]:
    """Subtract about the median count from all counters, drop those left with nothing; returns (left, subtracted)."""
    sample, kept, slot = np.empty(_SAMPLED, np.int64), 0, 0
    while kept < _SAMPLED and slot < SLOTS:  # slots are in hash order: the first are a fair sample
        if counts[slot] > 0:
            sample[kept] = counts[slot]
            kept += 1
        slot += 1
    cut = np.sort(sample[:kept])[kept // 2]
    old_keys, old_counts, old_runs = keys.copy(), counts.copy(), runs.copy()
    counts[:] = 0
    runs[:] = 0
    return _move(old_keys, old_counts, old_runs, keys, counts, runs, cut), cut


@cached_njit(nogil=True)
def _move(
    keys: Any,
    counts: Integers,
    runs: Integers,
    into_keys: Any,
    into_counts: Integers,
    into_runs: Integers,
    cut: int,
) -> int:
    """Put the counters above ``cut``, less that, into an empty table; returns how many they are."""
    left, slots = 0, len(into_keys)
    for old in range(len(keys)):
        if counts[old] > cut:
            slot = _slot(keys[old], slots)
            while into_counts[slot] > 0:
                slot = (slot + 1) & (slots - 1)
            into_keys[slot], into_counts[slot], into_runs[slot] = keys[old], counts[old] - cut, runs[old]
            left += 1
    return left


Floats = NDArray[np.float64]

ROOM = 1 << 17
"""A column of up to this many values is kept whole: its quantiles are exact."""
TAIL = 2048
NORMAL_MAD = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""


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
            places = blocks * self._stride + _draw_places(blocks, self._stride)
            places = places[: np.searchsorted(places, end)]
            self._keep(values[places - self._seen])
            if end <= ROOM * self._stride:
                break
            pairs = self._sample[:ROOM].reshape(-1, 2)
            second = _draw_places(np.arange(ROOM // 2), 2 * self._stride) >= self._stride
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
        size = self._sampled + len(values)
        if size > len(self._sample):
            sample = np.empty(min(ROOM, max(size, 2 * len(self._sample))))
            sample[: self._sampled] = self._sample[: self._sampled]
            self._sample = sample
        self._sample[self._sampled : size] = values
        self._sampled = size


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
        tail = np.concatenate([self._values, higher])
        if len(tail) > 2 * TAIL:
            tail = np.partition(tail, len(tail) - TAIL)[-TAIL:]
            self._bar, self._dropped = float(tail.min()), True
        self._values = tail

    def top(self) -> float:
        return float(self._values.max())

    def beyond(self, bar: float) -> int | None:
        """How many values are above the bar; None where some of them were dropped."""
        if self._dropped and bar < self._bar:
            return None
        return int((self._values > bar).sum())


def _draw_places(blocks: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """A number below ``size``, a power of two, for each block: the same in every run."""
    z = blocks.astype(np.uint64) + np.uint64(size * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) & np.uint64(size - 1)).astype(np.int64)

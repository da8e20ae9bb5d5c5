"""The commonest values of a column, in a table of fixed size."""

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
            self._grow()

    def _grow(self) -> None:
        """Twice as many slots, with the same counts in them."""
        slots = 2 * len(self._keys)
        keys, counts, runs = np.zeros(slots, np.uint64), np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        _move(self._keys, self._counts, self._runs, keys, counts, runs, 0)
        self._keys, self._counts, self._runs = keys, counts, runs

    def distinct(self) -> int | None:
        """How many different values there are; None where there are too many to know."""
        return self._used if self.slack == 0 else None

    def top(self, count: int) -> list[CommonValue]:
        """The commonest values."""
        return self._sorted(self._counts, count)

    def longest(self, count: int) -> list[CommonValue]:
        """The values with the longest runs."""
        return self._sorted(self._runs * (self._counts > 0), count)

    def _sorted(self, order: Integers, count: int) -> list[CommonValue]:
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
    sample, found, slot = np.empty(_SAMPLED, np.int64), 0, 0
    while found < _SAMPLED and slot < SLOTS:  # slots are in hash order: the first are a fair sample
        if counts[slot] > 0:
            sample[found] = counts[slot]
            found += 1
        slot += 1
    cut = np.sort(sample[:found])[found // 2]
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

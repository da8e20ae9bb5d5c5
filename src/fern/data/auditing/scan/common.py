"""The commonest values of a column, in a table of fixed size."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Integers = NDArray[np.int64]

SLOTS = 1 << 15
_FULL = SLOTS * 3 // 4
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
        self._keys = np.zeros(SLOTS, np.uint64)
        self._counts = np.zeros(SLOTS, np.int64)
        self._runs = np.zeros(SLOTS, np.int64)
        self._used = 0
        self.slack = 0

    def add(self, values: NDArray[np.float64], lengths: Integers) -> None:
        """Runs of values and their lengths."""
        self._used, self.slack = _count(
            values.view(np.uint64), lengths, self._keys, self._counts, self._runs, self._used, self.slack
        )

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


@njit(cache=True, nogil=True, inline="always")
def _slot(key: Any) -> Any:
    """A hash of the value's bits."""
    mixed = (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(40)) & np.uint64(SLOTS - 1))


@njit(cache=True, nogil=True)
def _count(
    bits: Any,
    lengths: Integers,
    keys: Any,
    counts: Integers,
    runs: Integers,
    used: int,
    slack: int,
) -> tuple[int, int]:
    for i in range(len(bits)):
        key, length = bits[i], lengths[i]
        slot = _slot(key)
        while counts[slot] > 0 and keys[slot] != key:
            slot = (slot + 1) & (SLOTS - 1)
        if counts[slot] == 0:
            keys[slot] = key
            used += 1
        counts[slot] += length
        runs[slot] = max(runs[slot], length)
        if used > _FULL:
            used, cut = _thin(keys, counts, runs)
            slack += cut
    return used, slack


@njit(cache=True, nogil=True)
def _thin(keys: Any, counts: Integers, runs: Integers) -> tuple[int, int]:
    """Subtract about the median count from all counters, drop those left with nothing; returns (left, subtracted)."""
    sample, found, slot = np.empty(_SAMPLED, np.int64), 0, 0
    while found < _SAMPLED and slot < SLOTS:  # slots are in hash order: the first are a fair sample
        if counts[slot] > 0:
            place = found  # sorted as it grows: np.sort takes Numba seconds to compile
            while place > 0 and sample[place - 1] > counts[slot]:
                sample[place] = sample[place - 1]
                place -= 1
            sample[place] = counts[slot]
            found += 1
        slot += 1
    cut = sample[found // 2]
    old_keys, old_counts, old_runs = keys.copy(), counts.copy(), runs.copy()
    counts[:] = 0
    runs[:] = 0
    left = 0
    for old in range(SLOTS):
        if old_counts[old] > cut:
            slot = _slot(old_keys[old])
            while counts[slot] > 0:
                slot = (slot + 1) & (SLOTS - 1)
            keys[slot], counts[slot], runs[slot] = old_keys[old], old_counts[old] - cut, old_runs[old]
            left += 1
    return left, cut

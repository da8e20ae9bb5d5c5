"""Runs of equal values: how many of which length, for zeros, missing values and all others."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.caching import cached_njit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

VALUE, ZERO, MISSING, CODE = 0, 1, 2, 3
_KINDS = 4

EXACT_LENGTHS = 2048
"""Runs up to this length are counted by length; longer ones in 32 bins to a doubling (known to 3 %)."""
_PER_OCTAVE = 32
_BINS = EXACT_LENGTHS + _PER_OCTAVE * 48
_FIRST_BINS = 64  # a table with thousands of columns has as many of these

CODES = np.array(
    [sign * size for size in (99, 99.9, 99.99, 999, 999.9, 999.99, 9999, 9999.9, 99999, 999999) for sign in (1, -1)]
    + [32767, -32768, 65535, 2147483647, -2147483648, 1e20, -1e20, 1e30, -1e30, 1e36, -1e36, 9.969209968386869e36],
    dtype=np.float32,  # compared in float32, so that a float32 column's -99.9 is found as well
)
"""Numbers that stand for "no value" in many files; whether one does in a column, its other values decide."""


@dataclass(frozen=True)
class RunLengths:
    """How many entries lie in runs of which length."""

    longest: int
    longest_start: int  # row of its first entry
    longest_value: float
    runs: Integers  # (bins,)
    entries: Integers  # (bins,)

    @property
    def total(self) -> int:
        """All entries."""
        return int(self.entries.sum())

    @property
    def isolated(self) -> int:
        """Entries that are runs by themselves."""
        return int(self.entries[0])

    def entries_longer_than(self, steps: float) -> int:
        """Entries in runs of more than ``steps`` rows (beyond 2,048 rows: whole bins of 3 %).

        Example:
            >>> scan = RunScan()
            >>> _ = scan.add(np.array([0.0, 0, 0, 5, 0]))
            >>> scan.finish()[ZERO].entries_longer_than(1)
            3
        """
        return int(self.entries[self._longer(steps)].sum())

    def runs_longer_than(self, steps: float) -> int:
        """How many runs have more than ``steps`` rows."""
        return int(self.runs[self._longer(steps)].sum())

    def merge(self, other: "RunLengths") -> "RunLengths":
        """The runs of both."""
        longer = max(self, other, key=lambda lengths: lengths.longest)
        return replace(longer, runs=self.runs + other.runs, entries=self.entries + other.entries)

    def _longer(self, steps: float) -> slice:
        whole = int(min(max(steps, 0), 2.0**60))
        return slice(0 if whole < 1 else int(_length_bin(whole)) + 1, None)


@dataclass(frozen=True)
class Runs:
    """The runs of an array in order: first rows, lengths and values (NaN: missing)."""

    firsts: Integers  # (n,)
    lengths: Integers  # (n,)
    values: Floats  # (n,)

    def where(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[int, int, float]]:
        """First row, length and value of the chosen runs."""
        return zip(*(part[chosen].tolist() for part in (self.firsts, self.lengths, self.values)), strict=True)


def runs_of(values: Floats) -> Runs:
    """Cut an array into runs of one value.

    Example:
        >>> runs = runs_of(np.array([5.0, 0, 0, 7]))
        >>> list(runs.where(runs.values == 0))
        [(1, 2, 0.0)]
    """
    ended, lengths = np.empty(len(values) + 1), np.empty(len(values) + 1, np.int64)
    count, last_value, last_length = _split(values, np.nan, 0, ended, lengths)
    if last_length:
        ended[count], lengths[count] = last_value, last_length
        count += 1
    return Runs(np.cumsum(lengths[:count]) - lengths[:count], lengths[:count], ended[:count])


class RunScan:
    """Reads a column batch by batch and counts its runs; hands each ended run of values on to others."""

    def __init__(self) -> None:
        self._open_value, self._open_length = np.nan, 0
        self._rows = 0  # rows in ended runs
        self._runs = np.zeros((_KINDS, _FIRST_BINS), np.int64)  # up to _BINS, as runs are longer
        self._entries = np.zeros((_KINDS, _FIRST_BINS), np.int64)
        self._longest = np.zeros((_KINDS, 2), np.int64)  # length, first row
        self._longest_value = np.zeros(_KINDS)
        self._limits = np.array([np.inf, -np.inf])
        self._codes = np.zeros((len(CODES), 2), np.int64)  # count, longest run

    def add(self, values: Floats) -> tuple[Floats, Integers]:
        """The next rows; returns the runs of values other than zero that ended: values and lengths."""
        ended, lengths = np.empty(len(values) + 1), np.empty(len(values) + 1, np.int64)
        count, self._open_value, self._open_length = _split(values, self._open_value, self._open_length, ended, lengths)
        return self._enter(ended[:count], lengths[:count])

    def close(self) -> tuple[Floats, Integers]:
        """End the run under way; returns it as `add` does."""
        length, self._open_length = self._open_length, 0
        if length == 0:
            return np.empty(0), np.empty(0, np.int64)
        return self._enter(np.array([self._open_value]), np.array([length]))

    def finish(self) -> tuple[RunLengths, RunLengths, RunLengths]:
        """The runs of values (codes that stand apart left out), of zeros and of missing values."""
        self.close()
        plain, zero, missing, coded = (self._lengths(kind) for kind in (VALUE, ZERO, MISSING, CODE))
        return (plain if self.codes() else plain.merge(coded)), zero, missing

    def _lengths(self, kind: int) -> RunLengths:
        longest, start = self._longest[kind].tolist()
        return RunLengths(longest, start, float(self._longest_value[kind]), self._runs[kind], self._entries[kind])

    def codes(self) -> list[tuple[float, int, int]]:
        """Codes that stand apart from all other values: code, count, longest run.

        A code counts where it lies outside the other values by more than half their range: 999 among
        pressures around 990 is a pressure, -9999 among them is none.
        """
        low, high = self._limits
        if low > high:  # nothing but codes
            return []
        margin = (high - low) / 2
        return [
            (float(code), int(count), int(run))
            for code, (count, run) in zip(CODES.astype(np.float64), self._codes, strict=True)
            if count and (code < low - margin or code > high + margin)
        ]

    def _enter(self, values: Floats, lengths: Integers) -> tuple[Floats, Integers]:
        bins = int(_length_bin(int(lengths.max()))) + 1 if len(lengths) else 0
        if bins > self._runs.shape[1]:
            room = ((0, 0), (0, min(2 * bins, _BINS) - self._runs.shape[1]))
            self._runs, self._entries = np.pad(self._runs, room), np.pad(self._entries, room)
        self._rows = _enter(
            values,
            lengths,
            self._rows,
            self._runs,
            self._entries,
            self._longest,
            self._longest_value,
            self._limits,
            CODES,
            self._codes,
        )
        is_value = np.isfinite(values) & (values != 0)
        return (values, lengths) if is_value.all() else (values[is_value], lengths[is_value])


@cached_njit(nogil=True)
def _split(
    values: Floats,
    open_value: float,
    open_length: int,
    ended: Floats,
    lengths: Integers,
) -> tuple[int, float, int]:
    """Cut the rows into runs; all missing values are one kind. The last run stays open."""
    count = 0
    for i in range(len(values)):
        value = values[i]
        if not np.isfinite(value):
            value = np.nan
        if open_length > 0 and (value == open_value or (np.isnan(value) and np.isnan(open_value))):
            open_length += 1
            continue
        if open_length > 0:
            ended[count], lengths[count] = open_value, open_length
            count += 1
        open_value, open_length = value, 1
    return count, open_value, open_length


@cached_njit(nogil=True)
def _length_bin(length: int) -> int:
    if length <= EXACT_LENGTHS:
        return length - 1
    octave, top = 0, length // EXACT_LENGTHS
    while top > 1:
        top //= 2
        octave += 1
    base = EXACT_LENGTHS * 2**octave
    place: int = EXACT_LENGTHS + octave * _PER_OCTAVE + (length - base) * _PER_OCTAVE // base
    return place


@cached_njit(nogil=True)
def _enter(
    values: Floats,
    lengths: Integers,
    rows: int,
    runs: Integers,
    entries: Integers,
    longest: Integers,
    longest_value: Floats,
    limits: Floats,
    codes: Any,
    coded: Integers,
) -> int:
    """Count ended runs by kind and length, and the codes among them."""
    low, high = limits
    for i in range(len(values)):
        value, length = values[i], lengths[i]
        kind = MISSING if np.isnan(value) else (ZERO if value == 0.0 else VALUE)
        size = abs(value)
        # Most values are no code; those that begin like one are compared with each.
        if size >= 98.9 and (size < 100.1 or 998.9 < size < 1000.1 or 9998.9 < size < 10000.1 or size > 32766):
            single = np.float32(value)
            for j in range(len(codes)):
                if codes[j] == single:
                    coded[j, 0] += length
                    coded[j, 1] = max(coded[j, 1], length)
                    kind = CODE
        if kind in (VALUE, ZERO):
            low, high = min(low, value), max(high, value)
        place = _length_bin(length)
        runs[kind, place] += 1
        entries[kind, place] += length
        if length > longest[kind, 0]:
            longest[kind, 0], longest[kind, 1], longest_value[kind] = length, rows, value
        rows += length
    limits[0], limits[1] = low, high
    return rows

"""The seasons of many contexts at once, from their autocorrelation.

The autocorrelation r of a context without its line and its slowest waves is scored at each lag l by how far it rises
above its neighbourhood half a cycle away, r(l) - ½(r(l/2) + r(3l/2)). A slow decay has no such rise, nor has twice a
season. Of the peaks that noise would not have, the shortest one that comes near the highest is the short season.
"""

from dataclasses import dataclass

import numpy as np
from numba import types
from numpy.typing import NDArray

from fern.caching import kernel
from fern.systems.integrate import MATRIX

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

INTEGERS = types.int64[::1]
LONGEST = 1024
"""The longest season that is looked for, in rows."""


@dataclass(frozen=True)
class Seasons:
    """A short and a long period for each context (1 where none was seen), and how clear they are."""

    short: Whole  # (N,)
    long: Whole  # (N,)
    clarity: Array  # (N, 5): r at 1 and 2 rows, r and score at the short period, r at the long one


@kernel(MATRIX, INTEGERS, INTEGERS, INTEGERS, MATRIX)
def _without_line(pool: Array, rows: Whole, ends: Whole, lengths: Whole, out: Array) -> None:
    """Each context without its least-squares line, of deviation 1, at the start of a row of zeros."""
    for i in range(len(rows)):
        n = lengths[i]
        first = ends[i] - n
        centre, mean, slope, moment = 0.5 * (n - 1), 0.0, 0.0, 0.0
        for t in range(n):
            mean += pool[rows[i], first + t]
        mean /= n
        for t in range(n):
            slope += (t - centre) * (pool[rows[i], first + t] - mean)
            moment += (t - centre) ** 2
        slope /= max(moment, 1.0)
        square = 0.0
        for t in range(n):
            value = pool[rows[i], first + t] - mean - slope * (t - centre)
            out[i, t] = value
            square += value * value
        spread = np.sqrt(square / n)
        for t in range(n):
            out[i, t] = out[i, t] / spread if spread > 1e-12 * (1.0 + abs(mean)) else 0.0


@kernel(MATRIX, INTEGERS, INTEGERS, INTEGERS, MATRIX)
def _pick(correlation: Array, lengths: Whole, short: Whole, long: Whole, clarity: Array) -> None:
    """The periods of each row of autocorrelations; ``short`` above 0 on entry is taken as it is."""
    for i in range(len(lengths)):
        n = lengths[i]
        power = correlation[i, 0]
        last = min(n // 2, LONGEST)
        size = min(n - 1, last + last // 2 + 2)
        r = np.zeros(size + 2)
        if power > 1e-9:
            for l in range(size + 1):
                r[l] = correlation[i, l] / power * n / (n - l)
        score = np.zeros(last + 2)
        for l in range(2, last + 1):
            far = min(l + l // 2, size)
            score[l] = r[l] - 0.5 * (r[l // 2] + r[far])
        # A peak of r that rises above what noise of this length has, and above r half a cycle away.
        peak = np.zeros(last + 2, dtype=np.bool_)
        best, least = 0.0, 0.1 + 2.5 / np.sqrt(n)
        for l in range(2, last + 1):
            high = r[l] >= r[l - 1] and (l + 1 > size or r[l] >= r[l + 1])
            peak[l] = high and r[l] >= least and score[l] >= max(0.4 * r[l], 0.6 * least)
            if peak[l]:
                best = max(best, r[l])
        given = short[i] > 0
        chosen = short[i] if given else 1
        if not given:
            for l in range(2, last + 1):
                if peak[l] and r[l] >= 0.7 * best:
                    chosen = l
                    break
        other, highest = chosen, 0.0
        if chosen > 1:
            other = 7 * chosen if 14 * chosen <= n else chosen
            highest = r[chosen] + 0.03
            for l in range(chosen + chosen // 2 + 1, last + 1):
                if peak[l] and r[l] > highest:
                    other, highest = l, r[l]
        short[i], long[i] = chosen, other
        clarity[i, 0] = r[1]
        clarity[i, 1] = r[2] if size >= 2 else 0.0
        clarity[i, 2] = r[chosen] if chosen > 1 and chosen <= size else 0.0
        clarity[i, 3] = score[chosen] if chosen > 1 and chosen <= last else 0.0
        clarity[i, 4] = r[other] if other > 1 and other <= size else 0.0


def find_seasons(
    pool: Array,  # (series, rows)
    rows: Whole,  # (N,), the series of each context
    ends: Whole,  # (N,), its end (exclusive)
    lengths: Whole,  # (N,), its rows
    *,
    short: Whole | None = None,  # (N,), periods that are known; 0 where not
) -> Seasons:
    """The seasons of N contexts that are cut out of a pool of series.

    Example:
        >>> wave = np.cos(2 * np.pi * np.arange(200) / 12)[None]
        >>> find_seasons(wave, np.array([0]), np.array([200]), np.array([200])).short
        array([12])
    """
    count = len(rows)
    known = np.zeros(count, np.int64) if short is None else np.where(2 * short <= lengths, short, 0)
    found = Seasons(known, np.ones(count, np.int64), np.zeros((count, 5)))
    sizes = 2 ** np.ceil(np.log2(np.maximum(lengths, 8))).astype(np.int64)
    for size in np.unique(sizes):
        part = np.flatnonzero(sizes == size)
        wide = np.zeros((len(part), 2 * int(size)))
        _without_line(pool, rows[part], ends[part], lengths[part], wide)
        waves = np.fft.rfft(wide, axis=1)  # float64: NumPy's transforms of float32 are several times slower
        power = waves.real**2 + waves.imag**2
        slowness = np.maximum(np.fft.rfftfreq(2 * int(size)), 1e-9) ** -4.0
        power /= 1.0 + (2.0 / lengths[part][:, None]) ** 4 * slowness
        correlation = np.fft.irfft(power, axis=1)[:, : int(size)]
        picked = known[part], found.long[part], found.clarity[part]
        _pick(np.ascontiguousarray(correlation), lengths[part], *picked)
        known[part], found.long[part], found.clarity[part] = picked
    return found

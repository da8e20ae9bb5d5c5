"""What the pretrained network reads of a context, and the plain forecasts it may mix.

Of a context of 8 to 2,048 rows the newest 192 are kept as they are and the older ones averaged over ever longer
blocks; beside them stand how the season goes on, numbers about length, seasons, scale and how well the plain
forecasts did on the rows before the last, and how much cycles differ at the phases of the next steps. All are relative
to the level and the scale of the context itself.

The seasons are found by the autocorrelation r of a context without its line and its slowest waves. Each lag l is scored
by how far r rises there above its neighbourhood half a cycle away, r(l) - ½(r(l/2) + r(3l/2)). A slow decay has no such
rise, nor has twice a season. Of the peaks that noise would not have, the shortest one that comes near the highest is
the short season.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from fern.caching import kernel
from fern.systems.integrate import MATRIX, VECTOR

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

HORIZON = 96
"""Steps that the network forecasts at once."""

RECENT = 192
"""Rows that are read one by one."""

BLOCKS = ((24, 4), (16, 16), (16, 32), (8, 136))
"""Older rows: so many averages of so many rows each, from newer to older."""

LONGEST = RECENT + sum(count * size for count, size in BLOCKS)
SHORTEST = 8
"""Rows of a context, at most and at least."""

PATHS = 8
"""Plain forecasts: the last cycle and the mean of four, of the short season and of the long one; the drift from cycle
to cycle and that of the newest rows; the last value; the last change over a cycle."""

CYCLES = 4
TESTED = 6
ORIGINS = (6, 18, 48)
"""Rows before the end from which plain forecasts are tried on what followed."""

COMPARED = 12
"""Cycles, at most, over which the spread at each phase is measured."""

NUMBERS = 32 + TESTED * len(ORIGINS)
OLDER = sum(count for count, _ in BLOCKS)
WIDTH = RECENT + OLDER + HORIZON + HORIZON // 4 + NUMBERS + HORIZON // 4
"""Inputs of the network."""

LARGEST = 60.0
"""Values of plain forecasts and futures are held within so many scales."""

INTEGERS = types.int64[::1]
SINGLE = types.float32[:, ::1]
SINGLES = types.float32[:, :, ::1]

LONGEST_SEASON = 1024
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
        last = min(n // 2, LONGEST_SEASON)
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
    seasons = Seasons(known, np.ones(count, np.int64), np.zeros((count, 5)))
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
        picked = known[part], seasons.long[part], seasons.clarity[part]
        _pick(np.ascontiguousarray(correlation), lengths[part], *picked)
        known[part], seasons.long[part], seasons.clarity[part] = picked
    return seasons


@njit(cache=True, nogil=True)
def _path(y: Array, n: int, short: int, long: int, kind: int, horizon: int, out: Array) -> None:
    """One plain forecast of ``y[:n]``, ``horizon`` steps."""
    if kind < 4:
        period = short if kind < 2 else long
        cycles = 1 if kind % 2 == 0 else min(CYCLES, n // period)
        newest = 0.0
        for j in range(period):
            newest += y[n - period + j]
        newest /= period
        steps = min(period, horizon)
        for h in range(steps):
            out[h] = 0.0
        for k in range(1, cycles + 1):
            shift = 0.0
            if k > 1:
                for j in range(period):
                    shift += y[n - k * period + j]
                shift = newest - shift / period
            for h in range(steps):
                out[h] += (y[n - k * period + h] + shift) / cycles
        for h in range(steps, horizon):
            out[h] = out[h - period]
    elif kind == 4:
        width = max(short, min(3, n // 3))
        if n < 2 * width:
            width = n // 2
        before, after = 0.0, 0.0
        for j in range(width):
            after += y[n - width + j]
            before += y[n - 2 * width + j]
        slope = (after - before) / (width * width)
        for h in range(horizon):
            out[h] = slope * (h + 1)
    elif kind == 5:
        width = min(n, max(2 * short, 24))
        centre, mean, slope, moment = 0.5 * (width - 1), 0.0, 0.0, 0.0
        for t in range(width):
            mean += y[n - width + t]
        mean /= width
        for t in range(width):
            slope += (t - centre) * (y[n - width + t] - mean)
            moment += (t - centre) ** 2
        slope /= max(moment, 1.0)
        for h in range(horizon):
            out[h] = slope * (h + 1)
    elif kind == 6:
        for h in range(horizon):
            out[h] = y[n - 1]
    else:
        for h in range(horizon):
            out[h] = y[n - 1] - y[n - 1 - short] if n > short else 0.0


@njit(cache=True, nogil=True)
def _backtest(y: Array, n: int, back: int, short: int, long: int, which: int, path: Array) -> float:
    """The mean error of a plain forecast made ``back`` rows before the end; below 0 where rows are too few."""
    m = n - back
    if m < 4 or m < 2 * short:
        return -1.0
    period = long if 2 * long <= m else short
    steps = min(back, HORIZON)
    _path(y, m, short, period, min(which, 4), steps, path)
    total = 0.0
    for h in range(steps):
        value = path[h]
        if which == 4:  # the drift starts from the last value
            value += y[m - 1]
        elif which == 5:  # the last value
            value = y[m - 1]
        total += abs(y[m + h] - value)
    return total / steps


@njit(cache=True, nogil=True)
def _phase_spreads(y: Array, n: int, short: int, scale: float, out: Array) -> None:
    """log deviation of the newest cycles from the one before each, at the phases of the next steps, four by four."""
    cycles = min(n // short - 1, COMPARED)
    for part in range(HORIZON // 4):
        square, count = 0.0, 0
        for j in range(4):
            # The newest row of the phase of this step, and those before it.
            row = n - short + (4 * part + j) % short
            for _ in range(cycles):
                if row >= short:
                    square += (y[row] - y[row - short]) ** 2
                    count += 1
                row -= short
        out[part] = np.log(np.sqrt(square / count) / scale + 0.03) if count > 0 else 0.0


@kernel(MATRIX, INTEGERS, INTEGERS, INTEGERS, INTEGERS, INTEGERS, MATRIX, SINGLE, SINGLES, VECTOR, VECTOR)
def _represent(
    pool: Array,
    rows: Whole,
    ends: Whole,
    lengths: Whole,
    shorts: Whole,
    longs: Whole,
    clarity: Array,
    inputs: Array,
    paths: Array,
    levels: Array,
    scales: Array,
) -> None:
    path = np.zeros(HORIZON)
    for i in range(len(rows)):
        n, short, long = lengths[i], shorts[i], longs[i]
        y = pool[rows[i], ends[i] - n : ends[i]]
        # The level: the mean of the last cycle, or of the last three rows.
        width = min(n, max(short, 3))
        level = 0.0
        for t in range(n - width, n):
            level += y[t]
        level /= width
        # The scale: between the spread of the newest rows and the change over a cycle.
        window = min(n, max(4 * short, 128))
        mean = 0.0
        for t in range(n - window, n):
            mean += y[t]
        mean /= window
        square, low, high, ties = 0.0, y[n - 1], y[n - 1], 0.0
        for t in range(n - window, n):
            square += (y[t] - mean) ** 2
            low, high = min(low, y[t]), max(high, y[t])
        spread = np.sqrt(square / window)
        step, cycle, double, both = 0.0, 0.0, 0.0, 0.0
        start = max(n - 512, 0)
        for t in range(start + 1, n):
            step += abs(y[t] - y[t - 1])
            if y[t] == y[t - 1]:
                ties += 1.0
        step /= max(n - 1 - start, 1)
        ties /= max(n - 1 - start, 1)
        start = max(n - 512, short)
        for t in range(start, n):
            cycle += abs(y[t] - y[t - short])
        cycle /= max(n - start, 1)
        start = max(n - 512, long)
        for t in range(start, n):
            double += abs(y[t] - y[t - long])
        double /= max(n - start, 1)
        start = max(n - 512, short + 1)
        for t in range(start, n):
            both += abs(y[t] - y[t - 1] - y[t - short] + y[t - short - 1])
        both /= max(n - start, 1)
        floor = 1e-7 * abs(level) + 1e-30
        least = max(0.03 * spread, floor)
        scale = np.sqrt(max(spread, floor) * max(min(step, cycle), least))
        levels[i], scales[i] = level, scale
        # The rows.
        for t in range(RECENT):
            inputs[i, t] = np.arcsinh((y[n - RECENT + t] - level) / scale) if n - RECENT + t >= 0 else 0.0
        place, end = RECENT, n - RECENT
        for b in range(len(BLOCKS)):
            for _ in range(BLOCKS[b][0]):
                size = min(BLOCKS[b][1], end)
                value = 0.0
                if size > 0:
                    for t in range(end - size, end):
                        value += y[t]
                    value = np.arcsinh((value / size - level) / scale)
                    end -= size
                inputs[i, place] = value
                place += 1
        # The plain forecasts.
        for k in range(PATHS):
            _path(y, n, short, long, k, HORIZON, path)
            about = level if k < 4 or k == 6 else 0.0
            for h in range(HORIZON):
                paths[i, k, h] = min(max((path[h] - about) / scale, -LARGEST), LARGEST)
        for h in range(HORIZON):
            inputs[i, place] = np.arcsinh(paths[i, 1, h])
            place += 1
        for h in range(0, HORIZON, 4):
            value = 0.0
            for j in range(4):
                value += 0.25 * (paths[i, 3, h + j] - paths[i, 1, h + j])
            inputs[i, place] = np.arcsinh(value)
            place += 1
        # The numbers.
        first = place
        for k in range(9):
            inputs[i, place + k] = min(max(np.log2(n / 8.0) - k, 0.0), 1.0)
        place += 9
        for k in range(5):
            inputs[i, place + k] = clarity[i, k]
        place += 5
        inputs[i, place] = np.log(short) / 3.0
        inputs[i, place + 1] = np.log(long) / 3.0
        inputs[i, place + 2] = 1.0 if short > 1 else 0.0
        inputs[i, place + 3] = 1.0 if long > short else 0.0
        inputs[i, place + 4] = np.log(n / short) / 3.0
        inputs[i, place + 5] = np.log(spread / scale + 1e-3)
        inputs[i, place + 6] = np.log(step / scale + 1e-3)
        inputs[i, place + 7] = np.log(cycle / scale + 1e-3)
        inputs[i, place + 8] = np.log(double / scale + 1e-3)
        inputs[i, place + 9] = np.log(both / scale + 1e-3)
        inputs[i, place + 10] = ties
        inputs[i, place + 11] = np.arcsinh((high - level) / scale)
        inputs[i, place + 12] = np.arcsinh((low - level) / scale)
        inputs[i, place + 13] = np.arcsinh((mean - level) / scale)
        inputs[i, place + 14] = np.arcsinh((y[n - 1] - level) / scale)
        inputs[i, place + 15] = np.arcsinh(paths[i, 4, HORIZON // 4 - 1])
        inputs[i, place + 16] = np.arcsinh(paths[i, 5, HORIZON // 4 - 1])
        inputs[i, place + 17] = np.arcsinh(paths[i, 7, 0])
        place += 18
        for o in range(len(ORIGINS)):
            for k in range(TESTED):
                error = _backtest(y, n, ORIGINS[o], short, long, k, path)
                inputs[i, place] = np.log(error / scale + 0.03) if error >= 0 else 0.0
                place += 1
        _phase_spreads(y, n, short, scale, path)
        for k in range(HORIZON // 4):
            inputs[i, place] = path[k]
            place += 1
        for j in range(place - first):
            inputs[i, first + j] = min(max(inputs[i, first + j], -6.0), 6.0)


@dataclass(frozen=True)
class Representation:
    """Contexts as the network takes them; x = level + scale · value."""

    inputs: NDArray[np.float32]  # (N, WIDTH)
    paths: NDArray[np.float32]  # (N, PATHS, HORIZON)
    level: Array  # (N,)
    scale: Array  # (N,)
    short: Whole  # (N,)


def represent(
    pool: Array,  # (series, rows)
    rows: Whole,  # (N,)
    ends: Whole,  # (N,)
    lengths: Whole,  # (N,)
    *,
    season: Whole | None = None,  # (N,), known short periods; 0 where not
) -> Representation:
    """The representation of N contexts that are cut out of a pool of series; all values must be finite.

    Example:
        >>> pool = np.arange(40.0)[None]
        >>> seen = represent(pool, np.array([0]), np.array([40]), np.array([40]))
        >>> seen.inputs.shape == (1, WIDTH), seen.level, seen.paths.shape
        (True, array([38.]), (1, 8, 96))
    """
    seasons = find_seasons(pool, rows, ends, lengths, short=season)
    count = len(rows)
    inputs = np.empty((count, WIDTH), np.float32)
    paths = np.empty((count, PATHS, HORIZON), np.float32)
    level, scale = np.empty(count), np.empty(count)
    _represent(pool, rows, ends, lengths, seasons.short, seasons.long, seasons.clarity, inputs, paths, level, scale)
    return Representation(inputs, paths, level, scale, seasons.short)

"""What the pretrained network reads of a context, and the plain forecasts it may mix.

Of a context of 8 to 2,048 rows the newest 192 are kept as they are and the older ones averaged over ever longer
blocks; beside them stand how the season goes on, numbers about length, seasons, scale and how well the plain
forecasts did on the rows before the last, and how much cycles differ at the phases of the next steps. All are relative
to the level and the scale of the context itself.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from fern.caching import kernel
from fern.models.pretrained.periods import INTEGERS, Array, Whole, find_seasons
from fern.systems.integrate import MATRIX, VECTOR

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

SINGLE = types.float32[:, ::1]
SINGLES = types.float32[:, :, ::1]


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
def _tried(y: Array, n: int, back: int, short: int, long: int, which: int, path: Array) -> float:
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
                error = _tried(y, n, ORIGINS[o], short, long, k, path)
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

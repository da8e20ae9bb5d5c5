"""Compiled loops behind the synthetic families: filters and recursions over many series at once.

Every loop takes its random numbers as arrays, so that the caller's generator alone decides the series.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fern.caching import kernel
from fern.systems.integrate import MATRIX, VECTOR

Array = NDArray[np.float64]

INTEGERS = types.int64[::1]


@kernel(MATRIX, MATRIX, MATRIX, MATRIX)
def filter_arma(noise: Array, ar: Array, ma: Array, out: Array) -> None:
    """y_t = Σ ar_k y_{t-k} + e_t + Σ ma_k e_{t-k}, each row with its own coefficients."""
    count, length = noise.shape
    for i in range(count):
        for t in range(length):
            value = noise[i, t]
            for k in range(min(t, ma.shape[1])):
                value += ma[i, k] * noise[i, t - 1 - k]
            for k in range(min(t, ar.shape[1])):
                value += ar[i, k] * out[i, t - 1 - k]
            out[i, t] = value


@kernel(MATRIX, MATRIX, VECTOR, VECTOR, VECTOR, MATRIX)
def filter_threshold(noise: Array, phi: Array, level: Array, delay: Array, drift: Array, out: Array) -> None:
    """A threshold autoregression: phi[:, 0] at or below the level, phi[:, 1] above it, ``delay`` rows earlier."""
    count, length = noise.shape
    for i in range(count):
        back = int(delay[i])
        for t in range(length):
            last = out[i, t - 1] if t > 0 else 0.0
            if (out[i, t - back] if t >= back else 0.0) > level[i]:
                out[i, t] = phi[i, 1] * last - drift[i] + noise[i, t]
            else:
                out[i, t] = phi[i, 0] * last + drift[i] + noise[i, t]


@kernel(MATRIX, INTEGERS, INTEGERS, VECTOR, INTEGERS, MATRIX)
def shape_profiles(noise: Array, sizes: Array, kinds: Array, shares: Array, days: Array, out: Array) -> None:
    """One cycle of a season for each row, of mean 0 and deviation 1, on ``sizes`` points.

    Kinds: 0 waves with falling harmonics, 1 smoothed noise, 2 open and closed, 3 narrow peaks, 4 a short cycle of
    ``days`` points repeated at a level for each repetition. ``shares`` (0 to 1) sets decay, width or duty.
    """
    for i in range(len(sizes)):
        size, share = sizes[i], shares[i]
        if kinds[i] == 4 and days[i] > 1:
            short = days[i]
            for j in range(size):
                phase, wave = 2.0 * np.pi * (j % short) / short, 0.0
                for h in range(1, min(short // 2, 5) + 1):
                    wave += (noise[i, 2 * h] * np.cos(h * phase) + noise[i, 2 * h + 1] * np.sin(h * phase)) / h
                day = j // short
                weekend = 1.0 if day % 7 >= 5 else 0.0
                level = (1.0 - 2.0 * share) * weekend + 0.3 * noise[i, 16 + day % 48]
                out[i, j] = wave * (1.0 + 0.5 * level) + 2.0 * level * share
        elif kinds[i] == 3:
            peaks, width = 1 + int(3 * share), 0.01 + 0.05 * share
            for j in range(size):
                value = 0.0
                for k in range(peaks):
                    centre = 0.5 + 0.15 * noise[i, 2 * k]
                    apart = j / size - centre
                    apart -= np.floor(apart + 0.5)
                    value += (1.0 + abs(noise[i, 2 * k + 1])) * np.exp(-0.5 * (apart / width) ** 2)
                out[i, j] = value
        elif kinds[i] == 2:
            duty = 0.15 + 0.7 * share
            for j in range(size):
                ramp = min(1.0, (duty - j / size) * 12.0) if j / size < duty else 0.0
                out[i, j] = ramp * (1.0 + 0.15 * noise[i, j])
        elif kinds[i] == 1:
            width = 1 + int(share * size / 4)
            for j in range(size):
                value = 0.0
                for k in range(width):
                    value += noise[i, (j + k) % size]
                out[i, j] = value
        else:
            harmonics = max(1, min(size // 2, 1 + int(8 * share)))
            fall = 0.3 + 1.2 * abs(noise[i, 31] - np.floor(noise[i, 31]))
            for j in range(size):
                out[i, j] = 0.0
            for h in range(1, harmonics + 1):
                even, odd = noise[i, 2 * h] / h**fall, noise[i, 2 * h + 1] / h**fall
                for j in range(size):
                    phase = 2.0 * np.pi * h * j / size
                    out[i, j] += even * np.cos(phase) + odd * np.sin(phase)
        mean, square = 0.0, 0.0
        for j in range(size):
            mean += out[i, j]
        mean /= size
        for j in range(size):
            square += (out[i, j] - mean) ** 2
        spread = np.sqrt(square / size)
        for j in range(size):
            out[i, j] = (out[i, j] - mean) / (spread + 1e-9)


@kernel(MATRIX, INTEGERS, VECTOR, VECTOR, MATRIX, VECTOR, MATRIX)
def add_seasons(
    profiles: Array, sizes: Array, periods: Array, offsets: Array, modulation: Array, amplitude: Array, out: Array
) -> None:
    """Add each row's cycle, repeated every ``periods`` rows, to ``out``.

    ``modulation`` is (slow period, depth of the amplitude, its phase, depth of the phase in steps).
    """
    count, length = out.shape
    for i in range(count):
        size, scale = sizes[i], sizes[i] / periods[i]
        slow, depth, start, warp = modulation[i, 0], modulation[i, 1], modulation[i, 2], modulation[i, 3]
        plain = depth == 0.0 and warp == 0.0
        for t in range(length):
            place, strength = offsets[i] + t, amplitude[i]
            if not plain:
                angle = 2.0 * np.pi * t / slow + start
                place += warp * np.cos(angle)
                strength *= 1.0 + depth * np.sin(angle)
            place = (place * scale) % size
            low = int(place)
            part = place - low
            low = low % size
            value = profiles[i, low]
            if part > 1e-9:
                value += part * (profiles[i, (low + 1) % size] - value)
            out[i, t] += strength * value


@kernel(MATRIX, VECTOR, VECTOR, MATRIX)
def add_trends(slopes: Array, spans: Array, bend: Array, out: Array) -> None:
    """Add a line through knots ``spans`` rows apart; a segment rises by its entry of ``slopes``.

    ``bend`` curves each segment: 0 straight, above 0 levelling off, below 0 speeding up.
    """
    count, length = out.shape
    for i in range(count):
        level, knots = 0.0, slopes.shape[1]
        for t in range(length):
            place = t / spans[i]
            segment = int(place)
            part = place - segment
            if part * spans[i] < 1.0 and segment > 0:
                level += slopes[i, (segment - 1) % knots]
            if abs(bend[i]) > 1e-3:
                part = (1.0 - np.exp(-bend[i] * part)) / (1.0 - np.exp(-bend[i]))
            out[i, t] += level + slopes[i, segment % knots] * part


@kernel(MATRIX, MATRIX, MATRIX, INTEGERS, MATRIX, MATRIX, MATRIX)
def smooth_exponentially(
    noise: Array, rates: Array, start: Array, periods: Array, seasons: Array, kicks: Array, out: Array
) -> None:
    """Innovations state space: a level, a damped trend and a season, all corrected by the same error.

    ``rates`` is (alpha, beta, gamma, damping, sigma, multiplicative error 0 or 1, multiplicative season 0 or 1),
    ``start`` (level, trend, rows from one kick to the next); ``seasons`` holds the first cycle and is changed;
    ``kicks`` are new trends, for a damped one not to have died long before the end.
    """
    count, length = noise.shape
    for i in range(count):
        alpha, beta, gamma, damping, sigma = rates[i, 0], rates[i, 1], rates[i, 2], rates[i, 3], rates[i, 4]
        times_error, times_season = rates[i, 5] > 0.5, rates[i, 6] > 0.5
        level, trend, period = start[i, 0], start[i, 1], periods[i]
        apart = int(start[i, 2])
        for t in range(length):
            if t % apart == apart - 1:
                trend = kicks[i, (t // apart) % kicks.shape[1]] * (max(level, 1e-3) if times_error else 1.0)
            where = t % period
            season = seasons[i, where]
            base = level + damping * trend
            mean = base * season if times_season else base + season
            error = sigma * noise[i, t] * (abs(mean) if times_error else 1.0)
            out[i, t] = mean + error
            by_level = error / season if times_season else error
            level = base + alpha * by_level
            trend = damping * trend + beta * by_level
            by_season = error / max(base, 1e-6) if times_season else error
            seasons[i, where] = season + gamma * by_season
            if times_season:
                seasons[i, where] = min(max(seasons[i, where], 0.05), 20.0)
                level = max(level, 1e-3)


@kernel(MATRIX, MATRIX, MATRIX, MATRIX, MATRIX)
def revert_with_volatility(noise: Array, shocks: Array, uniform: Array, settings: Array, out: Array) -> None:
    """A mean-reverting process whose log-volatility is one too, with rare jumps and two levels to return to.

    ``settings`` is (phi, low level, high level, switch rate, volatility persistence, its noise, jump rate, jump size).
    """
    count, length = noise.shape
    for i in range(count):
        phi, low, high, switch = settings[i, 0], settings[i, 1], settings[i, 2], settings[i, 3]
        hold, rough, rate, size = settings[i, 4], settings[i, 5], settings[i, 6], settings[i, 7]
        step = np.sqrt(1.0 - phi * phi)
        level, value, log_volatility = low, low, 0.0
        for t in range(length):
            if uniform[i, t] < switch:
                level = high if level == low else low
            log_volatility = hold * log_volatility + rough * shocks[i, t]
            value = level + phi * (value - level) + step * np.exp(min(log_volatility, 3.0)) * noise[i, t]
            if uniform[i, t] > 1.0 - rate:
                value += size * shocks[i, t]
            out[i, t] = value


@kernel(MATRIX, MATRIX, MATRIX, MATRIX)
def jump_regimes(uniform: Array, normal: Array, settings: Array, out: Array) -> None:
    """Levels, slopes and volatilities that jump; white noise at the volatility in force is added to ``out``.

    ``settings`` is (level rate, level size, slope rate, slope size, volatility rate, volatility size, noise).
    """
    count, length = out.shape
    for i in range(count):
        level, slope, volatility = 0.0, 0.0, 0.0
        for t in range(length):
            u, size = uniform[i, t], normal[i, (t * 7 + 3) % length]
            if u < settings[i, 0]:
                level += settings[i, 1] * size
            elif u < settings[i, 0] + settings[i, 2]:
                slope = settings[i, 3] * size
            elif u < settings[i, 0] + settings[i, 2] + settings[i, 4]:
                volatility = min(settings[i, 5] * size, 2.5)
            level += slope
            out[i, t] += level + settings[i, 6] * np.exp(volatility) * normal[i, t]


@kernel(MATRIX, MATRIX, MATRIX, MATRIX)
def demand_now_and_then(uniform: Array, normal: Array, settings: Array, out: Array) -> None:
    """Intermittent demand: ``out`` holds a season on entry and orders on return, mostly zeros.

    ``settings`` is (probability of an order, log-size, its spread, clustering, weight of the season).
    """
    count, length = out.shape
    for i in range(count):
        chance, size, spread = settings[i, 0], settings[i, 1], settings[i, 2]
        clustering, weight = settings[i, 3], settings[i, 4]
        before = False
        for t in range(length):
            odds = chance * np.exp(weight * out[i, t])
            if before:
                odds = odds + clustering * (1.0 - odds)
            before = uniform[i, t] < odds
            out[i, t] = np.floor(np.exp(size + spread * normal[i, t])) + 1.0 if before else 0.0


@kernel(INTEGERS, MATRIX)
def sum_over_seasons(periods: Array, out: Array) -> None:
    """y_t ← y_t + y_{t-period}, in place: what a seasonal difference undoes."""
    count, length = out.shape
    for i in range(count):
        for t in range(periods[i], length):
            out[i, t] += out[i, t - periods[i]]

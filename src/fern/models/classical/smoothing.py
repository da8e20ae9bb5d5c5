"""Exponential smoothing in its state-space form, compiled: filter, likelihood, fast estimation and forecast.

A specification is three numbers: ``trend`` (0 none, 1 damped, 2 linear), ``seasonal`` (0 none, 1 additive,
2 multiplicative) and ``multiplicative`` errors or not. Additive season goes with additive errors and multiplicative
season with multiplicative ones; without a season both errors are there. Smoothing parameters are kept as shares in
[0, 1]: α, β = α·β*, γ = (1 − α)·γ*, and the damping φ from 0.8 to 0.98.
"""

from math import inf, log
from typing import Any

import numpy as np

from fern.caching import cached_njit

NONE, DAMPED, LINEAR = 0, 1, 2
ADDITIVE, MULTIPLICATIVE = 1, 2

PHI_LOW, PHI_HIGH = 0.80, 0.98
LOW, HIGH = 1e-4, 0.9999

SMALL_SLOPES, SMALL_SEASONS = 3.0, 10.0
"""Priors (1 − β*)^3 and (1 − γ*)^10: a slope or a season that is rewritten with every row fits the past and misses the
future. Chosen on held-out windows of M3 and hospital, as is the temperature of the average in `kernel`."""

MOST_RELATIVE = 0.25
"""The mean squared relative error above which multiplicative errors make no sense: their variance would explode."""


@cached_njit(nogil=True)
def smoothing_parameters(x: Any, trend: int, seasonal: int) -> tuple[float, float, float, float]:
    """α, β, γ, φ of a vector of shares: (α, [β*], [γ*], [φ*])."""
    alpha = min(max(x[0], LOW), HIGH)
    place, beta, gamma, phi = 1, 0.0, 0.0, 0.0
    if trend != NONE:
        beta = alpha * min(max(x[place], LOW), HIGH)
        place += 1
        phi = 1.0
    if seasonal != NONE:
        gamma = (1.0 - alpha) * min(max(x[place], LOW), HIGH)
        place += 1
    if trend == DAMPED:
        phi = PHI_LOW + (PHI_HIGH - PHI_LOW) * min(max(x[place], 0.0), 1.0)
    return alpha, beta, gamma, phi


@cached_njit(nogil=True)
def _start(
    y: Any,  # (n,) without its season
    alpha: float,
    beta: float,
    phi: float,
    trend: int,
) -> tuple[float, float]:
    """The level and slope before the first row that make the squared one-step errors least: they are linear in both."""
    level = slope = 0.0
    dl_level, dl_slope = 1.0, 0.0  # derivatives of the level by the first level and the first slope
    db_level, db_slope = 0.0, 1.0
    a11 = a12 = a22 = r1 = r2 = 0.0
    weight = 1.0
    for t in range(len(y)):
        error = y[t] - level - phi * slope
        g1 = dl_level + phi * db_level
        g2 = dl_slope + phi * db_slope
        a11 += g1 * g1
        a12 += g1 * g2
        a22 += g2 * g2
        r1 += g1 * error
        r2 += g2 * error
        level += phi * slope + alpha * error
        slope = phi * slope + beta * error
        dl_level, db_level = g1 - alpha * g1, phi * db_level - beta * g1
        dl_slope, db_slope = g2 - alpha * g2, phi * db_slope - beta * g2
        weight = abs(g1) + abs(g2)
        if weight < 1e-9:
            break
    if trend == NONE:
        return (r1 / a11 if a11 > 0 else y[0]), 0.0
    determinant = a11 * a22 - a12 * a12
    if determinant <= 1e-12 * a11 * a22:
        return (r1 / a11 if a11 > 0 else y[0]), 0.0
    return (a22 * r1 - a12 * r2) / determinant, (a11 * r2 - a12 * r1) / determinant


@cached_njit(nogil=True)
def filter_series(
    y: Any,  # (n,)
    adjusted: Any,  # (n,) y without the first season
    first: Any,  # (season,) first seasonal indices
    x: Any,
    trend: int,
    seasonal: int,
    multiplicative: bool,
    errors: Any,  # (n,) written: one-step errors, relative ones if multiplicative
    states: Any,  # (2 + season,) written: level, slope, seasonal indices by phase of the row
) -> float:
    """Run the filter; minus twice the log-likelihood, up to a constant (∞ where the model cannot hold)."""
    n, season = len(y), len(first)
    alpha, beta, gamma, phi = smoothing_parameters(x, trend, seasonal)
    level, slope = _start(adjusted, alpha, beta, phi, trend)
    if multiplicative and level <= 0.0:
        level = abs(adjusted[0])
    s = states[2:]
    s[:] = first
    squares, logs = 0.0, 0.0
    for t in range(n):
        base = level + phi * slope
        phase = t % season
        if not multiplicative:
            error = y[t] - base - s[phase]
            level = base + alpha * error
            slope = phi * slope + beta * error
            s[phase] += gamma * error
        else:
            if base <= 0.0:
                return inf
            if seasonal == NONE:
                error = (y[t] - base) / base
                logs += log(base)
            else:
                value = base * s[phase]
                if value <= 0.0:
                    return inf
                error = (y[t] - value) / value
                logs += log(value)
                s[phase] *= 1.0 + gamma * error
            level = base * (1.0 + alpha * error)
            slope = phi * slope + beta * base * error
        errors[t] = error
        squares += error * error
    states[0], states[1] = level, slope
    if not squares < inf:
        return inf
    if multiplicative and squares > n * MOST_RELATIVE:
        return inf
    prior = 0.0
    if trend != NONE:
        prior -= 2.0 * SMALL_SLOPES * log(1.0 - beta / alpha)
    if seasonal != NONE:
        prior -= 2.0 * SMALL_SEASONS * log(1.0 - gamma / (1.0 - alpha))
    return float(n * log(squares / n + 1e-300) + 2.0 * logs + prior)


@cached_njit(nogil=True)
def _clip(x: Any) -> None:
    for i in range(len(x)):
        x[i] = min(max(x[i], 0.0), 1.0)


@cached_njit(nogil=True)
def estimate(
    y: Any,
    adjusted: Any,
    first: Any,
    trend: int,
    seasonal: int,
    multiplicative: bool,
    most: int,  # evaluations
    errors: Any,
    states: Any,
    best: Any,  # (dimension,) in: where to begin; out: the best shares
) -> float:
    """The shares with the least −2 log-likelihood: Nelder and Mead's simplex in the unit box."""
    d = len(best)
    points, values = np.empty((d + 1, d)), np.empty(d + 1)
    for i in range(d + 1):
        points[i] = best
        if i:
            points[i, i - 1] += 0.25 if points[i, i - 1] < 0.6 else -0.25
        values[i] = filter_series(y, adjusted, first, points[i], trend, seasonal, multiplicative, errors, states)
    done = d + 1
    centre, trial, further = np.empty(d), np.empty(d), np.empty(d)
    while done < most:
        order = np.argsort(values)
        low, high, second = order[0], order[d], order[d - 1]
        if values[high] - values[low] < 1e-2:
            break
        centre[:] = 0.0
        for i in range(d + 1):
            if i != high:
                centre += points[i] / d
        for j in range(d):
            trial[j] = 2.0 * centre[j] - points[high, j]
        _clip(trial)
        value = filter_series(y, adjusted, first, trial, trend, seasonal, multiplicative, errors, states)
        done += 1
        if value < values[low]:
            for j in range(d):
                further[j] = 3.0 * centre[j] - 2.0 * points[high, j]
            _clip(further)
            beyond = filter_series(y, adjusted, first, further, trend, seasonal, multiplicative, errors, states)
            done += 1
            if beyond < value:
                points[high], values[high] = further, beyond
            else:
                points[high], values[high] = trial, value
        elif value < values[second]:
            points[high], values[high] = trial, value
        else:
            for j in range(d):
                target = trial[j] if value < values[high] else points[high, j]
                further[j] = 0.5 * (centre[j] + target)
            inside = filter_series(y, adjusted, first, further, trend, seasonal, multiplicative, errors, states)
            done += 1
            if inside < min(value, values[high]):
                points[high], values[high] = further, inside
            else:
                for i in range(d + 1):
                    if i != low:
                        points[i] = 0.5 * (points[i] + points[low])
                        values[i] = filter_series(
                            y, adjusted, first, points[i], trend, seasonal, multiplicative, errors, states
                        )
                        done += 1
    best[:] = points[np.argmin(values)]
    return float(filter_series(y, adjusted, first, best, trend, seasonal, multiplicative, errors, states))


@cached_njit(nogil=True)
def forecast_smoothing(
    n: int,
    states: Any,
    x: Any,
    trend: int,
    seasonal: int,
    multiplicative: bool,
    variance: float,  # of the errors
    mean: Any,  # (H,) written
    stddev: Any,  # (H,) written
    response: Any,  # (H,) written: what a step's error adds to the steps after it, 1 for its own
) -> None:
    """Mean, standard deviation and response of each step (Hyndman et al. 2008, classes 1 and 3)."""
    horizon, season = len(mean), len(states) - 2
    alpha, beta, gamma, phi = smoothing_parameters(x, trend, seasonal)
    level, slope = states[0], states[1]
    grown, damped = 0.0, 1.0
    reach = 0.0  # φ + … + φ^j
    for h in range(horizon):
        damped *= phi
        grown += damped
        base = level + grown * slope
        index = states[2 + (n + h) % season]
        mean[h] = base * index if seasonal == MULTIPLICATIVE else base + index
        if h == 0:
            response[h] = 1.0
        else:
            reach += phi**h if trend != NONE else 0.0
            response[h] = alpha + beta * reach
            if seasonal != NONE and h % season == 0:
                response[h] += gamma
    if not multiplicative:
        total = 0.0
        for h in range(horizon):
            total += response[h] ** 2
            stddev[h] = (variance * total) ** 0.5
        return
    # θ_h = μ_h² + σ² Σ c_j² θ_{h−j}; the variance is (1 + σ²) θ_h − μ_h², of the level without the season's index.
    theta = np.empty(horizon)
    grown, damped = 0.0, 1.0
    for h in range(horizon):
        damped *= phi
        grown += damped
        base = level + grown * slope
        theta[h] = base * base
        for j in range(1, h + 1):
            step = response[j]
            theta[h] += variance * step * step * theta[h - j]
        index = states[2 + (n + h) % season] if seasonal == MULTIPLICATIVE else 1.0
        stddev[h] = max(0.0, (1.0 + variance) * theta[h] - base * base) ** 0.5 * index

"""The optimised Theta method (Fiorucci et al. 2016), compiled, for a series without its season."""

from typing import Any

import numpy as np

from fern.caching import cached_njit

MOST_THETA = 6.0


@cached_njit(nogil=True)
def line_of(y: Any) -> tuple[float, float]:
    """Intercept (at row 0) and slope of least squares."""
    n = len(y)
    middle, mean = (n - 1) / 2.0, y.mean()
    above, below = 0.0, 0.0
    for t in range(n):
        above += (t - middle) * (y[t] - mean)
        below += (t - middle) ** 2
    slope = above / below if below > 0 else 0.0
    return mean - slope * middle, slope


@cached_njit(nogil=True)
def theta_errors(y: Any, alpha: float, share: float, errors: Any) -> tuple[float, float]:
    """One-step errors of the dynamic Theta model; their sum of squares after the first rows, and the last level.

    ŷ_t = ℓ_{t−1} + w [(1 − α)^{t−1} A_{t−1} + (1 − (1 − α)^t)/α · B_{t−1}] with the line A + B t through the rows so
    far, w = 1 − 1/θ.
    """
    n = len(y)
    total = 0.0
    level = y[0] * (1.0 - share)  # so that the first forecast is the first value
    power = 1.0
    mean, slope, intercept = y[0], 0.0, y[0]
    errors[0] = 0.0
    level = alpha * y[0] + (1.0 - alpha) * level
    for t in range(1, n):
        power *= 1.0 - alpha
        forecast = level + share * (power * intercept + (1.0 - power * (1.0 - alpha)) / alpha * slope)
        error = y[t] - forecast
        errors[t] = error
        if t >= 2 or n < 4:
            total += error * error
        level = alpha * y[t] + (1.0 - alpha) * level
        # The line through the first t + 1 rows, updated.
        count = t + 1.0
        slope = ((count - 2.0) * slope + 6.0 * (y[t] - mean) / count) / (count + 1.0)
        mean = (t * mean + y[t]) / count
        intercept = mean - slope * (count + 1.0) / 2.0
    return total, level


@cached_njit(nogil=True)
def fit_theta(
    y: Any,  # (n,) at least 3 rows, without a season
    errors: Any,  # (n,) written
    mean: Any,  # (H,) written
    response: Any,  # (H,) written
) -> tuple[float, float]:
    """Choose α and θ by squared one-step errors; forecast. Gives the error variance and α."""
    n, horizon = len(y), len(mean)
    best, best_alpha, best_share = np.inf, 0.5, 0.5
    # A coarse grid and two refinements around its best point: the surface is smooth and nearly flat in θ.
    width_alpha, width_share = 0.25, 0.25
    centre_alpha, centre_share = 0.5, 0.5
    for _ in range(3):
        for i in range(-2, 3):
            alpha = min(max(centre_alpha + i * width_alpha, 0.02), 0.99)
            for j in range(-2, 3):
                share = min(max(centre_share + j * width_share, 0.0), 1.0 - 1.0 / MOST_THETA)
                total, _level = theta_errors(y, alpha, share, errors)
                if total < best:
                    best, best_alpha, best_share = total, alpha, share
        centre_alpha, centre_share = best_alpha, best_share
        width_alpha, width_share = width_alpha / 3.0, width_share / 3.0
    total, level = theta_errors(y, best_alpha, best_share, errors)
    intercept, slope = line_of(y)
    intercept -= slope  # rows count from 1
    power = (1.0 - best_alpha) ** n
    for h in range(horizon):
        # The dynamic model rolled on: the line stays, the level follows its own forecasts.
        step = best_share * (power * intercept + (1.0 - power * (1.0 - best_alpha)) / best_alpha * slope)
        mean[h] = level + step
        level = best_alpha * mean[h] + (1.0 - best_alpha) * level
        power *= 1.0 - best_alpha
        response[h] = 1.0 if h == 0 else best_alpha
    return max(total / max(n - 3, 1), 0.0), best_alpha

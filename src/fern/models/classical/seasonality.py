"""Is there a season, and what are its indices: compiled, for one series at a time."""

from math import sqrt
from typing import Any

import numpy as np

from fern.caching import cached_njit

SIGNIFICANT = 1.645
"""The autocorrelation at the season, in standard errors, from which a series counts as seasonal (one-sided 5 %)."""

RATIO = 3.0
"""The F ratio of the phases' changes from which it does, too: short series fail the test by autocorrelation."""


@cached_njit(nogil=True)
def seasonal_strength(
    y: Any,  # (n,)
    season: int,
) -> float:
    """The autocorrelation at the season, in standard errors of Bartlett's formula.

    A linear trend is taken out first: it would look like a season at any lag. 0 for fewer than two seasons and three
    rows, or a series that never changes.
    """
    n = len(y)
    if season < 2 or n < 2 * season + 3:
        return 0.0
    middle, mean = (n - 1) / 2.0, y.mean()
    above, below = 0.0, 0.0
    for t in range(n):
        above += (t - middle) * (y[t] - mean)
        below += (t - middle) ** 2
    slope = above / below
    x = np.empty(n)
    for t in range(n):
        x[t] = y[t] - mean - slope * (t - middle)
    total = (x * x).sum()
    if total <= 1e-20 * (1e-300 + (y * y).sum()):
        return 0.0
    squares, at_season = 0.0, 0.0
    for lag in range(1, season + 1):
        product = 0.0
        for t in range(lag, n):
            product += x[t] * x[t - lag]
        if lag == season:
            at_season = product / total
        else:
            squares += (product / total) ** 2
    return float(at_season / sqrt((1.0 + 2.0 * squares) / n))


@cached_njit(nogil=True)
def seasonal_ratio(
    y: Any,  # (n,)
    season: int,
) -> float:
    """The F ratio of the phases of the season in the changes from row to row; 0 for fewer than two seasons and three.

    Changes, not values: a wandering level does not look like a season.
    """
    n = len(y) - 1
    if season < 2 or n < 2 * season + 2:
        return 0.0
    total, count = np.zeros(season), np.zeros(season)
    whole = squares = 0.0
    for t in range(n):
        change = y[t + 1] - y[t]
        total[t % season] += change
        count[t % season] += 1.0
        whole += change
        squares += change * change
    between = 0.0
    for phase in range(season):
        between += total[phase] ** 2 / count[phase]
    within = squares - between
    between -= whole * whole / n
    if within <= 1e-12 * squares:
        return 1e6 if squares > 0 else 0.0
    return float((between / (season - 1)) / (within / (n - season)))


@cached_njit(nogil=True)
def seasonal_indices(
    y: Any,  # (n,) at least two seasons
    season: int,
    multiplicative: bool,
    indices: Any,  # (season,) written: the index of row t is indices[t % season]
) -> None:
    """The classical decomposition: mean of what is left after a centred moving average, by phase; sum 0 or mean 1."""
    n = len(y)
    half = season // 2
    total, count = np.zeros(season), np.zeros(season)
    for t in range(half, n - half):
        if season % 2:
            trend = y[t - half : t + half + 1].sum() / season
        else:
            trend = (0.5 * y[t - half] + y[t - half + 1 : t + half].sum() + 0.5 * y[t + half]) / season
        if multiplicative and trend <= 0.0:
            continue
        total[t % season] += y[t] / trend if multiplicative else y[t] - trend
        count[t % season] += 1.0
    neutral = 1.0 if multiplicative else 0.0
    for phase in range(season):
        indices[phase] = total[phase] / count[phase] if count[phase] else neutral
    mean = indices.mean()
    for phase in range(season):
        if multiplicative:
            indices[phase] = max(indices[phase] / mean, 0.01) if mean > 0.0 else 1.0
        else:
            indices[phase] -= mean

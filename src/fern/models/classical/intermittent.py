"""Demand with many zeros: the chance of a demand and its size, each smoothed (Teunter, Syntetos and Babai 2011)."""

from typing import Any

import numpy as np

from fern.caching import cached_njit

TABLE_POINTS = 200
"""Points of a demand's quantile table: at (i + 0.5) / 200."""

ZEROS = 0.35
"""The share of zeros from which a series without negative values counts as intermittent."""

FEWEST_ROWS = 8
RATES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)


@cached_njit(nogil=True)
def is_intermittent(y: Any) -> bool:
    """Whether so many rows are zero, and none is negative, that a bell around a level says nothing."""
    zeros = 0
    for value in y:
        if value < 0.0:
            return False
        zeros += value == 0.0
    return len(y) >= FEWEST_ROWS and ZEROS * len(y) <= zeros < len(y)


@cached_njit(nogil=True)
def fit_demand(
    y: Any,  # (n,) not negative, at least one above 0
    table: Any,  # (TABLE_POINTS,) written: quantiles of the demand of a step
) -> float:
    """The quantiles and the mean of a step's demand; rows count by (1 − rate)^age, the rate by squared errors.

    A rate of 0 is the plain mean over all rows. The first half of the rows is there to begin with.
    """
    n = len(y)
    best, rate = np.inf, 0.0
    for candidate in RATES:
        weight = total = 0.0
        squares = 0.0
        for t in range(n):
            if 2 * t >= n and weight > 0.0:
                squares += (y[t] - total / weight) ** 2
            weight = (1.0 - candidate) * weight + 1.0
            total = (1.0 - candidate) * total + y[t]
        if squares < 0.99 * best:  # the longer memory unless the shorter is clearly better
            best, rate = squares, candidate
    order = np.argsort(y)
    weights = np.empty(n)
    for t in range(n):
        weights[t] = (1.0 - rate) ** (n - 1 - t)
    weights /= weights.sum()
    mean = (weights * y).sum()
    place, reached = 0, weights[order[0]]
    for i in range(len(table)):
        share = (i + 0.5) / len(table)
        while reached < share and place < n - 1:
            place += 1
            reached += weights[order[place]]
        table[i] = y[order[place]]
    return float(mean)


@cached_njit(nogil=True)
def fit_demands(
    values: Any,  # (rows,) of all series
    offsets: Any,  # (N + 1,)
    most_rows: int,
    tables: Any,  # (N, TABLE_POINTS) written
    means: Any,  # (N,) written where a series is intermittent
) -> None:
    """`fit_demand` for each series that is intermittent."""
    for i in range(len(offsets) - 1):
        y = values[max(offsets[i], offsets[i + 1] - most_rows) : offsets[i + 1]]
        if is_intermittent(y):
            means[i] = fit_demand(y, tables[i])

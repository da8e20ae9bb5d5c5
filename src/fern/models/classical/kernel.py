"""One series, or many in a flat array, through every member of the classical ensemble; compiled."""

from math import exp, inf
from typing import Any

import numpy as np

from fern.caching import cached_njit
from fern.models.classical.seasonality import RATIO, SIGNIFICANT, seasonal_indices, seasonal_ratio, seasonal_strength
from fern.models.classical.smoothing import (
    ADDITIVE,
    DAMPED,
    LINEAR,
    MULTIPLICATIVE,
    NONE,
    estimate,
    forecast_smoothing,
)
from fern.models.classical.theta import fit_theta

MEMBERS = 3
SMOOTHING, THETA, NAIVE = 0, 1, 2

SHAPE_POINTS = 41
"""Quantiles of a series' standardised one-step errors that are kept: at (i + 0.5) / 41."""

FEWEST_FOR_SHAPE = 12
SPECIFICATIONS = 12

KNOWN_CHANGES, FEWEST_FOR_CHANGES = 4, 100
"""Changes over up to a quarter of the rows are measured, from 100 rows on: fewer know too little about them."""

TEMPERATURE = 0.25
"""Specifications are averaged with weights exp(−ΔAICc / 4): flatter than Akaike's, better on held-out windows."""


@cached_njit(nogil=True)
def _naive(y: Any, season: int, mean: Any, stddev: Any, response: Any) -> None:
    """The last season repeated, with the mean change of a season as drift."""
    n, horizon = len(y), len(mean)
    changes = n - season
    drift = squares = 0.0
    for t in range(season, n):
        drift += (y[t] - y[t - season]) / changes
    for t in range(season, n):
        squares += (y[t] - y[t - season] - drift) ** 2
    variance = squares / max(changes - 1, 1)
    # A drift is believed as far as its error allows: the mean of few changes of either sign is mostly chance.
    believed = drift * drift / (drift * drift + variance / changes) if drift != 0.0 else 0.0
    for h in range(horizon):
        cycles = h // season + 1
        mean[h] = y[n - season + h % season] + believed * drift * cycles
        stddev[h] = (variance * cycles * (1.0 + cycles / changes)) ** 0.5
        response[h] = 1.0 if h % season == 0 else 0.0


@cached_njit(nogil=True)
def _shape(errors: Any, first: int, shape: Any) -> bool:
    """Quantiles of the errors after the first rows, scaled to a mean square of 1; whether there are enough."""
    used = np.sort(errors[first:])
    n = len(used)
    scale = ((used * used).sum() / max(n, 1)) ** 0.5
    if n < FEWEST_FOR_SHAPE or scale <= 0.0:
        return False
    for i in range(len(shape)):
        place = min(max((i + 0.5) / len(shape) * n - 0.5, 0.0), n - 1.0)
        low = int(place)
        high = min(low + 1, n - 1)
        shape[i] = (used[low] + (place - low) * (used[high] - used[low])) / scale
    return True


@cached_njit(nogil=True)
def widest_of(
    y: Any,  # (n,)
    widest: Any,  # (H,) written
) -> None:
    """The root mean square of the series' own changes over as many steps: no forecast is less certain than that.

    Up to a quarter of the rows it is measured, and from there on it grows as a random walk does. Multiplicative
    errors and smoothed slopes have variances that explode over long horizons, where the series itself does not.
    """
    n = len(y)
    if n < FEWEST_FOR_CHANGES:
        widest[:] = inf
        return
    longest = n // KNOWN_CHANGES
    most = 0.0
    for h in range(len(widest)):
        lag = min(h + 1, longest)
        if h < longest:
            total = 0.0
            for t in range(lag, n):
                total += (y[t] - y[t - lag]) ** 2
            most = max(most, total / (n - lag))
        widest[h] = (most * (h + 1) / lag) ** 0.5


@cached_njit(nogil=True)
def _indices(y: Any, season: int, multiplicative: bool, believed: float, indices: Any) -> None:
    """Seasonal indices, as far as they are believed."""
    seasonal_indices(y, season, multiplicative, indices)
    neutral = 1.0 if multiplicative else 0.0
    for phase in range(season):
        indices[phase] = neutral + believed * (indices[phase] - neutral)


@cached_njit(nogil=True)
def _smoothing(
    y: Any,
    season: int,  # 1 without one
    believed: float,  # how far the first indices are believed
    evaluations: int,
    mean: Any,
    stddev: Any,
    response: Any,
    shape: Any,
) -> bool:
    """Every specification that the rows allow, averaged by AICc; whether the shape of the likeliest is known."""
    n, horizon = len(y), len(mean)
    positive = y.min() > 1e-3 * y.mean()
    criteria = np.full(SPECIFICATIONS, inf)
    means, stddevs = np.empty((SPECIFICATIONS, horizon)), np.empty((SPECIFICATIONS, horizon))
    responses = np.empty((SPECIFICATIONS, horizon))
    errors, kept = np.empty(n), np.empty(n)
    states = np.empty(2 + season)
    first = np.zeros(season)
    adjusted = y.copy()
    least = inf
    for kind in range(4):
        multiplicative = kind >= 2
        seasonal = NONE if kind % 2 == 0 else (MULTIPLICATIVE if multiplicative else ADDITIVE)
        if (seasonal == NONE) != (season == 1) or (multiplicative and not positive):
            continue
        if seasonal == NONE:
            first[:] = 0.0
        else:
            cycles = min(n, 6 * season)
            _indices(y[:cycles], season, multiplicative, believed, first)
            for t in range(n):
                adjusted[t] = y[t] / first[t % season] if multiplicative else y[t] - first[t % season]
        for trend in (NONE, DAMPED, LINEAR):
            d = 1 + (trend != NONE) + (seasonal != NONE) + (trend == DAMPED)
            count = d + 2 + (trend != NONE) + (season - 1 if seasonal != NONE else 0)
            if n < count + 2 and trend != NONE:
                continue
            x = np.empty(d)
            x[0] = 0.3
            place = 1
            if trend != NONE:
                x[place] = 0.1
                place += 1
            if seasonal != NONE:
                x[place] = 0.1
                place += 1
            if trend == DAMPED:
                x[place] = 0.7
            fitted = estimate(y, adjusted, first, trend, seasonal, multiplicative, evaluations, errors, states, x)
            if fitted == inf:
                continue
            spare = max(n - count - 1, 1)
            criterion = fitted + 2.0 * count * (1.0 + (count + 1.0) / spare)
            which = 3 * kind + trend
            criteria[which] = criterion
            variance = (errors * errors).sum() / max(n - count + 1, n // 2, 1)
            forecast_smoothing(
                n, states, x, trend, seasonal, multiplicative, variance,
                means[which], stddevs[which], responses[which],
            )  # fmt: skip
            if criterion < least:
                least = criterion
                kept[:] = errors
    mean[:] = 0.0
    stddev[:] = 0.0
    response[:] = 0.0
    total = 0.0
    for which in range(SPECIFICATIONS):
        if criteria[which] < inf:
            weight = exp(-TEMPERATURE * (criteria[which] - least))
            total += weight
            mean += weight * means[which]
            stddev += weight * stddevs[which] ** 2
            response += weight * responses[which]
    mean /= total
    stddev[:] = np.sqrt(stddev / total)
    response /= total
    return bool(_shape(kept, min(3, n // 4), shape))


@cached_njit(nogil=True)
def _theta(y: Any, season: int, believed: float, mean: Any, stddev: Any, response: Any) -> None:
    """Theta of the series without its season, which is additive or multiplicative as fits the past better."""
    n, horizon = len(y), len(mean)
    positive = y.min() > 1e-3 * y.mean()
    indices, errors, adjusted = np.zeros(season), np.empty(n), y.copy()
    means, responses = np.empty((2, horizon)), np.empty((2, horizon))
    least = inf
    for kind in range(2 if season > 1 and positive else 1):
        multiplicative = kind == 1
        if season > 1:
            _indices(y, season, multiplicative, believed, indices)
            for t in range(n):
                adjusted[t] = y[t] / indices[t % season] if multiplicative else y[t] - indices[t % season]
        variance, alpha = fit_theta(adjusted, errors, means[kind], responses[kind])
        total = 0.0
        for t in range(n):
            total += (errors[t] * indices[t % season] if multiplicative else errors[t]) ** 2
        if total < least:
            least = total
            response[:] = responses[kind]
            for h in range(horizon):
                index = indices[(n + h) % season]
                mean[h] = means[kind, h] * index if multiplicative else means[kind, h] + index
                stddev[h] = (variance * (1.0 + h * alpha * alpha)) ** 0.5 * (index if multiplicative else 1.0)
    rows = n / max(n - season + 1, n // 2, 1)  # the season was estimated, too
    stddev *= rows**0.5


@cached_njit(nogil=True)
def fit_series(
    y: Any,  # (n,) finite
    season: int,
    evaluations: int,
    most_rows: int,
    means: Any,  # (MEMBERS, H) written
    stddevs: Any,  # (MEMBERS, H) written
    responses: Any,  # (MEMBERS, H) written
    shape: Any,  # (SHAPE_POINTS,) written; NaN where rows are too few
    widest: Any,  # (H,) written
) -> None:
    """Every member's forecast of one series."""
    y = y[max(0, len(y) - most_rows) :]
    n, horizon = len(y), means.shape[1]
    shape[:] = np.nan
    widest_of(y, widest)
    scale = np.abs(y).mean()
    if scale == 0.0:
        scale = 1.0
    y = y / scale
    if n < 3:
        means[:] = y[n - 1] * scale
        responses[:] = 1.0
        spread = abs(y[1] - y[0]) * scale if n == 2 else np.nan
        for h in range(horizon):
            stddevs[:, h] = spread * (h + 1.0) ** 0.5
        return
    strength = seasonal_strength(y, season)
    ratio = seasonal_ratio(y, season)
    used = season if strength > SIGNIFICANT or ratio > RATIO else 1
    believed = 1.0 - 1.0 / max(ratio, 1.0)  # what chance alone would give is taken off the indices
    _naive(y, used, means[NAIVE], stddevs[NAIVE], responses[NAIVE])
    known = _smoothing(
        y, used, believed, evaluations, means[SMOOTHING], stddevs[SMOOTHING], responses[SMOOTHING], shape
    )
    if not known:
        shape[:] = np.nan
    _theta(y, used, believed, means[THETA], stddevs[THETA], responses[THETA])
    means *= scale
    stddevs *= scale


@cached_njit(nogil=True)
def fit_many(
    values: Any,  # (rows,) of all series
    offsets: Any,  # (N + 1,)
    season: int,
    evaluations: int,
    most_rows: int,
    means: Any,  # (N, MEMBERS, H)
    stddevs: Any,
    responses: Any,
    shapes: Any,  # (N, SHAPE_POINTS)
    widest: Any,  # (N, H)
) -> None:
    """`fit_series` for each series."""
    for i in range(len(offsets) - 1):
        fit_series(
            values[offsets[i] : offsets[i + 1]], season, evaluations, most_rows,
            means[i], stddevs[i], responses[i], shapes[i], widest[i],
        )  # fmt: skip

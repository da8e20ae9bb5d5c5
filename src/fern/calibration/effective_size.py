"""How many independent windows dependent ones are worth."""

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.calibration.quantiles import weighted_quantiles
from fern.calibration.residuals import Residuals

EXCEEDED = (0.5, 0.8)
"""The quantiles whose exceedances n_eff is measured by."""

FULLY_CORRELATED_WINDOWS = 4.0
"""That values pooled within a window tell the same is believed as if so many windows had shown it."""


def time_weights(residuals: Residuals, forgetting: float) -> NDArray[np.float64]:  # (n,)
    """λ^(age/H), the age counted in rows from the last window of the same series."""
    if forgetting == 1 or not len(residuals):
        return np.ones(len(residuals))
    codes = residuals.codes()
    last = np.full(codes.max() + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, codes, residuals.origins)
    # Never exactly zero: the least weight still counts as a window.
    return np.maximum(forgetting ** ((last[codes] - residuals.origins) / residuals.horizon), 1e-12)


def longest_lag(residuals: Residuals) -> int:
    """Beyond twice the horizon exceedances are taken as independent: 2H over the usual step between windows."""
    steps = np.diff(residuals.origins)[np.diff(residuals.codes()) == 0]
    steps = steps[steps > 0]
    return ceil(2 * residuals.horizon / max(1.0, float(np.median(steps)))) if len(steps) else 0


def effective_size(
    scores: NDArray[np.floating[Any]],  # (n, members)
    *,
    series: NDArray[np.int64],  # (n,) ascending
    lags: int,
    weights: NDArray[np.float64],  # (n,)
) -> float:
    """The n_eff of scores: of the share that exceeds their own 50 % or 80 % quantile, the lesser of the two.

    The quantile of a level is as uncertain as the share that exceeds it. That share's n_eff hardly depends on the
    level, but its estimate does: 5 to 10 exceedances in a row or two look independent (simulated maxima over 48 steps,
    117 windows: true n_eff 9.5 at the 50, 90 and 95 % quantiles, estimated 10, 18 and 51). So it is measured where
    exceedances are many; 80 % as well as 50 % because large errors may cluster more than others (volatility).
    """
    if not len(scores):
        return 0.0
    thresholds = weighted_quantiles(scores, weights, np.array(EXCEEDED))
    exceeding = np.stack([(scores > threshold).mean(axis=1) for threshold in thresholds], axis=1)
    return float(
        share_sizes(exceeding, members=scores.shape[1], series=series, lags=lags, weights=weights).min(initial=np.inf)
    )


def share_sizes(
    shares: NDArray[np.floating[Any]],  # (n, units) the share of each window's pooled values that exceed
    *,
    members: int,
    series: NDArray[np.int64],  # (n,) ascending
    lags: int,
    weights: NDArray[np.float64],  # (n,)
) -> NDArray[np.float64]:  # (units,)
    """The n_eff of the share of exceedances p̂ over n windows of ``members`` pooled values each.

    ::

        n_eff = p̂(1 − p̂) / Var(p̂),   Var(p̂) = (γ_0 + 2 Σ_k γ_k) · Σw² / (Σw)²

    γ_k is the autocovariance of the windows' mean exceedances at lag k within a series, summed up to its first
    negative value (and at most ``lags``). With one value a window this is the usual n / (1 + 2 Σ ρ_k); with several
    (channels, steps) γ_0 shows how far they go together: n if they exceed all at once, n · members if independently.
    Because a few windows cannot show independence, γ_0 is pulled towards "all at once" as by
    `FULLY_CORRELATED_WINDOWS` windows. Autocovariances about an estimated mean are too small by Var(p̂), which a
    second pass adds. Never above n · members; and windows that all overlap, of one series, count as one: three or four
    in a row have no autocorrelation to be measured and would count as three or four. (``lags`` spans two horizons.)
    """
    n = len(shares)
    scaled = weights / weights.sum()
    share = scaled @ shares
    single = share * (1 - share)
    away = shares - share
    observed = np.einsum("nu,nu->u", away, away) / n
    pulled = (n * observed + FULLY_CORRELATED_WINDOWS * single) / (n + FULLY_CORRELATED_WINDOWS)
    inflation = np.ones_like(observed)
    for _ in range(2):
        lost = observed * np.minimum(inflation / n, 0.5)  # nothing to speak of in the first pass
        inflation = np.ones_like(observed)
        going = observed > 1e-12 * np.maximum(single, 1e-12)
        for lag in range(1, min(lags, n - 1) + 1):
            same = (series[lag:] == series[:-lag]).astype(np.float64)
            if not going.any() or not same.any():
                break
            covariance = np.einsum("nu,nu,n->u", away[lag:], away[:-lag], same) / n + lost * same.sum() / n
            going &= covariance > 0
            inflation[going] += 2 * covariance[going] / (observed + lost)[going]
    kish = 1 / np.square(scaled).sum()
    size = kish * np.divide(single, pulled * inflation, out=np.ones_like(single), where=pulled > 0)
    alone = n <= max(1.0, lags / 2) and series[0] == series[-1]
    result: NDArray[np.float64] = np.minimum(np.maximum(size, 1.0), 1.0 if alone else n * members)
    return result

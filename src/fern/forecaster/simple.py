"""Seasonal naive forecasts with the errors of their own past: the baseline of a backtest."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SimpleForecast:
    """The forecast of one series."""

    method: str
    mean: Floats  # (H, C)
    stddev: Floats  # (H, C)

    def quantile(self, share: float) -> Floats:  # (H, C)
        """The quantile of each step under a normal distribution."""
        return self.mean + NormalDist().inv_cdf(share) * self.stddev


def simple_forecast(
    values: Floats,  # (T, C)
    *,
    horizon: int,
    season: int,
) -> SimpleForecast:
    """Repeat the last season where the series holds two of them, else the last value.

    The standard deviation of step h is the root mean square of the same forecast's errors inside the series, over
    steps of the same number of seasons (or, for the last value, differences over h steps, at least σ₁·√h).

    Example:
        >>> simple_forecast(np.array([[1.0], [2.0], [1.0], [2.0]]), horizon=3, season=2).mean[:, 0].tolist()
        [1.0, 2.0, 1.0]
    """
    rows = len(values)
    steps = np.arange(1, horizon + 1)
    if season > 1 and rows >= 2 * season:
        mean = values[rows - season + (steps - 1) % season]
        laps = (steps - 1) // season + 1
        spread = _spread(values, lag=season, laps=laps)
        return SimpleForecast(f"the last season of {season} rows, repeated", mean, spread)
    mean = np.repeat(values[-1:], horizon, axis=0)
    return SimpleForecast("the last value, repeated", mean, _spread(values, lag=1, laps=steps))


def _spread(values: Floats, *, lag: int, laps: NDArray[np.int64]) -> Floats:  # (H, C)
    """Root mean square differences over ``laps`` lags; where too few remain, those of one lag grow like √laps."""
    rows = len(values)

    def size(laps: int) -> Floats:
        differences = values[laps * lag :] - values[: rows - laps * lag]
        return np.asarray(np.sqrt(np.square(differences).mean(axis=0)))

    if rows <= lag:  # a single row: nothing is known of its errors
        return np.repeat(np.maximum(np.abs(values).max(axis=0), 1.0)[None], len(laps), axis=0)
    first = size(1)
    first = np.where(first > 0, first, 1e-6 * np.maximum(np.abs(values).max(axis=0), 1e-6))
    sizes = [np.maximum(size(lap), first) if rows - lap * lag >= 3 else first * np.sqrt(lap) for lap in laps.tolist()]
    return np.maximum.accumulate(np.stack(sizes), axis=0)

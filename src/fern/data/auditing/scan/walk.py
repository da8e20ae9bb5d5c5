"""Whether a column is near a random walk, for which no forecast of points beats its last value."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fern.caching import cached_njit

Floats = NDArray[np.float64]

LAGS = (1, 2, 4, 8, 16)
TOLERANCE = 0.2
CRITICAL = -3.43
"""The 1 % point of the Dickey-Fuller statistic with a constant (Dickey & Fuller 1979), large samples."""
MINIMUM = 100


@dataclass(frozen=True)
class WalkTest:
    """Variance ratios VR(q) = Var(x_t - x_{t-q}) / (q Var(x_t - x_{t-1})) for q = 2, 4, 8, 16 (Lo & MacKinlay 1988),
    and the Dickey-Fuller statistic of x_t - x_{t-1} on x_{t-1}.

    Steps of a random walk are uncorrelated, so its ratios are 1, and its level does not pull it back, so the
    statistic stays above the critical value. ``near`` takes both: ratios within 20 % of 1, unit root not
    rejected at 1 %. A test of size alone would call every long series different from a walk.
    """

    variance_ratios: tuple[float, ...]
    dickey_fuller: float

    @property
    def near(self) -> bool:
        """Near a random walk."""
        return self.dickey_fuller > CRITICAL and all(abs(r - 1) <= TOLERANCE for r in self.variance_ratios)


class WalkScan:
    """Sums of differences over 1, 2, 4, 8 and 16 rows, both ends of which hold a value.

    Example:
        >>> scan = WalkScan()
        >>> scan.add(np.random.default_rng(0).standard_normal(5_000).cumsum())
        >>> scan.test().near
        True
    """

    def __init__(self) -> None:
        self._before = np.full(LAGS[-1], np.nan)
        self._origin = np.nan
        self._steps = np.zeros((len(LAGS), 3))  # count, sum, sum of squares
        self._levels = np.zeros(3)  # sum, sum of squares, sum of products with the step

    def add(self, values: Floats) -> None:
        """The next rows, missing ones as NaN."""
        if np.isnan(self._origin):
            finite = values[np.isfinite(values)]
            if len(finite) == 0:
                return
            self._origin = float(finite[0])
        joined = np.concatenate([self._before, values])
        _add(joined, self._origin, self._steps, self._levels)
        self._before = joined[-LAGS[-1] :].copy()

    def test(self) -> WalkTest | None:
        """The test; None for a column that is short or does not move."""
        counts, sums, squares = self._steps.T
        if counts[-1] < MINIMUM:
            return None
        variances = squares / counts - (sums / counts) ** 2
        if variances[0] <= 1e-12 * (squares[0] / counts[0]) or variances[0] <= 0:
            return None
        ratios = tuple(float(v / (q * variances[0])) for q, v in zip(LAGS[1:], variances[1:], strict=True))
        # Regression of the step on the level: slope over its standard error.
        n = counts[0]
        level, level_squares, product = self._levels
        spread = level_squares - level**2 / n
        if spread <= 0:
            return None
        slope = (product - level * sums[0] / n) / spread
        residual = n * variances[0] - slope**2 * spread
        error = np.sqrt(max(residual, 0.0) / (n - 2) / spread)
        return WalkTest(ratios, float(slope / error) if error > 0 else float("-inf"))


@cached_njit(nogil=True)
def _add(joined: Floats, origin: float, steps: Floats, levels: Floats) -> None:
    reach = LAGS[-1]
    for i in range(len(LAGS)):
        lag = LAGS[i]
        count, total, squares = 0, 0.0, 0.0
        for t in range(reach, len(joined)):
            step = joined[t] - joined[t - lag]
            if np.isfinite(step):
                count += 1
                total += step
                squares += step * step
        steps[i, 0] += count
        steps[i, 1] += total
        steps[i, 2] += squares
    level_sum, level_squares, product = 0.0, 0.0, 0.0
    for t in range(reach, len(joined)):
        step = joined[t] - joined[t - 1]
        if np.isfinite(step):
            level = joined[t - 1] - origin
            level_sum += level
            level_squares += level * level
            product += level * step
    levels[0] += level_sum
    levels[1] += level_squares
    levels[2] += product

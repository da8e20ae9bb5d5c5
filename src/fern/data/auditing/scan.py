"""The statistics of a column from one pass over batches, in memory of fixed size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fern.caching import cached_njit
from fern.data.auditing.scan_runs import RunLengths, RunScan
from fern.data.auditing.scan_values import CommonValue, CommonValues, Outliers, QuantileScan

Floats = NDArray[np.float64]

STRETCHES = 512


@dataclass(frozen=True)
class Picture:
    """Mean, minimum and maximum of each stretch of ``rows`` rows; NaN where a stretch has no value."""

    rows: int
    mean: Floats  # (n,)
    low: Floats  # (n,)
    high: Floats  # (n,)


class PictureScan:
    """Up to 512 stretches of equal length; when they are full they merge in pairs.

    Example:
        >>> scan = PictureScan()
        >>> scan.add(np.arange(1024.0))
        >>> picture = scan.finish()
        >>> picture.rows, float(picture.mean[0])
        (2, 0.5)
    """

    def __init__(self) -> None:
        self._stretches = _empty(STRETCHES)
        self._rows_each = 1
        self._rows = 0

    def add(self, values: Floats) -> None:
        """The next rows, missing ones as NaN."""
        while self._rows + len(values) > STRETCHES * self._rows_each:
            pairs = self._stretches.reshape(-1, 2, 4)
            merged = _empty(STRETCHES)
            merged[: STRETCHES // 2, :2] = pairs[:, :, :2].sum(axis=1)
            merged[: STRETCHES // 2, 2] = pairs[:, :, 2].min(axis=1)
            merged[: STRETCHES // 2, 3] = pairs[:, :, 3].max(axis=1)
            self._stretches = merged
            self._rows_each *= 2
        _draw(values, self._rows, self._rows_each, self._stretches)
        self._rows += len(values)

    def finish(self) -> Picture:
        """The picture of the rows so far."""
        stretches = self._stretches[: -(-self._rows // self._rows_each)]
        empty = stretches[:, 0] == 0
        mean = np.divide(stretches[:, 1], stretches[:, 0], out=np.full(len(stretches), np.nan), where=~empty)
        low, high = (np.where(empty, np.nan, stretches[:, k]) for k in (2, 3))
        return Picture(self._rows_each, mean, low, high)


def _empty(stretches: int) -> Floats:
    return np.tile(np.array([0.0, 0.0, np.inf, -np.inf]), (stretches, 1))


@cached_njit(nogil=True)
def _draw(values: Floats, rows: int, rows_each: int, stretches: Floats) -> None:
    first = 0
    while first < len(values):
        place = (rows + first) // rows_each
        last = min(len(values), (place + 1) * rows_each - rows)
        count, total, low, high = 0, 0.0, np.inf, -np.inf
        for i in range(first, last):
            value = values[i]
            if np.isfinite(value):
                count += 1
                total += value
                low = min(low, value)
                high = max(high, value)
        stretches[place, 0] += count
        stretches[place, 1] += total
        stretches[place, 2] = min(stretches[place, 2], low)
        stretches[place, 3] = max(stretches[place, 3], high)
        first = last


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


OUTLIER_LIMIT = 5.0
_TOP = 5


@dataclass(frozen=True)
class ColumnStatistics:
    """What one pass finds out about a column; no judgement yet.

    ``codes``: missing-value codes that stand apart from the other values. ``common``: the commonest values other
    than zero; their counts are too low by at most ``slack`` (0 while a column has at most 24,576 different ones).
    ``stuck``: the values with the longest runs.
    """

    name: str
    rows: int
    infinite: int
    mean: float
    deviation: float
    low: float
    high: float
    values: RunLengths
    zeros: RunLengths
    missing: RunLengths
    codes: tuple[CommonValue, ...]
    common: tuple[CommonValue, ...]
    stuck: tuple[CommonValue, ...]
    slack: int
    distinct: int | None
    outliers: Outliers | None
    walk: WalkTest | None
    picture: Picture

    @property
    def finite(self) -> int:
        """Rows with a value."""
        return self.rows - self.missing.total


class ColumnScan:
    """Reads a column batch by batch.

    Example:
        >>> scan = ColumnScan("load")
        >>> scan.add(np.array([1.0, 0.0, 0.0, 2.0, np.nan]))
        >>> found = scan.finish()
        >>> found.zeros.total, found.zeros.isolated, found.missing.total, found.mean
        (2, 0, 1, 0.75)
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows = self._infinite = self._finite = 0
        self._origin, self._sum, self._squares = np.nan, 0.0, 0.0
        self._low, self._high = np.inf, -np.inf
        self._runs = RunScan()
        self._common = CommonValues()
        self._quantiles = QuantileScan()
        self._walk = WalkScan()
        self._picture = PictureScan()

    @np.errstate(all="ignore")  # sums of numbers near the largest that float64 has overflow
    def add(self, values: Floats) -> None:
        """The next rows, missing ones as NaN."""
        self._rows += len(values)
        self._common.add(*self._runs.add(values))
        self._walk.add(values)
        self._picture.add(values)
        is_finite = np.isfinite(values)
        if not is_finite.all():
            self._infinite += int(np.isinf(values).sum())
            values = values[is_finite]
        if len(values):
            self._quantiles.add(values)
            if self._finite == 0:
                self._origin = float(values[0])
            offsets = values - self._origin
            self._finite += len(values)
            self._sum += float(offsets.sum())
            self._squares += float(np.square(offsets, out=offsets).sum())  # not dot: BLAS would start its threads
            self._low = min(self._low, float(values.min()))
            self._high = max(self._high, float(values.max()))

    def finish(self, *, outlier_limit: float = OUTLIER_LIMIT) -> ColumnStatistics:
        """The statistics of all rows so far; the scan is at its end."""
        self._common.add(*self._runs.close())
        values, zeros, missing = self._runs.finish()
        has_values = self._finite > 0
        mean = self._sum / self._finite if has_values else np.nan
        variance = self._squares / self._finite - mean * mean if has_values else np.nan
        return ColumnStatistics(
            name=self._name,
            rows=self._rows,
            infinite=self._infinite,
            mean=float(self._origin + mean),
            deviation=float(np.sqrt(max(variance, 0.0))) if has_values else float("nan"),
            low=self._low if has_values else float("nan"),
            high=self._high if has_values else float("nan"),
            values=values,
            zeros=zeros,
            missing=missing,
            codes=tuple(CommonValue(*statistics) for statistics in self._runs.codes()),
            common=tuple(statistics for statistics in self._common.top(_TOP) if statistics.count > 1),
            stuck=tuple(statistics for statistics in self._common.longest(_TOP) if statistics.longest_run > 1),
            slack=self._common.slack,
            distinct=self._common.distinct(),
            outliers=self._quantiles.outliers(outlier_limit) if has_values else None,
            walk=self._walk.test(),
            picture=self._picture.finish(),
        )

"""Everything that is known of a column after one pass."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fern.data.auditing.scan.common import CommonValue, CommonValues
from fern.data.auditing.scan.picture import Picture, PictureScan
from fern.data.auditing.scan.quantiles import Outliers, QuantileScan
from fern.data.auditing.scan.runs import RunLengths, RunScan
from fern.data.auditing.scan.walk import WalkScan, WalkTest

Floats = NDArray[np.float64]

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

    def add(self, values: Floats) -> None:
        """The next rows, missing ones as NaN."""
        with np.errstate(all="ignore"):  # sums of numbers near the largest that float64 has overflow
            self._add(values)

    def _add(self, values: Floats) -> None:
        self._rows += len(values)
        self._common.add(*self._runs.add(values))
        self._walk.add(values)
        self._picture.add(values)
        there = np.isfinite(values)
        if not there.all():
            self._infinite += int(np.isinf(values).sum())
            values = values[there]
        if len(values):
            self._quantiles.add(values)
            self._add_moments(values)

    def finish(self, *, outlier_limit: float = OUTLIER_LIMIT) -> ColumnStatistics:
        """The statistics of all rows so far; the scan is at its end."""
        self._common.add(*self._runs.close())
        values, zeros, missing = self._runs.finish()
        some = self._finite > 0
        mean = self._sum / self._finite if some else np.nan
        variance = self._squares / self._finite - mean**2 if some else np.nan
        return ColumnStatistics(
            name=self._name,
            rows=self._rows,
            infinite=self._infinite,
            mean=float(self._origin + mean),
            deviation=float(np.sqrt(max(variance, 0.0))) if some else float("nan"),
            low=self._low if some else float("nan"),
            high=self._high if some else float("nan"),
            values=values,
            zeros=zeros,
            missing=missing,
            codes=tuple(CommonValue(*found) for found in self._runs.codes()),
            common=tuple(found for found in self._common.top(_TOP) if found.count > 1),
            stuck=tuple(found for found in self._common.longest(_TOP) if found.longest_run > 1),
            slack=self._common.slack,
            distinct=self._common.distinct(),
            outliers=self._quantiles.outliers(outlier_limit) if some else None,
            walk=self._walk.test(),
            picture=self._picture.finish(),
        )

    def _add_moments(self, values: Floats) -> None:
        if self._finite == 0:
            self._origin = float(values[0])
        offsets = values - self._origin
        self._finite += len(values)
        self._sum += float(offsets.sum())
        self._squares += float(np.square(offsets, out=offsets).sum())  # not dot: BLAS would start its threads
        self._low = min(self._low, float(values.min()))
        self._high = max(self._high, float(values.max()))

"""Coverage window by window: how it goes along time, and where outcomes fall in the forecast's own probabilities."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from fern.calibration.forecast import CalibratedForecast
from fern.calibration.report import CoverageRow, error_bar
from fern.errors import FernError
from fern.metrics.arrays import WINDOWS, Array, to_tensor

Values = NDArray[np.float64]

BINS = 20
"""Equally probable stretches of a forecast that outcomes are counted in."""

STRETCHES, LEAST_SIZE = 8, 5.0
"""A rolling mean takes an eighth of the windows, and more where those are worth less than five independent ones."""


@dataclass(frozen=True, eq=False)
class Rolling:
    """The coverage of so many windows up to each origin; ``error_bar`` is what chance alone may add to the level."""

    origins: NDArray[np.int64]  # (n,)
    coverage: Values  # (n,)
    windows: int
    n_eff: float
    error_bar: float


@dataclass(frozen=True, eq=False)
class CoverageCourse:
    """The share of each window's outcomes inside the interval of a level, in the order of origins.

    ``pit``  the share of all outcomes in each of 20 equally probable stretches of the forecast: 1/20 each where the
             margins are right, U-shaped where they are too narrow.
    """

    level: float
    origins: NDArray[np.int64]  # (N,)
    inside: Values  # (N,)
    pit: Values  # (BINS,)
    n_eff: float
    n_eff_calibration: float

    def rolling(self, windows: int | None = None) -> Rolling:
        """The mean over so many windows in a row; unless given an eighth of all, or as many as say something.

        Example:
            >>> inside = np.repeat([1.0, 0.5], 40)
            >>> course = CoverageCourse(90.0, np.arange(80), inside, np.full(20, 0.05), 80.0, 80.0)
            >>> found = course.rolling(20)
            >>> len(found.coverage), float(found.coverage[0]), float(found.coverage[-1])
            (61, 1.0, 0.5)
        """
        total = len(self.inside)
        if windows is None:
            windows = min(total, max(ceil(total / STRETCHES), ceil(total * LEAST_SIZE / max(self.n_eff, LEAST_SIZE))))
        if not 1 <= windows <= total:
            raise FernError(f"windows: got {windows}, needs 1 to {total}, of which there are errors")
        sums = np.concatenate(([0.0], np.cumsum(self.inside)))
        n_eff = max(1.0, self.n_eff * windows / total)
        bar = error_bar(self.level, n_eff, self.n_eff_calibration)
        return Rolling(self.origins[windows - 1 :], (sums[windows:] - sums[:-windows]) / windows, windows, n_eff, bar)


def coverage_course(
    forecast: CalibratedForecast,
    y: Array,  # (N, H, C)
    *,
    origins: Iterable[int],  # (N,)
    row: CoverageRow,
) -> CoverageCourse:
    """How the coverage of one row of `coverage_report` came about, of the same forecast and outcomes.

    The row is one of margins; its n_eff are taken over.

    Example:
        >>> import torch
        >>> from fern.calibration import Residuals, coverage_report, fit_calibration
        >>> from fern.transport import Ellipsoid
        >>> law = Ellipsoid(torch.ones(300, 1, 1, 4), torch.zeros(300, 1, 1, 4), torch.zeros(300, 1, 1, 0, 4))
        >>> y = torch.randn(300, 4, 1, generator=torch.Generator().manual_seed(0))
        >>> rows = range(0, 1200, 4)
        >>> forecast = fit_calibration(Residuals.of(law, y, origins=rows)).apply(law)
        >>> row = coverage_report(forecast, y, origins=rows, paths=0).row("margin", 90.0)
        >>> course = coverage_course(forecast, y, origins=rows, row=row)
        >>> abs(float(course.inside.mean()) - row.coverage) < 1e-12, round(float(course.pit.sum()), 6)
        (True, 1.0)
    """
    if row.kind != "margin":
        raise FernError(f"row: got one of {row.kind!r}, needs one of 'margin'")
    values = to_tensor("y", y, WINDOWS).detach().cpu().double().numpy()
    when = np.asarray(list(origins), dtype=np.int64)
    if len(when) != len(values):
        raise FernError(f"origins: got {len(when)}, needs one for each of the {len(values)} windows")
    low, high = forecast.interval(row.level)
    inside = ((low <= values) & (values <= high)).mean(axis=(1, 2))
    place = np.zeros(values.shape, np.int64)
    for share in np.arange(1, BINS) / BINS:
        place += values > forecast.quantile(float(share))
    shares = np.bincount(place.reshape(-1), minlength=BINS) / place.size
    order = np.argsort(when, kind="stable")
    return CoverageCourse(row.level, when[order], inside[order], shares, row.n_eff, row.n_eff_calibration)

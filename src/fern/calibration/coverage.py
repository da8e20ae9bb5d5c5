"""Coverage of a calibrated forecast on later windows: with error bars, over time, and the PIT."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
import torch
from numpy.typing import NDArray

from fern.calibration.forecast import CalibratedForecast
from fern.calibration.radii import KINDS, Kind, measure_pooled_sizes
from fern.calibration.residuals import Residuals
from fern.errors import FernError, require_level
from fern.metrics import crps, energy_score
from fern.metrics.point import WINDOWS, Array, to_tensor

Values = NDArray[np.float64]

QUANTILES = 100
"""The CRPS of calibrated margins is taken over so many quantiles, at the middles of equal shares."""


@dataclass(frozen=True)
class CoverageRow:
    """The share of outcomes inside one kind of region at one level, beside what it should be.

    ``error_bar`` is that of `error_bar`: as long as the series stays as it was, the coverage lies within it of the
    level 19 times in 20. ``n_eff`` is of the windows looked at here, ``n_eff_calibration`` of those that the radii came
    from. ``width`` is the mean width of intervals and bands, the mean geometric half-axis of patches' and regions'
    ellipsoids.
    """

    kind: Kind
    level: float
    coverage: float
    error_bar: float
    n: int
    n_eff: float
    n_eff_calibration: float
    width: float
    calibrated: bool


@dataclass(frozen=True)
class CoverageReport:
    """Coverage at each level, and proper scores (less is better) of the distribution as it came and as calibrated."""

    rows: tuple[CoverageRow, ...]
    crps_before: float
    crps_after: float
    energy_before: float | None
    energy_after: float | None

    def row(self, kind: Kind, level: float) -> CoverageRow:
        """The row of a kind and level."""
        for row in self.rows:
            if row.kind == kind and row.level == level:
                return row
        problem = f"no row for {kind!r} at {level}; there are {[(r.kind, r.level) for r in self.rows]}"
        raise FernError(problem, argument="kind, level")


def error_bar(level: float, n_eff: float, n_eff_calibration: float) -> float:
    """1.96 √(s(1 − s)(1/n_eff + 1/n_eff_calibration)), s = level/100: how far chance may take coverage from the level.

    Two shares vary: that of the windows looked at that lie inside, and that of all windows that radii from the
    calibration windows would hold. Radii that no window stands behind have the first alone.
    """
    share = level / 100
    behind = 1 / n_eff_calibration if n_eff_calibration else 0.0
    return 1.96 * sqrt(share * (1 - share) * (1 / n_eff + behind))


def coverage_report(
    forecast: CalibratedForecast,
    y: Array,  # (N, H, C)
    *,
    origins: Iterable[int],  # (N,)
    series: Sequence[int] | Sequence[str] | None = None,
    levels: Sequence[float] = (50.0, 80.0, 90.0, 95.0),
    paths: int = 100,
    seed: int = 0,
) -> CoverageReport:
    """Compare the forecast with what came.

    ``origins`` and ``series`` as in `Residuals.of`: they tell how many independent windows the N are worth.
    ``paths`` of each window enter the energy score (0 leaves it out); they take paths · N · H · C numbers, so go
    through many windows in parts.

    Example:
        >>> import torch
        >>> from fern.calibration import fit_calibration
        >>> from fern.transport import Ellipsoid
        >>> distribution = Ellipsoid(torch.ones(300, 1, 1, 4), torch.zeros(300, 1, 1, 4), torch.zeros(300, 1, 1, 0, 4))
        >>> y = torch.randn(300, 4, 1, generator=torch.Generator().manual_seed(0))
        >>> rows = range(0, 1200, 4)
        >>> calibration = fit_calibration(Residuals.of(distribution, y, origins=rows))
        >>> report = coverage_report(calibration.apply(distribution), y, origins=rows, paths=10)
        >>> row = report.row("margin", 90.0)
        >>> abs(row.coverage - 0.9) < row.error_bar, report.crps_after < report.crps_before
        (True, True)
    """
    truth = to_tensor("y", y, WINDOWS).detach().cpu().double()
    values = truth.numpy()
    percents = [require_level(level) for level in levels]
    residuals = Residuals.of(forecast.distribution, truth, origins=origins, series=series)
    sizes = measure_pooled_sizes(residuals, forecast.calibration.shape)
    behind = forecast.calibration.pooled_n_eff
    rows = []
    for kind in KINDS:
        for level in percents:
            inside, width = _inside(forecast, kind, level, values)
            share, n_eff = float(inside.mean()), sizes[kind]
            bar = error_bar(level, n_eff, behind[kind])
            calibrated = forecast.calibrated(level)[kind]
            rows.append(CoverageRow(kind, level, share, bar, inside.size, n_eff, behind[kind], width, calibrated))
    middles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    after = crps(forecast.quantile(middles), values, estimator="nrg")
    energy_before = energy_after = None
    if paths:
        like = forecast.distribution.mean
        generator = torch.Generator(device=like.device).manual_seed(seed)
        energy_before = float(energy_score(forecast.distribution, truth.to(like), samples=paths, generator=generator))
        energy_after = float(energy_score(forecast.sample(paths, seed=seed), values))
    before = float(crps(forecast.distribution, truth.to(forecast.distribution.mean)))
    return CoverageReport(tuple(rows), before, float(after), energy_before, energy_after)


def _inside(forecast: CalibratedForecast, kind: Kind, level: float, values: Values) -> tuple[NDArray[np.bool_], float]:
    if kind in ("margin", "band"):
        low, high = forecast.interval(level) if kind == "margin" else forecast.band(level)
        inside = (low <= values) & (values <= high)
        covered = inside if kind == "margin" else np.asarray(inside.all(axis=1))
        return covered, float((high - low).mean())
    region = forecast.region(level)
    contained = region.patches_contain(values) if kind == "patch" else region.contains(values)
    return contained, float(region.half_axes(joint=kind == "region").mean())


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
class CoverageByOrigin:
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
            >>> by_origin = CoverageByOrigin(90.0, np.arange(80), inside, np.full(20, 0.05), 80.0, 80.0)
            >>> rolling = by_origin.rolling(20)
            >>> len(rolling.coverage), float(rolling.coverage[0]), float(rolling.coverage[-1])
            (61, 1.0, 0.5)
        """
        total = len(self.inside)
        if windows is None:
            windows = min(total, max(ceil(total / STRETCHES), ceil(total * LEAST_SIZE / max(self.n_eff, LEAST_SIZE))))
        if not 1 <= windows <= total:
            raise FernError(argument="windows", got=windows, expected=f"1 to {total}, of which there are errors")
        sums = np.concatenate(([0.0], np.cumsum(self.inside)))
        n_eff = max(1.0, self.n_eff * windows / total)
        bar = error_bar(self.level, n_eff, self.n_eff_calibration)
        return Rolling(self.origins[windows - 1 :], (sums[windows:] - sums[:-windows]) / windows, windows, n_eff, bar)


def coverage_by_origin(
    forecast: CalibratedForecast,
    y: Array,  # (N, H, C)
    *,
    origins: Iterable[int],  # (N,)
    row: CoverageRow,
) -> CoverageByOrigin:
    """How the coverage of one row of `coverage_report` came about, of the same forecast and outcomes.

    The row is one of margins; its n_eff are taken over.
    """
    if row.kind != "margin":
        raise FernError(f"got one of {row.kind!r}", argument="row", expected="one of 'margin'")
    values = to_tensor("y", y, WINDOWS).detach().cpu().double().numpy()
    starts = np.asarray(list(origins), dtype=np.int64)
    if len(starts) != len(values):
        raise FernError(f"got {len(starts)}", argument="origins", expected=f"one for each of the {len(values)} windows")
    low, high = forecast.interval(row.level)
    inside = ((low <= values) & (values <= high)).mean(axis=(1, 2))
    place = np.zeros(values.shape, np.int64)
    for share in np.arange(1, BINS) / BINS:
        place += values > forecast.quantile(float(share))
    shares = np.bincount(place.reshape(-1), minlength=BINS) / place.size
    order = np.argsort(starts, kind="stable")
    return CoverageByOrigin(row.level, starts[order], inside[order], shares, row.n_eff, row.n_eff_calibration)

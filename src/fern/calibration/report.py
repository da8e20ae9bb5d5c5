"""How a calibrated forecast did on windows that came later: coverage with error bars, width, scores."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray

from fern.calibration.forecast import CalibratedForecast
from fern.calibration.quantiles import require_level
from fern.calibration.radii import KINDS, Kind, pooled_sizes
from fern.calibration.residuals import Residuals
from fern.errors import FernError
from fern.metrics import crps, energy_score
from fern.metrics.arrays import WINDOWS, Array, to_tensor

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
    """Coverage at each level, and proper scores of the law as it came and as calibrated (smaller is better)."""

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
        raise FernError(
            f"kind, level: no row for {kind!r} at {level}; there are {[(r.kind, r.level) for r in self.rows]}"
        )


def error_bar(level: float, n_eff: float, n_eff_calibration: float) -> float:
    """1.96 √(s(1 − s)(1/n_eff + 1/n_eff_calibration)), s = level/100: how far chance may take coverage from the level.

    Two shares vary: that of the windows looked at that lie inside, and that of all windows that radii from the
    calibration windows would hold. Radii that no window stands behind have the first alone.

    Example: with 100 effective windows on either side a right 90 % region shows 81.7 to 98.3 %.
        >>> round(error_bar(90, 100, 100), 3)
        0.083
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
        >>> law = Ellipsoid(torch.ones(300, 1, 1, 4), torch.zeros(300, 1, 1, 4), torch.zeros(300, 1, 1, 0, 4))
        >>> y = torch.randn(300, 4, 1, generator=torch.Generator().manual_seed(0))
        >>> rows = range(0, 1200, 4)
        >>> calibration = fit_calibration(Residuals.of(law, y, origins=rows))
        >>> report = coverage_report(calibration.apply(law), y, origins=rows, paths=10)
        >>> row = report.row("margin", 90.0)
        >>> abs(row.coverage - 0.9) < row.error_bar, report.crps_after < report.crps_before
        (True, True)
    """
    truth = to_tensor("y", y, WINDOWS).detach().cpu().double()
    values = truth.numpy()
    asked = [require_level(level) for level in levels]
    residuals = Residuals.of(forecast.law, truth, origins=origins, series=series)
    sizes = pooled_sizes(residuals, forecast.calibration.shape, weights=np.ones(len(residuals)))
    behind = forecast.calibration.pooled_n_eff
    rows = []
    for kind in KINDS:
        for level in asked:
            inside, width = _inside(forecast, kind, level, values)
            share, n_eff = float(inside.mean()), sizes[kind]
            bar = error_bar(level, n_eff, behind[kind])
            calibrated = forecast.calibrated(level)[kind]
            rows.append(CoverageRow(kind, level, share, bar, inside.size, n_eff, behind[kind], width, calibrated))
    middles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    after = crps(forecast.quantile(middles), values, estimator="nrg")
    energy_before = energy_after = None
    if paths:
        drawn = torch.Generator(device=forecast.law.mean.device).manual_seed(seed)
        like = forecast.law.mean
        energy_before = float(energy_score(forecast.law, truth.to(like), samples=paths, generator=drawn))
        energy_after = float(energy_score(forecast.sample(paths, seed=seed), values))
    before = float(crps(forecast.law, truth.to(forecast.law.mean)))
    return CoverageReport(tuple(rows), before, float(after), energy_before, energy_after)


def _inside(forecast: CalibratedForecast, kind: Kind, level: float, values: Values) -> tuple[NDArray[np.bool_], float]:
    if kind in ("margin", "band"):
        low, high = forecast.interval(level) if kind == "margin" else forecast.band(level)
        inside = (low <= values) & (values <= high)
        held = inside if kind == "margin" else np.asarray(inside.all(axis=1))
        return held, float((high - low).mean())
    region = forecast.region(level)
    contained = region.patches_contain(values) if kind == "patch" else region.contains(values)
    return contained, float(region.half_axes(joint=kind == "region").mean())

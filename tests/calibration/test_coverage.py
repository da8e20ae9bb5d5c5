"""Coverage over many simulated series, and its report."""

import numpy as np
import pytest
from tests.calibration.processes import ar_covariance, ar_series, gaussian_distribution, windows_of

from fern.calibration import Residuals, coverage_report, fit_calibration
from fern.calibration.radii import KINDS
from fern.errors import FernError

PHI, HORIZON, PATCH, STRIDE = 0.8, 12, 6, 3
LEVELS = (50.0, 80.0, 90.0, 95.0)


def one_series(seed: int, *, correlated: bool, rows: int = 1500, tests: int = 150):
    """A calibration on one series, and the forecasts and truth of independent windows of the same process.

    Without ``correlated`` the distributions have one variance for all steps and no correlations: the shape must be
    found.
    """
    rng = np.random.default_rng(seed)
    covariance = ar_covariance(PHI, HORIZON)
    if not correlated:
        covariance = np.eye(HORIZON) * np.diag(covariance).mean() / 4
    series = ar_series(rng, PHI, 2 * rows + HORIZON)
    parts = []
    for first in (1, rows + HORIZON):
        origins = np.arange(first, first + rows - 2 * HORIZON, STRIDE)
        y, mean = windows_of(series, PHI, origins, HORIZON)
        parts.append(Residuals.of(gaussian_distribution(mean, covariance, patch_size=PATCH), y, origins=origins))
    far = ar_series(rng, PHI, tests * 2 * HORIZON + HORIZON + 1)
    origins = np.arange(1, tests * 2 * HORIZON, 2 * HORIZON)
    y, mean = windows_of(far, PHI, origins, HORIZON)
    forecast = fit_calibration(parts[1], parts[0]).apply(gaussian_distribution(mean, covariance, patch_size=PATCH))
    return forecast, y, origins


@pytest.mark.parametrize("correlated", [pytest.param(True, marks=pytest.mark.slow), False])
def test_mean_coverage_over_many_series_is_nominal(correlated: bool) -> None:
    # 40 series: the standard error of the mean coverage is at most 0.01.
    covered: dict[tuple[str, float], list[float]] = {(kind, level): [] for kind in KINDS for level in LEVELS}
    for seed in range(40):
        forecast, y, _ = one_series(seed, correlated=correlated)
        for level in LEVELS:
            region = forecast.region(level)
            low, high = forecast.interval(level)
            under, over = forecast.band(level)
            covered["margin", level].append(((low <= y) & (y <= high)).mean())
            covered["band", level].append(((under <= y) & (y <= over)).all(axis=1).mean())
            covered["patch", level].append(region.patches_contain(y).mean())
            covered["region", level].append(region.contains(y).mean())
    for (kind, level), shares in covered.items():
        assert np.mean(shares) == pytest.approx(level / 100, abs=0.02), (kind, level)


def test_a_panel_of_exchangeable_series_covers_at_least_its_level() -> None:
    """One window of each of 19 series: the 90 % quantile is the 18th of 19 scores, which covers 18/20."""
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(100):
        noise = rng.standard_t(3, size=(40, 1, 1))
        distribution = gaussian_distribution(np.zeros((19, 1, 1)), np.eye(1), patch_size=1)
        residuals = Residuals.of(distribution, noise[:19], origins=[0] * 19, series=list(range(19)))
        low, high = (
            fit_calibration(residuals, residuals.none(channels=1, horizon=1, patch_size=1))
            .apply(gaussian_distribution(np.zeros((21, 1, 1)), np.eye(1), patch_size=1))
            .interval(90)
        )
        inside.append(((low <= noise[19:]) & (noise[19:] <= high)).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.02)


def test_the_report_agrees_with_the_regions_and_prints_its_error_bar() -> None:
    forecast, y, origins = one_series(3, correlated=False)
    report = coverage_report(forecast, y, origins=origins, levels=LEVELS, paths=50)
    assert len(report.rows) == 16
    for row in report.rows:
        assert 0 < row.n_eff <= row.n and row.width > 0 and row.calibrated
        assert abs(row.coverage - row.level / 100) < 2 * row.error_bar + 0.05
        assert row.n_eff_calibration == forecast.calibration.pooled_n_eff[row.kind]
        share, both = row.level / 100, 1 / row.n_eff + 1 / row.n_eff_calibration
        assert row.error_bar == pytest.approx(1.96 * (share * (1 - share) * both) ** 0.5)
    low, high = forecast.interval(90)
    row = report.row("margin", 90)
    assert row.coverage == ((low <= y) & (y <= high)).mean() and row.width == pytest.approx((high - low).mean())
    assert report.crps_after < report.crps_before
    assert report.energy_after is not None and report.energy_before is not None
    assert report.energy_after < report.energy_before
    widths = [report.row("region", level).width for level in LEVELS]
    assert widths == sorted(widths)
    with pytest.raises(FernError, match="no row for"):
        report.row("margin", 33)


def test_on_one_series_the_level_lies_within_the_error_bar_19_times_in_20() -> None:
    """Shape, radii and coverage from three parts of one series after each other, in overlapping windows."""
    rows, covariance = 900, ar_covariance(PHI, HORIZON)
    within = []
    for seed in range(40):
        series = ar_series(np.random.default_rng(seed), PHI, 3 * rows + 1)
        parts = []
        for first in (1, rows, 2 * rows):
            origins = np.arange(first, first + rows - HORIZON, STRIDE)
            y, mean = windows_of(series, PHI, origins, HORIZON)
            parts.append((gaussian_distribution(mean, covariance, patch_size=PATCH), y, origins))
        early, late = (Residuals.of(distribution, y, origins=origins) for distribution, y, origins in parts[:2])
        distribution, y, origins = parts[2]
        report = coverage_report(
            fit_calibration(late, early).apply(distribution), y, origins=origins, levels=(80, 95), paths=0
        )
        within.append([abs(row.coverage - row.level / 100) <= row.error_bar for row in report.rows])
    # The standard error of this share is about 0.02; with the bar of the windows looked at alone it was 0.83.
    assert np.mean(within) == pytest.approx(0.95, abs=0.04)


def test_a_report_without_paths_has_no_energy_score() -> None:
    forecast, y, origins = one_series(4, correlated=True, rows=400, tests=20)
    assert coverage_report(forecast, y, origins=origins, paths=0).energy_after is None

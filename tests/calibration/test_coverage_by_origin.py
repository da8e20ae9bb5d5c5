"""Coverage window by window agrees with the report, rolls, and its PIT is flat where the distribution is right."""

import numpy as np
import pytest
import torch
from tests.errors import raises_error

from fern.calibration import Residuals, coverage_report, fit_calibration
from fern.calibration.coverage import coverage_by_origin
from fern.errors import FernError
from fern.transport import Ellipsoid


def judged(spread=1.0, windows=400):
    """Gaussian windows: radii from the first half, the second half judged, its outcomes ``spread`` times as wide."""
    y = torch.randn(windows, 6, 2, generator=torch.Generator().manual_seed(0))
    half, rows = windows // 2, range(0, 6 * windows, 6)
    size = (half, 2, 1, 6)
    distribution = Ellipsoid(torch.ones(size), torch.zeros(size), torch.zeros(half, 2, 1, 0, 6), base_variance=1.0)
    calibration = fit_calibration(Residuals.of(distribution, y[:half], origins=rows[:half]))
    return calibration.apply(distribution), spread * y[half:], rows[half:]


def course(**changes):
    forecast, y, rows = judged(**changes)
    row = coverage_report(forecast, y, origins=rows, paths=0).row("margin", 90.0)
    return coverage_by_origin(forecast, y, origins=rows, row=row), row


def test_the_mean_over_windows_is_the_coverage_of_the_report():
    found, row = course()
    assert found.inside.mean() == pytest.approx(row.coverage)
    assert (found.level, found.n_eff) == (90.0, row.n_eff)


def test_the_pit_is_flat_where_the_distribution_is_right_and_hollow_where_it_is_too_narrow():
    flat, narrow = course()[0].pit, course(spread=2.0)[0].pit
    assert flat.sum() == pytest.approx(1.0)
    assert np.abs(flat - 0.05).max() < 0.025
    assert narrow[[0, -1]].min() > 2 * narrow[8:12].max()


def test_rolling_means_are_those_of_neighbours_in_time():
    forecast, y, rows = judged()
    row = coverage_report(forecast, y, origins=rows, paths=0).row("margin", 90.0)
    order = np.random.default_rng(0).permutation(len(rows))
    plain = coverage_by_origin(forecast, y, origins=rows, row=row)
    mixed = coverage_by_origin(
        forecast, y[order], origins=np.asarray(rows)[order].tolist(), row=row
    )  # one distribution for all
    found = mixed.rolling(10)
    assert np.allclose(found.coverage, plain.rolling(10).coverage)
    assert found.coverage[3] == pytest.approx(plain.inside[3:13].mean())
    assert found.origins[0] == rows[9]
    assert found.n_eff == pytest.approx(row.n_eff / 20)


def test_fewer_windows_have_wider_bars():
    found = course()[0]
    assert found.rolling(10).error_bar > found.rolling(100).error_bar
    assert found.rolling().n_eff >= 5


@pytest.mark.parametrize("windows", [0, 201])
def test_more_windows_than_there_are_is_refused(windows):
    with raises_error("windows"):
        course()[0].rolling(windows)


def test_a_row_of_another_kind_or_other_origins_are_refused():
    forecast, y, rows = judged(windows=80)
    report = coverage_report(forecast, y, origins=rows, paths=0)
    with pytest.raises(FernError, match="needs one of 'margin'"):
        coverage_by_origin(forecast, y, origins=rows, row=report.row("band", 90.0))
    with raises_error("origins"):
        coverage_by_origin(forecast, y, origins=[0], row=report.row("margin", 90.0))

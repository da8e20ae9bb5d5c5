"""Calibrated forecasts: regions nest, move with the series, agree with paths and sums."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.calibration.processes import BASE, gaussian_distribution, tilted_distribution

from fern.calibration import CalibratedForecast, Residuals, fit_calibration
from fern.errors import FernError
from fern.metrics import energy_score
from fern.transport import Ellipsoid


def forecast(
    *, n: int = 120, scale: float = 1.0, shift: float = 0.0, skewed: bool = False, seed: int = 0
) -> tuple[CalibratedForecast, np.ndarray]:
    """A calibrated forecast of 30 windows, and their truth, of a series times ``scale`` plus ``shift``."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(10, 10))
    covariance = (mixed @ mixed.T / 10 + np.eye(10)) * scale**2
    mean = scale * rng.normal(size=(n + 30, 2, 10)) + shift
    noise = rng.exponential(size=mean.shape) - 1 if skewed else rng.normal(size=mean.shape)
    y = mean + noise @ np.linalg.cholesky(covariance).T
    distribution, new = (gaussian_distribution(part, covariance, patch_size=4) for part in (mean[:n], mean[n:]))
    residuals = Residuals.of(distribution, y[:n].swapaxes(1, 2), origins=range(0, 10 * n, 10))
    return fit_calibration(residuals).apply(new), y[n:].swapaxes(1, 2)


LOPSIDED = forecast(skewed=True)


@given(st.floats(0.01, 99.99), st.floats(0.01, 99.99))
def test_regions_nest_in_the_level(one: float, other: float) -> None:
    found, y = LOPSIDED
    less, more = sorted((one, other))
    for inner, outer in (
        (found.interval(less), found.interval(more)),
        (found.band(less), found.band(more)),
    ):
        assert (outer[0] <= inner[0]).all() and (inner[0] <= inner[1]).all() and (inner[1] <= outer[1]).all()
    small, large = found.region(less), found.region(more)
    assert (large.contains(y) | ~small.contains(y)).all()
    assert (large.patches_contain(y) | ~small.patches_contain(y)).all()
    sums = [found.functional(np.ones(10), level) for level in (less, more)]
    assert (sums[1].low <= sums[0].low).all() and (sums[0].high <= sums[1].high).all()


@settings(max_examples=10)  # each calibrates twice
@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_everything_moves_with_the_series(scale: float, shift: float) -> None:
    (plain, y), (moved, moved_y) = forecast(n=40), forecast(n=40, scale=scale, shift=shift)

    def near(got: np.ndarray, wanted: np.ndarray) -> None:
        np.testing.assert_allclose((got - shift) / scale, wanted, atol=1e-6 * max(1.0, abs(shift) / scale))

    near(moved_y, y)
    for ends in ("interval", "band"):
        for got, wanted in zip(getattr(moved, ends)(80), getattr(plain, ends)(80), strict=True):
            near(got, wanted)
    near(moved.sample(5, seed=3), plain.sample(5, seed=3))
    near(moved.quantile(0.3), plain.quantile(0.3))
    np.testing.assert_array_equal(moved.region(80).contains(moved_y), plain.region(80).contains(y))
    np.testing.assert_allclose(moved.region(80).half_axes() / scale, plain.region(80).half_axes(), rtol=1e-6)
    sums, plain_sums = moved.functional(np.ones(10), 80), plain.functional(np.ones(10), 80)
    np.testing.assert_allclose(
        (sums.high - 10 * shift) / scale, plain_sums.high, atol=1e-5 * max(1.0, abs(shift) / scale)
    )


def test_quantiles_are_the_ends_of_intervals_and_do_not_cross() -> None:
    found, _ = LOPSIDED
    quantiles = found.quantile([0.01, 0.05, 0.3, 0.5, 0.7, 0.95, 0.99])
    assert (np.diff(quantiles, axis=0) >= 0).all()
    np.testing.assert_array_equal([quantiles[1], quantiles[5]], found.interval(90))


def test_paths_lie_in_regions_as_often_as_calibration_windows() -> None:
    found, _ = forecast(n=400)
    paths = found.sample(200)
    for level in (50, 90):
        region = found.region(level)
        joint = np.mean([region.contains(path) for path in paths])
        each = np.mean([region.patches_contain(path) for path in paths])
        assert joint == pytest.approx(level / 100, abs=0.02)
        assert each == pytest.approx(level / 100, abs=0.02)
        low, high = found.interval(level)
        assert ((low <= paths) & (paths <= high)).mean() == pytest.approx(level / 100, abs=0.03)


def test_paths_of_few_windows_have_the_width_of_their_intervals() -> None:
    found, _ = forecast(n=2)
    assert not found.calibrated(80)["margin"]
    paths, (low, high) = found.sample(400), found.interval(80)
    assert len(np.unique(paths[:, 0, 0, 0])) == 400
    assert ((low <= paths) & (paths <= high)).mean() == pytest.approx(0.8, abs=0.08)


def test_errors_of_a_path_go_together_across_patches() -> None:
    """Errors all of one sign along the horizon, under a distribution whose patches are independent."""
    rng = np.random.default_rng(0)
    mean = np.zeros((400, 1, 8))
    distribution = gaussian_distribution(mean, np.eye(8), patch_size=4)
    y = (rng.normal(size=(400, 1, 1)) + 0.1 * rng.normal(size=mean.shape)).swapaxes(1, 2)
    found = fit_calibration(Residuals.of(distribution, y, origins=range(0, 3200, 8))).apply(
        gaussian_distribution(mean[:2], np.eye(8), patch_size=4)
    )
    paths = found.sample(500)
    assert np.corrcoef(paths[:, 0, 0, 0], paths[:, 0, 7, 0])[0, 1] > 0.8
    total = found.functional(np.ones(8), 90)
    assert total.calibrated and total.high[0, 0] == pytest.approx(1.645 * 8, rel=0.15)  # independent: 1.645 √8


def test_axes_that_a_distribution_has_wrong_do_not_widen_paths_and_sums() -> None:
    """Errors of unit size in all directions; each window's distribution denies them one direction, each another."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(500, 24, 1))
    distributions = [tilted_distribution(rng, np.zeros((n, 1, 24)), least=1e-3) for n in (400, 100)]
    residuals = Residuals.of(distributions[0], y[:400], origins=range(400), series=np.arange(400))
    found = fit_calibration(residuals).apply(distributions[1])
    paths, truth = found.sample(100), y[400:]
    before = float(energy_score(distributions[1], torch.from_numpy(truth), generator=torch.Generator().manual_seed(0)))
    assert float(energy_score(paths, truth)) < 1.02 * before
    for level in (50, 90):
        for low, high, joint in ((*found.interval(level), False), (*found.band(level), True)):
            inside = (low <= paths) & (paths <= high)
            assert (inside.all(axis=2) if joint else inside).mean() == pytest.approx(level / 100, abs=0.03)
    total = found.functional(np.ones(24), 80)
    covered = (total.low <= truth.sum(axis=1)) & (truth.sum(axis=1) <= total.high)
    assert covered.mean() == pytest.approx(0.8, abs=0.1)
    ends = np.quantile(paths.sum(axis=2), [0.1, 0.9], axis=0)
    assert (ends[1] - ends[0]).mean() == pytest.approx((total.high - total.low).mean(), rel=0.1)


def test_sums_cover_and_sum_what_they_say() -> None:
    found, y = forecast(n=600)
    weights = np.stack([np.ones(10), np.eye(10)[0]])
    both = found.functional(weights, 80)
    assert both.mean.shape == (30, 2, 2)
    np.testing.assert_allclose(both.mean[:, 0], found.mean.sum(axis=1))
    covered = (both.low[:, 0] <= y.sum(axis=1)) & (y.sum(axis=1) <= both.high[:, 0])
    assert covered.mean() == pytest.approx(0.8, abs=0.15)
    np.testing.assert_array_equal(found.functional(weights[0], 80).low, both.low[:, 0])


def test_seeds_and_generators_decide_the_paths() -> None:
    found, _ = LOPSIDED
    np.testing.assert_array_equal(found.sample(3, seed=1), found.sample(3, generator=np.random.default_rng(1)))
    assert (found.sample(3, seed=1) != found.sample(3, seed=2)).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f.sample(0), "paths: "),
        (lambda f: f.quantile([0.5, 1.0]), "probabilities: "),
        (lambda f: f.functional(np.ones(9)), "weights: "),
        (lambda f: f.region(90).contains(np.zeros((2, 10, 2))), "do not fit"),
        (lambda f: f.region(90).contains(np.full((30, 10, 2), np.nan)), "every value must be finite"),
    ],
)
def test_bad_input_is_named(call, message) -> None:
    with pytest.raises(FernError, match=message):
        call(LOPSIDED[0])


def test_a_constant_series_still_has_a_forecast() -> None:
    def constant(n: int) -> Ellipsoid:
        return Ellipsoid(
            torch.zeros(n, 1, 2, 4), torch.zeros(n, 1, 2, 4), torch.zeros(n, 1, 2, 0, 4), base_variance=BASE
        )

    calibration = fit_calibration(Residuals.of(constant(50), np.zeros((50, 8, 1)), origins=range(0, 400, 8)))
    found = calibration.apply(constant(2))
    for level in (50, 95, 99.99):
        assert all(np.isfinite(end).all() for end in (*found.interval(level), *found.band(level)))
        assert found.region(level).contains(np.zeros((2, 8, 1))).all()
    assert np.isfinite(found.sample(10)).all()
    assert found.functional(np.ones(8)).high == pytest.approx(0.0, abs=1e-3)

"""The refitted shape of errors."""

import numpy as np
import pytest
from tests.calibration.processes import gaussian_distribution

from fern.calibration import Residuals
from fern.calibration.radii import fit_shape, ledoit_wolf
from fern.calibration.settings import UNSEEN_VARIANCE, expect_unseen_variance


def residuals(rng, root: np.ndarray, n: int, *, scale: float = 1.0) -> Residuals:
    """Windows with errors of covariance root rootᵀ under distributions that promise independent unit errors."""
    horizon = len(root)
    distribution = gaussian_distribution(np.zeros((n, 1, horizon)), np.eye(horizon), patch_size=4)
    y = scale * (rng.normal(size=(n, horizon)) @ root.T)[..., None]
    return Residuals.of(distribution, y, origins=range(n), series=np.arange(n))


def test_a_refitted_distribution_has_distances_about_one(rng) -> None:
    root = np.tril(np.ones((10, 10)))  # a random walk: wider from step to step, and correlated
    found = residuals(rng, root, 3000, scale=5.0)
    shape = fit_shape(found)
    assert shape.full
    np.testing.assert_allclose(np.square(shape.distances(found.whitened)).mean(axis=(0, 1)), 1, atol=0.02)
    np.testing.assert_allclose(np.square(shape.margins(found.standardised)).mean(axis=(0, 1)), 1, atol=0.02)
    np.testing.assert_allclose(shape.step_scale[0], 5 * np.sqrt(np.arange(1, 11)), rtol=0.06)


def test_correlations_are_left_alone_with_few_windows(rng) -> None:
    assert not fit_shape(residuals(rng, np.eye(8), 6)).full
    assert not fit_shape(residuals(rng, np.eye(8), 600), correlated=False).full


def test_with_few_windows_the_distribution_counts_as_some(rng) -> None:
    one, many = (residuals(rng, np.eye(8), n, scale=10.0) for n in (1, 50))
    for found in (one, many):
        plain, pulled = (fit_shape(found, distribution_windows=windows) for windows in (0.0, 4.0))
        if len(found) == 1:
            np.testing.assert_allclose(
                np.square(pulled.patch_scale), (np.square(plain.patch_scale) + 4 * UNSEEN_VARIANCE) / 5
            )
            assert pulled.believed == 5.0
        else:
            np.testing.assert_array_equal(pulled.step_scale, plain.step_scale)
            assert pulled.believed == 0.0


def test_a_distribution_trained_on_many_horizons_is_believed_as_it_is(rng) -> None:
    expected = [expect_unseen_variance(horizons) for horizons in (0.5, 10, 20, 100, 1e9)]
    np.testing.assert_allclose(expected, [3, 3, 2, 1.2, 1])
    one = residuals(rng, np.eye(8), 1, scale=0.1)
    few, long = (fit_shape(one, distribution_windows=4.0, unseen_variance=value) for value in (3.0, 1.0))
    assert (long.patch_scale < 0.65 * few.patch_scale).all()


def test_shrinkage_falls_with_the_number_of_windows(rng) -> None:
    mixing = rng.normal(size=(6, 6))
    few, many = (rng.normal(size=(n, 6)) @ mixing for n in (20, 20000))
    weak, strong = (ledoit_wolf(z, n_eff=len(z)) for z in (many, few))
    assert weak[1] < 0.01 < strong[1]
    true = mixing.T @ mixing
    np.testing.assert_allclose(weak[0], true * 6 / np.trace(true), atol=0.05)
    assert np.trace(strong[0]) == pytest.approx(6)


def test_constant_series_have_a_shape(rng) -> None:
    shape = fit_shape(residuals(rng, np.zeros((8, 8)), 30))
    assert np.isfinite(shape.whitener).all() and (shape.step_scale > 0).all() and (shape.patch_scale > 0).all()


def test_a_few_wild_errors_do_not_widen_every_window(rng) -> None:
    """A gauge that shows nothing for weeks has a sharp distribution and then, once, an error thousands of times its
    width.
    """
    calm = residuals(rng, np.eye(8), 400)
    wild = calm.take(np.arange(400))
    for values in (wild.whitened, wild.standardised):
        values[7] = 5000.0
    scales = [fit_shape(found) for found in (calm, wild)]
    np.testing.assert_allclose(scales[1].step_scale, scales[0].step_scale, rtol=0.1)
    np.testing.assert_allclose(scales[1].patch_scale, scales[0].patch_scale, rtol=0.1)


def test_a_channel_that_mostly_errs_by_nothing_keeps_a_finite_scale(rng) -> None:
    found = residuals(rng, np.eye(8), 400)
    for values in (found.whitened, found.standardised):
        values[4:] = 0.0
    shape = fit_shape(found)
    assert np.isfinite(shape.step_scale).all()
    assert (shape.step_scale > 0).all()

"""Observation noise: of the size that was asked for, the same for the same seed, and no system's own."""

import numpy as np
import pytest
from tests.errors import raises_error

from fern.systems import observed, scenario, simulate
from fern.systems.noise import draw_noise


def clean() -> np.ndarray:
    return simulate(scenario("LORENZ_BASE", steps=4000)).values.astype(np.float64)


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_the_noise_of_each_channel_is_its_share_of_that_channels_deviation(share):
    values = clean()
    error = observed(values, share=share, seed=1) - values
    np.testing.assert_allclose(error.std(axis=0), share * values.std(axis=0), rtol=0.05)
    np.testing.assert_allclose(np.corrcoef(error.T), np.eye(3), atol=0.06)


def test_shares_of_one_seed_differ_by_a_factor_and_seeds_differ():
    values = clean()
    small, large = (observed(values, share=share, seed=1) - values for share in (0.01, 0.05))
    np.testing.assert_allclose(large, 5 * small, rtol=1e-6, atol=1e-12)
    assert not np.allclose(observed(values, share=0.01, seed=2) - values, small)


def test_no_noise_leaves_every_bit():
    values = clean()
    assert (observed(values, share=0.0, seed=1) == values).all()


def test_it_is_not_the_noise_that_drives_the_system():
    values = np.random.default_rng(0).standard_normal((4000, 1))
    error = (observed(values, share=1.0, seed=1955) - values)[:, 0]
    driving = draw_noise(["normal"], steps=4000, seed=1955)[:, 0]
    assert abs(np.corrcoef(error, driving)[0, 1]) < 0.06


@pytest.mark.parametrize("share", [-0.01, float("nan")])
def test_an_impossible_share_is_named(share):
    with raises_error("share"):
        observed(clean(), share=share, seed=1)

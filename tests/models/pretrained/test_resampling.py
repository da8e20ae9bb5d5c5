"""Forecasts at coarser time steps: what is averaged keeps the joint distribution, and the context decides."""

import numpy as np
import pytest
import torch

from fern.models.pretrained import resampling
from fern.models.pretrained.forecasting import Contexts, forecast_distribution
from fern.models.pretrained.resampling import ENOUGH, LONG, forecast_resampled
from fern.models.pretrained.weights import read_weights

NETWORK = read_weights()[0]


def waves(*lengths: int) -> Contexts:
    rng = np.random.default_rng(3)
    return Contexts.of([np.cumsum(rng.normal(size=n)) + 9 * np.sin(np.arange(n) * np.pi / 12) for n in lengths])


@pytest.mark.parametrize("horizon", [7, 24, 30, LONG + 9])
def test_widths_of_each_step_change_and_correlations_stay(horizon):
    plain = forecast_distribution(NETWORK, waves(200, 500, 900), horizon)
    rng = np.random.default_rng(0)
    mean, share = rng.normal(size=(3, horizon)), rng.uniform(0.5, 2.0, (2, horizon))
    moved = resampling._moved(plain, mean, np.array([0, 2]), share)
    by = torch.ones(3, horizon, dtype=torch.float64)
    by[[0, 2]] = torch.from_numpy(share)
    wanted = by.unsqueeze(-1) * plain.covariance_matrix * by.unsqueeze(-2)
    assert torch.allclose(moved.covariance_matrix, wanted, rtol=1e-9, atol=1e-12 * float(wanted.abs().max()))
    assert np.array_equal(moved.mean.numpy(), mean)


def test_short_contexts_are_forecast_as_they_are_beside_longer_ones():
    contexts = waves(ENOUGH - 1, ENOUGH + 200)
    plain, resampled = (make(NETWORK, contexts, 30) for make in (forecast_distribution, forecast_resampled))
    assert torch.equal(plain.mean[0], resampled.mean[0])
    assert torch.allclose(plain.stddev[0], resampled.stddev[0], rtol=1e-9)
    assert not torch.allclose(plain.mean[1], resampled.mean[1])


@pytest.mark.parametrize("scale", [1e-6, 1e100])
def test_units_do_not_matter(scale):
    contexts = waves(600)
    small, large = (
        forecast_resampled(NETWORK, Contexts(by * contexts.values, contexts.lengths), 40) for by in (1.0, scale)
    )
    assert torch.allclose(large.mean, scale * small.mean, rtol=1e-6, atol=1e-9 * scale)


def test_the_deviation_within_a_coarse_step_follows_the_phase_of_the_season():
    rng = np.random.default_rng(5)
    restless = np.where(np.arange(1200) % 24 < 12, 3.0, 0.05)
    contexts = Contexts.of([rng.normal(size=1200) * restless], season=24)
    ((_, stddev),) = resampling._forecast_coarsely(NETWORK, [(contexts, 4, 24)])
    assert stddev[0, :12].min() > 1.5 * stddev[0, 12:].max()

"""What forecasts are averaged with: the joint distribution is kept, and the context decides."""

import numpy as np
import pytest
import torch

from fern.models.pretrained import averaging
from fern.models.pretrained.averaging import ENOUGH, LONG, forecast_averaged
from fern.models.pretrained.forecasting import Contexts, forecast_distribution
from fern.models.pretrained.network import read_weights

NETWORK = read_weights()[0]


def waves(*lengths: int) -> Contexts:
    rng = np.random.default_rng(3)
    return Contexts.of([np.cumsum(rng.normal(size=n)) + 9 * np.sin(np.arange(n) * np.pi / 12) for n in lengths])


@pytest.mark.parametrize("horizon", [7, 24, 30, LONG + 9])
def test_widths_of_each_step_change_and_correlations_stay(horizon):
    plain = forecast_distribution(NETWORK, waves(200, 500, 900), horizon)
    rng = np.random.default_rng(0)
    mean, share = rng.normal(size=(3, horizon)), rng.uniform(0.5, 2.0, (2, horizon))
    moved = averaging._rescale(plain, mean, np.array([0, 2]), share)
    by = torch.ones(3, horizon, dtype=torch.float64)
    by[[0, 2]] = torch.from_numpy(share)
    wanted = by.unsqueeze(-1) * plain.covariance_matrix * by.unsqueeze(-2)
    assert torch.allclose(moved.covariance_matrix, wanted, rtol=1e-9, atol=1e-12 * float(wanted.abs().max()))
    assert np.array_equal(moved.mean.numpy(), mean)


def test_short_contexts_are_forecast_as_they_are_beside_longer_ones():
    contexts = waves(ENOUGH - 1, ENOUGH + 200)
    plain, resampled = (make(NETWORK, contexts, 30) for make in (forecast_distribution, forecast_averaged))
    assert torch.equal(plain.mean[0], resampled.mean[0])
    assert torch.allclose(plain.stddev[0], resampled.stddev[0], rtol=1e-9)
    assert not torch.allclose(plain.mean[1], resampled.mean[1])


@pytest.mark.parametrize("scale", [1e-6, 1e100])
def test_units_do_not_matter(scale):
    contexts = waves(600)
    small, large = (
        forecast_averaged(NETWORK, Contexts(by * contexts.values, contexts.lengths), 40) for by in (1.0, scale)
    )
    assert torch.allclose(large.mean, scale * small.mean, rtol=1e-6, atol=1e-9 * scale)


def sales(*lengths: int, zero: bool = False) -> Contexts:
    """Positive series that grow by a few percent a cycle, their season and noise in proportion."""
    rng = np.random.default_rng(4)
    series = [np.exp(0.01 * np.arange(n) + np.sin(np.arange(n) * np.pi / 6) + rng.normal(0, 0.1, n)) for n in lengths]
    for values in series:
        values[3] *= not zero
    return Contexts.of(series)


@pytest.mark.parametrize("scale", [1e-6, 1e100])
def test_units_of_positive_series_do_not_matter(scale):
    contexts = sales(40, 150, 700)
    larger = Contexts(scale * contexts.values, contexts.lengths)
    ahead, scaled = (forecast_averaged(NETWORK, one, 30) for one in (contexts, larger))
    assert torch.allclose(scaled.mean / scale, ahead.mean, rtol=1e-6)
    assert torch.allclose(scaled.stddev / scale, ahead.stddev, rtol=1e-6)


def test_logarithms_of_series_that_grow_in_proportion_are_forecast_better():
    whole = sales(*range(60, 200, 4))
    known = Contexts(whole.values[:, :-18], whole.lengths - 18)
    errors = [
        float(
            (torch.from_numpy(whole.values[:, -18:]) / forecast_averaged(NETWORK, known, 18, log=log).mean - 1)
            .abs()
            .mean()
        )
        for log in (True, False)
    ]
    assert errors[0] < errors[1]


def test_a_series_with_a_zero_has_no_logarithm():
    contexts = sales(90, zero=True)
    with_log, without = (forecast_averaged(NETWORK, contexts, 12, log=log) for log in (True, False))
    assert torch.equal(with_log.mean, without.mean)


def test_what_grows_out_of_all_bounds_is_forecast_with_numbers():
    ahead = forecast_averaged(NETWORK, Contexts.of([np.exp(2.0 * np.arange(60)), np.exp(-2.0 * np.arange(60))]), 96)
    assert ahead.mean.isfinite().all()
    assert ahead.stddev.isfinite().all()


def test_the_deviation_within_a_coarse_step_follows_the_phase_of_the_season():
    rng = np.random.default_rng(5)
    restless = np.where(np.arange(1200) % 24 < 12, 3.0, 0.05)
    contexts = Contexts.of([rng.normal(size=1200) * restless], season=24)
    ((_, stddev),) = averaging._forecast_coarsely(NETWORK, [averaging._Request(contexts, 4, 24)])
    assert stddev[0, :12].min() > 1.5 * stddev[0, 12:].max()

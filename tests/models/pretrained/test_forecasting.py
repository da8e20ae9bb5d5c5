"""The distribution of fewer steps is that of more, cut; blocks are rolled on."""

import numpy as np
import pytest
import torch

from fern.models.pretrained.forecasting import Contexts, _cut, forecast_distribution
from fern.models.pretrained.network import read_weights
from fern.models.pretrained.representation import HORIZON
from fern.transport import Ellipsoid

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("steps", [1, 2, 7, 18, 23])
def test_a_patch_is_cut_to_the_distribution_of_its_first_steps(steps):
    generator = torch.Generator().manual_seed(1)
    eigenvalues = torch.rand(4, 2, 24, generator=generator, dtype=torch.float64) + 0.1
    vectors = torch.randn(4, 2, 6, 24, generator=generator, dtype=torch.float64)
    whole = Ellipsoid(eigenvalues, None, vectors)
    values, wide = _cut(eigenvalues, vectors, steps)
    cut = Ellipsoid(values, None, wide, horizon=24 + steps)
    inside = slice(0, 24 + steps)
    assert torch.allclose(cut.covariance_matrix, whole.covariance_matrix[:, inside, inside], atol=1e-12)


@pytest.mark.parametrize("horizon", [1, 6, 13, 24, 30, 95])
def test_fewer_steps_have_the_same_means_and_widths(horizon):
    network, _ = read_weights()
    contexts = Contexts.of([np.cumsum(RNG.normal(size=n)) for n in (15, 80, 300)])
    some, all_ = (forecast_distribution(network, contexts, steps) for steps in (horizon, HORIZON))
    assert torch.allclose(some.mean, all_.mean[:, :horizon])
    assert torch.allclose(some.stddev, all_.stddev[:, :horizon], rtol=1e-6)


def test_the_first_block_of_a_longer_forecast_is_the_forecast_of_that_block():
    network, _ = read_weights()
    contexts = Contexts.of([np.cumsum(RNG.normal(size=200))])
    long, short = (forecast_distribution(network, contexts, steps) for steps in (200, HORIZON))
    assert torch.allclose(long.mean[:, :HORIZON], short.mean)
    assert torch.allclose(long.stddev[:, :HORIZON], short.stddev, rtol=1e-6)

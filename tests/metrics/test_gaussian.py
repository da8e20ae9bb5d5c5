"""The CRPS of a Gaussian against its definition as an integral, and its gradients."""

import pytest
import torch
from scipy import integrate, stats
from torch.autograd import gradcheck, gradgradcheck

from fern.metrics.distributions import gaussian_crps


@pytest.mark.parametrize("error", [-3.0, 0.0, 0.4])
@pytest.mark.parametrize("stddev", [0.2, 1.0, 5.0])
def test_it_is_the_integral_of_the_squared_distance_of_the_distribution_functions(error: float, stddev: float) -> None:
    below = integrate.quad(lambda x: stats.norm.cdf(x, scale=stddev) ** 2, -60, error, epsabs=1e-11)[0]
    above = integrate.quad(lambda x: stats.norm.sf(x, scale=stddev) ** 2, error, 60, epsabs=1e-11)[0]
    found = gaussian_crps(torch.tensor(error).double(), torch.tensor(stddev).double())
    assert found.item() == pytest.approx(below + above, abs=1e-8)  # of the quadrature


def test_gradients_equal_finite_differences_to_second_order_and_broadcast() -> None:
    generator = torch.Generator().manual_seed(1)
    error = (3 * torch.randn(4, 5, generator=generator, dtype=torch.float64)).requires_grad_()
    stddev = torch.empty(5, dtype=torch.float64).uniform_(0.3, 2.0, generator=generator).requires_grad_()
    assert gradcheck(gaussian_crps, (error, stddev))
    assert gradgradcheck(gaussian_crps, (error, stddev))


def test_far_away_it_is_the_absolute_error_and_its_slope_one() -> None:
    error = torch.tensor([-1e4, 1e4]).requires_grad_()
    values = gaussian_crps(error, torch.tensor(1e-3))
    (slope,) = torch.autograd.grad(values.sum(), error)
    assert values.tolist() == pytest.approx([1e4, 1e4])
    assert slope.tolist() == [-1.0, 1.0]

"""Coverage of intervals and ellipsoids, and their width."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.errors import raises_error
from torch import Tensor
from torch.distributions import Independent, MultivariateNormal, Normal

from fern.metrics import coverage, interval_width, joint_coverage
from fern.transport import Ellipsoid

levels = pytest.mark.parametrize("level", [10, 50, 90, 99])


@levels
def test_intervals_of_a_gaussian_distribution_are_its_quantiles(
    level: float, ellipsoid: Ellipsoid, truth: Tensor
) -> None:
    marginals = stats.norm(ellipsoid.mean.numpy(), ellipsoid.stddev.numpy())
    lower, upper = marginals.interval(level / 100)
    inside = (lower <= truth.mT.numpy()) & (truth.mT.numpy() <= upper)
    assert coverage(ellipsoid, truth, level=level).item() == pytest.approx(inside.mean(), abs=1e-15)
    assert coverage(ellipsoid, truth.numpy(), level=level) == pytest.approx(inside.mean(), abs=1e-15)
    assert interval_width(ellipsoid, level=level).item() == pytest.approx((upper - lower).mean(), rel=1e-9)


@levels
def test_intervals_of_samples_are_numpys_quantiles(level: float, rng: np.random.Generator) -> None:
    samples, true = rng.normal(size=(23, 6, 7, 2)), rng.normal(size=(6, 7, 2))
    lower, upper = np.quantile(samples, [(1 - level / 100) / 2, (1 + level / 100) / 2], axis=0)
    inside = np.mean((lower <= true) & (true <= upper))
    assert coverage(samples, true, level=level) == pytest.approx(inside, abs=1e-15)
    width = interval_width(samples, level=level)
    assert type(width) is np.float64 and width == pytest.approx(np.mean(upper - lower), rel=1e-12)
    assert interval_width(torch.from_numpy(samples), level=level).item() == width


@levels
def test_the_ellipsoid_of_a_distribution_is_bounded_by_the_chi_square_quantile(
    level: float, ellipsoid: Ellipsoid, draw
) -> None:
    distribution = ellipsoid.expand((20, 5, 2))
    y = distribution.sample(generator=torch.Generator().manual_seed(11))
    distribution, y = _flat(distribution), y.flatten(0, 1)
    inside = ellipsoid.mahalanobis(y.unflatten(0, (20, 5))).square().numpy() <= stats.chi2(10).ppf(level / 100)
    assert joint_coverage(distribution, y.transpose(1, 2), level=level).item() == pytest.approx(
        inside.mean(), abs=1e-15
    )
    dense = MultivariateNormal(distribution.mean, distribution.covariance_matrix)
    assert joint_coverage(dense, y.transpose(1, 2), level=level).item() == pytest.approx(inside.mean(), abs=1e-15)
    assert joint_coverage(dense, y.transpose(1, 2).numpy(), level=level) == pytest.approx(inside.mean(), abs=1e-15)


def _flat(distribution: Ellipsoid) -> Ellipsoid:
    """The 20 × 5 windows as one batch of 100."""
    parts = (
        distribution.eigenvalues.flatten(0, 1),
        distribution.shift.flatten(0, 1),
        distribution.reflections.flatten(0, 1),
    )
    return Ellipsoid(*parts, base_variance=distribution.base_variance, horizon=distribution.horizon)


@levels
def test_draws_of_the_distribution_itself_are_covered_at_the_level(level: float) -> None:
    """2,000 paths of the paper's patch, in float32: shares to 4 standard errors of independent paths."""
    generator = torch.Generator().manual_seed(12)
    distribution = Ellipsoid(
        torch.rand(2000, 1, 2, 24, generator=generator) + 0.1,
        torch.randn(2000, 1, 2, 24, generator=generator),
        torch.randn(2000, 1, 2, 8, 24, generator=generator),
    )
    true = distribution.sample(generator=generator).transpose(1, 2)
    share = level / 100
    error = 4 * (share * (1 - share) / 2000) ** 0.5
    assert coverage(distribution, true, level=level).item() == pytest.approx(share, abs=error)
    assert joint_coverage(distribution, true, level=level).item() == pytest.approx(share, abs=error)
    narrow = Ellipsoid(
        0.7 * distribution.eigenvalues, distribution.shift / 0.7, distribution.reflections
    )  # the same mean, 0.7 of the spread
    assert coverage(narrow, true, level=level).item() < share - error / 4
    assert joint_coverage(narrow, true, level=level).item() < share - error / 4


@given(st.integers(0, 2**32 - 1), st.floats(1, 99), st.floats(1, 99))
def test_a_higher_level_covers_more_with_wider_intervals(seed: int, first: float, second: float) -> None:
    rng = np.random.default_rng(seed)
    low, high = sorted((first, second))
    samples, true = rng.normal(size=(9, 3, 4, 2)), rng.normal(size=(3, 4, 2))
    distribution = Independent(Normal(torch.from_numpy(true.swapaxes(1, 2)), 1.0), 1)
    for shape in (samples, distribution):
        assert interval_width(shape, level=low) <= interval_width(shape, level=high)
    assert 0 <= coverage(samples, true, level=low) <= coverage(samples, true, level=high) <= 1


def test_the_ends_belong_to_the_interval() -> None:
    samples = np.arange(5.0).reshape(5, 1, 1, 1)
    assert coverage(samples, np.full((1, 1, 1), 1.0), level=50) == 1
    assert coverage(samples, np.full((1, 1, 1), 3.0), level=50) == 1
    assert coverage(samples, np.full((1, 1, 1), 3.0 + 1e-12), level=50) == 0


def test_the_width_can_be_trained(draw) -> None:
    stddev = draw(2, 1, 3).abs().add(0.1).requires_grad_()
    interval_width(Independent(Normal(draw(2, 1, 3), stddev), 1)).backward()
    expected = 2 * stats.norm.ppf(0.95) / 6
    assert stddev.grad is not None
    assert torch.allclose(stddev.grad, torch.full_like(stddev, expected), rtol=1e-9)


@pytest.mark.parametrize("level", [0.0, 100.0, -90, float("nan")])
def test_a_level_that_is_no_percentage_is_refused(level: float, ellipsoid: Ellipsoid, truth: Tensor) -> None:
    for metric in (coverage, joint_coverage):
        with raises_error("level"):
            metric(ellipsoid, truth, level=level)
    with raises_error("level"):
        interval_width(ellipsoid, level=level)


def test_distributions_without_a_joint_region_or_of_other_shapes_are_refused(truth: Tensor, draw) -> None:
    with raises_error("distribution"):
        joint_coverage(truth[None], truth)
    with raises_error("distribution"):
        interval_width(Normal(torch.zeros(3), torch.ones(3)))
    with raises_error("distribution"):
        interval_width(MultivariateNormal(torch.zeros(3), torch.eye(3)))

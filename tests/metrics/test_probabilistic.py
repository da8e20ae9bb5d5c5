"""Scores of a distribution against closed forms, scoringrules and integrals; coverage of its intervals."""

import math

import numpy as np
import pytest
import scoringrules
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from tests.errors import raises_error
from torch import Tensor
from torch.autograd import gradcheck
from torch.distributions import Independent, StudentT

from fern.errors import FernError
from fern.metrics import coverage, crps, nll
from fern.metrics.probabilistic import gaussian_crps
from fern.transport import Ellipsoid


def channel_first(true: Tensor) -> np.ndarray:
    return true.transpose(1, 2).numpy()


def test_nll_is_the_joint_densitys_per_step(ellipsoid: Ellipsoid, truth: Tensor) -> None:
    means, covariances = ellipsoid.mean.numpy(), ellipsoid.covariance_matrix.numpy()
    densities = [
        stats.multivariate_normal(means[b, c], covariances[b, c]).logpdf(channel_first(truth)[b, c])
        for b in range(5)
        for c in range(2)
    ]
    assert nll(ellipsoid, truth).item() == pytest.approx(-np.mean(densities) / 10, rel=1e-9)
    assert nll(ellipsoid, truth.numpy()) == nll(ellipsoid, truth).item()


def test_crps_of_an_ellipsoid_is_that_of_its_normal_marginals(ellipsoid: Ellipsoid, truth: Tensor) -> None:
    variances = np.diagonal(ellipsoid.covariance_matrix.numpy(), axis1=-2, axis2=-1)
    expected = scoringrules.crps_normal(
        channel_first(truth), ellipsoid.mean.numpy(), np.sqrt(variances), backend="numpy"
    ).mean()
    assert crps(ellipsoid, truth).item() == pytest.approx(expected, rel=1e-9)
    assert crps(ellipsoid, truth.numpy()) == crps(ellipsoid, truth).item()


@pytest.mark.parametrize("estimator", ["fair", "nrg"])
@pytest.mark.parametrize("kind", ["numpy", "torch", "torch, float32"])
def test_crps_of_samples_equals_scoringrules(estimator, kind: str, rng: np.random.Generator) -> None:
    samples = rng.normal(loc=3.0, size=(30, 4, 9, 2)).astype(np.float32)
    true = rng.normal(loc=3.0, size=(4, 9, 2)).astype(np.float32)
    expected = scoringrules.crps_ensemble(
        true.astype(float), samples.astype(float), m_axis=0, estimator=estimator, backend="numpy"
    ).mean()
    if kind == "numpy":
        value = float(crps(samples, true, estimator=estimator))
    else:
        dtype = torch.float32 if kind.endswith("float32") else torch.float64
        value = crps(torch.tensor(samples, dtype=dtype), torch.tensor(true, dtype=dtype), estimator=estimator).item()
    assert value == pytest.approx(expected, rel=1e-9)


def test_crps_of_one_sample_is_the_absolute_error(rng: np.random.Generator) -> None:
    sample, true = rng.normal(size=(2, 4, 9, 2))
    assert crps(sample[None], true, estimator="nrg") == pytest.approx(np.abs(sample - true).mean(), rel=1e-12)
    with pytest.raises(FernError, match="fair estimator needs at least 2, got 1"):
        crps(sample[None], true)


def test_the_fair_estimator_agrees_with_the_closed_form_at_few_samples(ellipsoid: Ellipsoid, truth: Tensor) -> None:
    """400 draws of 5 samples: unbiased to 4 standard errors, where nrg is off by E|X − X'|/10, far more."""
    draws = ellipsoid.sample((400, 5), generator=torch.Generator().manual_seed(8)).transpose(-1, -2)
    exact = crps(ellipsoid, truth).item()
    fair = np.array([crps(samples, truth).item() for samples in draws])
    nrg = np.mean([crps(samples, truth, estimator="nrg").item() for samples in draws])
    error = fair.std() / math.sqrt(len(fair))
    assert abs(fair.mean() - exact) < 4 * error
    assert nrg - exact > 10 * error


def independent(mean: Tensor, stddev: Tensor) -> Ellipsoid:  # (B, C, H) each
    """Normal steps that know nothing of each other, as one patch without reflections."""
    vectors = torch.zeros(*mean.shape[:-1], 1, 0, mean.shape[-1], dtype=mean.dtype)
    return Ellipsoid(stddev.unsqueeze(-2), None, vectors, offset=mean.unsqueeze(-2), base_variance=1.0)


def test_the_true_distribution_scores_best(ellipsoid: Ellipsoid) -> None:
    truth = ellipsoid.expand((400, 5, 2)).sample(generator=torch.Generator().manual_seed(9))
    true = truth.flatten(0, 1).transpose(1, 2)
    distribution = ellipsoid.expand((400, 5, 2))
    mean, stddev = distribution.mean.flatten(0, 1), distribution.stddev.flatten(0, 1)
    for score in (nll, crps):
        own = score(independent(mean, stddev), true)
        assert own < score(independent(mean, 1.3 * stddev), true)
        assert own < score(independent(mean, stddev / 1.3), true)
        assert own < score(independent(mean + 0.3 * stddev, stddev), true)


def test_gradients_of_a_distributions_scores_equal_finite_differences(draw) -> None:
    eigenvalues, shift, reflections = draw(2, 2, 2, 3).abs() + 0.3, draw(2, 2, 2, 3), draw(2, 2, 2, 2, 3)
    parameters = [values.requires_grad_() for values in (eigenvalues, shift, reflections)]
    true = draw(2, 6, 2)
    for score in (nll, crps):
        assert gradcheck(lambda e, t, v, score=score: score(Ellipsoid(e, t, v), true), parameters)


@pytest.mark.parametrize("estimator", ["fair", "nrg"])
def test_gradients_of_the_samples_crps_equal_finite_differences(estimator, draw) -> None:
    samples, true = draw(6, 2, 3, 2).requires_grad_(), draw(2, 3, 2)
    assert gradcheck(lambda values: crps(values, true, estimator=estimator), (samples,))


def test_a_float32_distribution_is_scored_to_1e_6(draw) -> None:
    parts = draw(5, 2, 3, 4).abs() + 0.2, draw(5, 2, 3, 4), draw(5, 2, 3, 3, 4)
    true = draw(5, 12, 2)
    wide, narrow = Ellipsoid(*parts), Ellipsoid(*(values.float() for values in parts))
    assert crps(narrow, true.float()).item() == pytest.approx(crps(wide, true).item(), rel=1e-6)
    assert nll(narrow, true.float()).item() == pytest.approx(nll(wide, true).item(), rel=1e-5)


def test_a_distribution_that_is_no_ellipsoid_is_refused(draw) -> None:
    for score in (crps, nll, coverage):
        with raises_error("distribution"):
            score(Independent(StudentT(4.0, draw(3, 2, 5)), 1), draw(3, 5, 2))


def test_a_distribution_of_another_shape_is_refused(ellipsoid: Ellipsoid, draw) -> None:
    words = r"batch shape \(5, 2\) and event shape \(10,\) do not fit true of shape \(5, 2, 10\)"
    for score in (nll, crps):
        with pytest.raises(FernError, match=words):
            score(ellipsoid, draw(5, 2, 10))


def test_nll_of_samples_and_unknown_estimators_are_refused(ellipsoid: Ellipsoid, truth: Tensor) -> None:
    with pytest.raises(FernError, match="distribution: has no density"):
        nll(truth[None], truth)
    for distribution in (ellipsoid, truth[None].repeat(2, 1, 1, 1)):
        with pytest.raises(FernError, match="unknown estimator 'pair': did you mean 'fair'"):
            crps(distribution, truth, estimator="pair")


def test_a_broken_distribution_is_named_with_its_place(ellipsoid: Ellipsoid, truth: Tensor) -> None:
    ellipsoid.shift = ellipsoid.shift.clone()
    ellipsoid.shift[3, 1, 0] = torch.nan
    with pytest.raises(FernError, match=r"distribution\.mean: nan at batch 3, channels 1, horizon 0"):
        crps(ellipsoid, truth)


@pytest.mark.parametrize("error", [-3.0, 0.0, 0.4])
@pytest.mark.parametrize("stddev", [0.2, 1.0, 5.0])
def test_it_is_the_integral_of_the_squared_distance_of_the_distribution_functions(error: float, stddev: float) -> None:
    below = integrate.quad(lambda x: stats.norm.cdf(x, scale=stddev) ** 2, -60, error, epsabs=1e-11)[0]
    above = integrate.quad(lambda x: stats.norm.sf(x, scale=stddev) ** 2, error, 60, epsabs=1e-11)[0]
    found = gaussian_crps(torch.tensor(error).double(), torch.tensor(stddev).double())
    assert found.item() == pytest.approx(below + above, abs=1e-8)  # of the quadrature


def test_gradients_equal_finite_differences_and_broadcast() -> None:
    generator = torch.Generator().manual_seed(1)
    error = (3 * torch.randn(4, 5, generator=generator, dtype=torch.float64)).requires_grad_()
    stddev = torch.empty(5, dtype=torch.float64).uniform_(0.3, 2.0, generator=generator).requires_grad_()
    assert gradcheck(gaussian_crps, (error, stddev))


def test_far_away_it_is_the_absolute_error_and_its_slope_one() -> None:
    error = torch.tensor([-1e4, 1e4]).requires_grad_()
    values = gaussian_crps(error, torch.tensor(1e-3))
    (slope,) = torch.autograd.grad(values.sum(), error)
    assert values.tolist() == pytest.approx([1e4, 1e4])
    assert slope.tolist() == [-1.0, 1.0]


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


@levels
def test_intervals_of_samples_are_numpys_quantiles(level: float, rng: np.random.Generator) -> None:
    samples, true = rng.normal(size=(23, 6, 7, 2)), rng.normal(size=(6, 7, 2))
    lower, upper = np.quantile(samples, [(1 - level / 100) / 2, (1 + level / 100) / 2], axis=0)
    inside = np.mean((lower <= true) & (true <= upper))
    assert coverage(samples, true, level=level) == pytest.approx(inside, abs=1e-15)


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
    narrow = Ellipsoid(
        0.7 * distribution.eigenvalues, distribution.shift / 0.7, distribution.reflections
    )  # the same mean, 0.7 of the spread
    assert coverage(narrow, true, level=level).item() < share - error / 4


@given(st.integers(0, 2**32 - 1), st.floats(1, 99), st.floats(1, 99))
def test_a_higher_level_covers_more(seed: int, first: float, second: float) -> None:
    rng = np.random.default_rng(seed)
    low, high = sorted((first, second))
    samples, true = rng.normal(size=(9, 3, 4, 2)), rng.normal(size=(3, 4, 2))
    assert 0 <= coverage(samples, true, level=low) <= coverage(samples, true, level=high) <= 1


def test_the_ends_belong_to_the_interval() -> None:
    samples = np.arange(5.0).reshape(5, 1, 1, 1)
    assert coverage(samples, np.full((1, 1, 1), 1.0), level=50) == 1
    assert coverage(samples, np.full((1, 1, 1), 3.0), level=50) == 1
    assert coverage(samples, np.full((1, 1, 1), 3.0 + 1e-12), level=50) == 0


@pytest.mark.parametrize("level", [0.0, 100.0, -90, float("nan")])
def test_a_level_that_is_no_percentage_is_refused(level: float, ellipsoid: Ellipsoid, truth: Tensor) -> None:
    with raises_error("level"):
        coverage(ellipsoid, truth, level=level)

"""Scores of a forecast distribution: negative log-likelihood, CRPS, coverage and width of its intervals."""

from typing import overload

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from fern.checks import require_level
from fern.errors import FernError
from fern.metrics.arrays import Array, NumpyArray, Scalar, as_kind, wide
from fern.metrics.distributions import (
    Estimator,
    ForecastDistribution,
    Marginals,
    read_marginals,
    read_truth,
    require_distribution_fits,
    require_gaussian,
    tensor_of,
)


def negative_log_densities(
    distribution: ForecastDistribution,
    true: Tensor,  # (B, H, C)
) -> Tensor:  # (B, C)
    """−log density of each window and channel, per step."""
    if not isinstance(distribution, Distribution):
        raise FernError(
            "nll needs a distribution with a density, got samples; crps and energy_score take them",
            argument="distribution",
        )
    require_distribution_fits(distribution, true)
    density = distribution.log_prob(true.transpose(1, 2).to(tensor_of(distribution).dtype))
    return -wide(density) / true.shape[1]


def crps_values(
    marginals: Marginals,
    true: Tensor,  # (B, H, C)
    *,
    estimator: Estimator = "fair",
) -> Tensor:  # (B, C)
    """The CRPS of each window and channel, averaged over the steps."""
    return marginals.crps(wide(true).transpose(1, 2), estimator).mean(dim=-1)


@overload
def nll(distribution: Distribution, true: Tensor) -> Tensor: ...
@overload
def nll(distribution: Distribution, true: NumpyArray) -> np.float64: ...
def nll(
    distribution: Distribution,  # batch (B, C), event (H,)
    true: Array,  # (B, H, C)
) -> Scalar:
    """Negative log-likelihood per step, −log p(true)/H, averaged over windows and channels, in nats.

    The density is the joint one over the horizon; dividing it by H makes horizons comparable. It is evaluated
    in the distribution's own precision.

    Example:
        >>> import torch
        >>> from torch.distributions import Independent, Normal
        >>> distribution = Independent(Normal(torch.zeros(1, 1, 4), torch.ones(1, 1, 4)), 1)
        >>> round(nll(distribution, torch.zeros(1, 4, 1)).item(), 4)         # ½ log 2π
        0.9189
    """
    return as_kind("nll", negative_log_densities(distribution, read_truth(true, distribution)).mean(), true)


@overload
def crps(distribution: Distribution | Tensor, true: Tensor, *, estimator: Estimator = ...) -> Tensor: ...
@overload
def crps(distribution: Distribution | NumpyArray, true: NumpyArray, *, estimator: Estimator = ...) -> np.float64: ...
def crps(
    distribution: ForecastDistribution,  # batch (B, C), event (H,); or samples (S, B, H, C)
    true: Array,  # (B, H, C)
    *,
    estimator: Estimator = "fair",
) -> Scalar:
    """Continuous ranked probability score of the marginals, averaged over windows, steps and channels.

    ::

        CRPS(F, y) = E|X − y| − ½ E|X − X'|,    X, X' ~ F independent; the absolute error of a sharp forecast.

    Closed form for a Gaussian distribution. For samples ``fair`` (S ≥ 2) is unbiased for the distribution that they
    were drawn from, so that it agrees with the closed form at any S; ``nrg`` scores the samples as the distribution
    itself.

    Example:
        >>> import numpy as np
        >>> samples = np.array([0.0, 2.0]).reshape(2, 1, 1, 1)
        >>> float(crps(samples, np.ones((1, 1, 1)))), float(crps(samples, np.ones((1, 1, 1)), estimator="nrg"))
        (0.0, 0.5)
    """
    truth = read_truth(true, distribution)
    return as_kind("crps", crps_values(read_marginals(distribution, truth), truth, estimator=estimator).mean(), true)


def covered_shares(
    marginals: Marginals,
    true: Tensor,  # (B, H, C)
    *,
    level: float,
) -> Tensor:  # (B, C)
    """The share of each window's and channel's steps that lie in their central intervals."""
    lower, upper = marginals.interval(require_level(level) / 100)
    truth = wide(true).transpose(1, 2)
    return wide((lower <= truth) & (truth <= upper)).mean(dim=-1)


def jointly_covered(
    distribution: ForecastDistribution,
    true: Tensor,  # (B, H, C)
    *,
    level: float,
) -> Tensor:  # (B, C)
    """1 for each window and channel whose horizon vector lies in the distribution's ellipsoid of that probability."""
    distribution = require_gaussian(distribution)
    require_distribution_fits(distribution, true)
    mean = distribution.mean
    truth = true.transpose(1, 2).to(mean.dtype)
    squared_distance = 2 * (
        wide(distribution.log_prob(mean)) - wide(distribution.log_prob(truth))
    )  # Mahalanobis, for any Gaussian
    half_freedom = torch.full_like(squared_distance, true.shape[1] / 2)
    probability = torch.special.gammainc(half_freedom, squared_distance.clamp(min=0) / 2)  # the χ² distribution's cdf
    return wide(probability <= require_level(level) / 100)


def interval_widths(marginals: Marginals, *, level: float) -> Tensor:  # (B, C)
    """The mean width of each window's and channel's central intervals."""
    lower, upper = marginals.interval(require_level(level) / 100)
    return (upper - lower).mean(dim=-1)


@overload
def coverage(distribution: Distribution | Tensor, true: Tensor, *, level: float = ...) -> Tensor: ...
@overload
def coverage(distribution: Distribution | NumpyArray, true: NumpyArray, *, level: float = ...) -> np.float64: ...
def coverage(
    distribution: ForecastDistribution,  # batch (B, C), event (H,); or samples (S, B, H, C)
    true: Array,  # (B, H, C)
    *,
    level: float = 90.0,
) -> Scalar:
    """The share of true values inside the central intervals of ``level`` percent; calibrated if equal to it.

    With p = level/100, the interval of a Gaussian distribution is μ ± σ·Φ⁻¹((1 + p)/2); of samples, from their
    (1 − p)/2 to their (1 + p)/2 quantile, interpolated linearly. The ends belong to it. It has no gradient.

    Example:
        >>> import numpy as np
        >>> samples = np.linspace(-1, 1, 101).reshape(-1, 1, 1, 1).repeat(4, axis=2)
        >>> float(coverage(samples, np.array([-0.95, -0.1, 0.1, 0.5]).reshape(1, 4, 1), level=90))
        0.75
    """
    truth = read_truth(true, distribution)
    return as_kind("coverage", covered_shares(read_marginals(distribution, truth), truth, level=level).mean(), true)


@overload
def joint_coverage(distribution: Distribution, true: Tensor, *, level: float = ...) -> Tensor: ...
@overload
def joint_coverage(distribution: Distribution, true: NumpyArray, *, level: float = ...) -> np.float64: ...
def joint_coverage(
    distribution: Distribution,  # batch (B, C), event (H,)
    true: Array,  # (B, H, C)
    *,
    level: float = 90.0,
) -> Scalar:
    """The share of true horizon vectors inside the distribution's ellipsoid of ``level`` percent.

    Of a Gaussian distribution on R^H the ellipsoid is ``(y − μ)ᵀ Σ⁻¹ (y − μ) ≤ q``, q the quantile at level/100 of the
    χ² distribution with H degrees of freedom: a whole path is in or out. It has no gradient.

    Example:
        >>> import torch
        >>> from torch.distributions import Independent, Normal
        >>> distribution = Independent(Normal(torch.zeros(2, 1, 4), torch.ones(2, 1, 4)), 1)
        >>> joint_coverage(distribution, torch.tensor([1.0, 2.0]).reshape(2, 1, 1).expand(2, 4, 1)).item()  # q = 7.78
        0.5
    """
    return as_kind(
        "joint_coverage", jointly_covered(distribution, read_truth(true, distribution), level=level).mean(), true
    )


@overload
def interval_width(distribution: Distribution | Tensor, *, level: float = ...) -> Tensor: ...
@overload
def interval_width(distribution: NumpyArray, *, level: float = ...) -> np.float64: ...
def interval_width(
    distribution: ForecastDistribution,  # batch (B, C), event (H,); or samples (S, B, H, C)
    *,
    level: float = 90.0,
) -> Scalar:
    """Mean width of the distribution's central intervals of ``level`` percent (see ``coverage``); sharper is
    smaller.

    Example:
        >>> import torch
        >>> from torch.distributions import Independent, Normal
        >>> distribution = Independent(Normal(torch.zeros(1, 1, 4), torch.ones(1, 1, 4)), 1)
        >>> round(interval_width(distribution, level=95).item(), 4)         # 2 · 1.96
        3.9199
    """
    widths = interval_widths(read_marginals(distribution), level=level).mean()
    return as_kind("interval_width", widths, distribution if isinstance(distribution, np.ndarray) else widths)

"""Scores of a forecast distribution, a Gaussian or samples: likelihood, CRPS and coverage."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch.autograd.function import once_differentiable

from fern.errors import FernError, require_choice, require_level
from fern.metrics.point import (
    SAMPLES,
    WINDOWS,
    Array,
    NumpyArray,
    Scalar,
    as_kind,
    require_device,
    require_finite,
    sort_last_axis,
    to_tensor,
    wide,
)
from fern.transport import Ellipsoid


def gaussian_crps(
    error: Tensor,  # any shape
    stddev: Tensor,  # one that broadcasts with it, > 0
) -> Tensor:
    """CRPS(N(μ, σ²), y) of the error e = y − μ: σ·(z·(2Φ(z) − 1) + 2φ(z) − 1/√π) with z = e/σ (Gneiting et al. 2005).

    Its slopes are ∂/∂e = 2Φ(z) − 1 and ∂/∂σ = 2φ(z) − 1/√π. Both stand in the score already, so the backward pass
    is two products, where automatic differentiation would follow a dozen operations.
    """
    values: Tensor = _GaussianCrps.apply(error, stddev)  # type: ignore[no-untyped-call]
    return values


class _GaussianCrps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, error: Tensor, stddev: Tensor) -> Tensor:
        z = error / stddev
        inside = torch.erf(z / math.sqrt(2))
        twice_density = 2 * (torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi))
        constant = 1 / math.sqrt(math.pi)
        ctx.shapes = error.shape, stddev.shape
        ctx.save_for_backward(inside, twice_density - constant)
        return stddev * (z * inside + twice_density - constant)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes = zip(ctx.saved_tensors, ctx.shapes, ctx.needs_input_grad, strict=True)
        return tuple((grad * slope).sum_to_size(shape) if needs_grad else None for slope, shape, needs_grad in slopes)


ForecastDistribution = Ellipsoid | Array
"""An ellipsoid of batch (B, C) and event (H,), or samples (S, B, H, C)."""

Estimator = Literal["fair", "nrg"]
ESTIMATORS: tuple[str, ...] = get_args(Estimator)

DRAWS = 100
"""How many paths are drawn from a distribution, unless told."""

CHANNEL_FIRST = ("batch", "channels", "horizon")


@dataclass(frozen=True)
class GaussianMarginals:
    """The normal distribution of each single value, known by mean and standard deviation."""

    mean: Tensor  # (B, C, H)
    stddev: Tensor  # (B, C, H)

    def crps(self, truth: Tensor, estimator: Estimator) -> Tensor:
        """`fern.metrics.probabilistic.gaussian_crps` of each value of ``truth`` (B, C, H); nothing is estimated."""
        require_choice("estimator", estimator, ESTIMATORS)
        return gaussian_crps(truth - self.mean, self.stddev)

    def interval(self, share: float) -> tuple[Tensor, Tensor]:
        """The ends (B, C, H) of the central interval that holds this share: μ ± σ·Φ⁻¹((1 + share)/2)."""
        half = self.stddev * math.sqrt(2) * float(special.erfinv(share))
        return self.mean - half, self.mean + half


@dataclass(frozen=True)
class SampleMarginals:
    """Marginals known by samples."""

    ordered: Tensor  # (B, C, H, S), ascending

    def crps(self, truth: Tensor, estimator: Estimator) -> Tensor:
        """Mean distance to the truth less half the mean distance between two samples, in O(S) once sorted.

        Σ_ij |x_i − x_j| = 2 Σ_i (2i − S − 1)·x_(i), i = 1…S.
        """
        count = self.ordered.shape[-1]
        ranks = torch.arange(1, count + 1, dtype=self.ordered.dtype, device=self.ordered.device)
        centred = self.ordered - truth.unsqueeze(-1)  # shifting all samples leaves their distances as they are
        spread = 2 * (centred * (2 * ranks - count - 1)).sum(dim=-1)
        return centred.abs().mean(dim=-1) - 0.5 * spread / pairs(count, estimator)

    def interval(self, share: float) -> tuple[Tensor, Tensor]:
        """The sample quantiles at (1 ∓ share)/2, interpolated linearly as NumPy does by default."""
        return self._quantile((1 - share) / 2), self._quantile((1 + share) / 2)

    def _quantile(self, share: float) -> Tensor:
        place = share * (self.ordered.shape[-1] - 1)
        below, above = math.floor(place), math.ceil(place)
        return torch.lerp(self.ordered[..., below], self.ordered[..., above], place - below)


Marginals = GaussianMarginals | SampleMarginals


def pairs(count: int, estimator: Estimator) -> int:
    """The number of pairs that the mean distance between two of ``count`` samples is taken over.

    ``fair`` leaves out the pairs of a sample with itself, which makes the score unbiased for the distribution behind
    the samples; ``nrg`` counts them, which scores the samples as the distribution itself.
    """
    require_choice("estimator", estimator, ESTIMATORS)
    if estimator == "nrg":
        return count * count
    if count < 2:
        raise FernError("the fair estimator needs at least 2, got 1; estimator='nrg' takes 1", argument="samples")
    return count * (count - 1)


def read_marginals(distribution: ForecastDistribution, truth: Tensor) -> Marginals:  # truth (B, H, C)
    """The distribution's marginals in float64, checked, and fitting the truth."""
    if isinstance(distribution, Ellipsoid):
        require_distribution_fits(distribution, truth)
        mean, stddev = wide(distribution.mean), wide(distribution.stddev)
        require_finite("distribution.mean", mean, CHANNEL_FIRST)
        require_finite("distribution.stddev", stddev, CHANNEL_FIRST)
        return GaussianMarginals(mean, stddev)
    return SampleMarginals(sort_last_axis(wide(read_samples(distribution, truth)).permute(1, 3, 2, 0)))


def read_samples(samples: Array, truth: Tensor) -> Tensor:  # (S, B, H, C) and (B, H, C) -> (S, B, H, C)
    """The samples as a tensor, checked, and fitting the truth."""
    values = to_tensor("distribution", samples, SAMPLES)
    if values.shape[1:] != truth.shape:
        problem = f"samples of shape {tuple(values.shape)} do not fit true of shape {tuple(truth.shape)}"
        raise FernError(problem, argument="distribution", expected="(samples, batch, horizon, channels)")
    require_device("distribution", values, truth)
    return values


def read_truth(true: Array, distribution: ForecastDistribution) -> Tensor:  # (B, H, C)
    """The truth as a tensor, checked, and of the same kind as the distribution if that is samples."""
    if not isinstance(distribution, Ellipsoid) and isinstance(distribution, Tensor) != isinstance(true, Tensor):
        problem = "is given as samples of another kind than true"
        raise FernError(problem, argument="distribution", expected="both as tensors or both as NumPy arrays")
    return to_tensor("true", true, WINDOWS)


def read_paths(
    distribution: ForecastDistribution,
    truth: Tensor,  # (B, H, C)
    *,
    samples: int | None,
    generator: torch.Generator | None,
) -> Tensor:  # (S, B, H, C)
    """Joint paths: the samples given, or drawn from the distribution so that gradients flow through them.

    Without a generator they are drawn by a fresh one with seed 0.
    """
    if not isinstance(distribution, Ellipsoid):
        if samples is not None or generator is not None:
            raise FernError("the distribution is given as samples, nothing is drawn", argument="samples, generator")
        return read_samples(distribution, truth)
    count = DRAWS if samples is None else samples
    if count < 1:
        raise FernError(argument="samples", got=count, expected="at least 1")
    require_distribution_fits(distribution, truth)
    source = torch.Generator(device=truth.device).manual_seed(0) if generator is None else generator
    paths = distribution.rsample((count,), generator=source).transpose(-1, -2)
    require_finite("distribution's samples", paths, SAMPLES)
    return paths


def require_distribution_fits(distribution: Ellipsoid, truth: Tensor) -> None:  # truth (B, H, C)
    """Refuse a distribution whose batch and event are not the truth's windows, channels and horizon."""
    batch, horizon, channels = truth.shape
    has, needs = (distribution.batch_shape, distribution.event_shape), ((batch, channels), (horizon,))
    if has != needs:
        shapes = f"batch shape {tuple(has[0])} and event shape {tuple(has[1])}"
        problem = f"{shapes} do not fit true of shape {tuple(truth.shape)}; they must be {needs[0]} and {needs[1]}"
        raise FernError(problem, argument="distribution")
    require_device("distribution", distribution.eigenvalues, truth)


def negative_log_densities(distribution: ForecastDistribution, true: Tensor) -> Tensor:  # true (B, H, C) -> (B, C)
    """−log density of each window and channel, per step."""
    if not isinstance(distribution, Ellipsoid):
        raise FernError("has no density; crps and energy_score take samples", argument="distribution")
    require_distribution_fits(distribution, true)
    density = distribution.log_prob(true.transpose(1, 2).to(distribution.eigenvalues.dtype))
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
def nll(distribution: Ellipsoid, true: Tensor) -> Tensor: ...
@overload
def nll(distribution: Ellipsoid, true: NumpyArray) -> np.float64: ...
def nll(
    distribution: Ellipsoid,  # batch (B, C), event (H,)
    true: Array,  # (B, H, C)
) -> Scalar:
    """Negative log-likelihood per step, −log p(true)/H, averaged over windows and channels, in nats.

    The density is the joint one over the horizon; dividing it by H makes horizons comparable. It is evaluated
    in the distribution's own precision.

    Example:
        >>> import torch
        >>> distribution = Ellipsoid(torch.ones(1, 1, 1, 4), None, torch.zeros(1, 1, 1, 0, 4), base_variance=1.0)
        >>> round(nll(distribution, torch.zeros(1, 4, 1)).item(), 4)         # ½ log 2π
        0.9189
    """
    return as_kind("nll", negative_log_densities(distribution, read_truth(true, distribution)).mean(), true)


@overload
def crps(distribution: Ellipsoid | Tensor, true: Tensor, *, estimator: Estimator = ...) -> Tensor: ...
@overload
def crps(distribution: Ellipsoid | NumpyArray, true: NumpyArray, *, estimator: Estimator = ...) -> np.float64: ...
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


@overload
def coverage(distribution: Ellipsoid | Tensor, true: Tensor, *, level: float = ...) -> Tensor: ...
@overload
def coverage(distribution: Ellipsoid | NumpyArray, true: NumpyArray, *, level: float = ...) -> np.float64: ...
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

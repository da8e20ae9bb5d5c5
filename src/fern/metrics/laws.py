"""Reading a predictive law: a Gaussian distribution or samples, as marginals that can be scored.

A law is one of

- a ``torch.distributions.Distribution`` with batch shape (B, C) and event shape (H,): for each window and channel
  a joint law over the horizon, such as ``fern.transport.Ellipsoid``;
- samples (S, B, H, C), as a tensor or a NumPy array: joint paths, S to each window.
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, LowRankMultivariateNormal, MultivariateNormal, Normal

from fern.errors import FernError, unknown_name
from fern.metrics.arrays import SAMPLES, WINDOWS, Array, require_device, require_finite, to_tensor, wide
from fern.metrics.gaussian import gaussian_crps
from fern.metrics.wasserstein import ordered
from fern.transport import Ellipsoid

Law = Distribution | Array
Estimator = Literal["fair", "nrg"]
ESTIMATORS: tuple[str, ...] = get_args(Estimator)

GAUSSIAN = (Ellipsoid, MultivariateNormal, LowRankMultivariateNormal)
DRAWS = 100
"""How many paths are drawn from a law, unless told."""

CHANNEL_FIRST = ("batch", "channels", "horizon")


class Marginals(Protocol):
    """The law of each single value: what CRPS and central intervals need."""

    def crps(self, truth: Tensor, estimator: Estimator) -> Tensor:
        """The CRPS of each value of ``truth`` (B, C, H)."""
        ...

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """The ends (B, C, H) of the central interval that holds a share ``level`` of the law."""
        ...


@dataclass(frozen=True)
class GaussianMarginals:
    """Normal marginals, known by mean and standard deviation."""

    mean: Tensor  # (B, C, H)
    stddev: Tensor  # (B, C, H)

    def crps(self, truth: Tensor, estimator: Estimator) -> Tensor:
        """`fern.metrics.gaussian.gaussian_crps`; nothing is estimated."""
        require_estimator(estimator)
        return gaussian_crps(truth - self.mean, self.stddev)

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """μ ± σ·Φ⁻¹((1 + level)/2)."""
        half = self.stddev * math.sqrt(2) * float(torch.erfinv(torch.tensor(level, dtype=torch.float64)))
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

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """The sample quantiles at (1 ∓ level)/2, interpolated linearly as NumPy does by default."""
        return self._quantile((1 - level) / 2), self._quantile((1 + level) / 2)

    def _quantile(self, share: float) -> Tensor:
        place = share * (self.ordered.shape[-1] - 1)
        below = math.floor(place)
        above = math.ceil(place)
        return torch.lerp(self.ordered[..., below], self.ordered[..., above], place - below)


def require_estimator(estimator: str) -> None:
    """Refuse a name that is none of the two estimators."""
    if estimator not in ESTIMATORS:
        raise unknown_name("estimator", estimator, ESTIMATORS)


def pairs(count: int, estimator: Estimator) -> int:
    """The number of pairs that the mean distance between two of ``count`` samples is taken over.

    ``fair`` leaves out the pairs of a sample with itself, which makes the score unbiased for the law behind the
    samples; ``nrg`` counts them, which scores the samples as the law itself.
    """
    require_estimator(estimator)
    if estimator == "nrg":
        return count * count
    if count < 2:
        raise FernError("samples: the fair estimator needs at least 2, got 1; estimator='nrg' takes 1")
    return count * (count - 1)


def read_marginals(
    law: Law,
    truth: Tensor | None = None,  # (B, H, C)
) -> Marginals:
    """The law's marginals in float64, checked, and fitting the truth if there is one."""
    if isinstance(law, Distribution):
        require_gaussian(law)
        return GaussianMarginals(*_moments(law, truth))
    return SampleMarginals(ordered(wide(read_samples("law", law, truth)).permute(1, 3, 2, 0)))


def read_samples(
    name: str,
    samples: Array,  # (S, B, H, C)
    truth: Tensor | None = None,  # (B, H, C)
) -> Tensor:  # (S, B, H, C)
    """The samples as a tensor, checked, and fitting the truth if there is one."""
    values = to_tensor(name, samples, SAMPLES)
    if truth is not None:
        if values.shape[1:] != truth.shape:
            raise FernError(
                f"{name}: samples of shape {tuple(values.shape)} do not fit true of shape {tuple(truth.shape)}; "
                f"they need (samples, batch, horizon, channels)"
            )
        require_device(name, values, truth)
    return values


def read_truth(true: Array, law: Law) -> Tensor:  # (B, H, C)
    """The truth as a tensor, checked, and of the same kind as the law if that is samples."""
    if not isinstance(law, Distribution) and isinstance(law, Tensor) != isinstance(true, Tensor):
        raise FernError("law and true: give both as tensors or both as NumPy arrays")
    return to_tensor("true", true, WINDOWS)


def read_paths(
    law: Law,
    truth: Tensor,  # (B, H, C)
    *,
    samples: int | None,
    generator: torch.Generator | None,
) -> Tensor:  # (S, B, H, C)
    """Joint paths: the samples given, or drawn from the law so that gradients flow through them.

    Without a generator they are drawn by a fresh one with seed 0.
    """
    if not isinstance(law, Distribution):
        if samples is not None or generator is not None:
            raise FernError("samples, generator: the law is given as samples, nothing is drawn")
        return read_samples("law", law, truth)
    if not isinstance(law, Ellipsoid):
        raise FernError(
            f"law: {type(law).__name__} draws from torch's global random state, which metrics leave alone; "
            f"give samples (samples, batch, horizon, channels) of it"
        )
    count = DRAWS if samples is None else samples
    if count < 1:
        raise FernError(f"samples: got {count}, needs at least 1")
    require_law_fits(law, truth)
    source = torch.Generator(device=truth.device).manual_seed(0) if generator is None else generator
    paths = law.rsample((count,), generator=source).transpose(-1, -2)
    require_finite("law's samples", paths, SAMPLES)
    return paths


def require_gaussian(law: Law) -> Distribution:
    """The law, if it is known to be Gaussian: the closed forms would be silently wrong for any other."""
    if not isinstance(law, Distribution):
        raise FernError("law: needs a Gaussian distribution such as fern.transport.Ellipsoid, got samples")
    independent = isinstance(law, Independent) and isinstance(law.base_dist, Normal)
    if not (independent or isinstance(law, GAUSSIAN)):
        raise FernError(
            f"law: {type(law).__name__} is not known to be Gaussian over the horizon, as Ellipsoid, "
            f"MultivariateNormal and Independent(Normal, 1) are; give samples (samples, batch, horizon, channels) of it"
        )
    return law


def require_law_fits(
    law: Distribution,
    truth: Tensor,  # (B, H, C)
) -> None:
    """Refuse a distribution whose batch and event are not the truth's windows, channels and horizon."""
    batch, horizon, channels = truth.shape
    if law.batch_shape != (batch, channels) or law.event_shape != (horizon,):
        raise FernError(
            f"law: batch shape {tuple(law.batch_shape)} and event shape {tuple(law.event_shape)} do not fit true "
            f"of shape {tuple(truth.shape)}; they must be ({batch}, {channels}) and ({horizon},)"
        )
    require_device("law", tensor_of(law), truth)


def tensor_of(law: Distribution) -> Tensor:
    """One of the law's parameters, for its precision and device: the mean of a factored law takes work."""
    base = law.base_dist if isinstance(law, Independent) else law
    for name in base.arg_constraints:
        values = getattr(base, name)
        if isinstance(values, Tensor):
            return values
    return law.mean


def _moments(law: Distribution, truth: Tensor | None) -> tuple[Tensor, Tensor]:
    if truth is not None:
        require_law_fits(law, truth)
    elif len(law.batch_shape) != 2 or len(law.event_shape) != 1:
        raise FernError(
            f"law: needs a batch shape (batch, channels) and an event shape (horizon,), "
            f"got {tuple(law.batch_shape)} and {tuple(law.event_shape)}"
        )
    mean, stddev = wide(law.mean), wide(law.stddev)
    require_finite("law.mean", mean, CHANNEL_FIRST)
    require_finite("law.stddev", stddev, CHANNEL_FIRST)
    if stddev.min() <= 0:
        batch, channel, step = (stddev <= 0).nonzero()[0].tolist()
        raise FernError(
            f"law.stddev: {stddev[batch, channel, step]:.6g} at batch {batch}, channels {channel}, horizon {step} "
            f"(counted from 0); every value must be positive"
        )
    return mean, stddev

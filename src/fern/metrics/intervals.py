"""Calibration and sharpness of a predictive law: coverage of its intervals and ellipsoids, and their width.

A law is calibrated if its regions of probability ``level`` hold that share of the truth; among calibrated laws the
sharper is the better one.
"""

from typing import overload

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from fern.errors import FernError
from fern.metrics.arrays import Array, NumpyArray, Scalar, as_kind, wide
from fern.metrics.laws import Law, Marginals, read_marginals, read_truth, require_gaussian, require_law_fits


def covered_shares(
    marginals: Marginals,
    true: Tensor,  # (B, H, C)
    *,
    level: float,
) -> Tensor:  # (B, C)
    """The share of each window's and channel's steps that lie in their central intervals."""
    lower, upper = marginals.interval(require_level(level))
    truth = wide(true).transpose(1, 2)
    return wide((lower <= truth) & (truth <= upper)).mean(dim=-1)


def jointly_covered(
    law: Law,
    true: Tensor,  # (B, H, C)
    *,
    level: float,
) -> Tensor:  # (B, C)
    """1 for each window and channel whose horizon vector lies in the law's ellipsoid of that probability."""
    law = require_gaussian(law)
    require_law_fits(law, true)
    mean = law.mean
    truth = true.transpose(1, 2).to(mean.dtype)
    squared_distance = 2 * (wide(law.log_prob(mean)) - wide(law.log_prob(truth)))  # Mahalanobis, for any Gaussian
    half_freedom = torch.full_like(squared_distance, true.shape[1] / 2)
    probability = torch.special.gammainc(half_freedom, squared_distance.clamp(min=0) / 2)  # the χ² law's cdf
    return wide(probability <= require_level(level))


def interval_widths(marginals: Marginals, *, level: float) -> Tensor:  # (B, C)
    """The mean width of each window's and channel's central intervals."""
    lower, upper = marginals.interval(require_level(level))
    return (upper - lower).mean(dim=-1)


@overload
def coverage(law: Distribution | Tensor, true: Tensor, *, level: float = ...) -> Tensor: ...
@overload
def coverage(law: Distribution | NumpyArray, true: NumpyArray, *, level: float = ...) -> np.float64: ...
def coverage(
    law: Law,  # batch (B, C), event (H,); or samples (S, B, H, C)
    true: Array,  # (B, H, C)
    *,
    level: float = 0.9,
) -> Scalar:
    """The share of true values inside the central intervals of probability ``level``; calibrated if equal to it.

    The interval of a Gaussian law is μ ± σ·Φ⁻¹((1 + level)/2); of samples, from their (1 − level)/2 to their
    (1 + level)/2 quantile, interpolated linearly. The ends belong to it. It has no gradient.

    Example:
        >>> import numpy as np
        >>> samples = np.linspace(-1, 1, 101).reshape(-1, 1, 1, 1).repeat(4, axis=2)
        >>> float(coverage(samples, np.array([-0.95, -0.1, 0.1, 0.5]).reshape(1, 4, 1), level=0.9))
        0.75
    """
    truth = read_truth(true, law)
    return as_kind("coverage", covered_shares(read_marginals(law, truth), truth, level=level).mean(), true)


@overload
def joint_coverage(law: Distribution, true: Tensor, *, level: float = ...) -> Tensor: ...
@overload
def joint_coverage(law: Distribution, true: NumpyArray, *, level: float = ...) -> np.float64: ...
def joint_coverage(
    law: Distribution,  # batch (B, C), event (H,)
    true: Array,  # (B, H, C)
    *,
    level: float = 0.9,
) -> Scalar:
    """The share of true horizon vectors inside the law's ellipsoid of probability ``level``.

    Of a Gaussian law on R^H the ellipsoid is ``(y − μ)ᵀ Σ⁻¹ (y − μ) ≤ q``, q the ``level`` quantile of the χ²
    law with H degrees of freedom: a whole path is in or out. It has no gradient.

    Example:
        >>> import torch
        >>> from torch.distributions import Independent, Normal
        >>> law = Independent(Normal(torch.zeros(2, 1, 4), torch.ones(2, 1, 4)), 1)
        >>> joint_coverage(law, torch.tensor([1.0, 2.0]).reshape(2, 1, 1).expand(2, 4, 1)).item()  # 4, 16; q = 7.78
        0.5
    """
    return as_kind("joint_coverage", jointly_covered(law, read_truth(true, law), level=level).mean(), true)


@overload
def interval_width(law: Distribution | Tensor, *, level: float = ...) -> Tensor: ...
@overload
def interval_width(law: NumpyArray, *, level: float = ...) -> np.float64: ...
def interval_width(
    law: Law,  # batch (B, C), event (H,); or samples (S, B, H, C)
    *,
    level: float = 0.9,
) -> Scalar:
    """Mean width of the law's central intervals of probability ``level`` (see ``coverage``); sharper is smaller.

    Example:
        >>> import torch
        >>> from torch.distributions import Independent, Normal
        >>> law = Independent(Normal(torch.zeros(1, 1, 4), torch.ones(1, 1, 4)), 1)
        >>> round(interval_width(law, level=0.95).item(), 4)         # 2 · 1.96
        3.9199
    """
    widths = interval_widths(read_marginals(law), level=level).mean()
    return as_kind("interval_width", widths, law if isinstance(law, np.ndarray) else widths)


def require_level(level: float) -> float:
    """The level, if it is a probability that a proper interval can have."""
    if not 0 < level < 1:
        raise FernError(f"level: got {level}, needs a probability between 0 and 1, such as 0.9")
    return level

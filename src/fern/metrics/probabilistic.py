"""Scores of a predictive law by its density and by its marginals: negative log-likelihood and CRPS.

Both take a law (see ``fern.metrics.laws``) and the truth (B, H, C), and average over windows and channels.
Channels are scored on their own, as Fern predicts them.
"""

from typing import overload

import numpy as np
from torch import Tensor
from torch.distributions import Distribution

from fern.errors import FernError
from fern.metrics.arrays import Array, NumpyArray, Scalar, as_kind, wide
from fern.metrics.laws import Estimator, Law, Marginals, read_marginals, read_truth, require_law_fits, tensor_of


def negative_log_densities(
    law: Law,
    true: Tensor,  # (B, H, C)
) -> Tensor:  # (B, C)
    """−log density of each window and channel, per step."""
    if not isinstance(law, Distribution):
        raise FernError("law: nll needs a distribution with a density, got samples; crps and energy_score take them")
    require_law_fits(law, true)
    density = law.log_prob(true.transpose(1, 2).to(tensor_of(law).dtype))
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
def nll(law: Distribution, true: Tensor) -> Tensor: ...
@overload
def nll(law: Distribution, true: NumpyArray) -> np.float64: ...
def nll(
    law: Distribution,  # batch (B, C), event (H,)
    true: Array,  # (B, H, C)
) -> Scalar:
    """Negative log-likelihood per step, −log p(true)/H, averaged over windows and channels, in nats.

    The density is the joint one over the horizon; dividing it by H makes horizons comparable. It is evaluated
    in the law's own precision.

    Example:
        >>> import torch
        >>> from torch.distributions import Independent, Normal
        >>> law = Independent(Normal(torch.zeros(1, 1, 4), torch.ones(1, 1, 4)), 1)
        >>> round(nll(law, torch.zeros(1, 4, 1)).item(), 4)         # ½ log 2π
        0.9189
    """
    return as_kind("nll", negative_log_densities(law, read_truth(true, law)).mean(), true)


@overload
def crps(law: Distribution | Tensor, true: Tensor, *, estimator: Estimator = ...) -> Tensor: ...
@overload
def crps(law: Distribution | NumpyArray, true: NumpyArray, *, estimator: Estimator = ...) -> np.float64: ...
def crps(
    law: Law,  # batch (B, C), event (H,); or samples (S, B, H, C)
    true: Array,  # (B, H, C)
    *,
    estimator: Estimator = "fair",
) -> Scalar:
    """Continuous ranked probability score of the marginals, averaged over windows, steps and channels.

    ::

        CRPS(F, y) = E|X − y| − ½ E|X − X'|,    X, X' ~ F independent; the absolute error of a sharp forecast.

    Closed form for a Gaussian law. For samples ``fair`` (S ≥ 2) is unbiased for the law that they were drawn
    from, so that it agrees with the closed form at any S; ``nrg`` scores the samples as the law itself.

    Example:
        >>> import numpy as np
        >>> samples = np.array([0.0, 2.0]).reshape(2, 1, 1, 1)
        >>> float(crps(samples, np.ones((1, 1, 1)))), float(crps(samples, np.ones((1, 1, 1)), estimator="nrg"))
        (0.0, 0.5)
    """
    truth = read_truth(true, law)
    return as_kind("crps", crps_values(read_marginals(law, truth), truth, estimator=estimator).mean(), true)

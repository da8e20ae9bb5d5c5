"""The energy score of whole paths, which sees dependence in time."""

from collections.abc import Iterator
from typing import overload

import numpy as np
import torch
from torch import Tensor

from fern.metrics.point import Array, NumpyArray, Scalar, as_kind, wide
from fern.metrics.probabilistic import Estimator, ForecastDistribution, pairs, read_paths, read_truth
from fern.transport import Ellipsoid

CHUNK_VALUES = 2**18  # windows are scored in chunks of about so many values, 2 MB, which stay in cache
SMALLEST_SQUARE = 1e-300  # below it a squared distance counts as zero, where the root has no gradient


def energy_scores(
    samples: Tensor,  # (S, B, H, C)
    true: Tensor,  # (B, H, C)
    *,
    estimator: Estimator = "fair",
) -> Tensor:  # (B, C)
    """The energy score of each window and channel over its horizon vector."""
    count, batch, horizon, channels = samples.shape
    distances = pairs(count, estimator)
    first, second = torch.triu_indices(count, count, offset=1, device=samples.device)
    scores = []
    for paths, truth in _chunks(samples, true, window_values=count * (count + horizon)):
        to_truth = torch.linalg.vector_norm(paths - truth.unsqueeze(1), dim=-1).mean(dim=-1)
        # |a − b|² = |a|² + |b|² − 2⟨a, b⟩ is ten times faster than subtracting each pair; centred on their mean
        # the paths are as large as their distances, so that in float64 nothing is lost to cancellation.
        centred = paths - paths.mean(dim=1, keepdim=True)
        squares = centred.square().sum(dim=-1)
        apart = squares[:, first] + squares[:, second] - 2 * (centred @ centred.mT)[:, first, second]
        scores.append(to_truth - apart.clamp(min=SMALLEST_SQUARE).sqrt().sum(dim=-1) / distances)
    return torch.cat(scores).reshape(batch, channels)


@overload
def energy_score(
    distribution: Ellipsoid | Tensor,
    true: Tensor,
    *,
    samples: int | None = ...,
    generator: torch.Generator | None = ...,
    estimator: Estimator = ...,
) -> Tensor: ...
@overload
def energy_score(
    distribution: Ellipsoid | NumpyArray,
    true: NumpyArray,
    *,
    samples: int | None = ...,
    generator: torch.Generator | None = ...,
    estimator: Estimator = ...,
) -> np.float64: ...
def energy_score(
    distribution: ForecastDistribution,  # batch (B, C), event (H,); or samples (S, B, H, C)
    true: Array,  # (B, H, C)
    *,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    estimator: Estimator = "fair",
) -> Scalar:
    """Energy score over the horizon vector of each channel, averaged over windows and channels.

    ::

        ES(F, y) = E‖X − y‖ − ½ E‖X − X'‖,     X, X' ~ F independent, ‖·‖ the norm in R^H

    (Gneiting and Raftery 2007): the CRPS of whole paths, which sees dependence in time. It has no closed form:
    of an ``Ellipsoid`` it draws ``samples`` paths (100) by ``generator`` (without one the same at each call), and
    gradients flow through them. ``estimator`` as in ``crps``. Time grows as S²·H a window.

    Example: a sharp forecast scores its distance from the truth.
        >>> import torch
        >>> energy_score(torch.zeros(3, 1, 4, 1), torch.ones(1, 4, 1)).item()
        2.0
    """
    truth = read_truth(true, distribution)
    paths = read_paths(distribution, truth, samples=samples, generator=generator)
    return as_kind("energy_score", energy_scores(paths, truth, estimator=estimator).mean(), true)


def _chunks(
    samples: Tensor,  # (S, B, H, C)
    true: Tensor,  # (B, H, C)
    *,
    window_values: int,
) -> Iterator[tuple[Tensor, Tensor]]:  # (W, S, H) and (W, H)
    """The channels of the windows as one list, a chunk at a time, in float64."""
    paths = samples.permute(1, 3, 0, 2).flatten(0, 1)
    truths = true.transpose(1, 2).flatten(0, 1)
    size = max(1, CHUNK_VALUES // window_values)
    for path, truth in zip(torch.split(paths, size), torch.split(truths, size), strict=True):
        yield wide(path), wide(truth)

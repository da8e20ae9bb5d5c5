"""Wasserstein-2 distances between forecast and truth: in one dimension (WD) and sliced (SWD)."""

from typing import overload

import numpy as np
import torch
from torch import Tensor

from fern.errors import FernError
from fern.metrics.arrays import Array, NumpyArray, Scalar, as_kind, blockwise, read_pair, to_tensor, wide

PROJECTIONS = 500
"""The paper's number of directions."""

DIRECTIONS = ("horizon", "projections")
UNIT_TOLERANCE = 1e-4  # directions normalised in float32, or in float16 and up, pass; unnormalised ones do not

Generator = torch.Generator | np.random.Generator


def ordered(values: Tensor) -> Tensor:
    """The values in ascending order along the last axis.

    On the CPU NumPy's vectorised sort is about ten times faster than PyTorch's, which also keeps the indices;
    only the gradient needs those.
    """
    if values.device.type == "cpu" and not (torch.is_grad_enabled() and values.requires_grad):
        return torch.from_numpy(np.sort(values.detach().numpy(), axis=-1))
    return values.sort(dim=-1).values


@blockwise
def w2_squared_per_window(
    pred: Tensor,  # (B, H, C)
    true: Tensor,  # (B, H, C)
) -> Tensor:  # (B, C)
    """The squared W2 distance between the horizon's values, for each window and channel."""
    gaps = ordered(wide(pred).transpose(1, 2)) - ordered(wide(true).transpose(1, 2))
    return gaps.square().mean(dim=-1)


def sliced_w2_squared_per_channel(
    pred: Tensor,  # (B, H, C)
    true: Tensor,  # (B, H, C)
    directions: Tensor,  # (H, L), wide
) -> Tensor:  # (C,)
    """The squared sliced W2 distance between the batch's horizon vectors, for each channel.

    One channel at a time: the working memory is a few (L, B) matrices.
    """
    slices = directions.T
    channels = []
    for channel in range(pred.shape[-1]):
        forecast = ordered(slices @ wide(pred[..., channel]).T)
        truth = ordered(slices @ wide(true[..., channel]).T)
        channels.append((forecast - truth).square().mean())
    return torch.stack(channels)


def sphere_directions(
    horizon: int,
    projections: int = PROJECTIONS,
    *,
    generator: Generator | None = None,
) -> Tensor:  # (H, L)
    """Directions drawn uniformly from the unit sphere in R^H, as the columns of a float64 matrix.

    Without a generator the draw is the same at each call (a fresh ``torch.Generator`` with seed 0).

    Example:
        >>> sphere_directions(336, 4).norm(dim=0)
        tensor([1.0000, 1.0000, 1.0000, 1.0000], dtype=torch.float64)
    """
    for name, count in (("horizon", horizon), ("projections", projections)):
        if count < 1:
            raise FernError(argument=name, got=count, expected="at least 1")
    if isinstance(generator, np.random.Generator):
        normal = torch.from_numpy(generator.standard_normal((horizon, projections)))
    else:
        source = torch.Generator().manual_seed(0) if generator is None else generator
        normal = torch.randn((horizon, projections), generator=source, device=source.device, dtype=torch.float64)
    return torch.nn.functional.normalize(normal, dim=0)


def read_directions(directions: Array) -> Tensor:  # (H, L)
    """Directions as a tensor, checked: columns of unit length."""
    columns = wide(to_tensor("directions", directions, DIRECTIONS))
    lengths = torch.linalg.vector_norm(columns, dim=0)
    off = ((lengths - 1).abs() > UNIT_TOLERANCE).nonzero()
    if len(off):
        column = int(off[0])
        raise FernError(
            f"column {column} has length {lengths[column]:.6g}", argument="directions", expected="unit length"
        )
    return columns


def unit_directions(
    directions: Array | None,  # (H, L)
    true: Tensor,  # (B, H, C)
) -> Tensor:  # (H, L)
    """The directions, or the default ones for None, for the truth's horizon and on its device."""
    horizon = true.shape[1]
    columns = sphere_directions(horizon) if directions is None else read_directions(directions)
    if columns.shape[0] != horizon:
        raise FernError(
            f"shape {tuple(columns.shape)} (horizon, projections) does not fit a horizon of {horizon}",
            argument="directions",
        )
    return wide(columns, true.device)


@overload
def w2_squared(pred: Tensor, true: Tensor) -> Tensor: ...
@overload
def w2_squared(pred: NumpyArray, true: NumpyArray) -> np.float64: ...
def w2_squared(
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
) -> Scalar:
    """Squared Wasserstein-2 distance of the horizon's values: the shock tables' WD. It is ``w2`` among `METRICS`
    and in settings, ``wd`` in rows, and squared under each of these names.

    The H values of a window and channel are taken as samples, their order in time ignored (paper, appendix
    "Distributional metrics")::

        W2² = 1/H Σ_h (pred_(h) − true_(h))²      with order statistics pred_(1) ≤ … ≤ pred_(H),

    averaged over windows and channels. Never above the MSE.

    Example: the right values one step late cost nothing.
        >>> import torch
        >>> w2_squared(torch.tensor([[[3.0], [1.0], [2.0]]]), torch.tensor([[[1.0], [2.0], [3.0]]])).item()
        0.0
    """
    return as_kind("w2", w2_squared_per_window(*read_pair(pred, true)).mean(), true)


@overload
def sliced_w2_squared(
    pred: Tensor,
    true: Tensor,
    projections: int = ...,
    *,
    generator: Generator | None = ...,
    directions: Tensor | None = ...,
) -> Tensor: ...
@overload
def sliced_w2_squared(
    pred: NumpyArray,
    true: NumpyArray,
    projections: int = ...,
    *,
    generator: Generator | None = ...,
    directions: Array | None = ...,
) -> np.float64: ...
def sliced_w2_squared(
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
    projections: int = PROJECTIONS,
    *,
    generator: Generator | None = None,
    directions: Array | None = None,  # (H, L)
) -> Scalar:
    """Squared sliced Wasserstein-2 distance between the horizon vectors: the detailed tables' SWD. It is
    ``sliced_w2`` among `METRICS` and in settings, ``swd`` in rows, and squared under each of these names.

    The batch's horizon vectors of a channel are two clouds of B points in R^H. Projected on L unit directions
    and sorted over the batch (Bonneel et al. 2015; paper, appendix "Distributional metrics")::

        SW2² = 1/(L·B) Σ_l Σ_b (⟨pred, θ_l⟩_(b) − ⟨true, θ_l⟩_(b))²,

    averaged over channels. For one channel it is the square of POT's ``sliced_wasserstein_distance`` with
    ``projections=directions``.

    It compares whole sets of windows, so the value belongs to the set: averaging it over batches is another
    (larger) figure. ``MetricAccumulator`` gathers batches into one set.

    The directions are ``directions`` where given, and otherwise ``sphere_directions(H, projections,
    generator=generator)``, which without a generator are the same at each call.

    Example: a batch in another order is the same cloud.
        >>> import torch
        >>> windows = torch.randn(8, 12, 2, generator=torch.Generator().manual_seed(1))
        >>> sliced_w2_squared(windows, windows.flip(0)).item()
        0.0
    """
    forecast, truth = read_pair(pred, true)
    if directions is None:
        directions = sphere_directions(truth.shape[1], projections, generator=generator)
    elif generator is not None:
        raise FernError(
            "is given beside directions, which are not drawn then", argument="generator", expected="one of them"
        )
    elif projections not in (PROJECTIONS, directions.shape[-1]):
        raise FernError(f"got {projections}, but directions holds {directions.shape[-1]}", argument="projections")
    columns = unit_directions(directions, truth)
    return as_kind("sliced_w2", sliced_w2_squared_per_channel(forecast, truth, columns).mean(), true)

"""Point forecasts against the truth: squared and absolute errors, Wasserstein-2 distances in one dimension (WD) and
sliced (SWD), and effective prediction time; before them what every metric shares, which reads torch or NumPy arrays,
refuses bad ones and gives back the same kind.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fern.errors import FernError

NumpyArray = NDArray[Any]
Array = Tensor | NumpyArray
Scalar = Tensor | np.float64

WINDOWS = ("batch", "horizon", "channels")
SAMPLES = ("samples", "batch", "horizon", "channels")

BLOCK_VALUES = 2**16  # 512 kB in float64, which stay in cache

P = ParamSpec("P")
PairScore = Callable[Concatenate[Tensor, Tensor, P], Tensor]


def to_tensor(name: str, values: Array, axes: tuple[str, ...]) -> Tensor:
    """The values as a floating tensor with the named axes: not empty, every value finite.

    A tensor keeps its place in the gradient graph. A NumPy array of float32 or float64 is not copied where
    PyTorch can read it in place.
    """
    tensor = values if isinstance(values, Tensor) else _from_numpy(name, values)
    if tensor.dtype == torch.bool or tensor.is_complex():
        raise FernError(argument=name, got=tensor.dtype, expected="real numbers")
    if tensor.ndim != len(axes):
        raise FernError(f"got shape {tuple(tensor.shape)}", argument=name, expected=f"({', '.join(axes)})")
    if tensor.numel() == 0:
        raise FernError(f"is empty, shape {tuple(tensor.shape)} ({', '.join(axes)})", argument=name)
    tensor = tensor if tensor.is_floating_point() else tensor.double()
    require_finite(name, tensor, axes)
    return tensor


def read_pair(pred: Array, true: Array) -> tuple[Tensor, Tensor]:
    """Both arrays as tensors (B, H, C) of equal shape, kind and device; nothing is broadcast."""
    if isinstance(pred, Tensor) != isinstance(true, Tensor):
        problem = f"is a {_kind(pred)} and true is a {_kind(true)}"
        raise FernError(problem, argument="pred", expected="both as tensors or both as NumPy arrays")
    forecast, truth = to_tensor("pred", pred, WINDOWS), to_tensor("true", true, WINDOWS)
    if forecast.shape != truth.shape:
        problem = f"got shape {tuple(forecast.shape)}, true has {tuple(truth.shape)}"
        raise FernError(problem, argument="pred", expected="equal shapes: nothing is broadcast")
    require_device("pred", forecast, truth)
    return forecast, truth


def require_device(name: str, values: Tensor, truth: Tensor) -> None:
    """Refuse values that lie on another device than the truth."""
    if values.device != truth.device:
        raise FernError(f"is on {values.device}, true on {truth.device}", argument=name, expected="one device")


def require_finite(name: str, values: Tensor, axes: tuple[str, ...]) -> None:
    """Refuse NaN and infinity, naming the first bad position.

    A sum is finite only if every term is, and it costs a tenth of looking at each value; so each value is
    looked at only when the sum is not finite (which large finite values can cause as well).
    """
    with torch.no_grad():
        if torch.isfinite(values.sum()):
            return
        bad = (~torch.isfinite(values)).nonzero()
    if len(bad):
        position = bad[0].tolist()
        value = values[tuple(position)].item()
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        place = ", ".join(f"{axis} {index}" for axis, index in zip(axes, position, strict=True))
        raise FernError(f"{value} at {place} (counted from 0){more}; every value must be finite", argument=name)


def wide(values: Tensor, device: torch.device | None = None) -> Tensor:
    """The values in float64, in which all sums run (float32 on Apple GPUs, which have nothing wider).

    ``device`` moves them as well.
    """
    place = values.device if device is None else device
    return values.to(device=place, dtype=torch.float32 if place.type == "mps" else torch.float64)


def blockwise(score: PairScore[P]) -> PairScore[P]:
    """Let a score (B, H, C), (B, H, C) -> (B, C) go through large sets of windows a block at a time.

    The values are the same; the float64 copies of a whole set would cost its memory several times over, and
    most of the time.
    """

    @wraps(score)
    def score_blocks(pred: Tensor, true: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        size = max(1, BLOCK_VALUES // true[0].numel())
        if len(true) <= size:
            return score(pred, true, *args, **kwargs)
        pairs = zip(torch.split(pred, size), torch.split(true, size), strict=True)
        return torch.cat([score(*pair, *args, **kwargs) for pair in pairs])

    return score_blocks


def as_kind(name: str, value: Tensor, like: Array) -> Scalar:
    """The metric's 0-d tensor for torch input, a NumPy float for NumPy input; never NaN or infinite."""
    if not torch.isfinite(value):
        raise FernError("overflows float64; the finite values given are too large to score", argument=name)
    return value if isinstance(like, Tensor) else np.float64(value.item())


def _from_numpy(name: str, values: NumpyArray) -> Tensor:
    if not isinstance(values, np.ndarray):
        raise FernError(f"got {_kind(values)}", argument=name, expected="a torch tensor or a NumPy array")
    if isinstance(values, np.ma.MaskedArray):
        raise FernError("is a masked array, whose mask would be lost; fill or drop the masked values", argument=name)
    if values.dtype.kind not in "fiu":
        raise FernError(f"got dtype {values.dtype}", argument=name, expected="real numbers")
    dtype = np.float32 if values.dtype == np.float32 else np.float64
    readable = np.asarray(values, dtype=dtype, order="C")
    return torch.from_numpy(readable if readable.flags.writeable else readable.copy())


def _kind(values: object) -> str:
    return "torch tensor" if isinstance(values, Tensor) else f"{type(values).__module__}.{type(values).__name__}"


@blockwise
def squared_errors(pred: Tensor, true: Tensor) -> Tensor:  # (B, H, C) each -> (B, C)
    """The mean squared error of each window and channel."""
    return (wide(pred) - wide(true)).square().mean(dim=1)


@blockwise
def absolute_errors(pred: Tensor, true: Tensor) -> Tensor:  # (B, H, C) each -> (B, C)
    """The mean absolute error of each window and channel."""
    return (wide(pred) - wide(true)).abs().mean(dim=1)


@overload
def mse(pred: Tensor, true: Tensor) -> Tensor: ...
@overload
def mse(pred: NumpyArray, true: NumpyArray) -> np.float64: ...
def mse(pred: Array, true: Array) -> Scalar:  # (B, H, C) each
    """Mean squared error over windows, steps and channels.

    Example:
        >>> import torch
        >>> mse(torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[1.0], [4.0]]])).item()
        2.0
    """
    return as_kind("mse", squared_errors(*read_pair(pred, true)).mean(), true)


@overload
def mae(pred: Tensor, true: Tensor) -> Tensor: ...
@overload
def mae(pred: NumpyArray, true: NumpyArray) -> np.float64: ...
def mae(pred: Array, true: Array) -> Scalar:  # (B, H, C) each
    """Mean absolute error over windows, steps and channels.

    Example:
        >>> import numpy as np
        >>> float(mae(np.array([[[1.0], [2.0]]]), np.array([[[1.0], [4.0]]])))
        1.0
    """
    return as_kind("mae", absolute_errors(*read_pair(pred, true)).mean(), true)


PROJECTIONS = 500
"""The paper's number of directions."""

DIRECTIONS = ("horizon", "projections")
UNIT_TOLERANCE = 1e-4  # directions normalised in float32, or in float16 and up, pass; unnormalised ones do not

Generator = torch.Generator | np.random.Generator


def sort_last_axis(values: Tensor) -> Tensor:
    """The values in ascending order along the last axis.

    On the CPU NumPy's vectorised sort is about ten times faster than PyTorch's, which also keeps the indices;
    only the gradient needs those.
    """
    if values.device.type == "cpu" and not (torch.is_grad_enabled() and values.requires_grad):
        return torch.from_numpy(np.sort(values.detach().numpy(), axis=-1))
    return values.sort(dim=-1).values


@blockwise
def w2_squared_per_window(pred: Tensor, true: Tensor) -> Tensor:  # (B, H, C) each -> (B, C)
    """The squared W2 distance between the horizon's values, for each window and channel."""
    gaps = sort_last_axis(wide(pred).transpose(1, 2)) - sort_last_axis(wide(true).transpose(1, 2))
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
        forecast = sort_last_axis(slices @ wide(pred[..., channel]).T)
        truth = sort_last_axis(slices @ wide(true[..., channel]).T)
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
        problem = f"column {int(off[0])} has length {lengths[off[0]].item():.6g}"
        raise FernError(problem, argument="directions", expected="unit length")
    return columns


def unit_directions(directions: Array | None, true: Tensor) -> Tensor:  # (H, L) and (B, H, C) -> (H, L)
    """The directions, or the default ones for None, for the truth's horizon and on its device."""
    horizon = true.shape[1]
    columns = sphere_directions(horizon) if directions is None else read_directions(directions)
    if columns.shape[0] != horizon:
        problem = f"shape {tuple(columns.shape)} (horizon, projections) does not fit a horizon of {horizon}"
        raise FernError(problem, argument="directions")
    return wide(columns, true.device)


@overload
def w2_squared(pred: Tensor, true: Tensor) -> Tensor: ...
@overload
def w2_squared(pred: NumpyArray, true: NumpyArray) -> np.float64: ...
def w2_squared(pred: Array, true: Array) -> Scalar:  # (B, H, C) each
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
        problem = "is given beside directions, which are not drawn then"
        raise FernError(problem, argument="generator", expected="one of them")
    elif projections not in (PROJECTIONS, directions.shape[-1]):
        raise FernError(f"got {projections}, but directions holds {directions.shape[-1]}", argument="projections")
    columns = unit_directions(directions, truth)
    return as_kind("sliced_w2", sliced_w2_squared_per_channel(forecast, truth, columns).mean(), true)


@blockwise
def first_exceeding_steps(
    pred: Tensor,  # (B, H, C)
    true: Tensor,  # (B, H, C)
    std: Tensor,  # (C,)
) -> Tensor:  # (B, C)
    """The first step, counted from 1, whose absolute error exceeds ``std``; H where none does."""
    horizon = true.shape[1]
    exceeds = (wide(pred) - wide(true)).abs() > std
    first = exceeds.to(torch.uint8).argmax(dim=1) + 1  # argmax gives the first of equals
    return wide(torch.where(exceeds.any(dim=1), first, horizon))


def read_std(std: Array | Sequence[float]) -> Tensor:  # (C,)
    """Standard deviations as a tensor, checked: finite, not negative."""
    values = std if isinstance(std, Tensor | np.ndarray) else np.asarray(std)
    deviations = wide(to_tensor("std", values, ("channels",)).detach())
    negative = (deviations < 0).nonzero()
    if len(negative):
        channel = int(negative[0])
        raise FernError(f"{deviations[channel]:.6g} for channel {channel}", argument="std", expected="0 or more")
    return deviations


def channel_std(std: Array | Sequence[float], true: Tensor) -> Tensor:  # (C,) and (B, H, C) -> (C,)
    """The standard deviation of each channel of the truth, on its device."""
    deviations = read_std(std)
    channels = true.shape[-1]
    if len(deviations) != channels:
        problem = f"got {len(deviations)} values for {channels} channels"
        raise FernError(problem, argument="std", expected="one for each channel")
    return wide(deviations, true.device)


@overload
def ept(pred: Tensor, true: Tensor, std: Array | Sequence[float]) -> Tensor: ...
@overload
def ept(pred: NumpyArray, true: NumpyArray, std: Array | Sequence[float]) -> np.float64: ...
def ept(
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
    std: Array | Sequence[float],  # (C,)
) -> Scalar:
    """Effective prediction time in steps, averaged over windows and channels; higher is better.

    With ε_d the standard deviation of channel d over the training data (paper, appendix "Distributional
    metrics")::

        EPT_bd = min{ s ∈ 1…H : |pred_bsd − true_bsd| > ε_d },   H if there is no such s.

    An error of exactly ε_d does not exceed it. EPT lies in 1…H: H means both "never" and "only at the last
    step". It has no gradient.

    Example: the error passes 0.5 at the third step.
        >>> import numpy as np
        >>> pred = np.array([[[0.0], [0.5], [0.9], [0.0]]])
        >>> float(ept(pred, np.zeros_like(pred), std=[0.5]))
        3.0
    """
    forecast, truth = read_pair(pred, true)
    with torch.no_grad():
        return as_kind("ept", first_exceeding_steps(forecast, truth, channel_std(std, truth)).mean(), true)

"""What every metric shares: reading torch or NumPy arrays, refusing bad ones, and giving back the same kind."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

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
    def scored(pred: Tensor, true: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        size = max(1, BLOCK_VALUES // true[0].numel())
        if len(true) <= size:
            return score(pred, true, *args, **kwargs)
        pairs = zip(torch.split(pred, size), torch.split(true, size), strict=True)
        return torch.cat([score(*pair, *args, **kwargs) for pair in pairs])

    return scored


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

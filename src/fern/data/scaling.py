"""Scaling: fitted on the training part, inverted exactly."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fern.data.splits import Part
from fern.errors import FernError, unknown_name

ScalerKind = Literal["none", "standard", "robust"]


@dataclass(frozen=True)
class Scaler:
    """The map z = (x - shift) / scale of each channel and its inverse, on ``(..., time, channels)``.

    NumPy arrays and torch tensors alike; the result is of the kind and precision that came in.

    Example:
        >>> scaler = fit_scaler("robust", np.array([[1.0], [2.0], [3.0], [100.0], [4.0]]))
        >>> scaler.shift.tolist(), scaler.scale.tolist(), scaler.apply(np.array([[5.0]])).tolist()
        ([3.0], [1.0], [[2.0]])
    """

    kind: ScalerKind
    shift: NDArray[np.float64]  # (C,)
    scale: NDArray[np.float64]  # (C,), above 0

    def apply(self, values: Any) -> Any:  # (..., time, C)
        """From data units to scaled units."""
        return (values - _match_type(values, self.shift)) / _match_type(values, self.scale)

    def invert(self, values: Any) -> Any:  # (..., time, C)
        """From scaled units to data units."""
        return values * _match_type(values, self.scale) + _match_type(values, self.shift)


def fit_scaler(
    kind: ScalerKind,
    values: Any,  # (T, C), array or tensor
    *,
    part: Part | None = None,
) -> Scaler:
    """Fit a scaler on the rows of ``part``, the training part (default: all rows).

    - ``none``: shift 0, scale 1 (the paper's tables).
    - ``standard``: mean and standard deviation.
    - ``robust``: median and median absolute deviation, as the paper scales Weather (without the factor 1.4826).

    A channel without spread by its measure takes the standard deviation, and without that scale 1, so that the
    map can always be inverted.

    Example:
        >>> fit_scaler("standard", np.array([[0.0, 7.0], [2.0, 7.0]])).scale.tolist()
        [1.0, 1.0]
    """
    if kind not in get_args(ScalerKind):
        raise unknown_name("scaling", kind, get_args(ScalerKind), argument="kind")
    array = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    if array.ndim != 2:
        raise FernError(f"got shape {array.shape}", argument="values", expected="(time, channels)")
    if part is not None:
        array = array[part.start : part.stop]
    if array.size == 0:
        raise FernError(f"got shape {array.shape}", argument="values", expected="at least one row and column")
    channels = [_fit_channel(kind, array[:, c].astype(np.float64), channel=c) for c in range(array.shape[1])]
    return Scaler(kind, np.array([shift for shift, _ in channels]), np.array([scale for _, scale in channels]))


def _fit_channel(kind: ScalerKind, column: NDArray[np.float64], *, channel: int) -> tuple[float, float]:
    """Shift and scale of one channel; never a scale of 0."""
    bad = np.flatnonzero(~np.isfinite(column))
    if bad.size:
        raise FernError(
            f"{column[bad[0]]} at row {bad[0]:,}, channel {channel}", argument="values", expected="finite numbers"
        )
    if kind == "none":
        return 0.0, 1.0
    deviation = float(column.std())
    # A constant column can leave rounding dust instead of 0.
    spread = deviation if deviation > 1e-12 * float(np.abs(column).max()) else 1.0
    if kind == "standard":
        return float(column.mean()), spread
    median = float(np.median(column))
    return median, float(np.median(np.abs(column - median))) or spread


def _match_type(values: Any, constants: NDArray[np.float64]) -> Any:
    """The constants as an array or tensor that computes with ``values``: in their precision (integers: float64)."""
    if not hasattr(values, "new_tensor"):
        values = np.asarray(values)
        return np.asarray(constants, dtype=values.dtype if values.dtype.kind == "f" else np.float64)
    return (values if values.is_floating_point() else values.double()).new_tensor(constants)

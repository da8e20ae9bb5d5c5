"""Scaling: fitted on the training part, inverted exactly, for values and for forecast distributions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from fern.data.splits import Part
from fern.errors import FernError, unknown_name

ScalerKind = Literal["none", "standard", "robust", "window"]

LEAST_WINDOW_SCALE = 1e-2
"""A window's own standard deviation counts as no less than this share of the training part's."""


@dataclass(frozen=True)
class Affine:
    """The map z = (x - shift) / scale and its inverse, on ``(..., time, channels)``.

    NumPy arrays and torch tensors alike; the result is of the kind that came in.

    Example:
        >>> map_ = Affine(shift=np.array([[10.0]]), scale=np.array([[2.0]]))
        >>> map_.apply(np.array([[12.0], [8.0]])).tolist()
        [[1.0], [-1.0]]
    """

    shift: Any  # (1, C) or (B, 1, C), array or tensor
    scale: Any  # (1, C) or (B, 1, C), above 0

    def apply(self, values: Any) -> Any:  # (..., time, C)
        """From data units to scaled units."""
        return (values - _like(values, self.shift)) / _like(values, self.scale)

    def invert(self, values: Any) -> Any:  # (..., time, C)
        """From scaled units to data units."""
        return values * _like(values, self.scale) + _like(values, self.shift)

    def invert_distribution(self, distribution: Any) -> "ScaledDistribution":  # batch shape (B, C), event shape (H,)
        """The distribution in data units of a forecast whose distribution in scaled units is ``distribution``."""
        mean = distribution.mean
        return ScaledDistribution(
            distribution,
            shift=_like(mean, self.shift).swapaxes(-1, -2),
            scale=_like(mean, self.scale).swapaxes(-1, -2),
        )


@dataclass(frozen=True)
class ScaledDistribution:
    """The distribution of y = scale · x + shift for x of the distribution ``base`` (batch shape (B, C), event shape
    (H,)).

    Nothing is approximated: moments, marginal quantiles, draws and densities are the base distribution's, mapped. It
    does for every distribution what moving the shift into an ellipsoid's own parameters would do badly: there the shift
    passes A⁻¹, which blows up for small eigenvalues.

    Example:
        >>> import torch
        >>> base = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(1, 1, 2), 1.0), 1)
        >>> distribution = Affine(shift=np.array([[5.0]]), scale=np.array([[2.0]])).invert_distribution(base)
        >>> distribution.mean.tolist(), distribution.stddev.tolist()
        ([[[5.0, 5.0]]], [[[2.0, 2.0]]])
    """

    base: Any
    shift: Any  # (C, 1) or (B, C, 1)
    scale: Any  # (C, 1) or (B, C, 1)

    @property
    def batch_shape(self) -> Any:
        """(B, C)."""
        return self.base.batch_shape

    @property
    def event_shape(self) -> Any:
        """(H,)."""
        return self.base.event_shape

    @property
    def mean(self) -> Any:  # (B, C, H)
        """The mean of each step."""
        return self._out(self.base.mean)

    @property
    def variance(self) -> Any:  # (B, C, H)
        """The variance of each step."""
        return self.base.variance * self.scale**2

    @property
    def stddev(self) -> Any:  # (B, C, H)
        """The standard deviation of each step."""
        return self.base.stddev * self.scale

    @property
    def covariance_matrix(self) -> Any:  # (B, C, H, H)
        """The covariance over the horizon, where the base distribution has one (dense)."""
        return self.base.covariance_matrix * (self.scale**2)[..., None]

    def rsample(self, sample_shape: Any = (), *, generator: Any = None) -> Any:  # (*sample, B, C, H)
        """Joint draws, differentiable where the base distribution's are; a generator is handed on to a distribution
        that takes one.
        """
        return self._out(_drawn(self.base.rsample, self.base, sample_shape, generator))

    def sample(self, sample_shape: Any = (), *, generator: Any = None) -> Any:  # (*sample, B, C, H)
        """Joint draws without gradients; a generator is handed on to a distribution that takes one."""
        return self._out(_drawn(self.base.sample, self.base, sample_shape, generator))

    def log_prob(self, value: Any) -> Any:  # (..., H) -> (..., B, C)
        """log p(y) = log p_base((y - shift) / scale) - H log scale."""
        return self.base.log_prob(self._in(value)) - self._log_volume()

    def entropy(self) -> Any:  # (B, C)
        """The base distribution's entropy + H log scale."""
        return self.base.entropy() + self._log_volume()

    def cdf(self, value: Any) -> Any:
        """P(y_k <= value_k) of each step on its own, where the base distribution offers it."""
        return self.base.cdf(self._in(value))

    def icdf(self, value: Any) -> Any:
        """The quantiles of each step on its own, where the base distribution offers them."""
        return self._out(self.base.icdf(value))

    def mahalanobis(self, value: Any) -> Any:  # (..., H) -> (..., B, C)
        """The distance of each value from the distribution: the same in any units."""
        return self.base.mahalanobis(self._in(value))

    def _out(self, x: Any) -> Any:
        return x * self.scale + self.shift

    def _in(self, y: Any) -> Any:
        return (y - self.shift) / self.scale

    def _log_volume(self) -> Any:
        return self.event_shape[0] * self.scale.log()[..., 0]


@dataclass(frozen=True)
class Scaler:
    """What was fitted on the training part: one shift and scale a channel; ``window`` takes only its least scale of it.

    Example:
        >>> scaler = fit_scaler("robust", np.array([[1.0], [2.0], [3.0], [100.0], [4.0]]))
        >>> scaler.shift.tolist(), scaler.scale.tolist()
        ([3.0], [1.0])
    """

    kind: ScalerKind
    shift: NDArray[np.float64]  # (C,)
    scale: NDArray[np.float64]  # (C,)

    def affine(
        self,
        past: Any = None,  # (B, L, C); what ``window`` takes its mean and standard deviation from
    ) -> Affine:
        """The map for forecasts from these contexts; only ``window`` looks at them.

        Example:
            >>> scaler = fit_scaler("window", np.array([[0.0], [1.0], [0.0], [1.0]]))
            >>> scaler.affine(np.array([[[3.0], [5.0]]])).shift.tolist()
            [[[4.0]]]
        """
        if self.kind != "window":
            return Affine(self.shift[None, :], self.scale[None, :])
        if past is None:
            raise FernError("scaling by window needs the contexts, shape (batch, time, channels)", argument="past")
        mean = past.mean(axis=-2, keepdims=True)
        deviation = ((past - mean) ** 2).mean(axis=-2, keepdims=True) ** 0.5
        least = _like(past, LEAST_WINDOW_SCALE * self.scale)
        return Affine(mean, deviation + (least - deviation) * (deviation < least))

    def to_mapping(self) -> dict[str, Any]:
        """Plain values for a JSON file, from which `scaler_from_mapping` restores the same bits."""
        return {"kind": self.kind, "shift": self.shift.tolist(), "scale": self.scale.tolist()}


def fit_scaler(
    kind: ScalerKind,
    values: Any,  # (T, C), array or tensor
    *,
    part: Part | None = None,
) -> Scaler:
    """Fit a scaler on the rows of ``part``, the training part (default: all rows given).

    - ``none``: shift 0, scale 1 (the paper's tables).
    - ``standard``: mean and standard deviation.
    - ``robust``: median and median absolute deviation, as the paper scales Weather (without the factor 1.4826).
    - ``window``: each context's own mean and standard deviation (as RevIN does, without its affine part), the
      latter at least `LEAST_WINDOW_SCALE` of the training part's.

    A channel without spread by its measure takes the standard deviation, and without that scale 1, so that the
    map can always be inverted.

    Example:
        >>> fit_scaler("standard", np.array([[0.0, 7.0], [2.0, 7.0]])).scale.tolist()
        [1.0, 1.0]
    """
    if kind not in get_args(ScalerKind):
        raise unknown_name("scaling", kind, get_args(ScalerKind))
    array = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    if array.ndim != 2:
        raise FernError(f"got shape {array.shape}", argument="values", expected="(time, channels)")
    if part is not None:
        array = array[part.start : part.stop]
    if array.size == 0:
        raise FernError(
            f"got shape {array.shape} to fit the scaler on", argument="values", expected="at least one row and column"
        )
    fitted = [_fit_channel(kind, array[:, c].astype(np.float64), channel=c) for c in range(array.shape[1])]
    return Scaler(kind, np.array([shift for shift, _ in fitted]), np.array([scale for _, scale in fitted]))


def scaler_from_mapping(values: Mapping[str, Any]) -> Scaler:
    """The scaler that `Scaler.to_mapping` wrote down.

    Example:
        >>> scaler = fit_scaler("standard", np.array([[0.1], [0.7]]))
        >>> bool((scaler_from_mapping(scaler.to_mapping()).scale == scaler.scale).all())
        True
    """
    unknown = set(values) - {"kind", "shift", "scale"}
    if unknown:
        raise unknown_name("scaler field", min(unknown), ["kind", "shift", "scale"])
    kind, shift, scale = (values.get(key) for key in ("kind", "shift", "scale"))
    if kind not in get_args(ScalerKind):
        raise unknown_name("scaling", str(kind), get_args(ScalerKind))
    try:
        shift, scale = np.array(shift, dtype=np.float64), np.array(scale, dtype=np.float64)
    except (TypeError, ValueError):
        raise FernError("shift and scale need one number for each channel", argument="scaler") from None
    if shift.ndim != 1 or shift.shape != scale.shape or not np.isfinite(shift).all():
        raise FernError("shift and scale need one finite number for each channel", argument="scaler")
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise FernError(f"scale needs finite numbers above 0, got {scale.tolist()}", argument="scaler")
    return Scaler(cast("ScalerKind", kind), shift, scale)


def _fit_channel(kind: ScalerKind, column: NDArray[np.float64], *, channel: int) -> tuple[float, float]:
    """Shift and scale of one channel; never a scale of 0."""
    bad = np.flatnonzero(~np.isfinite(column))
    if bad.size:
        raise FernError(
            f"{column[bad[0]]} at row {bad[0]:,}, channel {channel}; a scaler needs finite numbers", argument="values"
        )
    if kind == "none":
        return 0.0, 1.0
    deviation = float(column.std())
    # A constant column can leave rounding dust instead of 0.
    spread = deviation if deviation > 1e-12 * float(np.abs(column).max()) else 1.0
    if kind != "robust":
        return float(column.mean()), spread
    median = float(np.median(column))
    return median, float(np.median(np.abs(column - median))) or spread


def _like(values: Any, constants: Any) -> Any:
    """The constants as an array or tensor that computes with ``values``: in their precision (integers: float64)."""
    if not hasattr(values, "new_tensor"):
        values = np.asarray(values)
        return np.asarray(constants, dtype=values.dtype if values.dtype.kind == "f" else np.float64)
    like = values if values.is_floating_point() else values.double()
    if hasattr(constants, "new_tensor"):
        return constants.to(dtype=like.dtype, device=like.device)
    return like.new_tensor(constants)


def _drawn(draw: Callable[..., Any], distribution: Any, sample_shape: Any, generator: Any) -> Any:
    """Draws of the distribution; its own shape type is kept (torch.Size adds up with nothing else)."""
    shape = type(distribution.batch_shape)(sample_shape)
    return draw(shape) if generator is None else draw(shape, generator=generator)

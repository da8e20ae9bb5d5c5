"""The paper's diagnostic figure as numbers: forecast, truth, error and eigen-summaries along time."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fern.errors import FernError
from fern.models.base import Forecaster

Series = NDArray[np.float64]  # (rows, channels)


@dataclass(frozen=True, eq=False)
class EigenProfile:
    """Series along time, each ``(rows, channels)``; ``first_row`` is the row of the data that entry 0 describes.

    At each row every figure is the mean over all the windows that forecast it; a patch's eigen-summary counts for each
    row of the patch. ``error`` is the mean absolute error of those forecasts, not that of their mean.
    """

    first_row: int
    forecast: Series
    truth: Series
    error: Series
    spectral_radius: Series
    trace: Series
    log_det: Series

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def channels(self) -> int:
        """How many series there are."""
        return int(self.truth.shape[1])


@torch.no_grad()
def eigenprofile(
    model: Forecaster,
    series: Tensor | NDArray[np.floating],  # (T, C)
    *,
    stride: int = 1,
    batch_size: int = 512,
) -> EigenProfile:  # of T - context_length rows at stride 1
    """Forecast every window of ``series`` and lay the patches' eigen-summaries along time, for each channel.

    ``stride`` is the number of rows from one window to the next; the horizon itself gives one window a row.

    Example:
        >>> from fern.models import build_model
        >>> model = build_model("fern", context_length=48, horizon=24, channels=2, patch_size=8)
        >>> profile = eigenprofile(model, torch.randn(200, 2))
        >>> profile.first_row, profile.trace.shape
        (48, (152, 2))
    """
    values = _valid_series(model, series, stride=stride, batch_size=batch_size)
    length, horizon = model.config.context_length, model.config.horizon
    firsts = torch.arange(length, len(values) - horizon + 1, stride)  # the first forecast row of each window
    rows = int(firsts[-1]) + horizon - length
    sums = {name: torch.zeros(rows, values.shape[1], dtype=torch.float64) for name in _AVERAGED}
    counts = torch.zeros(rows, dtype=torch.float64)
    was_training = model.training
    model.eval()
    try:
        for first in torch.split(firsts, batch_size):
            steps = first[:, None] + torch.arange(horizon)
            past = values[first[:, None] + torch.arange(-length, 0)]
            places = (steps - length).flatten()
            for name, figure in _figures(model, past, values[steps]).items():
                sums[name].index_add_(0, places, figure.flatten(0, 1).double())
            counts.index_add_(0, places, torch.ones(len(places), dtype=torch.float64))
    finally:
        model.train(was_training)
    means = {name: (total / counts[:, None]).numpy() for name, total in sums.items()}
    truth = values[length : length + rows].double().numpy()
    return EigenProfile(first_row=length, truth=truth, **means)


_AVERAGED = ("forecast", "error", "spectral_radius", "trace", "log_det")


def _figures(model: Forecaster, past: Tensor, future: Tensor) -> dict[str, Tensor]:  # each (B, H, C)
    forecast = model(past)
    distribution = forecast.ellipsoid
    if distribution is None:
        problem = f"{type(model).__name__} has no ellipsoids to profile"
        raise FernError(problem, argument="model", expected="a model with a distribution (fern)")

    def along_horizon(summary: Tensor) -> Tensor:  # (B, C, g) -> (B, H, C)
        return summary.repeat_interleave(distribution.patch_size, dim=-1)[..., : distribution.horizon].transpose(1, 2)

    return {
        "forecast": forecast.mean,
        "error": (forecast.mean - future).abs(),
        "spectral_radius": along_horizon(distribution.spectral_radius),
        "trace": along_horizon(distribution.trace),
        "log_det": along_horizon(distribution.log_det),
    }


def _valid_series(
    model: Forecaster, series: Tensor | NDArray[np.floating], *, stride: int, batch_size: int
) -> Tensor:  # (T, C) float32
    values = torch.as_tensor(series).to(torch.float32)
    length = model.config.context_length + model.config.horizon
    if values.ndim != 2 or values.shape[1] != model.config.channels:
        shape = tuple(values.shape)
        raise FernError(f"got shape {shape}", argument="series", expected=f"(time, {model.config.channels})")
    if len(values) < length:
        least = f"at least {length} (context_length + horizon)"
        raise FernError(f"got {len(values)} rows", argument="series", expected=least)
    for name, value in (("stride", stride), ("batch_size", batch_size)):
        if value < 1:
            raise FernError(argument=name, got=value, expected="at least 1")
    if stride > model.config.horizon:
        most = f"at most the horizon {model.config.horizon}: rows would be skipped"
        raise FernError(argument="stride", got=stride, expected=most)
    return values

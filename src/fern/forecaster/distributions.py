"""The distribution of any model's forecast: Fern's own, or a ball around a point forecast that calibration gives its
shape.
"""

import torch
from torch import Tensor

from fern.models import Forecaster
from fern.transport import Ellipsoid

PATCH_SIZE = 24
"""Steps whose errors are handled together where the model has no patches of its own."""


def distribution_of(
    model: Forecaster,
    past: Tensor,  # (N, L, C)
) -> Ellipsoid:  # batch (N, C), event (H,)
    """The forecast distribution of a model in evaluation mode.

    A model without a distribution gives N(forecast, I): its residuals on held-out windows then decide scale and shape.

    Example:
        >>> from fern.models import build_model
        >>> model = build_model("last-value", context_length=8, horizon=4, channels=2)
        >>> distribution_of(model, torch.ones(3, 8, 2)).mean.shape
        torch.Size([3, 2, 4])
    """
    with torch.no_grad():
        forecast = model(past)
        distribution: Ellipsoid | None = forecast.ellipsoid
        if distribution is not None:
            return distribution
        return around(forecast.mean)


def around(
    mean: Tensor,  # (N, H, C)
) -> Ellipsoid:
    """The distribution N(mean, I), in patches."""
    windows, horizon, channels = mean.shape
    size = min(PATCH_SIZE, horizon)
    patches = -(-horizon // size)
    middle = mean.new_zeros(windows, channels, patches * size)
    middle[..., :horizon] = mean.transpose(1, 2)
    shape = (windows, channels, patches, size)
    return Ellipsoid(
        mean.new_ones(shape),
        mean.new_zeros(shape),
        mean.new_zeros(windows, channels, patches, 0, size),
        offset=middle.view(shape),
        base_variance=1.0,
        horizon=horizon,
        validate_args=False,
    )

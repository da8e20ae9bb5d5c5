"""DLinear: a linear map of the trend plus a linear map of the seasonal part (Zeng 2023, arXiv 2205.13504)."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Generator, Tensor, nn

from fern.models.base import ModelConfig, PointForecaster
from fern.models.layers import decompose, require_kernel
from fern.models.registry import register_model


@dataclass(frozen=True, kw_only=True)
class DLinearConfig(ModelConfig):
    """The settings of `DLinear`.

    ``kernel``      length of the moving average that makes the trend; odd.
    ``individual``  whether each channel has maps of its own; otherwise all share one pair.
    """

    kernel: int = 25
    individual: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_kernel("kernel", self.kernel)


_PUBLISHED: dict[str, Any] = {"kernel": 25, "individual": False}

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"kernel": 25, "individual": True},
    **dict.fromkeys(
        ("etth1", "etth2", "ettm1", "ettm2", "weather", "electricity", "traffic", "exchange", "illness"), _PUBLISHED
    ),
}
"""Fern's comparison (one map a channel), and the authors' scripts, which use the same model for every dataset."""


class DLinear(PointForecaster):
    """ŷ = W_s (x - Mx) + b_s + W_t Mx + b_t for the context x of one channel; M is a moving average.

    The weights start as PyTorch's linear maps do, as in the authors' code; some ports start them at 1/L.

    ====================  =======================================================
    here                  in cure-lab/LTSF-Linear
    ====================  =======================================================
    ``seasonal.weight``   ``Linear_Seasonal.weight``; ``individual``: row c is
                          ``Linear_Seasonal[c].weight``, and so for the bias
    ``trend.weight``      ``Linear_Trend.weight``, likewise
    ====================  =======================================================

    Example:
        >>> model = DLinear(DLinearConfig(context_length=48, horizon=12, channels=3))
        >>> model(torch.randn(2, 48, 3)).mean.shape
        torch.Size([2, 12, 3])
    """

    config: DLinearConfig

    def __init__(self, config: DLinearConfig) -> None:
        super().__init__(config)
        length, horizon = config.context_length, config.horizon
        self.seasonal: nn.Linear | ChannelLinear
        self.trend: nn.Linear | ChannelLinear
        if config.individual:
            self.seasonal = ChannelLinear(config.channels, length, horizon)
            self.trend = ChannelLinear(config.channels, length, horizon)
        else:
            self.seasonal = nn.Linear(length, horizon)
            self.trend = nn.Linear(length, horizon)

    def predict(self, past: Tensor) -> Tensor:
        """Both maps, added."""
        rows = past.permute(2, 0, 1).contiguous()  # (C, B, L): one matrix for each channel
        bias = self.seasonal.bias + self.trend.bias
        if self.config.individual:
            bias = bias[:, None]
        else:
            rows = rows.flatten(0, 1)
        seasonal, trend = decompose(rows, self.config.kernel)
        future = _add_product(bias, seasonal, self.seasonal.weight.mT)
        future = _add_product(future, trend, self.trend.weight.mT)
        return future.view(self.config.channels, -1, self.config.horizon).permute(1, 2, 0)


def _add_product(total: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """total + x W, for one matrix or for one a channel: the sum costs no pass of its own."""
    return torch.addmm(total, x, weight) if x.ndim == 2 else torch.baddbmm(total, x, weight)


class ChannelLinear(nn.Module):
    """The weights of one linear map for each channel, side by side for a batched product."""

    def __init__(self, channels: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, outputs, inputs))
        self.bias = nn.Parameter(torch.empty(channels, outputs))
        self.initialise_parameters(None)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """As `torch.nn.Linear`: uniform within ±1/√inputs."""
        bound = 1.0 / sqrt(self.weight.shape[-1])
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.uniform_(-bound, bound, generator=generator)


register_model("dlinear", DLinearConfig, DLinear, presets=PRESETS)

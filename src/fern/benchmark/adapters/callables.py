"""Functions and torch modules as forecasters."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fern.errors import FernError
from fern.models.base import ModelConfig, PointForecaster

ForecastFunction = Callable[[NDArray[Any], int], Any]
"""``(context, horizon) -> forecast``: arrays (L, C) -> (H, C), or for whole batches (B, L, C) -> (B, H, C)."""


class FunctionForecaster(PointForecaster):
    """A function ``(context, horizon) -> forecast`` under the contract of every model.

    ``takes``  ``"window"``: the function gets one context (L, C) at a time and gives (H, C);
               ``"batch"``: it gets (B, L, C) and gives (B, H, C).
    With one channel the last dimension of what it gives may be left out. What it gets is a copy, so it may write to it.

    There is nothing to train and nothing to save. A function that raises, or gives another shape, something that is no
    array of numbers, or NaN or infinite numbers, is a `FernError` that says which, and at which window.

    Example:
        >>> def drift(context, horizon):
        ...     slope = (context[-1] - context[0]) / (len(context) - 1)
        ...     return context[-1] + slope * np.arange(1, horizon + 1)[:, None]
        >>> model = FunctionForecaster(drift, context_length=3, horizon=2, channels=1)
        >>> model(torch.tensor([[[1.0], [2.0], [3.0]]])).mean.flatten()
        tensor([4., 5.])
    """

    def __init__(
        self,
        function: ForecastFunction,
        *,
        context_length: int,
        horizon: int,
        channels: int,
        takes: Literal["window", "batch"] = "window",
        name: str | None = None,
    ) -> None:
        super().__init__(ModelConfig(context_length=context_length, horizon=horizon, channels=channels))
        if not callable(function):
            raise FernError(argument="function", got=type(function), expected="a callable taking (context, horizon)")
        if takes not in ("window", "batch"):
            raise FernError(argument="takes", got=takes, expected="'window' or 'batch'")
        self.function = function
        self.takes = takes
        self.name = name or getattr(function, "__qualname__", type(function).__name__)

    def predict(self, past: Tensor) -> Tensor:
        """What the function gives, checked."""
        contexts = past.detach().cpu().numpy()
        if self.takes == "batch":
            forecasts = self._valid_forecast(contexts.copy())
        else:
            forecasts = np.stack([self._valid_forecast(context.copy(), i) for i, context in enumerate(contexts)])
        return torch.from_numpy(forecasts).to(past.device, past.dtype)

    def _valid_forecast(self, context: NDArray[Any], window: int | None = None) -> NDArray[Any]:
        where = f"a batch of {len(context)} windows" if window is None else f"window {window}"
        try:
            output = self.function(context, self.config.horizon)
        except Exception as error:
            raise FernError(f"raised {type(error).__name__} for {where}: {error}", argument=self.name) from error
        values = self._as_numbers(output, context.dtype, where)
        shape = (*context.shape[:-2], self.config.horizon, self.config.channels)
        if self.config.channels == 1 and values.shape == shape[:-1]:
            values = values[..., None]
        if values.shape != shape:
            raise FernError(f"returned shape {values.shape} for {where}", argument=self.name, expected=shape)
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            *first, step, channel = (int(i) for i in bad[0])
            at = f"window {first[0] if first else window}, step {step}, channel {channel} ({len(bad)} such values)"
            raise FernError(f"returned {values[tuple(bad[0])]} for {at}; needs finite numbers", argument=self.name)
        return values

    def _as_numbers(self, output: Any, dtype: "np.dtype[Any]", where: str) -> NDArray[Any]:
        if isinstance(output, Tensor):
            output = output.detach().cpu().numpy()
        try:
            values = np.asarray(output)
        except ValueError:
            problem = f"returned nested sequences of unequal lengths for {where}"
            raise FernError(problem, argument=self.name, expected="an array") from None
        if values.dtype.kind not in "fiu":
            problem = f"returned {type(output).__name__} of {values.dtype} for {where}"
            raise FernError(problem, argument=self.name, expected="real numbers")
        with np.errstate(over="ignore"):  # what the type cannot hold becomes infinite, and is refused as that
            return values.astype(dtype)

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"{self.name}, takes={self.takes!r}"


class ModuleForecaster(PointForecaster):
    """A torch module from past (B, L, C) to point forecasts (B, H, C), under the contract of every model.

    It is trained as it stands, from the weights it has (``TrainConfig(start="given")``).

    Example:
        >>> import torch
        >>> past_mean = nn.AdaptiveAvgPool1d(1)  # any module: this one takes (B, C, L)
        >>> class Level(nn.Module):
        ...     def forward(self, past):
        ...         return past_mean(past.transpose(1, 2)).transpose(1, 2).expand(-1, 2, -1)
        >>> model = ModuleForecaster(Level(), context_length=3, horizon=2, channels=1)
        >>> model(torch.tensor([[[1.0], [2.0], [3.0]]])).mean.flatten()
        tensor([2., 2.])
    """

    def __init__(self, module: nn.Module, *, context_length: int, horizon: int, channels: int) -> None:
        super().__init__(ModelConfig(context_length=context_length, horizon=horizon, channels=channels))
        if not isinstance(module, nn.Module):
            raise FernError(argument="module", got=type(module), expected="a torch.nn.Module")
        self.module = module

    def predict(self, past: Tensor) -> Tensor:
        """What the module gives, of the right shape."""
        name, shape = type(self.module).__name__, (len(past), self.config.horizon, self.config.channels)
        output = self.module(past)
        if not isinstance(output, Tensor):
            raise FernError(f"returned {type(output).__name__}", argument=name, expected=f"a tensor of shape {shape}")
        if tuple(output.shape) != shape:
            raise FernError(f"returned shape {tuple(output.shape)}", argument=name, expected=shape)
        return output

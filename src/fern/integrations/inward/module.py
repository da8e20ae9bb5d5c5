"""Any torch module as a forecaster."""

from torch import Tensor, nn

from fern.errors import FernError
from fern.models.base import ModelConfig, PointForecaster


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
            raise FernError(f"module: got {type(module).__name__}, needs a torch.nn.Module")
        self.module = module

    def predict(self, past: Tensor) -> Tensor:
        """What the module gives, of the right shape."""
        name, wanted = type(self.module).__name__, (len(past), self.config.horizon, self.config.channels)
        given = self.module(past)
        if not isinstance(given, Tensor):
            raise FernError(f"{name}: returned {type(given).__name__}, needs a tensor of shape {wanted}")
        if tuple(given.shape) != wanted:
            raise FernError(f"{name}: returned shape {tuple(given.shape)}, needs {wanted}")
        return given

"""What every forecast is measured against: naive forecasters."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from fern.errors import FernError, require_at_most, require_whole
from fern.models.base import ModelConfig, PointForecaster
from fern.models.registry import register_model
from fern.transport._checks import has_values


class LastValue(PointForecaster):
    """Every future step equals the last one seen: ŷ_h = x_L. The best forecast of a random walk.

    Example:
        >>> model = LastValue(ModelConfig(context_length=3, horizon=2, channels=1))
        >>> model(torch.tensor([[[1.0], [2.0], [3.0]]])).mean.flatten()
        tensor([3., 3.])
    """

    def predict(self, past: Tensor) -> Tensor:
        """The last value, repeated."""
        return past[:, -1:].expand(-1, self.config.horizon, -1)


@dataclass(frozen=True, kw_only=True)
class SeasonalNaiveConfig(ModelConfig):
    """``season``: the length of the cycle that is repeated, at most the context."""

    season: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("season", self.season, 1)
        require_at_most("season", self.season, self.context_length, "context_length")


class SeasonalNaive(PointForecaster):
    """The last season seen, repeated: ŷ_h = x_{L - s + ((h - 1) mod s) + 1} for a season of s steps.

    Example:
        >>> model = SeasonalNaive(SeasonalNaiveConfig(context_length=3, horizon=3, channels=1, season=2))
        >>> model(torch.tensor([[[1.0], [2.0], [3.0]]])).mean.flatten()
        tensor([2., 3., 2.])
    """

    config: SeasonalNaiveConfig

    def predict(self, past: Tensor) -> Tensor:
        """The last season, repeated."""
        steps = torch.arange(self.config.horizon, device=past.device) % self.config.season
        return past[:, self.config.context_length - self.config.season + steps]


class TrainingMean(PointForecaster):
    """Each channel's mean over the training windows' futures: the constant with the least training MSE.

    Example:
        >>> model = TrainingMean(ModelConfig(context_length=1, horizon=2, channels=1))
        >>> model.prepare([(torch.zeros(1, 1, 1), torch.tensor([[[1.0], [4.0]]]))])
        >>> model(torch.zeros(1, 1, 1)).mean.flatten()
        tensor([2.5000, 2.5000])
    """

    level: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.register_buffer("level", torch.full((config.channels,), torch.nan))

    def prepare(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Average the futures of all windows, in float64."""
        total = torch.zeros(self.config.channels, dtype=torch.float64)
        count = 0
        for past, future in batches:
            self.check_future(past, future)
            total += future.double().sum(dim=(0, 1)).cpu()
            count += future.shape[0] * future.shape[1]
        if count == 0:
            raise FernError("got none", argument="batches", expected="at least one training window")
        self.level.copy_(total / count)

    def predict(self, past: Tensor) -> Tensor:
        """The training mean, whatever the past."""
        if has_values(self.level) and bool(self.level.isnan().any()):
            raise FernError("the training mean is not known yet; call prepare(batches) first", argument="model")
        level = self.level.to(past.dtype)
        return level.expand(past.shape[0], self.config.horizon, -1)


_DAYS = {"etth1": 24, "etth2": 24, "ettm1": 96, "ettm2": 96, "weather": 144}

register_model("last-value", ModelConfig, LastValue)
_PRESETS = {name: {"season": day} for name, day in _DAYS.items()}
register_model("seasonal-naive", SeasonalNaiveConfig, SeasonalNaive, presets=_PRESETS)
register_model("training-mean", ModelConfig, TrainingMean)

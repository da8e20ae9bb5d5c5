"""The pretrained network as a model of the registry: it forecasts windows it was never fitted to."""

from dataclasses import dataclass

import numpy as np
from torch import Generator, Tensor

from fern.errors import FernError, require_whole
from fern.models.base import Forecast, Forecaster, ModelConfig
from fern.models.pretrained.averaging import forecast_averaged
from fern.models.pretrained.forecasting import NARROWEST, Contexts
from fern.models.pretrained.network import NEWEST, WEIGHTS, read_weights
from fern.models.pretrained.representation import SHORTEST
from fern.models.registry import register_model
from fern.transport import Ellipsoid


@dataclass(frozen=True, kw_only=True)
class PretrainedFernConfig(ModelConfig):
    """The settings of `PretrainedFern`.

    ``season``   the period in rows where it is known; None lets each context tell.
    ``flip``     average the forecast with that of the context upside down.
    ``log``      average it with the forecast of the logarithm, where all values are well above zero.
    ``resample``  average it with forecasts at coarser time steps, weighed by how each did on the context itself.
    ``weights``  the name of the weights.
    """

    season: int | None = None
    flip: bool = True
    log: bool = True
    resample: bool = True
    weights: str = NEWEST

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context_length < SHORTEST:
            raise FernError(argument="context_length", got=self.context_length, expected=f"at least {SHORTEST} rows")
        if self.season is not None:
            require_whole("season", self.season, 1)
        if self.weights not in WEIGHTS:
            raise FernError(argument="weights", got=self.weights, expected=" or ".join(map(repr, WEIGHTS)))


class PretrainedFern(Forecaster):
    """A Fern that was trained on synthetic series alone; nothing of it is fitted to the data it forecasts.

    Each channel on its own, from 8 rows up; of longer contexts the newest 2,144 are read. Its weights come with the
    package and are shared by all instances, so it has no parameters. See `fern.pretrained` for series of any lengths.

    Example:
        >>> import torch
        >>> model = PretrainedFern(PretrainedFernConfig(context_length=120, horizon=24, channels=1)).eval()
        >>> wave = torch.cos(2 * torch.pi * torch.arange(144) / 12).reshape(1, -1, 1)
        >>> bool((model(wave[:, :120]).mean - wave[:, 120:]).abs().max() < 0.5)
        True
    """

    has_distribution = True
    config: PretrainedFernConfig

    def forecast(self, past: Tensor, *, samples: int, generator: Generator | None) -> Forecast:
        """The distribution of each channel's future; the mode makes no difference."""
        config = self.config
        batch, length, channels = past.shape
        rows = past.detach().cpu().double().transpose(1, 2).reshape(-1, length).numpy()
        count = len(rows)
        season = None if config.season is None else np.full(count, config.season, dtype=np.int64)
        contexts = Contexts(np.ascontiguousarray(rows), np.full(count, length, dtype=np.int64), season).newest()
        network, _ = read_weights(config.weights)  # when first asked: an outline of the model has no use for them
        options = {"flip": config.flip, "log": config.log, "resample": config.resample}
        ahead = forecast_averaged(network, contexts, config.horizon, **options)
        ellipsoid = _reshape(ahead, (batch, channels), past)
        drawn = None
        if samples:
            drawn = ellipsoid.rsample((samples,), generator=generator).transpose(-1, -2)
        return Forecast(mean=ellipsoid.mean.transpose(1, 2).contiguous(), ellipsoid=ellipsoid, samples=drawn)


def _reshape(ahead: Ellipsoid, batch: tuple[int, int], like: Tensor) -> Ellipsoid:
    """In the batch shape, precision and place of the windows."""
    assert ahead.offset is not None
    parts = (ahead.eigenvalues, ahead.reflections, ahead.offset)
    eigenvalues, vectors, offset = (part.to(like).view(*batch, *part.shape[1:]) for part in parts)
    variance, horizon = ahead.base_variance, ahead.horizon
    return Ellipsoid(
        eigenvalues, None, vectors, offset=offset, base_variance=variance, horizon=horizon, eigenvalue_floor=NARROWEST
    )


register_model("fern-pretrained", PretrainedFernConfig, PretrainedFern)

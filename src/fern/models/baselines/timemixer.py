"""TimeMixer: seasonal parts mixed from fine to coarse scales, trends from coarse to fine (Wang 2024, 2405.14616)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any, cast

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import gelu, linear

from fern.errors import FernError, require_whole
from fern.models.base import ModelConfig, PointForecaster
from fern.models.layers import (
    Dropout,
    Perceptron,
    RevIN,
    moving_average,
    predict_in_blocks,
    require_kernel,
    require_rate,
    weights_on_average,
)
from fern.models.registry import register_model


@dataclass(frozen=True, kw_only=True)
class TimeMixerConfig(ModelConfig):
    """The settings of `TimeMixer`.

    ``layers``         mixing blocks.
    ``hidden``         width of a time step's vector.
    ``feedforward``    width inside the perceptron over a vector.
    ``down_samplings`` coarser scales beside the series itself; at least 1.
    ``factor``         time steps averaged into one from each scale to the next; at least 2.
    ``kernel``         length of the moving average that makes the trend; odd.
    ``dropout``        of the embedded time steps.
    """

    layers: int = 2
    hidden: int = 16
    feedforward: int = 32
    down_samplings: int = 3
    factor: int = 2
    kernel: int = 25
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("layers", 1), ("hidden", 1), ("feedforward", 1), ("down_samplings", 1), ("factor", 2)):
            require_whole(name, getattr(self, name), least)
        require_kernel("kernel", self.kernel)
        require_rate("dropout", self.dropout)
        if self.lengths[-1] == 0:
            power = f"{self.factor} ** {self.down_samplings} = {self.factor**self.down_samplings}"
            expected = f"at least factor ** down_samplings = {power}: one time step on the coarsest scale"
            raise FernError(argument="context_length", got=self.context_length, expected=expected)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Time steps of the context on each scale, the finest first."""
        return tuple(self.context_length // self.factor**scale for scale in range(self.down_samplings + 1))


def _make_preset(layers: int, hidden: int, feedforward: int) -> dict[str, Any]:
    sizes = {"layers": layers, "hidden": hidden, "feedforward": feedforward}
    return {**sizes, "down_samplings": 3, "factor": 2, "kernel": 25, "dropout": 0.1}


PRESETS: dict[str, dict[str, Any]] = {
    "paper": _make_preset(2, 16, 32),
    **dict.fromkeys(("etth1", "etth2", "ettm1"), _make_preset(2, 16, 32)),
    "ettm2": _make_preset(2, 32, 32),
    **dict.fromkeys(("weather", "electricity"), _make_preset(3, 16, 32)),
    "traffic": _make_preset(3, 32, 64),
}
"""Fern's comparison, and the published scripts by dataset (context 96 there)."""


class TimeMixer(PointForecaster):
    """Each channel on its own, on several scales: the series and its averages over 2, 4, 8 time steps.

    Each scale is normalised (`RevIN`, affine), and each of its time steps embedded as a vector by a circular
    convolution of three steps. A block (`MixingBlock`) decomposes every scale, mixes along time across scales and
    then within each vector. Each scale forecasts the horizon, and the forecasts are added up.

    Inside, vectors come first, ``(hidden, N, T)``: then both kinds of mixing are single matrix products. The map of
    vectors to values is applied before the map of the context to the horizon. Both are linear, so the sum is the
    published one at 1/hidden of its cost.

    ========================================  ====================================================================
    here (``b`` blocks, ``i`` scales)         in thuml/Time-Series-Library
    ========================================  ====================================================================
    ``blocks.b.down.i.maps.{0,1}``            ``pdm_blocks.b.mixing_multi_scale_season.down_sampling_layers.i.{0,2}``
    ``blocks.b.up.i.maps.{0,1}``              ``pdm_blocks.b.mixing_multi_scale_trend.up_sampling_layers.i.{0,2}``
    ``blocks.b.features.{expand,contract}``   ``pdm_blocks.b.out_cross_layer.{0,2}``
    ``embedding.weight``                      ``enc_embedding.value_embedding.tokenConv.weight``
    ``revins.i.{weight,bias}``                ``normalize_layers.i.affine_{weight,bias}``
    ``forecasts.i``                           ``predict_layers.i``
    ``projection``                            ``projection_layer``
    ========================================  ====================================================================

    The library's model has 128 parameters more at the ``paper`` settings (885,705), which no forecast from values
    alone uses: a LayerNorm in each block that is never called, and the embedding of calendar features.

    Example:
        >>> model = TimeMixer(TimeMixerConfig(context_length=48, horizon=12, channels=3))
        >>> model(torch.randn(2, 48, 3)).mean.shape
        torch.Size([2, 12, 3])
    """

    config: TimeMixerConfig

    def __init__(self, config: TimeMixerConfig) -> None:
        super().__init__(config)
        self.blocks = nn.ModuleList(MixingBlock(config) for _ in range(config.layers))
        self.embedding = TimeStepEmbedding(config.hidden)
        self.dropout = Dropout(config.dropout)
        revins = nn.ModuleList(RevIN(config.channels, affine=True) for _ in config.lengths)
        self.revins = cast("Sequence[RevIN]", revins)
        forecasts = nn.ModuleList(nn.Linear(length, config.horizon) for length in config.lengths)
        self.forecasts = cast("Sequence[nn.Linear]", forecasts)
        self.projection = nn.Linear(config.hidden, 1)

    def predict(self, past: Tensor) -> Tensor:
        """The sum of all scales' forecasts, in the units of ``past``."""
        return predict_in_blocks(self._predict, past)

    def _predict(self, past: Tensor) -> Tensor:
        normalised = [revin.normalise(x) for revin, x in zip(self.revins, self._scales(past), strict=True)]
        states = [self.dropout(self.embedding(z.flatten(0, 1))) for z, _ in normalised]
        for block in self.blocks:
            states = block(states)
        future = self._forecast(states).view(*past.shape[::2], -1)
        return self.revins[0].restore(future, normalised[0][1]).transpose(1, 2)

    def _scales(self, past: Tensor) -> list[Tensor]:  # each (B, C, T_i)
        """The series and its averages, the finest first; time steps that do not fill an average are left out."""
        scales, factor = [past.transpose(1, 2).contiguous()], self.config.factor
        for length in self.config.lengths[1:]:
            whole = scales[-1][..., : length * factor]
            scales.append(whole.reshape(*whole.shape[:2], length, factor).mean(dim=-1))
        return scales

    def _forecast(
        self,
        states: Sequence[Tensor],  # each (hidden, N, T_i)
    ) -> Tensor:  # (N, H)
        """Σ_i w·(P_i x_i + b_i) + c, as Σ_i P_i (w·x_i) plus what does not depend on x."""
        weight = self.projection.weight  # (1, hidden)
        biases = torch.stack([forecast.bias for forecast in self.forecasts]).sum(dim=0)
        future = biases * weight.sum() + len(states) * self.projection.bias
        for forecast, state in zip(self.forecasts, states, strict=True):
            values = (weight @ state.flatten(1)).view(state.shape[1:])
            future = future + linear(values, forecast.weight)
        return future


class MixingBlock(nn.Module):
    """Past decomposable mixing: x_i ← x_i + features(s_i + t_i), where for the decomposed scales i = 0 (fine), 1, …

    s_i = season_i + down_{i-1}(s_{i-1}), from fine to coarse, and t_i = trend_i + up_i(t_{i+1}), from coarse to fine.
    """

    def __init__(self, config: TimeMixerConfig) -> None:
        super().__init__()
        self.kernel = config.kernel
        fine_to_coarse = list(pairwise(config.lengths))
        down = nn.ModuleList(Perceptron((fine, coarse, coarse), activation="gelu") for fine, coarse in fine_to_coarse)
        self.down = cast("Sequence[Perceptron]", down)
        coarse_to_fine = reversed(fine_to_coarse)
        up = nn.ModuleList(Perceptron((coarse, fine, fine), activation="gelu") for fine, coarse in coarse_to_fine)
        self.up = cast("Sequence[Perceptron]", up)
        self.features = FeatureMixing(config.hidden, config.feedforward)

    def forward(
        self,
        states: Sequence[Tensor],  # each (hidden, N, T_i), the finest first
    ) -> list[Tensor]:
        """The mixed scales.

        What is added to a season or a trend goes to their sum too, so of the finest and the coarsest scale neither is
        needed but within the first map of a perceptron, whose weights are averaged in place of the states.
        """
        fine, *between, coarse = [state.flatten(0, 1) for state in states]
        averages = [moving_average(state, self.kernel) for state in between]
        seasons = [fine]
        season_bases = [*(state - average for state, average in zip(between, averages, strict=True)), coarse]
        for down, base in zip(self.down, season_bases, strict=True):
            seasons.append(self._add_perceptron(base, seasons[-1], down, season=True if len(seasons) == 1 else None))
        trends = [coarse]
        for up, base in zip(self.up, [*reversed(averages), fine], strict=True):
            trends.append(self._add_perceptron(base, trends[-1], up, season=False if len(trends) == 1 else None))
        mixed = [trends[-1], *map(torch.add, seasons[1:-1], trends[-2:0:-1]), seasons[-1]]
        return [self.features(state, x.view_as(state)) for state, x in zip(states, mixed, strict=True)]

    def _add_perceptron(
        self,
        base: Tensor,  # (rows, outputs)
        x: Tensor,  # (rows, inputs)
        perceptron: Perceptron,
        *,
        season: bool | None,  # of x, or its trend if False, goes in, or x itself if None
    ) -> Tensor:  # (rows, outputs)
        first, second = perceptron.linear_maps
        weight = first.weight
        if season is not None:
            average = weights_on_average(weight, self.kernel)
            weight = weight - average if season else average
        inner = gelu(linear(x, weight, first.bias))
        return (base + second.bias).addmm_(inner, second.weight.t())


class FeatureMixing(nn.Module):
    """A perceptron over each time step's vector, which is the first dimension, added to another vector."""

    def __init__(self, hidden: int, feedforward: int) -> None:
        super().__init__()
        self.expand = nn.Linear(hidden, feedforward)
        self.contract = nn.Linear(feedforward, hidden)

    def forward(self, base: Tensor, x: Tensor) -> Tensor:  # (hidden, N, T), (hidden, N, T) -> (hidden, N, T)
        """base + W₂ gelu(W₁ x + b₁) + b₂."""
        inner = gelu(torch.addmm(self.expand.bias[:, None], self.expand.weight, x.flatten(1)))
        added = torch.addmm(self.contract.bias[:, None], self.contract.weight, inner)
        return base + added.view_as(x)


class TimeStepEmbedding(nn.Module):
    """Each time step and its two neighbours as a vector: a convolution whose ends meet, without bias."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden, 1, 3))
        self.initialise_parameters(None)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Normal with variance 2 / 3 (He 2015, a fan-in of 3), as published."""
        with torch.no_grad():
            self.weight.normal_(0.0, sqrt(2.0 / 3.0), generator=generator)

    def forward(self, rows: Tensor) -> Tensor:  # (N, T) -> (hidden, N, T)
        """w₁ x_{t-1} + w₂ x_t + w₃ x_{t+1}."""
        neighbours = torch.stack((rows.roll(1, dims=-1), rows, rows.roll(-1, dims=-1)))
        return (self.weight[:, 0] @ neighbours.flatten(1)).view(-1, *rows.shape)


register_model("timemixer", TimeMixerConfig, TimeMixer, presets=PRESETS)

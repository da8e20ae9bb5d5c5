"""One training step of DLinear, PatchTST and TimeMixer against the same model in neuralforecast.

Both have the same weights, which is checked by their forecasts, the same batch, loss and optimiser, and take turns
in the same run on one thread. A step is forward, MSE, backward and AdamW; neuralforecast's windowing and Lightning's
loop are left out. neuralforecast is no dependency of ours: without it the topic is left out.
"""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import mse_loss

from benchmarks.speed.harness import Effort, Measurement, best_in_turns, quiet, training_step
from fern.models import Forecast, build_model
from fern.models.baselines.dlinear import DLinear
from fern.models.baselines.patchtst import PatchTST
from fern.models.baselines.timemixer import TimeMixer
from fern.training.runtime import threads

PACKAGES = ("torch", "numpy", "neuralforecast")
CONTEXT, BATCH = 336, 32
SIZES = {"336→96, 7 channels": (96, 7), "336→336, 3 channels": (336, 3)}
TARGET = "ratio of at least 1"

Sizes = tuple[int, int]  # horizon, channels


def measure(effort: Effort) -> list[Measurement]:
    with quiet():
        importlib.import_module("neuralforecast")  # absent, it is said before anything is built
    with threads(1):
        return [_compare(name, label, size, effort) for name in PEERS for label, size in SIZES.items()]


def _compare(name: str, label: str, size: Sizes, effort: Effort) -> Measurement:
    horizon, channels = size
    generator = Generator().manual_seed(7)
    past = torch.randn(BATCH, CONTEXT, channels, generator=generator).cumsum(dim=1).div_(8.0)
    future = torch.randn(BATCH, horizon, channels, generator=generator)
    ours = build_model(name, context_length=CONTEXT, horizon=horizon, channels=channels, generator=generator)
    with quiet():
        theirs, batch = PEERS[name](ours, past)
    target = future if batch["insample_y"].shape == past.shape else _rows(future)
    _require_same(ours, theirs, past, batch)

    def own_loss() -> Tensor:
        return ours.loss(past, future, _squared, generator=generator)

    steps = {
        "ours": training_step(ours, own_loss),
        "theirs": training_step(theirs, lambda: mse_loss(theirs(batch), target)),
    }
    seconds = best_in_turns(steps, rounds=effort.rounds(300 if name == "dlinear" else 25))
    peer = f"neuralforecast {type(theirs).__name__}"
    return Measurement(
        f"{name}, {label}, batch {BATCH}", 1e3 * seconds["ours"], 1e3 * seconds["theirs"], "ms", peer, TARGET
    )


def _squared(forecast: Forecast, future: Tensor) -> Tensor:
    return mse_loss(forecast.mean, future)


def _rows(x: Tensor) -> Tensor:  # (B, T, C) -> (B·C, T, 1)
    return x.transpose(1, 2).flatten(0, 1)[..., None].contiguous()


def _require_same(ours: Any, theirs: nn.Module, past: Tensor, batch: dict[str, Any]) -> None:
    """Both are the same model: the same forecast from the same weights."""
    with torch.no_grad():
        expected = theirs.eval()(batch)
        given = ours.eval()(past).mean
    given = given if expected.shape == given.shape else _rows(given)
    # Single precision through a dozen layers, on values of about 1.
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-4)


def _same(into: nn.Module, source: nn.Module) -> None:
    into.load_state_dict(source.state_dict())


def _dlinear(ours: DLinear, past: Tensor) -> tuple[nn.Module, dict[str, Any]]:
    from neuralforecast.models import DLinear as Theirs

    theirs = Theirs(h=ours.config.horizon, input_size=CONTEXT, moving_avg_window=ours.config.kernel)
    _same(theirs.linear_season, ours.seasonal)
    _same(theirs.linear_trend, ours.trend)
    return theirs, {"insample_y": _rows(past)}


def _patchtst(ours: PatchTST, past: Tensor) -> tuple[nn.Module, dict[str, Any]]:
    from neuralforecast.models import PatchTST as Theirs

    config = ours.config
    theirs = Theirs(
        h=config.horizon,
        input_size=CONTEXT,
        encoder_layers=config.layers,
        n_heads=config.heads,
        hidden_size=config.hidden,
        linear_hidden_size=config.feedforward,
        dropout=config.dropout,
        patch_len=config.patch_size,
        stride=config.stride,
        revin_affine=False,
        revin_subtract_last=False,
    )
    backbone = theirs.model.backbone
    _same(backbone.W_P, ours.embedding.linear)
    backbone.W_pos.data.copy_(ours.embedding.positions)
    own: Any
    for layer, own in zip(backbone.encoder.layers, ours.encoder, strict=True):
        for name, part in (("W_Q", "query"), ("W_K", "key"), ("W_V", "value")):
            _same(getattr(layer.self_attn, name), getattr(own.attention, part))
        _same(layer.self_attn.to_out[0], own.attention.out)
        _same(layer.norm_attn[1], own.norm_attention)
        _same(layer.ff[0], own.feedforward.maps[0])
        _same(layer.ff[3], own.feedforward.maps[1])
        _same(layer.norm_ffn[1], own.norm_feedforward)
    _same(theirs.model.head.linear, ours.head)
    return theirs, {"insample_y": _rows(past)}


def _timemixer(ours: TimeMixer, past: Tensor) -> tuple[nn.Module, dict[str, Any]]:
    from neuralforecast.models import TimeMixer as Theirs

    config = ours.config
    theirs = Theirs(
        h=config.horizon,
        input_size=CONTEXT,
        n_series=config.channels,
        d_model=config.hidden,
        d_ff=config.feedforward,
        e_layers=config.layers,
        moving_avg=config.kernel,
        down_sampling_layers=config.down_samplings,
        down_sampling_window=config.factor,
        channel_independence=1,
        dropout=config.dropout,
    )
    own: Any
    for block, own in zip(theirs.pdm_blocks, ours.blocks, strict=True):
        season, trend = block.mixing_multi_scale_season, block.mixing_multi_scale_trend
        for pairs, mixing in ((season.down_sampling_layers, own.down), (trend.up_sampling_layers, own.up)):
            for pair, perceptron in zip(pairs, mixing, strict=True):
                _same(pair[0], perceptron.maps[0])
                _same(pair[2], perceptron.maps[1])
        _same(block.out_cross_layer[0], own.features.expand)
        _same(block.out_cross_layer[2], own.features.contract)
    theirs.enc_embedding.value_embedding.tokenConv.weight.data.copy_(ours.embedding.weight)
    for linear, own in zip(theirs.predict_layers, ours.forecasts, strict=True):
        _same(linear, own)
    _same(theirs.projection_layer, ours.projection)
    return theirs, {"insample_y": past, "futr_exog": None}


PEERS: dict[str, Callable[..., tuple[nn.Module, dict[str, Any]]]] = {
    "dlinear": _dlinear,
    "patchtst": _patchtst,
    "timemixer": _timemixer,
}

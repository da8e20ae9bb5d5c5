"""One training step of DLinear, PatchTST and TimeMixer against the same model in neuralforecast.

Both have the same weights, which is checked by their forecasts, the same batch, loss and optimiser, and take turns
in the same run on one thread. A step is forward, MSE, backward and AdamW; neuralforecast's windowing and Lightning's
loop are left out. neuralforecast is no dependency of ours: without it only the following is measured, and nothing is
recorded.

The authors' PatchTST for ETTh1, at their batch of 128, is measured in processor time against `torch.nn`'s own encoder
of the same sizes, which has less to do (no scores passed on, LayerNorm), and against its own matrix products alone at
the rate of a large one: a bound that no implementation reaches.
"""

import contextlib
import importlib.util
import io
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import mse_loss

from benchmarks.speed.harness import Measurement, best_seconds, record, show
from fern.models import DLinear, Forecast, PatchTST, PatchTSTConfig, TimeMixer, build_model
from fern.models.layers import end_padded_patches

CONTEXT, BATCH = 336, 32
SIZES = {"336→96, 7 channels": (96, 7), "336→336, 3 channels": (336, 3)}
TARGET = "ratio of at least 1"

Step = Callable[[], None]
Sizes = tuple[int, int]  # horizon, channels


def measure() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        measurements = _official()
        if importlib.util.find_spec("neuralforecast") is None:
            show(measurements)
            print("  neuralforecast is not installed: nothing recorded (pip install neuralforecast)")
            return
        measurements += [_compare(name, label, size) for name in PEERS for label, size in SIZES.items()]
    finally:
        torch.set_num_threads(threads)
    record("baselines", measurements, packages=("torch", "numpy", "neuralforecast"))


def _official() -> list[Measurement]:
    """A step of PatchTST's ``etth1`` preset against torch's encoder, and against its matrix products alone."""
    horizon, channels, batch = 96, 7, 128
    generator = Generator().manual_seed(7)
    past = torch.randn(batch, CONTEXT, channels, generator=generator).cumsum(dim=1).div_(8.0)
    future = torch.randn(batch, horizon, channels, generator=generator)
    ours = build_model(
        "patchtst", context_length=CONTEXT, horizon=horizon, channels=channels, preset="etth1", generator=generator
    )
    assert isinstance(ours, PatchTST)
    theirs, target = TorchEncoder(ours.config), _rows(future).squeeze(-1)
    patches = end_padded_patches(
        _rows(past).squeeze(-1), size=ours.config.patch_size, stride=ours.config.stride
    ).contiguous()
    steps = {
        "ours": _step(ours, lambda: ours.loss(past, future, _squared, generator=generator)),
        "theirs": _step(theirs, lambda: mse_loss(theirs(patches), target)),
    }
    seconds = _best_in_turns(steps, rounds=7, clock=time.process_time)
    square = torch.randn(1024, 1024, generator=generator)
    rate = 2 * 1024**3 / best_seconds(lambda: square @ square, clock=time.process_time)
    floor = 3 * _forward_operations(ours.config, rows=batch * channels) / rate
    name, own = f"patchtst (etth1), 336→96, 7 channels, batch {batch}", 1e3 * seconds["ours"]
    return [
        Measurement(name, own, 1e3 * seconds["theirs"], "ms", "torch.nn.TransformerEncoder", TARGET),
        Measurement(name, own, 1e3 * floor, "ms", "its products at the rate of sgemm", "none: a bound"),
    ]


def _forward_operations(config: PatchTSTConfig, *, rows: int) -> int:
    """Floating-point operations of the matrix products; a step with its two gradients has three times as many."""
    hidden, tokens = config.hidden, config.context_patches
    maps = hidden * (4 * hidden + 2 * config.feedforward + 2 * tokens)  # of one token in one layer
    return 2 * rows * tokens * (config.layers * maps + hidden * (config.patch_size + config.horizon))


class TorchEncoder(nn.Module):
    """PatchTST of torch's own parts: a patch embedding, its encoder, and a linear map to the horizon."""

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        self.embedding = nn.Linear(config.patch_size, config.hidden)
        layer = nn.TransformerEncoderLayer(
            config.hidden,
            config.heads,
            config.feedforward,
            dropout=config.dropout,
            activation="gelu",
            batch_first=True,
        )
        layer.self_attn.dropout = config.attention_dropout
        self.encoder = nn.TransformerEncoder(layer, config.layers)
        self.head = nn.Linear(config.hidden * config.context_patches, config.horizon)

    def forward(self, patches: Tensor) -> Tensor:  # (N, patches, p) -> (N, H)
        forecast: Tensor = self.head(self.encoder(self.embedding(patches)).flatten(1))
        return forecast


def _compare(name: str, label: str, size: Sizes) -> Measurement:
    horizon, channels = size
    generator = Generator().manual_seed(7)
    past = torch.randn(BATCH, CONTEXT, channels, generator=generator).cumsum(dim=1).div_(8.0)
    future = torch.randn(BATCH, horizon, channels, generator=generator)
    ours = build_model(name, context_length=CONTEXT, horizon=horizon, channels=channels, generator=generator)
    with _quiet():
        theirs, batch = PEERS[name](ours, past)
    target = future if batch["insample_y"].shape == past.shape else _rows(future)
    _require_same(ours, theirs, past, batch)

    def own_loss() -> Tensor:
        return ours.loss(past, future, _squared, generator=generator)

    steps = {
        "ours": _step(ours, own_loss),
        "theirs": _step(theirs, lambda: mse_loss(theirs(batch), target)),
    }
    seconds = _best_in_turns(steps, rounds=300 if name == "dlinear" else 25)
    peer = f"neuralforecast {type(theirs).__name__}"
    return Measurement(
        f"{name}, {label}, batch {BATCH}", 1e3 * seconds["ours"], 1e3 * seconds["theirs"], "ms", peer, TARGET
    )


def _squared(forecast: Forecast, future: Tensor) -> Tensor:
    return mse_loss(forecast.mean, future)


def _rows(x: Tensor) -> Tensor:  # (B, T, C) -> (B·C, T, 1)
    return x.transpose(1, 2).flatten(0, 1)[..., None].contiguous()


def _step(model: nn.Module, loss: Callable[[], Tensor]) -> Step:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model.train()

    def step() -> None:
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()

    return step


def _best_in_turns(
    steps: dict[str, Step], *, rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    best = dict.fromkeys(steps, float("inf"))
    for turn in range(rounds + 2):
        for name, step in steps.items():
            start = clock()
            step()
            if turn >= 2:  # the first are warm-ups
                best[name] = min(best[name], clock() - start)
    return best


def _require_same(ours: Any, theirs: nn.Module, past: Tensor, batch: dict[str, Any]) -> None:
    """Both are the same model: the same forecast from the same weights."""
    with torch.no_grad():
        expected = theirs.eval()(batch)
        given = ours.eval()(past).mean
    given = given if expected.shape == given.shape else _rows(given)
    # Single precision through a dozen layers, on values of about 1.
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-4)


@contextlib.contextmanager
def _quiet() -> Any:
    """neuralforecast and Lightning announce themselves."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


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

"""A training step of the authors' PatchTST for ETTh1, at their batch of 128, in processor time.

Peers: `torch.nn`'s own encoder of the same sizes, which has less to do (no scores passed on, LayerNorm), and the
model's matrix products alone at the rate of a large one: a bound that no implementation reaches.
"""

import time

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import mse_loss

from benchmarks.speed.harness import Effort, Measurement, best_in_turns, best_seconds, training_step
from fern.models import Forecast, build_model
from fern.models.baselines.patchtst import PatchTST, PatchTSTConfig
from fern.models.layers import cut_patches
from fern.training.runtime import threads

PACKAGES = ("torch", "numpy", "numba")
CONTEXT = 336
TARGET = "ratio of at least 1"


def measure(effort: Effort) -> list[Measurement]:
    """A step of PatchTST's ``etth1`` preset against torch's encoder, and against its matrix products alone."""
    with threads(1):
        return _measured(effort)


def _measured(effort: Effort) -> list[Measurement]:
    horizon, channels, batch = 96, 7, effort.size(128, least=2)
    generator = Generator().manual_seed(7)
    past = torch.randn(batch, CONTEXT, channels, generator=generator).cumsum(dim=1).div_(8.0)
    future = torch.randn(batch, horizon, channels, generator=generator)
    ours = build_model(
        "patchtst", context_length=CONTEXT, horizon=horizon, channels=channels, preset="etth1", generator=generator
    )
    assert isinstance(ours, PatchTST)
    theirs, target = TorchEncoder(ours.config), _rows(future).squeeze(-1)
    patches = cut_patches(_rows(past).squeeze(-1), size=ours.config.patch_size, stride=ours.config.stride).contiguous()
    steps = {
        "ours": training_step(ours, lambda: ours.loss(past, future, squared, generator=generator)),
        "theirs": training_step(theirs, lambda: mse_loss(theirs(patches), target)),
    }
    seconds = best_in_turns(steps, rounds=effort.rounds(7), clock=time.process_time)
    square = torch.randn(1024, 1024, generator=generator)
    rate = 2 * 1024**3 / best_seconds(lambda: square @ square, repeats=effort.rounds(5), clock=time.process_time)
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


def squared(forecast: Forecast, future: Tensor) -> Tensor:
    return mse_loss(forecast.mean, future)


def _rows(x: Tensor) -> Tensor:  # (B, T, C) -> (B·C, T, 1)
    return x.transpose(1, 2).flatten(0, 1)[..., None].contiguous()

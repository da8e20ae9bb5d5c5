"""A training step of Fern (batch 95 x 3 channels, 336 to 336, Huber, AdamW) against the machine's sgemm rate.

The share is (1.17 M multiply-adds a channel x 2 FLOPs x 3 for forward and backward x 285 series) per second of the
step, over the rate of a 2048³ product of matrices, measured in turns in the same run with the same threads. The
peer is the same network in plain eager operations: softplus clamps, and a loop over the reflections.

Beside it the step that trains a distribution: normalised contexts, a linear skip, a direct mean and the CRPS along
the distribution's axes. Its work counts the skip's 336² multiply-adds a channel too, and its peer is the Huber step.
And the step of the preset ``paper``, by its own multiply-adds; the others are of ``paper-compact`` in size.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import huber_loss, softplus

from benchmarks.speed.harness import Effort, Measurement
from fern.models import Fern, Forecast, build_model
from fern.models.footprint import multiply_adds
from fern.training.optimisation import criterion
from fern.training.runtime import threads

PACKAGES = ("torch", "numpy", "numba")
BATCH, CHANNELS, LENGTH, HORIZON = 95, 3, 336, 336
PRODUCT = 2048
DISTRIBUTION = {"normalise": "instance", "skip": "linear", "mean": "direct"}
ROUNDS = 12


def measure(effort: Effort) -> list[Measurement]:
    measurements = []
    for count in [n for n in (1, 2) if n <= (os.cpu_count() or 1)]:
        with threads(count):
            measurements += _at(count, effort)
    return measurements


def _at(threads: int, effort: Effort) -> list[Measurement]:
    generator = Generator().manual_seed(7)
    batch, size = effort.size(BATCH, least=2), effort.size(PRODUCT, least=64)
    length, horizon = effort.size(LENGTH, least=48), effort.size(HORIZON, least=48)
    past = 8 * torch.randn(batch, length, CHANNELS, generator=generator)
    future = 8 * torch.randn(batch, horizon, CHANNELS, generator=generator)
    ours, plain, distribution = _fern(length, horizon), _fern(length, horizon), _fern(length, horizon, **DISTRIBUTION)
    paper = _fern(length, horizon, preset="paper")
    whitened = criterion({"whitened_crps": 1.0})
    a, out = torch.randn(size, size, generator=generator), torch.empty(size, size)
    parts: dict[str, Callable[[], object]] = {
        "sgemm": lambda: torch.mm(a, a, out=out),
        "fern": _training(ours, lambda: ours.loss(past, future, _huber, generator=generator)),
        "distribution": _training(distribution, lambda: distribution.loss(past, future, whitened, generator=generator)),
        "paper": _training(paper, lambda: paper.loss(past, future, _huber, generator=generator)),
        "plain": _training(plain, lambda: huber_loss(plain_forecast(plain, past, generator), future)),
        "forward": lambda: ours.loss(past, future, _huber, generator=generator),
    }
    seconds = _best_in_turns(parts, threads, rounds=effort.rounds(ROUNDS))
    rate = 2 * size**3 / seconds["sgemm"]
    work = 1.17e6 * 6 * batch * CHANNELS
    share = {name: work / seconds[name] / rate for name in ("fern", "plain")}
    share["distribution"] = (work + length * horizon * 6 * batch * CHANNELS) / seconds["distribution"] / rate
    share["paper"] = multiply_adds(paper) * 6 * batch / seconds["paper"] / rate
    name = f"{threads} thread{'s' if threads > 1 else ''}"
    print(f"  {name}: sgemm {rate / 1e9:.1f} GFLOP/s; plain eager step {share['plain']:.3f} of it")
    print(f"  {name}: forward {1e3 * seconds['forward']:.2f} ms of {1e3 * seconds['fern']:.2f} ms; by operation:")
    for part in ("fern", "distribution", "paper"):
        print(f"    {part}: {'; '.join(_breakdown(parts[part], steps=effort.rounds(10)))}")
    return [
        Measurement(f"share of the sgemm rate, {name}", share["fern"], None, "", "", "at least 0.35"),
        Measurement(
            f"training step, {name}", 1e3 * seconds["fern"], 1e3 * seconds["plain"], "ms", "plain eager", "ratio > 1.5"
        ),
        Measurement(
            f"distribution: share of the sgemm rate, {name}", share["distribution"], None, "", "", "at least 0.55"
        ),
        Measurement(
            f"distribution: training step, {name}",
            1e3 * seconds["distribution"],
            1e3 * seconds["fern"],
            "ms",
            "Huber",
            "ratio > 0.87",
        ),
        Measurement(f"paper: share of the sgemm rate, {name}", share["paper"], None, "", "", "at least 0.55"),
    ]


def _fern(length: int, horizon: int, **settings: Any) -> Fern:
    model = build_model(
        "fern",
        context_length=length,
        horizon=horizon,
        channels=CHANNELS,
        generator=Generator().manual_seed(7),
        **settings,
    )
    assert isinstance(model, Fern)
    return model.train()


def _huber(forecast: Forecast, future: Tensor) -> Tensor:
    return huber_loss(forecast.mean, future)


def _training(model: Fern, loss: Callable[[], Tensor]) -> Callable[[], None]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.0, fused=True)

    def step() -> None:
        value = loss()
        optimiser.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def _best_in_turns(parts: dict[str, Callable[[], object]], threads: int, *, rounds: int) -> dict[str, float]:
    """The shortest time of each part; in turns, so that a busy machine disturbs them alike.

    One thread is timed by its processor time, which other processes disturb less than the clock on the wall.
    """
    clock = time.thread_time if threads == 1 else time.perf_counter
    best = dict.fromkeys(parts, float("inf"))
    for turn in range(rounds + 1):
        for name, part in parts.items():
            for _ in range(1 if name == "sgemm" else min(4, rounds)):
                start = clock()
                part()
                if turn > 0:
                    best[name] = min(best[name], clock() - start)
    return best


def _breakdown(step: Callable[[], object], *, steps: int) -> list[str]:
    """The share of a step that each kind of operation takes, the largest first."""
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        for _ in range(steps):
            step()
    kinds = {
        "products of matrices": ("aten::mm", "aten::addmm"),
        "transport": ("Push", "PushBackward", "Reflect", "ReflectBackward"),
        "clamps and updates": (
            *("_Update", "_UpdateBackward", "_ClampedPair", "_ClampedPairBackward"),
            *("_LeakyUpdate", "_LeakyUpdateBackward", "_LeakyClamp", "_LeakyClampBackward"),
        ),
        "optimiser": ("aten::_fused_adamw_",),
        "noise": ("aten::normal_",),
    }
    spent = dict.fromkeys([*kinds, "everything else"], 0.0)
    for event in profile.key_averages():
        kind = next((kind for kind, names in kinds.items() if event.key in names), "everything else")
        spent[kind] += event.self_cpu_time_total
    total = sum(spent.values())
    return [f"{kind}: {time / total:.0%}" for kind, time in sorted(spent.items(), key=lambda item: -item[1])]


def plain_forecast(model: Fern, past: Tensor, generator: Generator) -> Tensor:
    """Fern's training forward pass in plain operations, from the same parameters."""
    x = past.transpose(1, 2).flatten(0, 1)
    z = 0.1**0.5 * torch.randn(x.shape[0], model.config.latent, generator=generator)
    head_x: Any
    heads_z: list[Any] = [*model.heads_z]
    for i, head_x in enumerate(model.heads_x):
        scale, shift = head_x.linear(model.features_x(x).relu()).chunk(2, dim=-1)
        z = _soft(scale, 0.0, 5.5) * z + _soft(shift, -15.0, 15.0)
        if i < len(heads_z):
            head_z = heads_z[i].linear
            scale, shift = head_z(model.features_z(z).relu()).chunk(2, dim=-1)
            shift = _soft(shift, -15.0, 15.0)
            if head_z.rotating:
                a, b = _soft(scale, -4.5, 4.5).unflatten(-1, (-1, 2)).unbind(-1)  # type: ignore[no-untyped-call]
                u, v = x.unflatten(-1, (-1, 2)).unbind(-1)  # type: ignore[no-untyped-call]
                x = torch.stack((a * u - b * v, b * u + a * v), dim=-1).flatten(-2) + shift
            else:
                x = _soft(scale, 0.0, 5.5) * x + shift
    features = model.head.hidden(model.features_z(z).relu()).relu()
    scale, shift = model.head.spectrum(features).chunk(2, dim=-1)
    patched = (-1, model.config.patches, model.config.used_patch_size)
    vectors = model.head.vectors(features).reshape(*patched[:2], model.config.used_reflections, patched[2])
    vectors = vectors / vectors.norm(dim=-1, keepdim=True)
    y = 0.1**0.5 * torch.randn(shift.shape, generator=generator) + _soft(shift, -15.0, 15.0)
    y = y.reshape(patched)
    for v in vectors.unbind(2):
        y = y - 2 * (v * y).sum(-1, keepdim=True) * v
    y = _soft(scale, 0.0, 5.5).reshape(patched) * y
    for v in reversed(vectors.unbind(2)):
        y = y - 2 * (v * y).sum(-1, keepdim=True) * v
    forecast: Tensor = y.reshape(-1, CHANNELS, model.config.horizon).transpose(1, 2)
    return forecast


def _soft(x: Tensor, low: float, high: float) -> Tensor:
    return low + softplus(x - low) - softplus(x - high)

"""Pretraining: endless windows by seed, a schedule fitted to the budget, runs that go on where they stopped."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.pretrain.training import (
    PretrainConfig,
    Windows,
    draw_windows,
    endless_windows,
    export,
    loss_of,
    rate_at,
    read_checkpoint,
    read_config,
    share_done,
    train,
    widen,
)

from fern.models.pretrained import network as networks
from fern.models.pretrained.network import FORMAT, Network, NetworkConfig
from fern.models.pretrained.representation import LARGEST
from fern.models.storage import read_tensors
from fern.synthetic import generate

TINY = PretrainConfig(
    minutes=1e6,
    processor_minutes=1e-4,
    batch=32,
    blocks=1,
    windows=1,
    network=NetworkConfig(hidden=8, latent=4, layers=2, reflections=2, gate_hidden=8),
)


@pytest.fixture(scope="module")
def chunk():
    return next(endless_windows(TINY, 3))


def test_chunks_depend_on_the_seed_and_their_number_alone(chunk):
    first, again = chunk, next(endless_windows(TINY, 3))
    other = next(endless_windows(replace(TINY, seed=2), 3))
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.future, again.future)
    assert first.inputs.shape != other.inputs.shape or not torch.equal(first.inputs, other.inputs)


def test_windows_are_finite_and_held_within_bounds():
    pool = generate(64, length=400, seed=3).values.astype(np.float64)
    windows = draw_windows(np.pad(pool, ((0, 0), (2240 - 400, 0)), mode="wrap"), np.random.default_rng(1), 4, mixed=0.3)
    for part in (windows.inputs, windows.paths, windows.future):
        assert torch.isfinite(part).all()
    assert windows.future.abs().max() <= LARGEST


def test_the_loss_falls(chunk):
    torch.manual_seed(1)
    windows = Windows(chunk.inputs[:64], chunk.paths[:64], chunk.future[:64])
    network = Network(TINY.network)
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        loss = loss_of(network, windows, evened=0.0)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_the_rate_rises_briefly_and_falls_to_the_end_of_the_budget():
    config = PretrainConfig(rate=1.0, warm=0.1)
    rates = [rate_at(config, share) for share in np.linspace(0, 1, 101)]
    assert rates.index(max(rates)) == 10
    assert rates[-1] == pytest.approx(0.01)
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))


def test_the_budget_is_used_up_by_the_clock_or_the_processor():
    config = PretrainConfig(minutes=10, processor_minutes=2)
    assert share_done(config, 300, 30) == 0.5
    assert share_done(config, 300, 90) == 0.75


def test_a_run_goes_on_where_it_stopped_and_can_be_exported(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.pretrain.training.report", lambda *_, **__: "not judged here")
    train(TINY, tmp_path / "run")
    first, weights = read_checkpoint(tmp_path / "run")
    assert first.steps > 0
    assert read_config(tmp_path / "run" / "config.json") == TINY
    longer = replace(TINY, processor_minutes=first.processor_seconds / 60 + 1e-4)
    train(longer, tmp_path / "run")
    second, later = read_checkpoint(tmp_path / "run")
    assert second.steps > first.steps
    assert second.chunks > first.chunks
    name = "weights.gates.bias"
    assert not torch.equal(weights[name], later[name])
    export(tmp_path / "run", tmp_path / "weights.safetensors")
    described, tensors, _ = read_tensors(tmp_path / "weights.safetensors", format_=FORMAT)
    assert described["training"]["steps"] == second.steps
    assert described["training"]["settings"]["seed"] == TINY.seed
    assert {value.dtype for value in tensors.values()} == {torch.float16}
    assert json.dumps(described)


def test_a_wider_network_starts_with_the_forecasts_of_a_narrower_one(monkeypatch, chunk):
    width = networks.WIDTH
    monkeypatch.setattr(networks, "WIDTH", width - 10)
    narrow = Network(TINY.network).eval()
    monkeypatch.setattr(networks, "WIDTH", width)
    wide = Network(TINY.network).eval()
    widen(wide, narrow.state_dict())
    first, second = narrow(chunk.inputs[:, :-10], chunk.paths), wide(chunk.inputs, chunk.paths)
    assert torch.allclose(first.mean, second.mean, atol=1e-5)
    assert torch.allclose(first.stddev, second.stddev, rtol=1e-5)

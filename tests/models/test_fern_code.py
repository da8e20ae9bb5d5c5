"""Fern in the forms of its author's code (the preset ``paper``), against an independent version in NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn.functional import huber_loss

from fern.errors import FernError
from fern.models import Fern, build_model
from fern.models.fern import PRESETS
from fern.models.footprint import parameter_count
from fern.models.storage import load_model, save_model
from fern.training.optimisation import criterion
from fern.transport.ellipsoid import EIGENVALUE_FLOOR

Floats = NDArray[np.float64]

SIZES = {"context_length": 40, "horizon": 30, "channels": 2}
SMALL = {**SIZES, "patch_size": 12, "reflections": 3, "hidden": 16, "latent": 6}
FORMS = ("heads", "coupling", "clamp", "decoder_layers", "reflection_map", "feature_activations", "bias")


def fern(seed: int = 7, **settings: Any) -> Fern:
    model = build_model("fern", preset="paper", generator=Generator().manual_seed(seed), **{**SMALL, **settings})
    assert isinstance(model, Fern)
    generator = Generator().manual_seed(seed + 1)
    with torch.no_grad():  # away from the start, so that every term shows
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise, alpha=0.7 * parameter.shape[-1] ** -0.5)
    return model.eval()


def windows(batch: int = 3, seed: int = 5) -> Tensor:
    return 2 * torch.randn(batch, 40, 2, generator=Generator().manual_seed(seed))


class InNumPy:
    """The algorithm for one series in float64, from the weights and settings of a model."""

    def __init__(self, model: Fern) -> None:
        self.weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
        self.config = model.config

    def linear(self, name: str, x: Floats) -> Floats:
        return self.weights[f"{name}.weight"] @ x + self.weights.get(f"{name}.bias", 0.0)

    def activated(self, name: str, x: Floats) -> Floats:
        if name == "elu":
            return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)
        return {"identity": x, "relu": np.maximum(x, 0), "logsigmoid": -np.logaddexp(0, -x)}[name]

    def features(self, name: str, x: Floats) -> Floats:
        if self.config.feature_activations is None:
            return self.activated("relu", self.linear(f"features_{name}", x))
        for i, kind in enumerate(self.config.feature_activations):
            x = self.activated(kind, self.linear(f"features_{name}.layers.{i}", x))
        return x

    def clamp(self, x: Floats, low: float, high: float) -> Floats:
        if self.config.clamp == "leaky":
            return 0.1 * x + 0.9 * (
                x - np.logaddexp(0, 0.8 * (x - high)) / 0.8 + np.logaddexp(0, 0.8 * (low - x)) / 0.8
            )
        knee = 0.1 * (high - low)
        inner = np.clip(x, low + knee, high - knee)
        w = (x - inner) / knee
        return inner + knee * w / np.sqrt(1 + w**2)

    def raw(self, name: str, h: Floats, *, rotating: bool = False) -> tuple[Floats, Floats]:
        if self.config.heads == "linear":
            scale, shift = np.split(self.linear(name if name == "head.spectrum" else f"{name}.linear", h), 2)
            return scale, shift
        name = name.removesuffix(".spectrum")
        scale, shift = np.split(self.activated("elu", self.linear(f"{name}.coefficients.first", h)), 2)
        scale = self.activated("elu", self.linear(f"{name}.coefficients.scale.0", scale))
        if rotating:
            scale = self.linear(f"{name}.coefficients.scale.1", scale)
        shift = self.activated("elu", self.linear(f"{name}.coefficients.shift.0", shift))
        return scale, self.linear(f"{name}.coefficients.shift.1", shift)

    def updated(self, name: str, h: Floats, state: Floats, *, rotating: bool = False) -> Floats:
        scale, shift = self.raw(name, h, rotating=rotating)
        residual = self.config.coupling == "residual"
        if rotating:
            pairs = self.clamp(scale, -4.5, 4.5).reshape(-1, 2)
            turned = (pairs[:, 0] + 1j * pairs[:, 1]) * (state[0::2] + 1j * state[1::2])
            moved = np.stack((turned.real, turned.imag), axis=1).ravel()
        else:
            moved = (self.clamp(scale, -1, 4.5) if residual else self.clamp(scale, 0, 5.5)) * state
        return moved + self.clamp(shift, -15, 15) + (state if residual else 0)

    def added(self, i: int, h: Floats) -> Floats:
        if self.config.heads == "linear":
            return self.clamp(self.linear(f"shifts_y.{i}.linear", h), -15, 15)
        first = self.activated("elu", self.linear(f"shifts_y.{i}.coefficients.first", h))
        second = self.activated("elu", self.linear(f"shifts_y.{i}.coefficients.shift.0", first))
        return self.clamp(self.linear(f"shifts_y.{i}.coefficients.shift.1", second), -15, 15)

    def forecast(self, x: Floats, z: Floats, y: Floats) -> Floats:
        config = self.config
        for i in range(config.layers):
            z = self.updated(f"heads_x.{i}", self.features("x", x), z)
            if i < config.layers - 1:
                rotating = i % 2 == 1 if config.rotating is None else i + 1 in config.rotating
                x = self.updated(f"heads_z.{i}", self.features("z", z), x, rotating=rotating)
        for i in range(config.decoder_layers):
            z = self.updated(f"heads_y.{i}", self.features("y", y), z)
            y = y + self.added(i, self.features("z", z))
        h = self.features("z", z)
        if config.heads == "linear":
            h = self.activated("relu", self.linear("head.hidden", h))
        scale, shift = self.raw("head.spectrum", h)
        low, high = (
            (EIGENVALUE_FLOOR, 5.5) if config.clamp == "bend" else (-1, 4.5) if config.heads == "deep" else (0, 5.5)
        )
        eigenvalues = self.clamp(scale, low, high)
        y = y + self.clamp(shift, -15, 15)
        vectors = self.linear("head.vectors", h)
        if config.reflection_map == "rectified":
            vectors = np.maximum(vectors, 0)
        out, used = [], 0
        for start in range(0, config.horizon, 12):
            size = min(12, config.horizon - start)
            rotation = np.eye(size)
            for _ in range(config.reflections):
                v = vectors[used : used + size]
                rotation = (np.eye(size) - 2 * np.outer(v, v) / (v @ v or 1.0)) @ rotation
                used += size
            here = slice(start, start + size)
            out.append(rotation.T @ (eigenvalues[here] * (rotation @ y[here])))
        return np.concatenate(out)


SINGLE_CHANGES: list[dict[str, Any]] = [
    {},
    {"heads": "linear"},
    {"heads": "linear", "feature_activations": ("relu", "elu")},
    {"coupling": "affine"},
    {"clamp": "bend"},
    {"clamp": "bend", "coupling": "affine"},
    {"clamp": "bend", "heads": "linear"},
    {"decoder_layers": 0},
    {"reflection_map": "linear"},
    {"bias": True},
    {"feature_activations": None},
    {"feature_activations": ("relu", "elu")},
    {"rotating": (1, 4)},
    {"rotating": ()},
]


@pytest.mark.parametrize("settings", SINGLE_CHANGES, ids=str)
def test_evaluation_is_the_algorithm_in_numpy(settings: dict[str, Any]) -> None:
    model, past = fern(**settings), windows()
    algorithm = InNumPy(model)
    mean = model(past).mean
    for b in range(3):
        for c in range(2):
            expected = algorithm.forecast(past[b, :, c].double().numpy(), np.zeros(6), np.zeros(30))
            scale = max(1.0, float(np.abs(expected).max()))
            assert np.abs(mean[b, :, c].detach().numpy() - expected).max() < 1e-5 * scale


@pytest.mark.parametrize("settings", SINGLE_CHANGES, ids=str)
def test_training_is_the_algorithm_with_one_draw_of_z_and_of_y0(settings: dict[str, Any]) -> None:
    model, past = fern(**settings).double().train(), windows().double()
    draw = model(past, generator=Generator().manual_seed(11)).mean.detach().numpy()
    generator = Generator().manual_seed(11)
    z = 0.1 * torch.randn(6, 6, generator=generator, dtype=torch.float64).numpy()
    y0 = 0.1 * torch.randn(3, 2, 30, generator=generator, dtype=torch.float64).numpy()
    algorithm = InNumPy(model)
    for b in range(3):
        for c in range(2):
            expected = algorithm.forecast(past[b, :, c].numpy(), z[2 * b + c], y0[b, c])
            np.testing.assert_allclose(draw[b, :, c], expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


def test_the_presets_of_text_and_code_differ_in_every_form() -> None:
    text, code = PRESETS["paper-compact"], PRESETS["paper"]
    assert all(name in code for name in FORMS)
    assert not any(name in text for name in FORMS)
    assert (text["noise"], code["noise"]) == (0.1, 0.01)


def test_deep_heads_have_the_parameters_of_the_authors_code() -> None:
    sizes = {"context_length": 336, "horizon": 336, "channels": 3}
    model = build_model("fern", preset="paper", **sizes)
    assert parameter_count(model) == 4_454_144  # counted by hand from the layers of the author's code


@pytest.mark.parametrize("settings", SINGLE_CHANGES, ids=str)
def test_every_parameter_learns(settings: dict[str, Any]) -> None:
    model = fern(**settings).train()
    model.loss(windows(), torch.ones(3, 30, 2), lambda f, y: huber_loss(f.mean, y)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name


def test_paths_are_drawn_through_the_decoder_layers() -> None:
    model, past = fern().double(), windows(batch=1).double()
    drawn = model(past, samples=2, generator=Generator().manual_seed(3)).samples
    assert drawn is not None
    generator = Generator().manual_seed(3)
    z = 0.1 * torch.randn(4, 6, generator=generator, dtype=torch.float64).numpy()
    y0 = 0.1 * torch.randn(2, 1, 2, 30, generator=generator, dtype=torch.float64).numpy()
    algorithm = InNumPy(model)
    for s in range(2):
        for c in range(2):
            expected = algorithm.forecast(past[0, :, c].numpy(), z[2 * s + c], y0[s, 0, c])
            np.testing.assert_allclose(drawn[s, 0, :, c].detach().numpy(), expected, rtol=1e-9, atol=1e-9)


def test_a_drawn_evaluation_is_one_draw_and_the_same_again() -> None:
    model, past = fern(evaluation="drawn").double(), windows().double()
    first = model(past).mean
    assert torch.equal(model(past).mean, first)
    assert not torch.equal(model(past, generator=Generator().manual_seed(12)).mean, first)
    generator = Generator().manual_seed(11)
    drawn = model(past, generator=Generator().manual_seed(11)).mean.detach().numpy()
    z = 0.1 * torch.randn(6, 6, generator=generator, dtype=torch.float64).numpy()
    y0 = 0.1 * torch.randn(3, 2, 30, generator=generator, dtype=torch.float64).numpy()
    expected = InNumPy(model).forecast(past[2, :, 1].numpy(), z[5], y0[2, 1])
    np.testing.assert_allclose(drawn[2, :, 1], expected, rtol=1e-9, atol=1e-9)


def test_blocks_of_reflections_take_turns_in_passing_gradients() -> None:
    model = fern(reflections=6, gradient_block=2, horizon=24).train()
    entries = model.head.vectors.weight.view(2, 6, 12, 16)
    active = []
    for _ in range(4):
        model.zero_grad()
        model.loss(windows(), torch.ones(3, 24, 2), lambda f, y: huber_loss(f.mean, y)).backward()
        assert model.head.vectors.weight.grad is not None
        moved = model.head.vectors.weight.grad.view_as(entries).abs().sum((0, 2, 3)) > 0
        active.append(moved.nonzero().flatten().tolist())
    assert active == [[0, 1], [2, 3], [4, 5], [0, 1]]
    turned = model.state_dict()["head.turn"]
    assert int(turned) == 4  # saved with the weights: a resumed run goes on with the next block


def test_blocks_change_gradients_and_not_forecasts() -> None:
    past = windows()
    assert torch.equal(fern(gradient_block=1)(past).mean, fern()(past).mean)


def test_all_channels_can_be_seen_through_deep_heads_and_decoder_layers() -> None:
    model, past = fern(channels_seen="all"), windows()
    other = past.clone()
    other[:, :, 1] = windows(seed=9)[:, :, 1]
    assert model(past).mean.shape == (3, 30, 2)
    assert (model(past).mean[:, :, 0] - model(other).mean[:, :, 0]).abs().max() > 1e-3


def test_a_distribution_is_trained_through_the_decoder_layers() -> None:
    model = fern(normalise="instance", skip="linear", mean="direct").train()
    model.loss(windows(), torch.zeros(3, 30, 2), criterion({"crps": 1.0})).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"feature_activations": ("rulu",)}, "unknown activation 'rulu'"),
        ({"feature_activations": ()}, "feature_activations: is empty"),
        ({"heads": "wide"}, "heads: "),
        ({"coupling": "both"}, "coupling: "),
        ({"clamp": "hard"}, "clamp: "),
        ({"reflection_map": "relu"}, "reflection_map: "),
        ({"evaluation": "median"}, "evaluation: "),
        ({"decoder_layers": -1}, "decoder_layers: got -1"),
        ({"gradient_block": 0}, "gradient_block: got 0"),
        ({"rotating": (0,)}, "rotating: got 0"),
    ],
)
def test_bad_forms_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FernError, match=message):
        build_model("fern", **{**SIZES, **settings})


def test_a_saved_model_of_the_authors_forecasts_the_same(tmp_path: Path) -> None:
    model, past = fern(reflections=6, gradient_block=2), windows()
    model.train().loss(past, torch.ones(3, 30, 2), lambda f, y: huber_loss(f.mean, y))
    save_model(model.eval(), tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert again.config == model.config
    assert torch.equal(again.eval()(past).mean, model(past).mean)
    assert int(again.state_dict()["head.turn"]) == 1

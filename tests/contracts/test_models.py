"""What every registered model must satisfy. A new model gets these tests by registering itself."""

import math
from copy import deepcopy
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.errors import raises_error
from torch import Generator, Tensor

from fern.errors import FernError
from fern.models import FittedForecaster, Forecast, Forecaster, build_model, load_model, model_names, save_model
from fern.models.registry import model_entry

# Settings that keep the suite quick. A model that is not named here is tested with its defaults.
SMALL: dict[str, dict[str, Any]] = {
    "fern": {"patch_size": 8, "reflections": 3, "hidden": 24, "latent": 6, "layers": 3},
    "fern-rolled": {"step": 8, "unroll": 3, "hidden": 24, "latent": 6, "layers": 3},  # all 24 steps are in its loss
    "seasonal-naive": {"season": 7},
}
NAMES = [name for name in model_names() if model_entry(name).model.__module__.startswith("fern.")]
EVERY_MODEL = pytest.mark.parametrize("name", NAMES)
# Some windows here are far outside what a model was fitted to.
pytestmark = pytest.mark.filterwarnings("ignore:polymap. .* windows had values held:RuntimeWarning")


def small(name: str, *, context: int = 50, horizon: int = 24, channels: int = 3, seed: int = 7) -> Forecaster:
    """A small model that has seen its training windows. The context of 50 divides into no usual patch."""
    return deepcopy(_shown(name, context, horizon, channels, seed))


@cache
def _shown(name: str, context: int, horizon: int, channels: int, seed: int) -> Forecaster:
    model = build_model(
        name,
        context_length=context,
        horizon=horizon,
        channels=channels,
        generator=Generator().manual_seed(seed),
        **SMALL.get(name, {}),
    )
    show(model, *oscillators(windows=6, context=context, horizon=horizon, channels=channels))
    return model.eval()


def show(model: Forecaster, past: Tensor, future: Tensor) -> None:
    """Let the model look at windows; one that is fitted to rows gets them as stretches, and the first to choose by."""
    model.prepare([(past, future)])
    if isinstance(model, FittedForecaster):
        model.fit(list(torch.cat((past, future), dim=1)), past[:1], future[:1])


def oscillators(*, windows: int, context: int, horizon: int, channels: int, seed: int = 3) -> tuple[Tensor, Tensor]:
    """Windows of oscillators whose state is visible: (r cos, r sin, r) over and over, of random phase and radius.

    Models that see only the last state can forecast them, and so can those that see one channel.
    """
    generator = Generator().manual_seed(seed)
    phase = 2 * math.pi * torch.rand(windows, 1, generator=generator)
    radius = 0.5 + torch.rand(windows, 1, generator=generator)
    angle = 0.3 * torch.arange(context + horizon) + phase
    state = (radius * angle.cos(), radius * angle.sin(), radius.expand_as(angle))
    series = torch.stack([state[c % 3] for c in range(channels)], dim=-1)
    return series[:, :context], series[:, context:]


def squared(forecast: Forecast, future: Tensor) -> Tensor:
    return (forecast.mean - future).square().mean()


@EVERY_MODEL
@pytest.mark.parametrize("channels", [1, 3, 7])
def test_forecast_has_the_shape_of_the_future_for_any_number_of_channels(name: str, channels: int) -> None:
    model = small(name, channels=channels)
    past, future = oscillators(windows=5, context=50, horizon=24, channels=channels)
    mean = model(past).mean
    assert mean.shape == future.shape
    assert mean.isfinite().all()


@EVERY_MODEL
@pytest.mark.parametrize("horizon", [1, 336])
def test_forecast_reaches_any_horizon_from_a_context_no_patch_divides(name: str, horizon: int) -> None:
    model = small(name, horizon=horizon)
    past, future = oscillators(windows=2, context=50, horizon=horizon, channels=3)
    mean = model(past).mean
    assert mean.shape == future.shape
    assert mean.isfinite().all()


@EVERY_MODEL
def test_windows_of_a_batch_do_not_influence_each_other(name: str) -> None:
    model = small(name)
    past, _ = oscillators(windows=5, context=50, horizon=24, channels=3)
    changed = past.clone()
    changed[[0, 1, 3, 4]] = 7.0 * past[[0, 1, 3, 4]].flip(1)
    # Products of matrices may round differently at another batch size: a few units in the last place, amplified.
    together = model(past).mean[2]
    assert torch.allclose(model(changed).mean[2], together, rtol=1e-5, atol=1e-5)
    assert torch.allclose(model(past[2:3]).mean[0], together, rtol=1e-5, atol=1e-5)


@EVERY_MODEL
def test_evaluation_is_deterministic_and_leaves_its_argument_alone(name: str) -> None:
    for channels in (1, 3):
        model = small(name, channels=channels)
        past, _ = oscillators(windows=4, context=50, horizon=24, channels=channels)
        before = past.clone()
        assert torch.equal(model(past).mean, model(past).mean)
        assert torch.equal(past, before)


@EVERY_MODEL
def test_every_parameter_receives_a_finite_gradient(name: str) -> None:
    model = small(name).train()
    past, future = oscillators(windows=8, context=50, horizon=24, channels=3)
    if not model.trainable:
        assert not list(model.parameters())
        return
    model.loss(past, future, squared, generator=Generator().manual_seed(1)).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@EVERY_MODEL
def test_eight_windows_can_be_learnt_by_heart(name: str) -> None:
    model = small(name)
    if not model.trainable:
        pytest.skip(f"{name} learns nothing by gradient")
    past, future = oscillators(windows=8, context=50, horizon=24, channels=3)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = Generator().manual_seed(1)
    wanted = 0.05 * float(future.var())
    for step in range(1, 1201):
        model.train()
        loss = model.loss(past, future, squared, generator=generator)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 25 == 0:
            with torch.no_grad():
                left = float(squared(model.eval()(past), future))
            if left < wanted:
                return
    pytest.fail(f"{name} has {left:.3g} left of the variance, needs {wanted:.3g}")


@EVERY_MODEL
def test_the_generator_alone_decides_weights_and_training(name: str) -> None:
    past, future = oscillators(windows=8, context=50, horizon=24, channels=3)

    def one_step(seed: int) -> list[Tensor]:
        model = small(name, seed=seed).train()
        loss = model.loss(past, future, squared, generator=Generator().manual_seed(seed))
        if model.trainable:
            loss.backward()
        return [loss.detach(), *(p.detach() for p in model.parameters()), *(p.grad for p in model.parameters())]

    before = torch.get_rng_state()
    first, again, other = one_step(7), one_step(7), one_step(8)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    if len(first) > 1:
        assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@EVERY_MODEL
def test_a_saved_model_forecasts_the_same_bits(name: str) -> None:
    model = small(name)
    past, _ = oscillators(windows=4, context=50, horizon=24, channels=3)
    save_model(model, Path("model.safetensors"))
    loaded = load_model(Path("model.safetensors"))
    assert loaded.config == model.config
    assert not loaded.training
    assert torch.equal(loaded(past).mean, model(past).mean)


@EVERY_MODEL
def test_runs_in_double_precision(name: str) -> None:
    model = small(name).double()
    past, _ = oscillators(windows=4, context=50, horizon=24, channels=3)
    mean = model(past.double()).mean
    assert mean.dtype == torch.float64
    assert torch.allclose(mean.float(), small(name)(past).mean, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "preset"), [(name, preset) for name in NAMES for preset in model_entry(name).presets])
def test_every_preset_builds_at_the_papers_context_and_reads_the_channels_it_says_it_sees(
    name: str, preset: str
) -> None:
    model = build_model(
        name, context_length=336, horizon=24, channels=3, preset=preset, generator=Generator().manual_seed(7)
    )
    past, future = oscillators(windows=8, context=336, horizon=24, channels=3)
    show(model, past, future)
    model.eval()
    changed = past.clone()
    changed[..., 1] = past[..., 1].roll(1, dims=0)
    mean = model(past).mean
    assert mean.shape == future.shape
    same = torch.allclose(model(changed).mean[..., 0], mean[..., 0], rtol=1e-6, atol=1e-6)
    assert same == (model.config.sees == "own")


@EVERY_MODEL
def test_samples_are_drawn_where_there_is_a_distribution_and_refused_where_there_is_none(name: str) -> None:
    model = small(name)
    past, _ = oscillators(windows=4, context=50, horizon=24, channels=3)
    if not model.has_distribution:
        with raises_error("samples"):
            model(past, samples=2)
        return
    drawn = model(past, samples=2, generator=Generator().manual_seed(1)).samples
    again = model(past, samples=2, generator=Generator().manual_seed(1)).samples
    assert drawn is not None
    assert drawn.shape == (2, 4, 24, 3)
    assert torch.equal(drawn, again)
    assert not torch.equal(drawn[0], drawn[1])
    with raises_error("samples"):
        model(past, samples=-1)


BAD_PASTS = (
    (torch.zeros(50, 3), r"past: got 2 dimensions.*\(batch, 50, 3\)"),
    (torch.zeros(2, 49, 3), "past: got 49 time steps, context_length is 50"),
    (torch.zeros(2, 50, 4), "past: got 4 channels, the model has 3"),
    (torch.zeros(0, 50, 3), "past: got an empty batch"),
    (torch.zeros(2, 50, 3, dtype=torch.int64), "past: got torch.int64"),
    (torch.zeros(2, 50, 3).index_fill(1, torch.tensor([4]), torch.nan), "past: got nan at window 0, time step 4"),
    (torch.zeros(2, 50, 3).index_fill(2, torch.tensor([1]), -torch.inf), "past: got -inf at .* channel 1"),
    ([[0.0]], "past: got list"),
)


@EVERY_MODEL
def test_bad_past_is_refused_by_name(name: str) -> None:
    model = small(name)
    for past, message in BAD_PASTS:
        with pytest.raises(FernError, match=message):
            model(past)


@EVERY_MODEL
def test_a_future_of_another_length_is_refused_by_name(name: str) -> None:
    past, future = oscillators(windows=2, context=50, horizon=25, channels=3)
    with raises_error("future"):
        small(name).loss(past, future, squared)


@EVERY_MODEL
def test_sizes_below_one_are_refused_by_name(name: str) -> None:
    for setting, value in product(("context_length", "horizon", "channels"), (0, -1)):
        sizes = {"context_length": 50, "horizon": 24, "channels": 3, setting: value}
        with pytest.raises(FernError, match=f"{setting}: got {value}"):
            build_model(name, **sizes)


@EVERY_MODEL
def test_misspelt_settings_and_presets_are_refused_with_the_nearest_name(name: str) -> None:
    with pytest.raises(FernError, match="unknown setting 'horizonn': did you mean 'horizon'"):
        build_model(name, context_length=50, horizon=24, channels=3, horizonn=3)
    with pytest.raises(FernError, match=r"unknown preset .*'defalt': did you mean 'default'"):
        build_model(name, context_length=50, horizon=24, channels=3, preset="defalt")

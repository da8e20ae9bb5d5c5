"""PFNN: the rollout against a loop, the loss against a statement of it, its phases and its overflow."""

import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error
from torch import Generator, Tensor
from torch.nn import functional

from fern.errors import FernError
from fern.models import Forecast, build_model, load_model, save_model
from fern.models.baselines.pfnn import LARGEST, PFNN, distance_from_unitary, expansion
from fern.models.footprint import parameter_count


def pfnn(seed: int = 7, **settings: object) -> PFNN:
    sizes = {"context_length": 10, "horizon": 30, "channels": 3, "hidden": 16, "latent": 12}
    model = build_model("pfnn", generator=Generator().manual_seed(seed), **{**sizes, **settings})
    assert isinstance(model, PFNN)
    return model.eval()


def lively(model: PFNN) -> PFNN:
    """With larger weights, so that a rollout neither dies down nor blows up within the horizon."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.6)
    return model


def normal(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=Generator().manual_seed(seed))


def squared(forecast: Forecast, future: Tensor) -> Tensor:
    return (forecast.mean - future).square().mean()


def statement(model: PFNN, x: Tensor) -> Tensor:
    """One step, map by map: (…, C) -> (…, C)."""
    w = dict(model.state_dict())

    def perceptron(name: str, value: Tensor) -> Tensor:
        for i in range(model.config.layers):
            value = functional.linear(value, w[f"{name}.maps.{i}.weight"], w[f"{name}.maps.{i}.bias"])
            if i < model.config.layers - 1:
                value = value.clamp(min=0.0)
        return value

    return perceptron("decoder", perceptron("encoder", x) @ w["operator.weight"].T)


# -------------------------------------------------------------------------------------------------- the forecast


def test_the_size_published_for_lorenz_63_has_114153_parameters() -> None:
    for preset in ("default", "paper"):
        model = build_model("pfnn", context_length=336, horizon=336, channels=3, preset=preset)
        assert parameter_count(model) == 114_153


@pytest.mark.parametrize("settings", [{}, {"layers": 2}, {"layers": 4, "channels": 1}, {"hidden": 150, "latent": 150}])
def test_forecast_is_a_loop_of_encode_operate_decode(settings: dict[str, object]) -> None:
    model = lively(pfnn(**settings))
    past = 5 * normal(4, 10, model.config.channels)
    state, expected = past[:, -1], []
    for _ in range(30):
        state = statement(model, state)
        expected.append(state)
    found = model(past).mean
    assert float(found.detach()[:, 2].std()) > 0  # the windows have not met at a fixed point at once
    assert torch.allclose(found, torch.stack(expected, dim=1), rtol=1e-5, atol=1e-5)


def test_only_the_last_state_of_the_context_matters() -> None:
    model, past = lively(pfnn()), normal(4, 10, 3)
    changed = torch.cat((normal(4, 9, 3, seed=9), past[:, -1:]), dim=1)
    assert torch.equal(model(past).mean, model(changed).mean)


def test_all_channels_are_taken_together() -> None:
    model, past = lively(pfnn()), normal(4, 10, 3)
    changed = past.clone()
    changed[:, -1, 2] += 1.0
    assert not torch.allclose(model(past).mean[:, 0, 0], model(changed).mean[:, 0, 0])


def test_a_rollout_that_grows_without_bound_is_held_and_says_so() -> None:
    model = pfnn(horizon=400)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(30.0)
    with pytest.warns(RuntimeWarning, match="a rollout grew without bound and is held at ±1e12"):
        found = model(normal(4, 10, 3)).mean
    assert found.isfinite().all()
    assert found.abs().max() == LARGEST
    assert found.square().sum().isfinite()  # a squared error of it is a number too


def test_a_rollout_that_stays_bounded_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lively(pfnn())(normal(4, 10, 3)).mean.isfinite().all()


# ------------------------------------------------------------------------------------------------------ the loss


@pytest.mark.parametrize(("steps_before", "phase"), [(0, "contraction"), (2, "contraction"), (3, "invariant")])
def test_loss_is_prediction_reconstruction_and_the_term_of_the_phase(steps_before: int, phase: str) -> None:
    model = lively(pfnn(pairs=None, contraction=0.7, invariance=0.3, contraction_steps=3)).train()
    model.steps_trained.fill_(steps_before)
    past, future = normal(5, 10, 3), normal(5, 30, 3, seed=4)
    series = torch.cat((past, future), dim=1)
    k = model.operator.weight
    expected = (statement(model, series[:, :-1]) - series[:, 1:]).square().mean()
    expected = expected + (model.decoder(model.encoder(series[:, :-1])) - series[:, :-1]).square().mean()
    numbers = 5 * 39 * 3  # the terms stand beside sums over the batch
    if phase == "contraction":
        expected = expected + 0.7 * (torch.linalg.eigvalsh(k @ k.T) - 1).clamp(min=0).sum() / numbers
    else:
        identity = torch.eye(12)
        expected = expected + 0.3 * ((k.T @ k - identity).norm() + (k @ k.T - identity).norm()) / numbers
    assert torch.allclose(model.loss(past, future, squared), expected, rtol=1e-5)


def test_the_loss_is_the_released_scripts_divided_by_the_numbers_of_the_batch() -> None:
    """Sums of squares of prediction and reconstruction, and γ₁ = 1 times the contraction: L96_train_contract.py."""
    model = lively(pfnn(pairs=None)).train()
    model.steps_trained.fill_(10**6)  # there is one phase, however long one trains
    past, future = normal(5, 10, 3), normal(5, 30, 3, seed=4)
    x, y = torch.cat((past, future), dim=1)[:, :-1], torch.cat((past, future), dim=1)[:, 1:]
    k = model.operator.weight
    contractive = torch.relu(torch.linalg.eigvals(k @ k.T).real - 1).sum()
    assert float(contractive.detach()) > 0
    summed = functional.mse_loss(statement(model, x), y, reduction="sum")
    summed = summed + functional.mse_loss(model.decoder(model.encoder(x)), x, reduction="sum") + contractive
    assert torch.allclose(model.loss(past, future, squared), summed / x.numel(), rtol=1e-5)


def test_pairs_are_neighbours_from_anywhere_in_the_window() -> None:
    model = pfnn(pairs=6)
    time = torch.arange(40.0)[None, :, None] + 100 * torch.arange(64.0)[:, None, None]
    series, futures = time.expand(-1, -1, 3), []

    def recorded(forecast: Forecast, future: Tensor) -> Tensor:
        assert forecast.mean.shape == future.shape == (64, 6, 3)
        futures.append(future)
        return forecast.mean.sum()

    model.loss(series[:, :10], series[:, 10:], recorded, generator=Generator().manual_seed(1))
    following, state = futures
    assert torch.equal(following, state + 1.0)
    assert torch.equal(state // 100, torch.arange(64.0)[:, None, None].expand(-1, 6, 3))  # of its own window
    steps = set((state[..., 0] % 100).flatten().tolist())
    assert steps == set(range(39))  # 384 draws of 39: the pair across past and future is among them


def test_training_steps_are_counted_evaluations_are_not_and_the_count_is_saved() -> None:
    model = pfnn().train()
    past, future = normal(5, 10, 3), normal(5, 30, 3)
    model.loss(past, future, squared)
    model.loss(past, future, squared)
    model.eval().loss(past, future, squared)
    assert int(model.steps_trained) == 2
    save_model(model, Path("pfnn.safetensors"))
    loaded = load_model(Path("pfnn.safetensors"))
    assert isinstance(loaded, PFNN)
    assert int(loaded.steps_trained) == 2
    loaded.prepare([])  # another training begins
    assert int(loaded.steps_trained) == 0


def test_no_invariant_phase_where_contraction_has_no_end() -> None:
    model = pfnn(contraction_steps=None, contraction=0.0, pairs=None).train()
    model.steps_trained.fill_(10**9)
    past, future = normal(5, 10, 3), normal(5, 30, 3)
    series = torch.cat((past, future), dim=1)[:, :-1]
    data = squared(Forecast(mean=statement(model, series)), torch.cat((past, future), dim=1)[:, 1:])
    data = data + squared(Forecast(mean=model.decoder(model.encoder(series))), series)
    assert torch.allclose(model.loss(past, future, squared), data)


def test_the_invariant_phase_pulls_the_operator_towards_a_rotation() -> None:
    model = pfnn(contraction_steps=0, invariance=60.0).train()  # 5 windows × 4 pairs × 3 channels: 1 beside a mean
    past, future = normal(5, 10, 3), normal(5, 30, 3)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    before, generator = distance_from_unitary(model.operator.weight.detach()), Generator().manual_seed(1)
    for _ in range(200):
        optimiser.zero_grad()
        model.loss(past, future, squared, generator=generator).backward()
        optimiser.step()
    assert distance_from_unitary(model.operator.weight.detach()) < 0.1 * before


@given(st.integers(1, 8), st.floats(0.1, 2.0), st.integers(0, 2**31 - 1))
def test_terms_of_the_operator_follow_from_its_singular_values(size: int, scale: float, seed: int) -> None:
    k = scale * torch.randn(size, size, generator=Generator().manual_seed(seed), dtype=torch.float64)
    squares = torch.linalg.svdvals(k).square()
    assert torch.allclose(expansion(k), (squares - 1).clamp(min=0).sum())
    by_eigenvalues = (torch.linalg.eigvals(k @ k.T).real - 1).clamp(min=0).sum()  # the project's way
    assert torch.allclose(expansion(k), by_eigenvalues)
    identity = torch.eye(size, dtype=torch.float64)
    both = torch.linalg.matrix_norm(k.T @ k - identity) + torch.linalg.matrix_norm(k @ k.T - identity)
    assert torch.allclose(distance_from_unitary(k), both)


@given(st.integers(1, 8), st.floats(0.1, 2.0), st.integers(0, 2**31 - 1))
def test_expansion_has_the_gradient_of_the_eigenvalues_and_none_where_nothing_grows(
    size: int, scale: float, seed: int
) -> None:
    k = scale * torch.randn(size, size, generator=Generator().manual_seed(seed), dtype=torch.float64)
    plain = torch.relu(torch.linalg.eigvalsh(k.requires_grad_() @ k.T) - 1.0).sum()
    (expected,) = torch.autograd.grad(plain, k)
    (found,) = torch.autograd.grad(expansion(k) + 0.0 * k.sum(), k)
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_terms_are_zero_with_finite_gradient_at_a_rotation() -> None:
    rotation = torch.linalg.qr(normal(6, 6).double()).Q.requires_grad_()
    for term in (expansion(0.9 * rotation), distance_from_unitary(rotation), distance_from_unitary(torch.eye(3))):
        assert float(term.detach()) == pytest.approx(0.0, abs=1e-12)
    exact = torch.eye(4, requires_grad=True)
    for term in (expansion(exact), distance_from_unitary(exact)):
        (gradient,) = torch.autograd.grad(term, exact)
        assert gradient.isfinite().all()


# --------------------------------------------------------------------------------------------------- the settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 0}, "hidden: "),
        ({"latent": 0}, "latent: "),
        ({"layers": 1}, "layers: "),
        ({"pairs": 0}, "pairs: "),
        ({"contraction": -1.0}, "contraction: "),
        ({"invariance": float("inf")}, "invariance: "),
        ({"contraction_steps": -1}, "contraction_steps: "),
        ({"activation": "rellu"}, "unknown activation 'rellu': did you mean 'relu'"),
        ({"latnet": 3}, "unknown setting 'latnet': did you mean 'latent'"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        pfnn(**settings)


def test_a_bad_past_is_refused_by_the_loss_too() -> None:
    bad = torch.full((2, 10, 3), torch.nan)
    with raises_error("past"):
        pfnn().loss(bad, torch.zeros(2, 30, 3), squared)

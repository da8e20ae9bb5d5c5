"""Koopa against a statement of its architecture in NumPy, its least squares, its spectrum and its bad input."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.errors import raises_error
from torch import Generator, Tensor

from fern.errors import FernError
from fern.models import build_model, load_model, save_model
from fern.models.baselines.koopa import Koopa, KoopaConfig, LocalOperator
from fern.models.footprint import parameter_count
from fern.models.layers import Perceptron
from fern.models.registry import model_entry

Array = NDArray[np.float64]


def koopa(seed: int = 7, **settings: object) -> Koopa:
    sizes = {"context_length": 60, "horizon": 40, "channels": 2, "segment_length": 12, "hidden": 16, "dynamic": 20}
    model = build_model("koopa", generator=Generator().manual_seed(seed), **{**sizes, **settings})
    assert isinstance(model, Koopa)
    return model.eval()


def walks(model: Koopa, *, windows: int = 4, seed: int = 3) -> Tensor:
    shape = (windows, model.config.context_length, model.config.channels)
    return torch.randn(shape, generator=Generator().manual_seed(seed)).cumsum(1)


def prepared(model: Koopa) -> Koopa:
    past = walks(model, windows=8, seed=11)
    model.prepare([(past, past[:, :1])])
    return model


# ---------------------------------------------------------------------------------------------- the whole model


def statement(model: Koopa, window: Tensor) -> Array:
    """The forecast of one window (L, C) in NumPy, one channel, segment and step at a time."""

    def perceptron(part: Perceptron, values: Array, squash: object) -> Array:
        assert callable(squash)
        *inner, last = [
            (m.weight.detach().double().numpy(), m.bias.detach().double().numpy()) for m in part.linear_maps
        ]
        for weight, bias in inner:
            values = squash(weight @ values + bias)
        return last[0] @ values + last[1]

    def relu(values: Array) -> Array:
        return np.maximum(values, 0.0)

    config = model.config
    length, segment = config.context_length, config.used_segment_length
    x = window.double().numpy()
    level, spread = x.mean(axis=0), np.sqrt(x.var(axis=0) + 1e-5)
    residual = (x - level) / spread
    amplitudes = model.amplitudes.numpy()
    steady_ones = np.argsort(-amplitudes)[: int(len(amplitudes) * config.alpha)]
    total = np.zeros((config.horizon, config.channels))
    for operator in model.operators:
        spectrum = np.fft.rfft(residual, axis=0)
        spectrum[steady_ones] = 0.0
        changing = np.fft.irfft(spectrum, n=length, axis=0)
        weight = operator.weight.detach().double().numpy()
        for c in range(config.channels):
            embedded = weight @ perceptron(model.steady_encoder, (residual - changing)[:, c], relu)
            total[:, c] += perceptron(model.steady_decoder, embedded, relu)
        segments = -(-length // segment)
        filled = np.concatenate((changing[length - (segments * segment - length) :], changing))
        z = np.array(
            [perceptron(model.changing_encoder, part.flatten(), np.tanh) for part in np.split(filled, segments)]
        )
        k = np.linalg.lstsq(z[:-1], z[1:], rcond=1e-6)[0]
        state, ahead = z[-1], []
        for _ in range(-(-config.horizon // segment)):
            state = state @ k
            ahead.append(perceptron(model.changing_decoder, state, np.tanh).reshape(segment, -1))
        total += np.concatenate(ahead)[: config.horizon]
        back = [
            perceptron(model.changing_decoder, state, np.tanh).reshape(segment, -1) for state in (z[0], *z[:-1] @ k)
        ]
        residual = residual - np.concatenate(back)[:length]
    return total * spread + level


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"context_length": 55},  # odd, and no whole number of segments
        {"context_length": 50, "horizon": 7, "channels": 1, "segment_length": 20},
        {"horizon": 100, "layers": 4, "blocks": 2, "channels": 3},
        {"alpha": 0.0},
        {"alpha": 1.0, "blocks": 1},
        {"context_length": 336, "horizon": 336, "channels": 3, "segment_length": 48, "hidden": 64, "dynamic": 128},
    ],
)
def test_forecast_is_the_architecture_stated_in_numpy(settings: dict[str, object]) -> None:
    model = prepared(koopa(**settings))
    past = walks(model, windows=2)
    found = model(past).mean.detach().double().numpy()
    for window, forecast in zip(past, found, strict=True):
        # float32 rounding of values of about 20, and the operator's conditioning.
        np.testing.assert_allclose(forecast, statement(model, window), rtol=1e-4, atol=1e-4)


def test_float64_forecast_is_the_statement_to_rounding() -> None:
    model = prepared(koopa()).double()
    past = walks(model, windows=2).double()
    found = model(past).mean.detach().numpy()
    for window, forecast in zip(past, found, strict=True):
        np.testing.assert_allclose(forecast, statement(model, window), rtol=1e-9, atol=1e-9)


def test_the_papers_setting_has_one_map_for_each_official_one() -> None:
    model = build_model("koopa", context_length=336, horizon=336, channels=3, preset="paper")

    def perceptron(inputs: int, outputs: int) -> int:
        return inputs * 64 + 64 + 64 * outputs + outputs

    steady = perceptron(336, 128) + perceptron(128, 336)
    changing = perceptron(48 * 3, 128) + perceptron(128, 48 * 3)
    assert parameter_count(model) == steady + 3 * 128 * 128 + changing


def test_operators_of_the_steady_part_start_as_rotations() -> None:
    for operator in koopa().operators:
        assert torch.allclose(operator.weight @ operator.weight.T, torch.eye(20), atol=1e-5)


# ------------------------------------------------------------------------------------------- the local operator


def least_squares(z: Array) -> Array:
    """NumPy's operator of least norm, with the rank that float32 data can tell."""
    rcond = np.finfo(np.float32).eps * max(len(z) - 1, z.shape[1])
    found: Array = np.linalg.lstsq(z[:-1], z[1:], rcond=rcond)[0]
    return found


@given(st.integers(2, 9), st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_operator_is_numpys_least_squares_at_any_shape_and_rank(
    segments: int, size: int, rank: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    z = generator.normal(size=(segments, min(rank, size))) @ generator.normal(size=(min(rank, size), size))
    local = LocalOperator(torch.from_numpy(z.astype(np.float32))[None])
    k = least_squares(z.astype(np.float32).astype(np.float64))
    # Tolerances relative to the operator's size, which is the inverse of the smallest singular value that counts.
    scale = max(1.0, np.abs(k).max())
    np.testing.assert_allclose(local.matrix()[0], k, rtol=1e-4, atol=1e-4 * scale)
    growth = scale**3
    powers = np.array([z[-1] @ np.linalg.matrix_power(k, h) for h in (1, 2, 3)])
    np.testing.assert_allclose(local.forecast(3)[0], powers, rtol=1e-3, atol=1e-3 * growth)
    np.testing.assert_allclose(local.reconstruction()[0], np.vstack((z[:1], z[:-1] @ k)), rtol=1e-3, atol=1e-3 * scale)


def test_segments_that_are_all_alike_stay_alike() -> None:
    z = torch.full((1, 7, 16), 0.3)
    local = LocalOperator(z)
    assert torch.allclose(local.forecast(5), z[:, :5])
    assert torch.allclose(local.reconstruction(), z)
    np.testing.assert_allclose(local.matrix()[0], least_squares(z[0].double().numpy()), atol=1e-6)


def test_segments_of_zeros_forecast_zero() -> None:
    assert torch.equal(LocalOperator(torch.zeros(2, 4, 3)).forecast(6), torch.zeros(2, 6, 3))


def test_an_operator_that_grows_without_bound_gives_no_nan() -> None:
    z = torch.tensor([[[1.0, 0.0], [30.0, 1.0], [900.0, -40.0]]])
    found = LocalOperator(z).forecast(1000)
    assert found.isfinite().all()
    assert found.abs().max() > 1e20


def test_gradient_of_the_forecast_is_that_of_finite_differences() -> None:
    z = torch.randn(2, 4, 6, dtype=torch.float64, generator=Generator().manual_seed(1), requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: LocalOperator(z).forecast(3), (z,))
    assert torch.autograd.gradcheck(lambda z: LocalOperator(z).reconstruction(), (z,))


@pytest.mark.parametrize("value", [0.0, 1.0, -7.25, 1e6])
def test_constant_contexts_forecast_and_train_without_nan(value: float) -> None:
    model = prepared(koopa()).train()
    past, future = torch.full((3, 60, 2), value), torch.full((3, 40, 2), value)
    loss = model.loss(past, future, lambda forecast, future: (forecast.mean - future).square().mean())
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    # The spread of a constant counts as √1e-5, so whatever the weights say stays near the constant.
    assert torch.allclose(model.eval()(past).mean, future, rtol=1e-6, atol=0.1)


def test_rows_that_repeat_exactly_forecast_without_nan() -> None:
    model = prepared(koopa())
    past = torch.arange(12.0).repeat(5)[None, :, None].repeat(1, 1, 2)
    assert model(past).mean.isfinite().all()


# --------------------------------------------------------------------------------------------------- the spectrum


def test_spectrum_is_the_mean_amplitude_over_all_training_windows_however_batched() -> None:
    model = koopa()
    past = walks(model, windows=7)
    expected = np.abs(np.fft.rfft(past.double().numpy(), axis=1)).mean(axis=(0, 2))
    for parts in ([past], [past[:2], past[2:]], list(past.split(1))):
        model.prepare((part, part[:, :1]) for part in parts)
        np.testing.assert_allclose(model.amplitudes, expected, rtol=1e-5)


def test_steady_frequencies_are_the_strongest_of_the_training_windows() -> None:
    model = koopa(context_length=60, alpha=0.1)
    time = torch.arange(60.0)
    wave = 3 * torch.sin(2 * torch.pi * 5 * time / 60) + torch.cos(2 * torch.pi * 11 * time / 60) + 10
    past = wave[None, :, None].repeat(4, 1, 2)
    model.prepare([(past, past[:, :1])])
    assert model.steady_frequencies.tolist() == [0, 5, 11]  # int(0.1 · 31) of them, the mean among them


def test_a_forecast_before_the_spectrum_is_known_is_refused() -> None:
    with pytest.raises(FernError, match=r"the training spectrum is not known yet; call prepare\(batches\) first"):
        koopa()(torch.zeros(1, 60, 2))


def test_preparing_needs_windows_that_fit() -> None:
    model = koopa()
    with raises_error("batches"):
        model.prepare([])
    with raises_error("past"):
        model.prepare([(torch.zeros(2, 61, 2), torch.zeros(2, 40, 2))])
    bad = torch.zeros(2, 60, 2)
    bad[1, 3, 0] = torch.nan
    with raises_error("past"):
        model.prepare([(bad, torch.zeros(2, 40, 2))])


def test_spectrum_is_saved_with_the_weights() -> None:
    model = prepared(koopa())
    save_model(model, Path("koopa.safetensors"))
    loaded = load_model(Path("koopa.safetensors"))
    assert isinstance(loaded, Koopa)
    assert torch.equal(loaded.steady_frequencies, model.steady_frequencies)


# --------------------------------------------------------------------------------------------------- the settings


def test_segment_length_follows_the_context_where_none_is_given() -> None:
    def segments(context: int) -> tuple[int, int]:
        config = KoopaConfig(context_length=context, horizon=1, channels=1)
        return config.used_segment_length, config.segments

    assert [segments(length) for length in (336, 97, 96, 50, 3, 2)] == [
        (48, 7),
        (48, 3),
        (48, 2),
        (25, 2),
        (2, 2),
        (1, 2),
    ]


def test_published_settings_go_by_dataset_and_context() -> None:
    presets = model_entry("koopa").presets
    assert presets["weather-192"] == {"dynamic": 64, "hidden": 128, "layers": 3, "blocks": 2, "segment_length": 96}
    assert len(presets) == 2 + 6 * 4  # default and paper; six datasets at four contexts


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"segment_length": 60}, "segment_length: "),
        ({"segment_length": 0}, "segment_length: "),
        ({"context_length": 1, "segment_length": None}, "context_length: "),
        ({"layers": 1}, "layers: "),
        ({"blocks": 0}, "blocks: "),
        ({"alpha": 1.1}, "alpha: "),
        ({"alpha": float("nan")}, "alpha: "),
        ({"dropout": 1.0}, "dropout: "),
        ({"segmentlength": 4}, "unknown setting 'segmentlength': did you mean 'segment_length'"),
        ({"dynamic_dim": 4}, "unknown setting 'dynamic_dim': did you mean 'dynamic'"),
        ({"blocks": "three"}, "blocks: "),
    ],
)
def test_impossible_settings_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        koopa(**settings)

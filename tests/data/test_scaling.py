"""Scalers are fitted on the training part, inverted exactly, and map distributions as they map values."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fern.data.scaling import LEAST_WINDOW_SCALE, fit_scaler, scaler_from_mapping
from fern.data.splits import Part
from fern.errors import FernError
from fern.transport import Ellipsoid

KINDS = ["none", "standard", "robust", "window"]
series = arrays(np.float64, st.tuples(st.integers(2, 40), st.integers(1, 4)), elements=st.floats(-1e6, 1e6, width=32))


@pytest.mark.parametrize("kind", KINDS)
@given(values=series)
def test_inverting_gives_back_the_values(kind: str, values: np.ndarray) -> None:
    affine = fit_scaler(kind, values).affine(values[None])
    back = affine.invert(affine.apply(values))
    # Two roundings of numbers no larger than |x| + |shift|: a few units in the last place of that.
    size = np.abs(values).max() + np.abs(affine.shift).max()
    assert np.abs(back - values).max() <= 8 * np.finfo(np.float64).eps * size


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_torch_give_the_same_numbers(kind: str) -> None:
    values = np.random.default_rng(0).normal(5, 3, (50, 3))
    scaler = fit_scaler(kind, values)
    assert np.array_equal(fit_scaler(kind, torch.from_numpy(values)).scale, scaler.scale)
    past = values[None, :20]
    ours = scaler.affine(torch.from_numpy(past)).apply(torch.from_numpy(past))
    assert ours.dtype == torch.float64
    assert np.allclose(ours.numpy(), scaler.affine(past).apply(past), rtol=1e-14)
    low = scaler.affine(past.astype(np.float32)).apply(past.astype(np.float32))
    assert low.dtype == np.float32


def test_standard_and_robust_measure_what_they_say() -> None:
    values = np.random.default_rng(1).normal(100, [1, 20], (1001, 2))
    standard, robust = fit_scaler("standard", values), fit_scaler("robust", values)
    assert np.allclose(standard.shift, values.mean(0))
    assert np.allclose(standard.scale, values.std(0))
    assert np.array_equal(robust.shift, np.median(values, axis=0))
    assert np.allclose(robust.scale, np.median(np.abs(values - np.median(values, axis=0)), axis=0))


def test_none_leaves_values_alone() -> None:
    values = np.random.default_rng(1).normal(100, 3, (10, 2))
    assert np.array_equal(fit_scaler("none", values).affine().apply(values), values)


def test_window_scaling_normalises_each_context_by_itself() -> None:
    past = torch.from_numpy(np.random.default_rng(2).normal(0, 1, (4, 64, 3)) * 7 + 1000)
    affine = fit_scaler("window", past.reshape(-1, 3)).affine(past)
    scaled = affine.apply(past)
    assert torch.allclose(scaled.mean(1), torch.zeros(4, 3, dtype=torch.float64), atol=1e-10)
    assert torch.allclose(scaled.std(1, correction=0), torch.ones(4, 3, dtype=torch.float64))


def test_a_flat_context_is_scaled_by_the_least_scale_not_by_nothing() -> None:
    train = np.random.default_rng(2).normal(0, 10, (1000, 1))
    affine = fit_scaler("window", train).affine(np.full((1, 16, 1), 3.0))
    assert affine.scale.item() == pytest.approx(LEAST_WINDOW_SCALE * train.std())


@pytest.mark.parametrize("kind", ["standard", "robust", "window"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 / 3])
def test_a_constant_channel_keeps_an_invertible_scale(kind: str, value: float) -> None:
    assert fit_scaler(kind, np.full((999, 1), value)).scale.item() == 1.0


def test_a_mostly_zero_channel_takes_its_standard_deviation() -> None:
    rain = np.zeros((100, 1))
    rain[:10] = 5.0
    assert fit_scaler("robust", rain).scale.item() == pytest.approx(rain.std())


@pytest.mark.parametrize("kind", KINDS)
def test_values_after_the_training_part_change_nothing(kind: str) -> None:
    values = np.random.default_rng(3).normal(0, 1, (100, 2))
    before = fit_scaler(kind, values, part=Part(0, 70))
    values[70:] = 1e9
    after = fit_scaler(kind, values, part=Part(0, 70))
    assert np.array_equal(before.scale, after.scale)
    assert np.array_equal(before.shift, after.shift)


@pytest.mark.parametrize("kind", KINDS)
def test_a_scaler_survives_json_bit_for_bit(kind: str) -> None:
    scaler = fit_scaler(kind, np.random.default_rng(4).normal(3, 1 / 3, (100, 5)))
    read = scaler_from_mapping(json.loads(json.dumps(scaler.to_mapping())))
    assert read.kind == kind
    assert np.array_equal(read.scale, scaler.scale)
    assert np.array_equal(read.shift, scaler.shift)


def gaussian(batch: int, channels: int, horizon: int) -> torch.distributions.MultivariateNormal:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(batch, channels, horizon, horizon, generator=generator, dtype=torch.float64)
    mean = torch.randn(batch, channels, horizon, generator=generator, dtype=torch.float64)
    return torch.distributions.MultivariateNormal(mean, root @ root.mT + torch.eye(horizon))


@pytest.mark.parametrize("kind", KINDS)
def test_a_distribution_is_mapped_exactly_as_its_draws_are(kind: str) -> None:
    base = gaussian(2, 3, 5)
    past = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 4 + 50
    affine = fit_scaler(kind, past.reshape(-1, 3)).affine(past)
    distribution = affine.invert_distribution(base)
    # The truth: the Gaussian with mean s·m + t and covariance s²Σ, channel by channel.
    shift, scale = (torch.as_tensor(a).broadcast_to(2, 1, 3).mT for a in (affine.shift, affine.scale))
    truth = torch.distributions.MultivariateNormal(
        base.mean * scale + shift, base.covariance_matrix * scale[..., None] ** 2
    )
    value = truth.mean + 0.3
    for ours, theirs in [
        (distribution.mean, truth.mean),
        (distribution.variance, truth.variance),
        (distribution.stddev, truth.stddev),
        (distribution.covariance_matrix, truth.covariance_matrix),
        (distribution.log_prob(value), truth.log_prob(value)),
        (distribution.entropy(), truth.entropy()),
    ]:
        assert ours.shape == theirs.shape
        assert torch.allclose(ours, theirs, rtol=1e-9)
    assert distribution.batch_shape == (2, 3)
    assert distribution.event_shape == (5,)
    # A forecast's mean goes the same way as plain values do.
    assert torch.allclose(distribution.mean.mT, affine.invert(base.mean.mT))


def test_an_ellipsoid_in_scaled_units_becomes_its_distribution_in_data_units() -> None:
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    # An eigenvalue of 1e-4: moving the shift into the ellipsoid would divide by it.
    base = Ellipsoid(draw(2, 3, 2, 4) + 1e-4, draw(2, 3, 2, 4), draw(2, 3, 2, 2, 4), horizon=7)
    past = draw(2, 40, 3) * 4 + 50
    affine = fit_scaler("window", past.reshape(-1, 3)).affine(past)
    distribution = affine.invert_distribution(base)
    draws = distribution.rsample((3,), generator=torch.Generator().manual_seed(6))
    plain = base.rsample((3,), generator=torch.Generator().manual_seed(6))
    assert draws.shape == (3, 2, 3, 7)
    assert torch.allclose(draws.mT, affine.invert(plain.mT))
    dense = torch.distributions.MultivariateNormal(distribution.mean, distribution.covariance_matrix)
    assert torch.allclose(distribution.log_prob(draws), dense.log_prob(draws), rtol=1e-6)
    assert torch.allclose(distribution.mahalanobis(draws), base.mahalanobis(plain))
    levels = torch.tensor(0.9, dtype=torch.float64).expand(2, 3, 7)
    assert torch.allclose(distribution.cdf(distribution.icdf(levels)), levels)


def test_gradients_flow_through_a_scaled_distribution() -> None:
    loc = torch.zeros(1, 2, 3, requires_grad=True)
    base = torch.distributions.Independent(torch.distributions.Normal(loc, 1.0), 1)
    distribution = fit_scaler("standard", np.array([[0.0, 1.0], [4.0, 9.0]])).affine().invert_distribution(base)
    (distribution.log_prob(torch.ones(1, 2, 3)).sum() + distribution.rsample((2,)).sum()).backward()
    assert loc.grad is not None
    assert torch.isfinite(loc.grad).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit_scaler("standart", np.zeros((3, 1))), "did you mean 'standard'"),
        (lambda: fit_scaler("standard", np.zeros(3)), r"shape \(3,\)"),
        (lambda: fit_scaler("standard", np.zeros((0, 3))), "at least one row"),
        (lambda: fit_scaler("robust", np.array([[0.0], [np.nan]])), "nan at row 1, channel 0"),
        (lambda: fit_scaler("window", np.zeros((3, 1))).affine(), "needs the contexts"),
        (lambda: scaler_from_mapping({"kind": "standard", "shift": [0.0], "scale": [0.0]}), "above 0"),
        (lambda: scaler_from_mapping({"kind": "standard", "shift": [0.0], "scale": [1.0, 2.0]}), "each channel"),
        (lambda: scaler_from_mapping({"kind": "standard", "shift": "x", "scale": [1.0]}), "each channel"),
        (lambda: scaler_from_mapping({"kind": "standard", "shft": [0.0], "scale": [1.0]}), "did you mean 'shift'"),
        (lambda: scaler_from_mapping({"kind": "std", "shift": [0.0], "scale": [1.0]}), "unknown scaling"),
    ],
)
def test_bad_scalers_are_refused(make: object, message: str) -> None:
    with pytest.raises(FernError, match=message):
        make()  # type: ignore[operator]

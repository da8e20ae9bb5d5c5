"""Scalers are fitted on the training part and inverted exactly."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fern.data.scaling import fit_scaler
from fern.data.splits import Part
from fern.errors import FernError

KINDS = ["none", "standard", "robust"]
series = arrays(np.float64, st.tuples(st.integers(2, 40), st.integers(1, 4)), elements=st.floats(-1e6, 1e6, width=32))


@pytest.mark.parametrize("kind", KINDS)
@given(values=series)
def test_inverting_gives_back_the_values(kind: str, values: np.ndarray) -> None:
    scaler = fit_scaler(kind, values)
    back = scaler.invert(scaler.apply(values))
    # Two roundings of numbers no larger than |x| + |shift|: a few units in the last place of that.
    size = np.abs(values).max() + np.abs(scaler.shift).max()
    assert np.abs(back - values).max() <= 8 * np.finfo(np.float64).eps * size


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_torch_give_the_same_numbers(kind: str) -> None:
    values = np.random.default_rng(0).normal(5, 3, (50, 3))
    scaler = fit_scaler(kind, values)
    assert np.array_equal(fit_scaler(kind, torch.from_numpy(values)).scale, scaler.scale)
    past = values[None, :20]
    ours = scaler.apply(torch.from_numpy(past))
    assert ours.dtype == torch.float64
    assert np.allclose(ours.numpy(), scaler.apply(past), rtol=1e-14)
    assert scaler.apply(past.astype(np.float32)).dtype == np.float32


def test_standard_and_robust_measure_what_they_say() -> None:
    values = np.random.default_rng(1).normal(100, [1, 20], (1001, 2))
    standard, robust = fit_scaler("standard", values), fit_scaler("robust", values)
    assert np.allclose(standard.shift, values.mean(0))
    assert np.allclose(standard.scale, values.std(0))
    assert np.array_equal(robust.shift, np.median(values, axis=0))
    assert np.allclose(robust.scale, np.median(np.abs(values - np.median(values, axis=0)), axis=0))


def test_none_leaves_values_alone() -> None:
    values = np.random.default_rng(1).normal(100, 3, (10, 2))
    assert np.array_equal(fit_scaler("none", values).apply(values), values)


@pytest.mark.parametrize("kind", ["standard", "robust"])
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit_scaler("standart", np.zeros((3, 1))), "did you mean 'standard'"),
        (lambda: fit_scaler("standard", np.zeros(3)), r"shape \(3,\)"),
        (lambda: fit_scaler("standard", np.zeros((0, 3))), "at least one row"),
        (lambda: fit_scaler("robust", np.array([[0.0], [np.nan]])), "nan at row 1, channel 0"),
    ],
)
def test_bad_scalers_are_refused(make: object, message: str) -> None:
    with pytest.raises(FernError, match=message):
        make()  # type: ignore[operator]

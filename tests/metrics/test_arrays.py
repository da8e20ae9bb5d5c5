"""Bad input: every metric refuses it with words that name the argument, the place and what would be right."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.errors import raises_error
from torch import Tensor

from fern.errors import FernError
from fern.metrics import (
    MetricAccumulator,
    arrays,
    coverage,
    crps,
    energy_score,
    ept,
    mae,
    mse,
    sliced_w2_squared,
    variogram_score,
    w2_squared,
)
from fern.metrics.objective import objective
from fern.metrics.streaming import per_window


def accumulated(pred: Tensor, true: Tensor) -> None:
    MetricAccumulator(["mse"]).update(pred, true)


OF_FORECASTS: dict[str, Callable[..., object]] = {
    "mse": mse,
    "mae": mae,
    "w2": w2_squared,
    "sliced_w2": sliced_w2_squared,
    "objective": objective,
    "ept": lambda pred, true: ept(pred, true, [1.0, 1.0]),
    "per_window": lambda pred, true: per_window("mse", pred, true),
    "accumulator": accumulated,
}
OF_SAMPLES: dict[str, Callable[..., object]] = {
    "crps": crps,
    "energy_score": energy_score,
    "variogram_score": variogram_score,
    "coverage": coverage,
}
forecasts = pytest.mark.parametrize("metric", OF_FORECASTS.values(), ids=OF_FORECASTS)
samples = pytest.mark.parametrize("metric", OF_SAMPLES.values(), ids=OF_SAMPLES)


@forecasts
def test_shapes_are_never_broadcast(metric) -> None:
    with raises_error("pred"):
        metric(torch.zeros(4, 1, 2), torch.zeros(4, 6, 2))


@forecasts
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["pred", "true"])
def test_what_is_not_finite_is_named_with_its_place(metric, bad: float, name: str) -> None:
    values = {"pred": torch.zeros(4, 6, 2), "true": torch.zeros(4, 6, 2)}
    values[name][2, 5, 1] = bad
    values[name][3, 0, 0] = -bad
    with pytest.raises(FernError, match=rf"{name}: {bad} at batch 2, horizon 5, channels 1 .*1 more"):
        metric(values["pred"], values["true"])
    with pytest.raises(FernError, match=f"{name}: {bad} at batch 2, horizon 5, channels 1"):
        metric(values["pred"].numpy(), values["true"].numpy())


def test_infinities_that_would_cancel_in_a_sum_are_found() -> None:
    pred = torch.tensor([torch.inf, -torch.inf]).reshape(1, 2, 1)
    with raises_error("pred"):
        mse(pred, torch.zeros(1, 2, 1))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_single_bad_value_is_found(bad: float) -> None:
    true = torch.zeros(1, 2, 1)
    true[0, 1, 0] = bad
    with pytest.raises(FernError, match=rf"true: {bad} at batch 0, horizon 1, channels 0 \(counted from 0\); every"):
        mse(torch.zeros(1, 2, 1), true)


def test_finite_values_whose_float32_sum_overflows_are_accepted() -> None:
    large = torch.full((1, 4, 1), 3e38)
    assert mae(large, torch.zeros(1, 4, 1)).item() == pytest.approx(3e38, rel=1e-6)


@pytest.mark.parametrize(
    "metric",
    [mse, w2_squared, sliced_w2_squared, objective, accumulated],
    ids=["mse", "w2", "sliced_w2", "objective", "stream"],
)
def test_an_overflow_of_float64_is_an_error_and_not_an_infinity(metric) -> None:
    large = torch.full((2, 3, 1), 1e300, dtype=torch.float64)
    with pytest.raises(FernError, match="overflows float64"):
        metric(large, -large)


@forecasts
def test_wrong_rank_is_refused(metric) -> None:
    with raises_error("pred"):
        metric(torch.zeros(4, 6), torch.zeros(4, 6))


@forecasts
@pytest.mark.parametrize("shape", [(0, 6, 2), (4, 0, 2), (4, 6, 0)])
def test_empty_arrays_are_refused(metric, shape: tuple[int, ...]) -> None:
    with raises_error("pred"):
        metric(torch.zeros(shape), torch.zeros(shape))


@forecasts
def test_mixed_kinds_are_refused(metric) -> None:
    with raises_error("pred"):
        metric(torch.zeros(4, 6, 2), np.zeros((4, 6, 2)))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[[0.0]]], "needs a torch tensor or a NumPy array"),
        (np.array([[["a"]]]), "needs real numbers"),
        (np.array([[[True]]]), "needs real numbers"),
        (torch.tensor([[[True]]]), "needs real numbers"),
        (torch.tensor([[[1j]]]), "needs real numbers"),
        (np.ma.masked_less(np.array([[[-1.0], [1.0]]]), 0), "masked array"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(values, words: str) -> None:
    with pytest.raises(FernError, match=f"pred: .*{words}"):
        mse(values, values)


def test_numpy_arrays_of_any_layout_are_read() -> None:
    base = np.arange(24.0).reshape(2, 4, 3)
    frozen = base.copy()
    frozen.setflags(write=False)
    for values in (base[::-1, ::-1], frozen, base.astype(">f8"), base.astype(np.int16), np.asfortranarray(base)):
        assert mse(values, values + 2.0) == 4.0


@pytest.mark.parametrize("metric", ["mse", "mae", "w2", "ept"])
@pytest.mark.parametrize("block", [1, 40, 10**9])
def test_blocks_of_any_size_give_the_same_value_and_gradient(
    metric: str, block: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pred, true = torch.from_numpy(rng.normal(size=(2, 11, 6, 2)))
    expected = per_window(metric, pred, true, std=[1.0, 0.5])
    monkeypatch.setattr(arrays, "BLOCK_VALUES", block)
    pred.requires_grad_()
    values = per_window(metric, pred, true, std=[1.0, 0.5])
    assert torch.equal(values, expected)
    if metric == "mse":
        values.sum().backward()
        assert pred.grad is not None
        assert torch.allclose(pred.grad, (pred.detach() - true) * 2 / 6, rtol=1e-12)


def test_values_on_another_device_are_refused() -> None:
    with raises_error("distribution"):
        arrays.require_device("distribution", torch.empty(1, device="meta"), torch.empty(1))


@pytest.mark.parametrize("metric", [mse, w2_squared, sliced_w2_squared, energy_score])
def test_automatic_mixed_precision_does_not_touch_the_sums(metric, rng: np.random.Generator) -> None:
    shape = (3, 4, 6, 2) if metric is energy_score else (4, 6, 2)
    pred, true = torch.from_numpy(rng.normal(size=shape)).float(), torch.zeros(4, 6, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = metric(pred, true)
    assert mixed.item() == metric(pred, true).item()


@samples
def test_samples_must_fit_the_truth(metric) -> None:
    with raises_error("distribution"):
        metric(torch.zeros(5, 4, 7, 2), torch.zeros(4, 6, 2))
    with raises_error("distribution"):
        metric(torch.zeros(4, 6, 2), torch.zeros(4, 6, 2))
    with raises_error("distribution"):
        metric(np.zeros((5, 4, 6, 2)), torch.zeros(4, 6, 2))


@samples
def test_nan_in_samples_or_in_their_truth_is_named(metric) -> None:
    paths, true = np.zeros((5, 4, 6, 2)), np.zeros((4, 6, 2))
    paths[1, 2, 3, 0] = np.nan
    with raises_error("distribution"):
        metric(paths, true)
    with raises_error("true"):
        metric(np.zeros((5, 4, 6, 2)), paths[1])

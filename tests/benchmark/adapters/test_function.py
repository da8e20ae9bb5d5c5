"""A plain function under the contract of every model."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.errors import raises_error

from fern.benchmark.adapters import FunctionForecaster
from fern.errors import FernError
from fern.models import save_model

SIZES = {"context_length": 5, "horizon": 4, "channels": 2}


def last_value(context: np.ndarray, horizon: int) -> np.ndarray:
    return np.repeat(context[-1:], horizon, axis=0)


def windows(batch: int = 3, channels: int = 2) -> torch.Tensor:
    return torch.arange(batch * 5.0 * channels).reshape(batch, 5, channels)


def test_a_function_of_one_window_forecasts_each_window_of_a_batch() -> None:
    model = FunctionForecaster(last_value, **SIZES)
    past = windows()
    mean = model(past).mean
    assert torch.equal(mean, past[:, -1:].expand(-1, 4, -1))
    assert mean.dtype == past.dtype
    assert not model.trainable


def test_a_function_of_a_batch_gets_the_batch_at_once() -> None:
    calls = []

    def function(contexts: np.ndarray, horizon: int) -> np.ndarray:
        calls.append((contexts.shape, horizon))
        return np.repeat(contexts[:, -1:], horizon, axis=1)

    past = windows()
    mean = FunctionForecaster(function, takes="batch", **SIZES)(past).mean
    assert torch.equal(mean, past[:, -1:].expand(-1, 4, -1))
    assert calls == [((3, 5, 2), 4)]


@pytest.mark.parametrize(
    "give",
    [
        lambda values: values,
        lambda values: values.tolist(),
        torch.from_numpy,
        lambda values: values.astype(np.int64),
        lambda values: torch.from_numpy(values).requires_grad_(),
    ],
)
def test_arrays_lists_and_tensors_are_taken(give: Callable[[np.ndarray], Any]) -> None:
    model = FunctionForecaster(lambda context, horizon: give(last_value(context, horizon)), **SIZES)
    past = windows()
    assert torch.equal(model(past).mean, past[:, -1:].expand(-1, 4, -1))


@pytest.mark.parametrize("takes", ["window", "batch"])
def test_with_one_channel_its_dimension_may_be_left_out(takes: Any) -> None:
    sizes = {**SIZES, "channels": 1}
    model = FunctionForecaster(lambda c, h: np.repeat(c[..., -1, :], h, axis=-1), takes=takes, **sizes)
    past = windows(channels=1)
    assert torch.equal(model(past).mean, past[:, -1:].expand(-1, 4, -1))


def test_a_function_that_writes_to_its_context_leaves_the_batch_alone() -> None:
    def careless(context: np.ndarray, horizon: int) -> np.ndarray:
        context[:] = 0.0
        return np.zeros((horizon, 2))

    past = windows()
    FunctionForecaster(careless, **SIZES)(past)
    assert torch.equal(past, windows())


def raising(context: np.ndarray, horizon: int) -> np.ndarray:
    raise KeyError("no such season")


def infinite(context: np.ndarray, horizon: int) -> np.ndarray:
    values = np.zeros((horizon, 2))
    if context[0, 0] > 5:  # the second window on
        values[3, 1] = np.nan
    return values


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raising, "raising: raised KeyError for window 0: 'no such season'"),
        (infinite, r"infinite: returned nan for window 1, step 3, channel 1 \(1 such values\); needs finite numbers"),
        (lambda context, horizon: np.zeros((horizon, 3)), r"returned shape \(4, 3\) for window 0, needs \(4, 2\)"),
        (lambda context, horizon: np.zeros(horizon), r"returned shape \(4,\) for window 0, needs \(4, 2\)"),
        (lambda context, horizon: None, "returned NoneType of object for window 0, needs real numbers"),
        (lambda context, horizon: np.zeros((horizon, 2), complex), "returned ndarray of complex128"),
        (lambda context, horizon: [[1.0], [1.0, 2.0]], "returned nested sequences of unequal lengths for window 0"),
        (lambda context, horizon: np.full((horizon, 2), 1e300), "returned inf for window 0, step 0, channel 0"),
        (lambda context: context, "raised TypeError for window 0"),
    ],
)
def test_a_function_that_fails_is_refused_by_name_and_window(function: Any, message: str) -> None:
    with pytest.raises(FernError, match=message):
        FunctionForecaster(function, **SIZES)(windows())


def test_a_function_of_batches_that_fails_is_refused_by_name_and_window() -> None:
    def one_short(contexts: np.ndarray, horizon: int) -> np.ndarray:
        return np.zeros((len(contexts) - 1, horizon, 2))

    def bad_window(contexts: np.ndarray, horizon: int) -> np.ndarray:
        values = np.zeros((len(contexts), horizon, 2))
        values[2, 1, 0] = -np.inf
        return values

    with pytest.raises(
        FernError, match=r"one_short: returned shape \(2, 4, 2\) for a batch of 3 windows, needs \(3, 4, 2\)"
    ):
        FunctionForecaster(one_short, takes="batch", **SIZES)(windows())
    with pytest.raises(FernError, match=r"bad_window: returned -inf for window 2, step 1, channel 0"):
        FunctionForecaster(bad_window, takes="batch", **SIZES)(windows())


def test_an_interrupt_is_not_swallowed() -> None:
    def interrupted(context: np.ndarray, horizon: int) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FunctionForecaster(interrupted, **SIZES)(windows())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"function": "naive"}, "function: got str, needs a callable"),
        ({"takes": "windows"}, "takes: got 'windows', needs 'window' or 'batch'"),
        ({"horizon": 0}, "horizon: got 0"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FernError, match=message):
        FunctionForecaster(**{"function": last_value, **SIZES, **settings})


def test_a_bad_past_is_refused_before_the_function_sees_it() -> None:
    with raises_error("past"):
        FunctionForecaster(raising, **SIZES)(torch.full((1, 5, 2), torch.nan))


def test_a_function_cannot_be_saved() -> None:
    with pytest.raises(FernError, match="FunctionForecaster, which is not registered"):
        save_model(FunctionForecaster(last_value, **SIZES), "function.safetensors")

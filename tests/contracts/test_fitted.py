"""What every model that is fitted to rows must satisfy, beside what all models must."""

import math
from pathlib import Path

import pytest
import torch
from tests.errors import raises_error
from torch import Generator, Tensor

from fern.data import Part, Windows
from fern.errors import FernError
from fern.forecaster.saved_state import describe_weights, restore_model
from fern.models import FittedForecaster, build_model, load_model, model_names, save_model
from fern.models.registry import model_entry
from fern.training import train

NAMES = [name for name in model_names() if issubclass(model_entry(name).model, FittedForecaster)]
EVERY_FITTED = pytest.mark.parametrize("name", NAMES)


def built(name: str, *, channels: int = 2, **settings: object) -> FittedForecaster:
    model = build_model(name, context_length=40, horizon=12, channels=channels, **settings)
    assert isinstance(model, FittedForecaster)
    return model


def turning(rows: int, *, phase: float = 0.0) -> Tensor:  # (rows, 2)
    angle = 0.21 * torch.arange(rows) + phase
    return torch.stack((3.0 * angle.cos(), 5.0 + angle.sin()), dim=1)


def last_window(rows: Tensor) -> tuple[Tensor, Tensor]:
    return rows[None, -52:-12], rows[None, -12:]


def fitted(name: str, **settings: object) -> FittedForecaster:
    model, rows = built(name, **settings), turning(400)
    model.fit([rows[:340]], *last_window(rows))
    return model


def test_there_are_models_of_this_kind() -> None:
    assert {"analog", "polymap"} <= set(NAMES)


@EVERY_FITTED
def test_it_forecasts_a_system_that_it_has_seen(name: str) -> None:
    past, future = last_window(turning(500, phase=0.4))
    assert (fitted(name)(past).mean - future).square().mean() < 0.02 * future.var()


@EVERY_FITTED
def test_training_fits_it_to_the_training_rows_and_tells_what_that_took(name: str) -> None:
    rows = turning(500)
    parts = [Windows(rows, context_length=40, horizon=12, part=part) for part in (Part(0, 350), Part(350, 500))]
    model = built(name)
    result = train(model, *parts, progress="silent")
    assert result.stopped == "nothing to train"
    assert result.history[0].validation["mse"] < 0.02
    assert result.history[0].seconds > 0.0
    assert None not in model.chosen.values()


@EVERY_FITTED
def test_what_validation_chose_stands_in_the_config_and_fits_again_to_the_same_bits(name: str) -> None:
    first = fitted(name)
    assert None not in first.chosen.values()
    again = fitted(name, **first.chosen)
    past, _ = last_window(turning(500))
    assert again.chosen == first.chosen
    assert torch.equal(again(past).mean, first(past).mean)


@EVERY_FITTED
def test_fitting_again_chooses_again(name: str) -> None:
    model = fitted(name)
    before = model.chosen
    noise = torch.randn(400, 2, generator=Generator().manual_seed(1))
    model.fit([noise[:340]], *last_window(noise))
    assert model.chosen != before
    rows = turning(400)
    model.fit([rows[:340]], *last_window(rows))
    assert model.chosen == before


@EVERY_FITTED
def test_no_state_reaches_across_a_break(name: str) -> None:
    rows = turning(400)
    other = turning(200, phase=2.0) + 40.0
    joined, apart = built(name, delays=4, spacing=4), built(name, delays=4, spacing=4)
    joined.fit([torch.cat((other, rows[:340]))], *last_window(rows))
    apart.fit([other, rows[:340]], *last_window(rows))
    past, future = last_window(turning(500))
    assert (apart(past).mean - future).square().mean() < 0.02 * future.var()
    assert any(not torch.equal(a, b) for a, b in zip(joined.buffers(), apart.buffers(), strict=True))


@EVERY_FITTED
def test_before_it_is_fitted_it_says_so(name: str) -> None:
    past, _ = last_window(turning(100))
    with pytest.raises(FernError, match="is not fitted yet"):
        built(name)(past)
    with pytest.raises(FernError, match="is not fitted yet"):
        built(name, **fitted(name).chosen)(past)


@EVERY_FITTED
def test_a_forecasters_folder_takes_it_back_bit_for_bit(name: str) -> None:
    model = fitted(name)
    past, _ = last_window(turning(500))
    back = restore_model(*describe_weights(model), where="model")
    assert torch.equal(back(past).mean, model(past).mean)


@EVERY_FITTED
def test_a_file_whose_tensors_do_not_belong_together_is_refused(name: str) -> None:
    model = fitted(name)
    tensors = describe_weights(model)[1]
    for buffer, values in tensors.items():
        with pytest.raises(FernError, match="has shape"):
            restore_model({**describe_weights(model)[0]}, {**tensors, buffer: values[:-1]}, where="model")


@EVERY_FITTED
def test_an_unfitted_model_can_be_saved_and_fitted_later(name: str) -> None:
    save_model(built(name), Path("model.safetensors"))
    model, rows = load_model(Path("model.safetensors")), turning(400)
    assert isinstance(model, FittedForecaster)
    model.fit([rows[:340]], *last_window(rows))
    assert None not in model.chosen.values()


@EVERY_FITTED
def test_rows_that_do_not_fit_are_refused_by_name(name: str) -> None:
    rows = turning(400)
    window = last_window(rows)
    with raises_error("stretches"):
        built(name).fit([rows, torch.zeros(30, 3)], *window)
    with raises_error("stretches"):
        built(name).fit([torch.full((90, 2), math.nan)], *window)
    with raises_error("stretches"):
        built(name).fit([rows[:12]], *window)
    with raises_error("stretches"):
        built(name).fit([], *window)
    with raises_error("future"):
        built(name).fit([rows], window[0], window[1][:, :5])


@EVERY_FITTED
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_windows_that_are_not_finite_are_refused_by_name(name: str, value: float) -> None:
    rows = turning(400)
    for place, part in enumerate(("past", "future")):
        window = [one.clone() for one in last_window(rows)]
        window[place][0, 3, 1] = value
        with pytest.raises(FernError, match=f"{part}: got {value} at window 0, time step 3, channel 1"):
            built(name).fit([rows[:340]], *window)

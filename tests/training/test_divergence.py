"""A run that diverges says where, and leaves its last good checkpoint."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fern.data.windows import Windows
from fern.errors import FernError
from fern.models import ModelConfig, PointForecaster
from fern.models.storage import read_tensors
from fern.training import Diverged, TrainConfig, train

Sets = dict[str, Windows]


class Breaking(PointForecaster):
    """A linear forecaster that goes wrong at the given training step (from 1) in the given way."""

    def __init__(self, *, at: int, how: str) -> None:
        super().__init__(ModelConfig(context_length=12, horizon=6, channels=2))
        self.early, self.late = nn.Linear(12, 4), nn.Linear(4, 6)
        self.at, self.how, self.steps = at, how, 0

    def predict(self, past: Tensor) -> Tensor:
        hidden = self.early(past.mT)
        if self.training:
            self.steps += 1
            if self.steps == self.at and self.how == "gradient":
                zero = (hidden - hidden.detach()).square()  # 0, and the slope of its root is infinite
                hidden = hidden + zero.sqrt()
            if self.steps == self.at and self.how == "loss":
                hidden = hidden / 0.0
        elif self.how == "forecast" and self.steps >= self.at:
            hidden = hidden * float("inf")
        return self.late(hidden).mT


def fails(windows: Sets, quick: TrainConfig, model: Breaking, **settings: object) -> Diverged:
    with pytest.raises(Diverged) as caught:
        train(
            model,
            windows["train"],
            windows["validation"],
            replace(quick, **settings),
            directory="run",
            progress="silent",
        )
    return caught.value


@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_a_gradient_that_is_not_finite_names_epoch_step_and_parameter_group(
    windows: Sets, quick: TrainConfig, clip_norm: float | None
) -> None:
    # 103 windows in batches of 32 are 4 steps an epoch: step 6 of the run is step 2 of epoch 2.
    error = fails(windows, quick, Breaking(at=6, how="gradient"), clip_norm=clip_norm)
    assert (error.epoch, error.step, error.group) == (2, 2, "early")
    assert "diverged at epoch 2, step 2: the gradient of early.weight (and 1 more)" in str(error)
    assert "last good checkpoint is in run" in str(error)
    assert isinstance(error, FernError)


def test_a_loss_that_is_not_finite_is_found_at_its_step(windows: Sets, quick: TrainConfig) -> None:
    error = fails(windows, quick, Breaking(at=3, how="loss"))
    assert (error.epoch, error.step) == (1, 3)
    assert "the loss is nan" in str(error)


def test_a_gradient_too_large_for_its_norm_is_a_divergence_too(windows: Sets, quick: TrainConfig) -> None:
    class Steep(Breaking):
        def predict(self, past: Tensor) -> Tensor:
            flat = super().predict(past)
            return flat + 1e25 * (flat - flat.detach())  # a slope of 1e25 on a forecast that stays as it is

    error = fails(windows, quick, Steep(at=-1, how="never"))
    assert (error.epoch, error.step, error.group) == (1, 1, None)
    assert "the norm of the gradient overflows" in str(error)


def test_a_forecast_that_is_not_finite_is_found_by_validation(windows: Sets, quick: TrainConfig) -> None:
    error = fails(windows, quick, Breaking(at=5, how="forecast"))
    assert (error.epoch, error.step) == (2, None)
    assert "diverged at epoch 2: a forecast is not finite" in str(error)


def test_the_last_good_checkpoint_holds_finite_weights_and_can_be_resumed(windows: Sets, quick: TrainConfig) -> None:
    fails(windows, quick, Breaking(at=7, how="gradient"), checkpoint_steps=1)
    state, tensors, _ = read_tensors(Path("run/last.safetensors"), format_="fern-run-1")
    assert (state["run"]["epoch"], state["run"]["step"]) == (2, 2)
    assert all(torch.isfinite(value).all() for name, value in tensors.items() if name.startswith("model."))
    sound = Breaking(at=-1, how="never")
    result = train(
        sound,
        windows["train"],
        windows["validation"],
        replace(quick, checkpoint_steps=1),
        resume="run",
        progress="silent",
    )
    assert len(result.history) == 3


def test_a_real_divergence_is_caught(windows: Sets, quick: TrainConfig) -> None:
    error = fails(windows, quick, Breaking(at=-1, how="never"), learning_rate=1e30, loss="mse")
    assert error.epoch == 1
    assert error.step is not None


def test_a_forecast_too_large_for_the_type_of_the_data_is_a_divergence(windows: Sets, quick: TrainConfig) -> None:
    class Far(Breaking):
        def predict(self, past: Tensor) -> Tensor:
            near = super().predict(past)
            return near if self.training else near.double() + 1e200

    error = fails(windows, quick, Far(at=-1, how="never"))
    assert (error.epoch, error.step) == (1, None)
    assert "a forecast is not finite" in str(error)


def test_an_error_of_the_model_s_own_is_not_called_a_divergence(windows: Sets, quick: TrainConfig) -> None:
    class Strict(Breaking):
        def predict(self, past: Tensor) -> Tensor:
            if not self.training:
                raise FernError("weather station: got 3, needs 4")
            return super().predict(past)

    with pytest.raises(FernError, match=r"^weather station: got 3, needs 4$") as caught:
        train(Strict(at=-1, how="never"), windows["train"], windows["validation"], quick, progress="silent")
    assert not isinstance(caught.value, Diverged)


def test_a_divergence_crosses_to_another_process_whole() -> None:
    error = Diverged("the loss is nan", epoch=2, step=3, group="late", remedy="; try less")
    copied = copy.copy(error)
    assert isinstance(copied, Diverged)
    assert str(copied) == str(error) == "diverged at epoch 2, step 3: the loss is nan; try less"
    assert (copied.epoch, copied.step, copied.group) == (2, 3, "late")

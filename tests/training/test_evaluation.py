"""What judges an epoch, the history of a run with its table of recency bias, and runs that diverge."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.errors import raises_error
from torch import Tensor, nn

from fern.data.windows import Windows
from fern.errors import FernError
from fern.metrics import ObjectiveWeights, crps, mse
from fern.models import Forecaster, ModelConfig, PointForecaster, build_model
from fern.models.storage import read_tensors
from fern.training import Diverged, EpochRecord, History, TrainConfig, train
from fern.training.evaluation import history_from_list

OF_DISTRIBUTIONS = ObjectiveWeights(mse=0.0, mae=0.0, distance=0.0, crps=1.0)


def test_an_objective_of_the_crps_judges_the_distribution(
    windows: dict[str, Windows], fern: Callable[[], Forecaster], quick: TrainConfig
) -> None:
    config = replace(quick, objective=OF_DISTRIBUTIONS, loss={"crps": 1.0}, epochs=2)
    result = train(fern(), windows["train"], windows["validation"], config, progress="silent")
    kept = result.history[result.best_epoch - 1].validation
    past, future = windows["validation"].gather(torch.arange(len(windows["validation"])))
    with torch.no_grad():
        distribution = result.model(past.float()).ellipsoid
    assert distribution is not None
    assert kept["objective"] == kept["crps"] == pytest.approx(crps(distribution, future.float()).item(), rel=1e-6)


@pytest.mark.parametrize(("most", "judged"), [(3, [0, 1, 2]), (None, None), (10_000, None)])
def test_so_many_validation_windows_spread_evenly_judge_an_epoch(
    windows: dict[str, Windows], quick: TrainConfig, most: int | None, judged: list[int] | None
) -> None:
    validation = windows["validation"]
    places = torch.arange(len(validation)) if judged is None else torch.tensor(judged) * len(validation) // 3
    sizes = {"context_length": validation.context_length, "horizon": validation.horizon}
    model = build_model("last-value", channels=validation.channels, **sizes)
    config = replace(quick, validation_windows=most)
    figures = train(model, windows["train"], validation, config, progress="silent").history[0]
    past, future = validation.gather(places)
    assert figures.validation["mse"] == pytest.approx(float(mse(model(past).mean, future)), rel=1e-5)


def test_without_a_distribution_the_crps_is_the_absolute_error(windows: dict[str, Windows], quick: TrainConfig) -> None:
    sizes = {"context_length": windows["train"].context_length, "horizon": windows["train"].horizon}
    model = build_model("last-value", channels=windows["train"].channels, **sizes)
    config = replace(quick, objective=OF_DISTRIBUTIONS)
    figures = train(model, windows["train"], windows["validation"], config, progress="silent").history[0]
    assert figures.validation["objective"] == figures.validation["mae"]
    assert "crps" not in figures.validation


def test_without_a_weight_no_distribution_is_looked_at(
    windows: dict[str, Windows], fern: Callable[[], Forecaster], quick: TrainConfig
) -> None:
    config = replace(quick, epochs=1)
    figures = train(fern(), windows["train"], windows["validation"], config, progress="silent").history[0]
    assert list(figures.validation) == ["mse", "mae", config.distance, "objective"]


def record(epoch: int, validation: float, test: float | None, seconds: float = 1.0) -> EpochRecord:
    return EpochRecord(
        epoch=epoch,
        train_loss=1.0 / epoch,
        learning_rate=1e-3,
        gradient_norm=0.1,
        validation={"mse": validation, "objective": validation / 3},
        test=None if test is None else {"mse": test, "objective": test / 3},
        judged=validation / 3,
        seconds=seconds,
    )


def test_the_recency_table_has_the_paper_s_columns() -> None:
    # The Fern rows of tab:recency-etth1: validation is best at epoch 1, test at epoch 6.
    validation = [8.24, 9.0, 10.0, 11.0, 11.5, 12.10]
    test = [18.88, 14.0, 10.0, 8.0, 6.0, 5.51]
    history = History(record(i + 1, v, t) for i, (v, t) in enumerate(zip(validation, test, strict=True)))
    first, by_validation, by_test = history.recency("mse")
    assert (first.choice, first.epoch, first.validation, first.test) == ("epoch 1", 1, 8.24, 18.88)
    assert (by_validation.epoch, by_validation.test_change) == (1, 0.0)
    assert (by_test.epoch, by_test.validation, by_test.test) == (6, 12.10, 5.51)
    assert by_test.validation_change == pytest.approx(3.86)
    assert by_test.test_change == pytest.approx(-13.37)


def test_the_recency_table_needs_test_figures_and_a_known_metric() -> None:
    with pytest.raises(FernError, match="has no test figures"):
        History([record(1, 1.0, None)]).recency()
    with pytest.raises(FernError, match="unknown metric 'mso': did you mean 'mse'"):
        History([record(1, 1.0, 1.0)]).recency("mso")
    with pytest.raises(FernError, match="has no epochs"):
        History().recency()


def test_a_history_written_as_json_comes_back_to_the_bit() -> None:
    history = History([record(1, 1 / 3, 2 / 7), record(2, 0.1 + 0.2, None)])
    back = history_from_list(json.loads(json.dumps(history.to_list())))
    assert back == history
    assert [r.seconds for r in back] == [r.seconds for r in history]


def test_histories_are_equal_when_their_figures_are_however_long_they_took() -> None:
    assert History([record(1, 1.0, 2.0, seconds=1.0)]) == History([record(1, 1.0, 2.0, seconds=9.0)])
    assert History([record(1, 1.0, 2.0)]) != History([record(1, 1.0, 2.1)])


def test_an_epoch_is_found_by_its_number() -> None:
    history = History([record(1, 1.0, None), record(2, 2.0, None)])
    assert history.of_epoch(2).validation["mse"] == 2.0
    with raises_error("epoch"):
        history.of_epoch(3)


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

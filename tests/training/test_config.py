"""Settings of a run: what the presets say, what is given, and what is refused."""

import dataclasses
import json

import numpy as np
import pytest
from tests.errors import raises_error

from fern.data.windows import Windows
from fern.errors import FernError
from fern.metrics import ObjectiveWeights
from fern.models import build_model
from fern.settings import from_mapping
from fern.training import PRESETS, TrainConfig, train
from fern.training.optimisation import DISTRIBUTION_LOSSES


def test_shock_is_the_paper_s_protocol() -> None:
    config = TrainConfig(preset="shock")
    assert (config.learning_rate, config.batch_size, config.epochs) == (3e-4, 95, 50)
    assert (config.patience, config.grace, config.smoothing, config.tolerance) == (5, 3, None, 0.0)
    assert (config.weights, config.huber_delta, config.weight_decay) == ({"huber": 1.0}, 1.0, 0.0)
    assert (config.objective, config.distance) == (ObjectiveWeights(0.1, 1.0, 0.1), "w2")
    assert (config.schedule, config.warmup, config.clip_norm, config.averaging) == ("constant", 0.0, None, None)


def test_detailed_is_the_paper_s_protocol() -> None:
    config = TrainConfig(preset="detailed")
    assert (config.learning_rate, config.batch_size, config.epochs) == (9e-4, 128, 50)
    assert (config.patience, config.grace, config.smoothing, config.tolerance) == (5, 0, None, 0.0)
    assert (config.weights, config.huber_delta, config.weight_decay) == ({"huber": 1.0}, 1.0, 0.0)
    assert (config.objective, config.distance) == (ObjectiveWeights(0.1, 1.0, 0.1), "sliced_w2")
    assert config.projections == 500


def test_distribution_is_default_with_a_loss_of_the_distribution_judged_by_its_crps() -> None:
    distribution, default = (TrainConfig(preset=name).to_mapping() for name in ("distribution", "default"))
    assert {name for name in distribution if distribution[name] != default[name]} == {
        "preset",
        "epochs",
        "loss",
        "objective",
    }
    assert set(distribution["loss"]) <= set(DISTRIBUTION_LOSSES)
    assert distribution["objective"] == {"mse": 0.0, "mae": 0.0, "distance": 0.0, "crps": 1.0}


def test_distribution_is_refused_for_a_model_without_one() -> None:
    model = build_model("dlinear", context_length=8, horizon=4, channels=1)
    windows = Windows(np.random.default_rng(0).standard_normal((60, 1)).astype("float32"), context_length=8, horizon=4)
    with pytest.raises(FernError, match="distribution"):
        train(model, windows, windows, TrainConfig(preset="distribution"))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_field_is_filled_and_can_be_given(preset: str) -> None:
    config = TrainConfig(preset=preset)
    names = [entry.name for entry in dataclasses.fields(config)]
    assert set(PRESETS[preset]) == set(names) - {"preset"}
    assert TrainConfig(**{name: getattr(config, name) for name in names}) == config


def test_what_is_given_wins_over_the_preset_also_when_it_is_none() -> None:
    config = TrainConfig(preset="shock", epochs=3, grace=1, patience=None, loss={"huber": 1, "nll": 0.1})
    assert (config.epochs, config.grace, config.patience) == (3, 1, None)
    assert config.weights == {"huber": 1.0, "nll": 0.1}
    assert config.learning_rate == 3e-4


def test_a_run_shorter_than_its_preset_s_grace_period_can_keep_its_last_epoch() -> None:
    assert TrainConfig(preset="shock", epochs=3).grace == 2
    assert TrainConfig(preset="shock", epochs=1).grace == 0
    assert TrainConfig(preset="shock", epochs=4).grace == 3


def test_a_config_written_as_json_comes_back_equal() -> None:
    config = TrainConfig(preset="shock", epochs=7, loss={"mae": 2.0}, objective=ObjectiveWeights(1.0, 0.0, 0.0))
    assert from_mapping(TrainConfig, json.loads(json.dumps(config.to_mapping()))) == config


def test_settings_from_a_file_are_read_strictly() -> None:
    config = from_mapping(TrainConfig, {"preset": "shock", "epochs": 4, "objective": {"mae": 0.5}})
    assert (config.epochs, config.objective) == (4, ObjectiveWeights(0.1, 0.5, 0.1))
    with pytest.raises(FernError, match="unknown setting 'epoch': did you mean 'epochs'"):
        from_mapping(TrainConfig, {"epoch": 4})
    with pytest.raises(FernError, match="epochs"):
        from_mapping(TrainConfig, {"epochs": "many"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": ["shock"]}, "unknown preset"),
        ({"smoothing": "0.9"}, "smoothing: "),
        ({"keep": 3}, "unknown keep '3'"),
        ({"distance": 5}, "unknown distance '5'"),
        ({"preset": "shok"}, "unknown preset 'shok': did you mean 'shock'"),
        ({"epoch": 3}, "unknown training setting 'epoch': did you mean 'epochs'"),
        ({"loss": "hubert"}, "unknown loss 'hubert': did you mean 'huber'"),
        ({"loss": {"huber": -1.0}}, "weight of huber is -1.0"),
        ({"loss": {}}, "loss: "),
        ({"loss": 3}, "loss: "),
        ({"schedule": "onecycle"}, "unknown schedule 'onecycle': did you mean 'one-cycle'"),
        ({"distance": "w3"}, "unknown distance 'w3'"),
        ({"start": "freh"}, "unknown start 'freh': did you mean 'fresh'"),
        ({"precision": "16-mixed"}, "unknown precision '16-mixed'"),
        ({"epochs": 2.5}, "epochs: "),
        ({"batch_size": 0}, "batch_size: "),
        ({"learning_rate": 0.0}, "learning_rate: "),
        ({"learning_rate": float("nan")}, "learning_rate: "),
        ({"learning_rate": "fast"}, "learning_rate: "),
        ({"weight_decay": -1.0}, "weight_decay: "),
        ({"warmup": 1.0}, "warmup: "),
        ({"averaging": 1.0}, "averaging: "),
        ({"clip_norm": 0}, "clip_norm: "),
        ({"patience": 0}, "patience: "),
        ({"epochs": 3, "grace": 3}, "grace: "),
        ({"tolerance": 2.0}, "tolerance: "),
        ({"smoothing": 0.0}, "smoothing: "),
        ({"threads": 0}, "threads: "),
        ({"seed": -1}, "seed: "),
        ({"energy_samples": 1}, "energy_samples: "),
        ({"objective": 0.1}, "objective: "),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        TrainConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["patience", "grace", "smoothing", "tolerance", "warmup"])
def test_what_the_stopping_rule_and_the_schedule_are_made_of_must_be_numbers(name: str) -> None:
    with pytest.raises(FernError, match=f"^{name}: got 'x', needs"):
        TrainConfig(**{name: "x"})  # type: ignore[arg-type]


def test_another_preset_for_a_finished_config_is_refused() -> None:
    with raises_error("preset"):
        dataclasses.replace(TrainConfig(), preset="shock")


def test_a_finished_config_can_be_changed_and_read_back() -> None:
    config = TrainConfig(preset="shock", epochs=10)
    changed = dataclasses.replace(config, epochs=20, preset="shock")
    assert (changed.epochs, changed.learning_rate, changed.preset) == (20, config.learning_rate, "shock")
    assert from_mapping(TrainConfig, changed.to_mapping()) == changed
    with pytest.raises(FernError, match="in place of 'shock'"):
        dataclasses.replace(from_mapping(TrainConfig, changed.to_mapping()), preset="detailed")


def test_a_setting_without_a_name_is_told_how_to_give_it() -> None:
    with pytest.raises(FernError, match="got 'shock' without a name, as in preset='shock'"):
        TrainConfig("shock")  # type: ignore[misc]

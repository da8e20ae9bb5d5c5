"""What a TARGET names, and how each kind of forecaster is asked."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.benchmark.stress.support import last_value, window_mean

from fern.benchmark.stress.targets import ScenarioData, Target, as_target, forecast, open_target
from fern.data.splits import Part
from fern.errors import FernError
from fern.extras import add_search_folder
from fern.models import build_model, save_model


@pytest.fixture
def data():
    """Eight windows of two channels; rows to train on."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, 2)).astype(np.float32).cumsum(axis=0)
    contexts = rng.normal(size=(8, 24, 2)).astype(np.float32)
    return ScenarioData(rows, Part(0, 150), Part(150, 200), contexts, horizon=12)


def saying(data, takes):
    return ScenarioData(data.rows, data.train, data.validation, data.contexts, horizon=data.horizon, takes=takes)


def test_functions_of_batches_and_of_windows_are_told_apart(data):
    expected = np.repeat(data.contexts[:, -1:], 12, axis=1)
    np.testing.assert_array_equal(forecast(last_value, data), expected)
    means = data.contexts.mean(axis=1, keepdims=True).repeat(12, axis=1)
    np.testing.assert_allclose(forecast(window_mean, data), means, rtol=1e-6)


def test_a_function_of_either_form_is_asked_once_for_all_windows(data):
    shapes = []

    def either(context, horizon):
        shapes.append(context.shape)
        return np.repeat(context[..., -1:, :], horizon, axis=-2)

    forecast(either, data)
    assert shapes[-1] == (8, 24, 2)


def test_a_function_that_answers_differently_by_form_must_be_told_which(data):
    def shady(context, horizon):
        return np.zeros((*context.shape[:-2], horizon, 2), np.float32) + context.ndim

    with pytest.raises(FernError, match="say which it takes: batch or window"):
        forecast(shady, data)
    assert (forecast(shady, saying(data, "batch")) == 3.0).all()
    assert (forecast(shady, saying(data, "window")) == 2.0).all()


def test_torch_tensors_and_lists_are_forecasts_too(data):
    expected = last_value(data.contexts, 12)
    np.testing.assert_array_equal(forecast(lambda c, h: torch.from_numpy(last_value(c, h)), data), expected)
    np.testing.assert_array_equal(forecast(lambda c, h: last_value(c, h).tolist(), data), expected)


def quits(context, horizon):
    raise SystemExit(4)


def raises(context, horizon):
    raise RuntimeError("no weights")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (raises, "raised RuntimeError: no weights"),
        (quits, "called sys.exit(4)"),
        (lambda c, h: last_value(c, h) * np.nan, "returned nan for window 0, step 0, channel 0"),
        (lambda c, h: last_value(c, h) + np.inf, "returned inf"),
        (lambda c, h: c, "returned shape (3, 24, 2), needs (3, 12, 2)"),
        (lambda c, h: None, "returned shape (), needs (3, 12, 2)"),
        (lambda c, h: last_value(c, h).astype(str), "needs real numbers"),
        (lambda c, h: last_value(c, h).astype(complex), "needs real numbers"),
    ],
)
def test_a_bad_forecast_is_told_with_its_reason(data, function, says):
    with pytest.raises(FernError) as raised:
        forecast(function, data)
    assert says in str(raised.value)


def test_a_model_is_asked_in_evaluation_mode_and_left_as_it_was(data):
    model = build_model("dlinear", context_length=24, horizon=12, channels=2).double().train()
    modes = []
    model.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    assert forecast(model, data).dtype == np.float32
    assert modes == [False]
    assert model.training


def test_a_model_that_does_not_fit_the_scenario_says_so(data):
    model = build_model("last-value", context_length=24, horizon=12, channels=3)
    with pytest.raises(FernError, match="the model's channels is 3, needs 2"):
        as_target(model).prepare(data)


def test_a_registered_model_is_trained_before_it_is_asked(data):
    level = forecast(Target("training-mean", "training-mean").prepare(data), data)
    assert np.ptp(level, axis=(0, 1)).max() == 0.0  # one level a channel, learnt from the training part
    assert np.abs(level[0, 0] - data.rows[:150].mean(axis=0)).max() < np.abs(data.rows).max() / 2


def test_registered_names_come_before_folders():
    Path("dlinear").mkdir()
    assert open_target("dlinear").source == "dlinear"
    with pytest.raises(FernError, match="the folder dlinear has no saved model"):
        open_target("./dlinear")


@pytest.mark.parametrize("name", ["model.safetensors", "best.safetensors"])
def test_a_saved_model_is_found_by_its_folder_or_its_file(name, data):
    folder = Path("saved")
    folder.mkdir()
    model = build_model("dlinear", context_length=24, horizon=12, channels=2)
    save_model(model, folder / name)
    for text in ("saved", f"saved/{name}"):
        target = open_target(text)
        assert target.config == model.config
        np.testing.assert_array_equal(forecast(target.prepare(data), data), forecast(model, data))


def test_a_callable_is_found_by_module_and_dotted_name(monkeypatch):
    monkeypatch.setattr("sys.path", ["first"])
    Path("targets_under_test.py").write_text("class Box:\n    @staticmethod\n    def ask(c, h):\n        return c\n")
    add_search_folder(str(Path.cwd()))
    assert open_target("targets_under_test:Box.ask").source(5, 1) == 5
    for text, says in {
        "targets_under_test:Box": "is the class Box, needs a callable",
        "targets_under_test:bocks": "has no 'bocks'",
        "targets_under_test:Bx": "did you mean 'Box'?",
        "targets_under_test:__name__": "is str, needs a callable",
        "targets_under_test:": "needs a module and a callable in it",
        "no_such_module:f": "no_such_module cannot be imported: ModuleNotFoundError",
        "dlinaer": "did you mean 'dlinear'?",
    }.items():
        with pytest.raises(FernError) as raised:
            open_target(text)
        assert says in str(raised.value), text


@pytest.mark.parametrize(
    ("source", "says"),
    [("import missing_thing", "No module named"), ("1 +", "SyntaxError"), ("raise SystemExit(2)", "sys.exit(2)")],
)
def test_a_module_that_cannot_be_imported_is_told_with_the_reason(monkeypatch, source, says):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("breaks_on_import.py").write_text(source)
    with pytest.raises(FernError) as raised:
        open_target("breaks_on_import:f")
    assert "breaks_on_import cannot be imported" in str(raised.value)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("thing", "says"), [(dict, "got the class dict"), (7, "got int, needs a fern Forecaster"), (None, "got NoneType")]
)
def test_things_that_are_no_forecaster_are_refused(thing, says):
    with pytest.raises(FernError) as raised:
        as_target(thing)
    assert says in str(raised.value)

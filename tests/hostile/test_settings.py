"""Settings and paths that are nonsense: refused at once, or a model that works."""

import time
import warnings
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.errors import raises_error

from fern.data import Windows
from fern.errors import FernError
from fern.models import build_model, load_model, model_names, save_model
from fern.models.registry import model_entry
from fern.models.storage import FORMAT, write_tensors
from fern.pretrained import forecast
from fern.synthetic import generate
from fern.training import TrainConfig, resumable, train

SIZES = {"context_length": 48, "horizon": 12, "channels": 2}
PAST = torch.sin(torch.arange(96.0).reshape(1, 48, 2) / 5)
SECONDS = 5.0  # of processor time; what was found took 12 and more
HUGE = {"int": 10**9, "float": 1e308}


def huge_settings(model: str) -> list[tuple[str, Any]]:
    own = [field for field in fields(model_entry(model).config) if field.name not in SIZES]
    return [(field.name, value) for field in own for kind, value in HUGE.items() if kind in str(field.type)]


@pytest.mark.parametrize("name", model_names())
def test_a_huge_setting_is_refused_or_makes_a_model_with_a_finite_forecast(name: str) -> None:
    for setting, value in huge_settings(name):
        began = time.process_time()
        try:
            model = build_model(name, **SIZES, **{setting: value}).eval()
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                made = model(PAST)
            assert torch.isfinite(made.mean).all(), setting
            assert made.ellipsoid is None or torch.isfinite(made.stddev).all(), setting
        except FernError:
            pass
        assert time.process_time() - began < SECONDS, setting


@pytest.mark.parametrize(
    ("model", "setting", "value"),
    [("fern", "noise", 1e308), ("polymap", "degree", 10**9), ("timemixer", "down_samplings", 10**9)],
)
def test_a_file_with_a_huge_setting_is_refused_by_name(model: str, setting: str, value: float) -> None:
    config = asdict(build_model(model, **SIZES).config)
    described = {"model": model, "config": {**config, setting: value}, "version": "0"}
    write_tensors("forged.safetensors", {"w": torch.ones(1)}, described, format_=FORMAT)
    began = time.process_time()
    with raises_error(setting, got=value, where="forged.safetensors"):
        load_model("forged.safetensors")
    assert time.process_time() - began < SECONDS


# --- the pretrained model, synthetic series ---------------------------------------------------------------------

ROWS = [float(k % 7) for k in range(50)]
NO_SERIES: dict[str, Any] = {
    "nothing": None,
    "a number": 3.0,
    "text": "text",
    "numbers as text": ["1"] * 50,
    "no rows": [],
    "few rows": ROWS[:7],
    "nothing but gaps": [float("nan")] * 50,
    "a mapping": {"y": ROWS},
    "a number beside rows": [ROWS, 3.0],
    "rows beside a number": [3.0, ROWS],
    "three axes": [[ROWS]],
    "complex numbers": [1j] * 50,
    "dates": np.arange(50).astype("datetime64[D]"),
    "infinite values": [*ROWS, float("inf")],
    "values beyond their sum": [1.7e308, -1.7e308] * 30,
    "values beyond float32": [1e300 * value for value in ROWS],
}


@pytest.mark.parametrize("series", NO_SERIES.values(), ids=NO_SERIES)
def test_what_is_no_series_is_not_forecast(series: Any) -> None:
    with raises_error() as caught:
        forecast(series, 5)
    assert caught.value.argument.startswith("series")


ODD_FORECASTS: list[tuple[str, Any]] = [
    *(("horizon", value) for value in (0, -1, 2.5, "5", None, True, 10**7, 10**30)),
    *(("season", value) for value in (0, 2.5, "7", [7, 7], True, float("nan"))),
    *((name, value) for name in ("flip", "log", "resample") for value in (1, "no", None)),
]


@pytest.mark.parametrize(("argument", "value"), ODD_FORECASTS)
def test_a_pretrained_forecast_has_sensible_settings(argument: str, value: Any) -> None:
    with raises_error(argument):
        forecast(ROWS, **{"horizon": 5, argument: value})


def test_a_season_beyond_what_is_read_changes_nothing() -> None:
    assert forecast(ROWS, 5, season=10**30).mean.shape == (5,)


@pytest.mark.parametrize("levels", [None, 0.5, "0.5", ["x"], [None], [0], [1], [True], [float("nan")], [], [[0.5], []]])
def test_quantiles_of_a_pretrained_forecast_are_probabilities(levels: Any) -> None:
    with raises_error("levels"):
        forecast(ROWS, 5).quantile(levels)


def test_paths_of_a_pretrained_forecast_are_counted_and_seeded() -> None:
    made = forecast(ROWS, 5)
    for name, values in {"n_paths": (0, "9", None, 2.5), "seed": (-1, "7", None, 2.5)}.items():
        for value in values:
            with raises_error(name, got=value):
                made.sample_paths(**{"n_paths": 3, name: value})
    with raises_error():
        made.sample_paths(10**12)
    assert made.sample_paths(3, seed=10**30).shape == (3, 5)


ODD_SERIES: list[tuple[str, Any]] = [
    *(("count", value) for value in (0, -1, "3", 2.0, True, None)),
    *(("length", value) for value in (0, 15, "32", None)),
    *(("seed", value) for value in (-1, "7", None, 1.5)),
    *(("only", value) for value in ([], "arma", 3, ["nothing"], [3], [["arma"]], [None])),
    *(("artefacts", value) for value in ("no", None, 3)),
]


@pytest.mark.parametrize(("argument", "value"), ODD_SERIES)
def test_synthetic_series_have_sensible_settings(argument: str, value: Any) -> None:
    with raises_error(argument):
        generate(**{"count": 2, "length": 32, "seed": 1, argument: value})


@pytest.mark.parametrize(("count", "length"), [(10**12, 32), (10**30, 32), (2, 10**10), (2, 10**30)])
def test_synthetic_series_beyond_memory_are_refused_before_any_is_drawn(count: int, length: int) -> None:
    with raises_error():
        generate(count, length=length, seed=1)


NO_PATHS: dict[str, Any] = {
    "None": None,
    "a number": 3,
    "a true number": 0.5,
    "bytes": b"model",
    "a list": ["model"],
    "a NUL byte": "a\0b",
    "256 bytes": "x" * 256,
    "256 bytes of a folder": f"{'ü' * 128}/model",
    "half of a surrogate pair": "a\ud800",
}


@pytest.mark.parametrize("path", NO_PATHS.values(), ids=NO_PATHS)
def test_what_is_no_path_is_refused_wherever_a_path_is_taken(path: Any) -> None:
    model = build_model("last-value", **SIZES)
    windows = Windows(PAST[0].repeat(3, 1), context_length=48, horizon=12)
    calls = {
        "path": [lambda: save_model(model, path), lambda: load_model(path)],
        "directory": [lambda: resumable(path)],
    }
    if path is not None:  # None says that nothing is to be kept
        for name in ("directory", "resume"):
            options = {name: path}
            calls.setdefault(name, []).append(
                lambda options=options: train(model, windows, windows, TrainConfig(), progress="silent", **options)
            )
    for argument, each in calls.items():
        for call in each:
            with raises_error(argument):
                call()
    assert list(Path().iterdir()) == []


def test_a_path_may_be_text() -> None:
    save_model(build_model("last-value", **SIZES), "model.safetensors")
    assert load_model("model.safetensors").config == load_model(Path("model.safetensors")).config


def test_what_is_no_model_is_not_saved() -> None:
    with raises_error("model", got="fern"):
        save_model("fern", "model.safetensors")

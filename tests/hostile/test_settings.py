"""Settings and paths that are nonsense: refused at once, or a model that works."""

import time
import warnings
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.errors import raises_error

from fern.data import Windows
from fern.errors import FernError
from fern.models import build_model, load_model, model_names, save_model
from fern.models.registry import model_entry
from fern.models.storage import FORMAT, write_tensors
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

"""Forecasters of known libraries, named on the command line, and the list of these libraries."""

import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fern.benchmark.adapters import libraries as adapters
from fern.benchmark.adapters.libraries import ADAPTERS, adapter_of, as_text, split_settings
from fern.benchmark.adapters.outside import build_outside_model, import_object, source_fingerprint
from fern.cli.app import app
from fern.errors import FernError
from fern.models import ModelConfig
from fern.testing import assert_survives

pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = ModelConfig(context_length=24, horizon=6, channels=2)


@pytest.mark.parametrize(
    ("text", "kind", "extra"),
    [
        ("statsforecast.models:AutoETS(season_length=1, model='ANN')", "StatsForecastForecaster", "statsforecast"),
        ("sktime.forecasting.naive:NaiveForecaster(strategy='drift')", "SktimeForecaster", "sktime"),
        (
            "neuralforecast.models:NHITS(mlp_units=[[8, 8], [8, 8], [8, 8]])",
            "NeuralForecastForecaster",
            "neuralforecast",
        ),
        ("fern.integrations.fev:FernModel(model='last-value')", "FevForecaster", "fev"),
    ],
)
def test_a_class_of_a_known_library_is_a_model(needs: Callable[..., Any], text: str, kind: str, extra: str) -> None:
    needs(extra)
    model = build_outside_model(text, SIZES, seed=7)
    assert type(model).__name__ == kind
    made = model.eval()(torch.randn(2, 24, 2)).mean
    assert made.shape == (2, 6, 2)
    assert model.trainable == (extra == "neuralforecast")
    assert len(source_fingerprint(text)) == 12


def test_a_new_version_of_a_library_is_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_fingerprint("fern.metrics:mse")
    monkeypatch.setattr(adapters, "ADAPTERS", (adapters.Adapter("fern", None, "", ""),))
    monkeypatch.setattr(metadata, "version", lambda name: "99")
    assert source_fingerprint("fern.metrics:mse") != before


def test_objects_are_taken_in_a_test_suite(needs: Callable[..., Any]) -> None:
    models = needs("statsforecast", "statsforecast.models")
    assert adapter_of(models.Naive()) is not None
    report = assert_survives(models.Naive(), "OU_PARAM", context_length=24, horizon=6, windows=4, regret=2.0)
    assert report.target == "Naive"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fern.metrics:mse(a=1)", "fern.metrics:mse.*takes no settings; only the classes of a known library do"),
        ("x:f(__import__('os'))", r"x:f.*: settings \(__import__\('os'\)\): need names and plain values"),
        ("x:f(a=open('secret'))", "need names and plain values"),
        ("x:f(a=1", "has brackets that do not match"),
        ("x:f(**{'a': 1})", "need names and plain values"),
    ],
)
def test_settings_are_plain_values_and_nothing_is_executed(text: str, message: str) -> None:
    with pytest.raises(FernError, match=message):
        import_object(text)


def test_a_library_that_is_not_there_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "statsforecast"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "statsforecast", None)
    with pytest.raises(
        FernError, match=r"AutoETS: statsforecast is not .*pip install 'fern-forecast\[statsforecast\]'"
    ):
        import_object("statsforecast.models:AutoETS")


def test_names_and_settings_are_told_apart() -> None:
    assert split_settings("Theta(season_length=12, grid=[0.1, None], name='a(b')") == (
        "Theta",
        {"season_length": 12, "grid": [0.1, None], "name": "a(b"},
    )


def test_the_list_says_what_is_installed_and_names_the_extra_of_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "sktime":
            return "9.9"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    done = CliRunner().invoke(app, ["stress", "--list-adapters"])
    assert done.exit_code == 0 and done.stdout.strip() == as_text()
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert {adapter.package for adapter in ADAPTERS} <= lines.keys()
    assert "9.9" in lines["sktime"]
    for adapter in ADAPTERS:
        if adapter.package != "sktime":
            assert f"no: pip install 'fern-forecast[{adapter.package}]'" in lines[adapter.package]


def test_the_benchmark_runs_forecasters_of_other_libraries_beside_ours(
    needs: Callable[..., Any], tmp_path: Any
) -> None:
    needs("statsforecast")
    needs("sktime")
    outside = ["statsforecast.models:AutoETS(model='ANN')", "sktime.forecasting.naive:NaiveForecaster"]
    task = tmp_path / "small.toml"
    task.write_text(
        'schema = 1\nmodels = ["last-value"]\ndatasets = [{ dataset = "OU_PARAM", steps = 600 }]\n'
        "context_length = 24\nhorizons = [6]\nseeds = [7]\n"
    )
    words = ["bench", "run", str(task), "--out", str(tmp_path / "runs"), "--jobs", "1"]
    done = CliRunner().invoke(app, [*words, *(word for text in outside for word in ("--with", text))])
    assert done.exit_code == 0, done.output
    from fern.benchmark import Store

    rows = {row.model: row for row in Store(tmp_path / "runs").contents().results}
    assert set(rows) == {"last-value", *outside}
    assert all(row.status == "done" for row in rows.values())
    # A naive forecast of the library is the last value, on the very same windows.
    assert np.isclose(rows[outside[1]].metrics["mse"], rows["last-value"].metrics["mse"])

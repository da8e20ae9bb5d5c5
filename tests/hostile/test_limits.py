"""Limits that are said: how far a forecast reaches, how equal two are, what a page runs."""

import re
import time
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.benchmark.support import row_for, tiny_plan
from tests.contracts.test_models import oscillators, small
from tests.errors import raises_error
from tests.hostile.support import run

from fern.benchmark.store import Store
from fern.forecaster import FernForecaster
from fern.models import model_names

pytestmark = pytest.mark.filterwarnings("ignore::fern.forecaster.FernWarning")

DAYS = pd.date_range("2024-01-01", periods=90, freq="D")
FERN = Path(__file__).parents[1] / "forecaster" / "fixtures" / "fern"
SIZES = {"context": 50, "horizon": 24, "channels": 3}
TOLERANCE = 1e-6
"""Of the size of a series' values: forecasts of one series and of many differ by rounding alone; see the docs."""


@pytest.fixture(scope="module")
def panel() -> pd.DataFrame:
    """Twelve series of five sizes."""
    rng = np.random.default_rng(0)
    week = np.sin(2 * np.pi * np.arange(90) / 7)
    values = [10.0 ** (k % 5) * (5 + week + 0.2 * rng.standard_normal(90)) for k in range(12)]
    names = [f"s{k}" for k in range(12)]
    return pd.DataFrame(
        {"unique_id": np.repeat(names, 90), "ds": np.tile(DAYS, 12), "y": np.concatenate(values).astype(np.float64)}
    )


@pytest.fixture(scope="module")
def linear(panel: pd.DataFrame) -> FernForecaster:
    return FernForecaster(4, model="dlinear", epochs=1, context_length=8, progress="silent", threads=1).fit(panel)


# --- one at a time and all together ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dlinear", "fern", "updated"])
def test_one_series_is_forecast_as_it_is_among_others(kind: str, panel: pd.DataFrame, linear: FernForecaster) -> None:
    forecaster = FernForecaster.load(FERN) if kind == "fern" else linear
    if kind == "updated":
        early = panel["ds"] < DAYS[84]
        forecaster = FernForecaster(4, model="dlinear", epochs=1, context_length=8, progress="silent", threads=1)
        forecaster.fit(panel[early]).update(panel[~early & (panel["unique_id"] != "s3")])
        assert len(forecaster._require_fitted().online) == 11
    together = forecaster.predict(panel, level=[80])
    for name, rows in panel.groupby("unique_id"):
        alone = forecaster.predict(rows, level=[80]).drop(columns=["unique_id", "ds"]).to_numpy()
        beside = together[together["unique_id"] == name].drop(columns=["unique_id", "ds"]).to_numpy()
        np.testing.assert_allclose(alone, beside, rtol=0, atol=TOLERANCE * np.abs(rows["y"]).max())


@pytest.mark.filterwarnings("ignore:polymap. .* windows had values held:RuntimeWarning")
@pytest.mark.parametrize("name", model_names())
def test_a_model_forecasts_a_window_as_it_does_among_others(name: str) -> None:
    model, past = small(name, **SIZES), oscillators(windows=9, **SIZES)[0]
    together = model(past)
    for k in (0, 4, 8):
        alone = model(past[k : k + 1])
        tolerance = {"rtol": 0, "atol": TOLERANCE * float(past.abs().max())}
        torch.testing.assert_close(alone.mean, together.mean[k : k + 1], **tolerance)
        if alone.ellipsoid is not None:
            torch.testing.assert_close(alone.stddev, together.stddev[k : k + 1], **tolerance)


# --- very long horizons ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [4001, 10**6, 10**30])
def test_steps_beyond_a_thousand_horizons_are_refused_at_once(
    steps: int, linear: FernForecaster, panel: pd.DataFrame
) -> None:
    panel.to_parquet("rows.parquet")
    calls = [
        lambda: linear.predict(h=steps),
        lambda: linear.predict(h=steps, level=[80]),
        lambda: linear.simulate(h=steps, n_paths=2),
        lambda: linear.plot(h=steps),
        lambda: linear.report(h=steps),
        lambda: linear.predict_file("rows.parquet", "out.parquet", h=steps),
    ]
    for call in calls:
        began = time.process_time()
        with raises_error("h", got=steps):
            call()
        assert time.process_time() - began < 5.0
    assert [path.name for path in Path().iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize(("progress", "lines"), [("auto", 1), ("silent", 0)])
def test_a_forecast_that_takes_long_tells_how_far_it_is(
    progress: Any, lines: int, linear: FernForecaster, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr("fern.training.logging.QUIET", 0.0)
    told = copy(linear).set_params(progress=progress)
    told.predict(h=40)
    told.simulate(h=40, n_paths=2)
    said = capsys.readouterr().err
    assert said.count("step 8 of 40") == 2 * lines and ("s left" in said) == bool(lines)


def test_a_long_horizon_of_a_short_series_is_forecast() -> None:
    rows = pd.DataFrame({"ds": np.arange(9), "y": np.arange(9.0)})
    assert len(FernForecaster(10**5, progress="silent").fit(rows).predict()) == 10**5


# --- what a page runs -----------------------------------------------------------------------------------------

SCRIPTS = (
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'//",
    '"><img src=x onerror=1>',
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_models_name_in_a_result_is_text_on_the_page(name: str, capsys: Any) -> None:
    pages = {}
    for folder, model in {"honest": "someone", "forged": name}.items():
        store = Store(folder).for_writing()
        errors = {key: np.linspace(0.5, 1.5, 40, dtype=np.float32) for key in ("mse", "mae")}
        for run_, shown in zip(tiny_plan(models=["dlinear", "last-value"]).runs, (model, "plain"), strict=True):
            row = row_for(run_, model=shown, dataset=f"{model} data", task=model, metrics={"mse": 1.0, "mae": 1.0})
            store.write(row, errors)
        ran = run("report", folder, "-o", f"{folder}.html", capsys=capsys)
        assert ran.code == 0, ran.err
        pages[folder] = Path(f"{folder}.html").read_text()
    for tag in ("<script", "</script", "<img"):
        assert len(re.findall(tag, pages["forged"])) == len(re.findall(tag, pages["honest"])), tag
    assert "owned" not in name or "owned" in pages["forged"]

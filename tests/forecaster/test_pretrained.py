"""`FernForecaster(pretrained=True)`: no training, series of any length, calibrated where rows can be held out."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.errors import raises_error

from fern.forecaster import FernForecaster
from fern.forecaster.combination import Blend
from fern.models.pretrained.network import read_weights
from fern.models.pretrained.tuning import tune_network


def hourly(series=3, rows=600, seed=1):
    rng = np.random.default_rng(seed)
    hours = np.arange(rows)
    parts = [
        pd.DataFrame(
            {
                "unique_id": f"s{i}",
                "ds": pd.date_range("2024-01-01", periods=rows, freq="h"),
                "y": 10 * (i + 1) + (i + 1) * np.sin(2 * np.pi * hours / 24) + 0.1 * rng.normal(size=rows),
            }
        )
        for i in range(series)
    ]
    return pd.concat(parts, ignore_index=True)


def test_a_seasonal_table_is_forecast_without_training():
    frame = hourly()
    truth = frame.groupby("unique_id").tail(48)["y"].to_numpy()
    past = frame.groupby("unique_id").head(552)
    forecaster = FernForecaster(horizon=48, pretrained=True).fit(past)
    answer = forecaster.predict(level=[80])
    assert answer.columns.tolist() == [
        "unique_id",
        "ds",
        "PretrainedFern",
        "PretrainedFern-lo-80",
        "PretrainedFern-hi-80",
    ]
    season = np.abs(past.groupby("unique_id").tail(24)["y"].std())
    assert np.abs(answer["PretrainedFern"].to_numpy() - truth).mean() < 0.5 * season
    inside = (truth >= answer["PretrainedFern-lo-80"].to_numpy()) & (truth <= answer["PretrainedFern-hi-80"].to_numpy())
    assert 0.6 < inside.mean() <= 1.0
    assert any("nothing was trained" in note for note in forecaster.notes_)


def test_short_series_are_forecast_too_and_without_a_warning():
    frame = pd.concat(
        [hourly(1, rows=400), hourly(1, rows=12).assign(unique_id="short"), hourly(1, rows=3).assign(unique_id="tiny")]
    )
    forecaster = FernForecaster(horizon=6, pretrained=True).fit(frame)
    answer = forecaster.predict(level=[80])
    assert set(answer["unique_id"]) == {"s0", "short", "tiny"}
    assert np.isfinite(answer.drop(columns=["unique_id", "ds"]).to_numpy()).all()


def test_a_single_short_series_is_enough():
    frame = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=24, freq="MS"), "sales": np.arange(24.0)})
    answer = FernForecaster(horizon=6, pretrained=True).fit(frame).predict()
    assert (answer["sales"] > 18).all()


def test_it_is_what_the_registered_model_says_and_survives_saving(tmp_path):
    frame = hourly(2, rows=300)
    forecaster = FernForecaster(horizon=12, pretrained=True).fit(frame)
    named = FernForecaster(horizon=12, model="fern-pretrained").fit(frame)
    expected = forecaster.predict(quantiles=[0.1, 0.5])
    pd.testing.assert_frame_equal(named.predict(quantiles=[0.1, 0.5]), expected)
    forecaster.save(tmp_path / "saved")
    pd.testing.assert_frame_equal(FernForecaster.load(tmp_path / "saved").predict(quantiles=[0.1, 0.5]), expected)


def test_totals_paths_and_longer_horizons_work():
    forecaster = FernForecaster(horizon=12, pretrained=True).fit(hourly(2, rows=300))
    assert len(forecaster.predict(h=30)) == 60
    assert forecaster.simulate(n_paths=5).shape[0] == 2 * 5 * 12
    assert np.isfinite(forecaster.total(level=80)["PretrainedFern"]).all()


def test_a_fit_takes_seconds_and_not_minutes():
    began = time.process_time()
    FernForecaster(horizon=24, pretrained=True).fit(hourly(20, rows=400))
    assert time.process_time() - began < 20


@pytest.mark.parametrize("settings", [{"pretrained": "yes"}, {"pretrained": True, "model": "dlinear"}])
def test_what_makes_no_sense_is_refused(settings):
    with raises_error(argument="pretrained"):
        FernForecaster(horizon=3, **settings).fit(hourly(1, rows=60))


def test_a_tuned_network_is_saved_and_loaded_with_the_forecaster(tmp_path):
    frame = hourly(series=4, rows=300)
    forecaster = FernForecaster(horizon=12, epochs=1, progress="silent").fit(frame)
    state = forecaster._require_fitted()
    rows = [values["y"].to_numpy() for _, values in frame.groupby("unique_id")]
    partner = replace(state.combination.partner, network=tune_network(read_weights()[0], rows, 12, seed=0, steps=3))
    plain = forecaster.predict(level=[80])
    forecaster._state = replace(
        state, combination=replace(state.combination, partner=partner, learnt=Blend(0.25, share=0.9))
    )
    made = forecaster.predict(level=[80])
    assert np.abs(made["Fern"] - plain["Fern"]).max() > 1e-6
    forecaster.save(tmp_path / "saved")
    pd.testing.assert_frame_equal(FernForecaster.load(tmp_path / "saved").predict(level=[80]), made)


@pytest.mark.slow
def test_a_default_fit_tunes_the_network_where_held_out_windows_gain():
    frame = hourly(series=8, rows=500)
    frame["y"] = frame["y"] * (1 + 0.5 * (frame.groupby("unique_id").cumcount() % 24 == 7))  # a peak each morning
    forecaster = FernForecaster(horizon=12, progress="silent").fit(frame)
    assert any("tuned" in note for note in forecaster.notes_)
    again = FernForecaster(horizon=12, progress="silent").fit(frame)
    pd.testing.assert_frame_equal(forecaster.predict(level=[80]), again.predict(level=[80]))

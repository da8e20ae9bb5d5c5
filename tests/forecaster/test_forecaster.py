"""The door most people come through: five lines from a frame to a forecast with intervals."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fern.errors import FernError
from fern.forecaster import FernForecaster, FernWarning

QUICK: dict[str, Any] = {"epochs": 3, "progress": "silent", "threads": 1}


def test_air_passengers_are_forecast_a_year_ahead(air: pd.DataFrame) -> None:
    forecaster = FernForecaster(horizon=12, progress="silent", threads=1)
    forecaster.fit(air.iloc[:-12])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FernWarning)  # 132 rows cannot support 95 %: told in a test of its own
        forecast = forecaster.predict(level=[80, 95])
    assert forecast.columns.tolist() == [
        *("unique_id", "ds", "Fern", "Fern-lo-80", "Fern-hi-80", "Fern-lo-95", "Fern-hi-95")
    ]
    assert forecast["ds"].tolist() == air["ds"].iloc[-12:].tolist()
    truth = air["y"].to_numpy()[-12:]
    naive = np.abs(air["y"].to_numpy()[-24:-12] - truth).mean()
    assert np.abs(forecast["Fern"].to_numpy() - truth).mean() < naive  # better than last year, repeated
    low, mean, high = (forecast[column].to_numpy() for column in ("Fern-lo-95", "Fern", "Fern-hi-95"))
    assert ((low < mean) & (mean < high)).all()


def test_a_panel_of_unequal_lengths_keeps_its_order_and_its_scales(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    forecast = fitted.predict(level=[80])
    assert forecast["unique_id"].drop_duplicates().tolist() == ["zeta", "alpha", "mid"]
    for name, rows in forecast.groupby("unique_id"):
        own = panel.loc[panel["unique_id"] == name]
        assert rows["ds"].iloc[0] == own["ds"].iloc[-1] + pd.Timedelta(days=1)
        assert abs(rows["Fern"].mean() - own["y"].mean()) < 2 * own["y"].std()


def test_a_polars_frame_with_a_time_zone_comes_back_as_one() -> None:
    stamps = pd.date_range("2021-03-20", periods=300, freq="h", tz="Europe/Berlin")
    frame = pl.from_pandas(pd.DataFrame({"when": stamps, "load": np.sin(np.arange(300) / 4).astype(np.float32)}))
    forecast = FernForecaster(horizon=24, **QUICK).fit(frame).predict()
    assert isinstance(forecast, pl.DataFrame)
    assert forecast.schema == frame.schema
    assert forecast["when"][0] - frame["when"][-1] == pd.Timedelta(hours=1)


def test_a_wide_table_of_seven_loads_is_forecast_four_days_ahead(published_path: Callable[[str], Path]) -> None:
    frame = pd.read_csv(published_path("ETTh1"), parse_dates=["date"])
    known, coming = frame.iloc[13_000:14_000], frame.iloc[14_000:14_096]
    forecast = FernForecaster(horizon=96, **{**QUICK, "epochs": 1}).fit(known).predict(level=[80])
    loads = frame.columns[1:].tolist()
    assert forecast.columns.tolist() == [
        "date",
        *(f"{load}{end}" for load in loads for end in ("", "-lo-80", "-hi-80")),
    ]
    assert forecast["date"].tolist() == coming["date"].tolist()
    ours = (forecast[loads].to_numpy() - coming[loads].to_numpy()) / known[loads].std().to_numpy()
    last = (known[loads].to_numpy()[-1] - coming[loads].to_numpy()) / known[loads].std().to_numpy()
    assert np.abs(ours).mean() < np.abs(last).mean()  # better than repeating the last row


def test_hundreds_of_short_series_are_forecast_together() -> None:
    rng = np.random.default_rng(0)
    rows = 40
    values = rng.normal(size=(200, 1)) * 100 + np.sin(np.arange(rows) * 2 * np.pi / 7) * rng.uniform(1, 9, (200, 1))
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{i}" for i in range(200)], rows),
            "ds": np.tile(pd.date_range("2022-01-01", periods=rows, freq="D"), 200),
            "y": values.reshape(-1),
        }
    )
    forecast = FernForecaster(horizon=7, **{**QUICK, "epochs": 1}).fit(frame).predict(level=[80])
    assert len(forecast) == 1400
    assert forecast["unique_id"].drop_duplicates().tolist() == frame["unique_id"].drop_duplicates().tolist()
    truth = values[:, :1] * 0 + frame["y"].to_numpy().reshape(200, rows)
    errors = np.abs(forecast["Fern"].to_numpy().reshape(200, 7) - truth.mean(axis=1, keepdims=True))
    assert np.median(errors) < 20


def test_a_wide_frame_is_continued_column_by_column() -> None:
    time = np.arange(400)
    frame = pd.DataFrame({"t": time, "a": np.sin(time / 9), "b": 1e6 + 50 * np.cos(time / 5)})
    forecast = FernForecaster(horizon=10, **QUICK).fit(frame).predict(level=[80])
    assert forecast.columns.tolist() == ["t", "a", "a-lo-80", "a-hi-80", "b", "b-lo-80", "b-hi-80"]
    assert forecast["t"].tolist() == list(range(400, 410))
    assert forecast["b"].between(1e6 - 200, 1e6 + 200).all()


def test_levels_nest_and_quantiles_never_cross(fitted: FernForecaster) -> None:
    forecast = fitted.predict(level=[50, 80])
    assert (forecast["Fern-lo-80"] <= forecast["Fern-lo-50"]).all()
    assert (forecast["Fern-hi-80"] >= forecast["Fern-hi-50"]).all()
    shares = [0.1, 0.25, 0.5, 0.75, 0.9]
    quantiles = fitted.predict(quantiles=shares)[[f"Fern-ql{share:g}" for share in shares]].to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()


def test_fewer_steps_are_a_slice_and_more_are_rolled_on(fitted: FernForecaster) -> None:
    whole, short, long = (fitted.predict(h=h, level=[80]) for h in (None, 3, 20))
    first = short.groupby("unique_id", sort=False).head(3).reset_index(drop=True)
    expected = whole.groupby("unique_id", sort=False).head(3).reset_index(drop=True)
    pd.testing.assert_frame_equal(first, expected)
    assert len(long) == 60
    pd.testing.assert_frame_equal(
        long.groupby("unique_id", sort=False).head(7).reset_index(drop=True), whole.reset_index(drop=True)
    )
    assert np.isfinite(long.drop(columns=["unique_id", "ds"]).to_numpy()).all()
    width = (long["Fern-hi-80"] - long["Fern-lo-80"]).to_numpy().reshape(3, 20)
    assert (width > 0).all()


def test_new_series_are_forecast_without_a_refit(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    new = panel.loc[panel["unique_id"] == "mid"].assign(unique_id="new", y=lambda rows: 40 * rows["y"] + 3)
    forecast = fitted.predict(new, quantiles=[0.1, 0.9])
    old = fitted.predict(panel.loc[panel["unique_id"] == "mid"])
    assert forecast["unique_id"].unique().tolist() == ["new"]
    # Another scale is taken from the rows given, so that the forecasts agree but for the rows the scale is from.
    np.testing.assert_allclose(forecast["Fern"], 40 * old["Fern"] + 3, atol=0.02)


def test_paths_have_the_columns_of_nixtla_and_depend_on_the_seed_alone(fitted: FernForecaster) -> None:
    paths = fitted.simulate(n_paths=50, seed=7)
    assert paths.columns.tolist() == ["unique_id", "ds", "sample_id", "Fern"]
    assert len(paths) == 3 * 50 * 7
    pd.testing.assert_frame_equal(paths, fitted.simulate(n_paths=50, seed=7))
    assert not paths["Fern"].equals(fitted.simulate(n_paths=50, seed=8)["Fern"])
    middle = paths.groupby(["unique_id", "ds"], sort=False)["Fern"].mean().to_numpy()
    forecast = fitted.predict(level=[80])
    assert (np.abs(middle - forecast["Fern"]) < (forecast["Fern-hi-80"] - forecast["Fern-lo-80"])).all()


def test_the_interval_of_a_total_is_not_the_total_of_intervals(fitted: FernForecaster) -> None:
    total = fitted.total(level=[80])
    assert total.columns.tolist() == ["unique_id", "ds", "steps", "Fern", "Fern-lo-80", "Fern-hi-80"]
    assert total["steps"].tolist() == [7, 7, 7]
    forecast = fitted.predict(level=[80])
    sums = forecast.groupby("unique_id", sort=False)[["Fern", "Fern-lo-80", "Fern-hi-80"]].sum()
    np.testing.assert_allclose(total["Fern"], sums["Fern"], rtol=1e-6, atol=1e-6)  # float32 steps of size 1 cancel
    width = (total["Fern-hi-80"] - total["Fern-lo-80"]).to_numpy()
    assert (width > 0).all()
    assert (width < (sums["Fern-hi-80"] - sums["Fern-lo-80"]).to_numpy()).all()  # errors partly cancel


def test_totals_by_period_follow_the_calendar(panel: pd.DataFrame) -> None:
    forecaster = FernForecaster(horizon=40, **QUICK).fit(panel.loc[panel["unique_id"] == "mid"])
    months = forecaster.total(by="month", how="mean")
    forecast = forecaster.predict()
    by_hand = forecast.groupby(forecast["ds"].dt.to_period("M"))["Fern"].agg(["mean", "size"])
    np.testing.assert_allclose(months["Fern"], by_hand["mean"], rtol=1e-6)
    assert months["steps"].tolist() == by_hand["size"].tolist()


def test_cross_validation_forecasts_rows_that_the_model_has_not_seen(panel: pd.DataFrame) -> None:
    forecaster = FernForecaster(horizon=7, **QUICK)
    frame = forecaster.cross_validation(panel, n_windows=3, step_size=5, level=[80])
    assert frame.columns.tolist() == ["unique_id", "ds", "cutoff", "Fern", "Fern-lo-80", "Fern-hi-80", "y"]
    assert len(frame) == 3 * 3 * 7
    merged = frame.merge(panel, on=["unique_id", "ds"], suffixes=("", "-true"))
    assert (merged["y"] == merged["y-true"]).all()
    assert frame["unique_id"].drop_duplicates().tolist() == ["zeta", "alpha", "mid"]
    steps = (frame["ds"] - frame["cutoff"]).dt.days.to_numpy().reshape(9, 7)
    assert (steps == np.arange(1, 8)).all()
    with pytest.raises(FernError, match="not fitted yet"):
        forecaster.predict()


def test_any_registered_model_gets_calibrated_intervals(panel: pd.DataFrame) -> None:
    forecast = FernForecaster(horizon=7, model="dlinear", **QUICK).fit(panel).predict(level=[80])
    assert forecast.columns.tolist() == ["unique_id", "ds", "DLinear", "DLinear-lo-80", "DLinear-hi-80"]
    assert (forecast["DLinear-lo-80"] < forecast["DLinear-hi-80"]).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 15, 30])
def test_a_short_series_is_forecast_by_classical_models_and_told_so(rows: int) -> None:
    frame = pd.DataFrame({"ds": pd.date_range("2020", periods=rows, freq="D"), "y": np.arange(rows) % 7})
    forecaster = FernForecaster(horizon=9, **QUICK).fit(frame)
    forecast = forecaster.predict(level=[80])
    assert len(forecast) == 9
    assert (forecast["y-lo-80"] <= forecast["y-hi-80"]).all()
    assert sum("classical models forecast every series" in note for note in forecaster.notes_) == 1


def test_a_level_that_the_data_cannot_support_is_told(air: pd.DataFrame) -> None:
    forecaster = FernForecaster(horizon=12, classical=False, **QUICK).fit(air)
    with pytest.warns(FernWarning, match="99 %"):
        forecaster.predict(level=[99])


def test_a_constant_series_has_a_finite_forecast() -> None:
    frame = pd.DataFrame({"ds": pd.date_range("2020", periods=200, freq="D"), "y": 5.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FernWarning)
        forecast = FernForecaster(horizon=5, **QUICK).fit(frame).predict(level=[80])
    assert np.isfinite(forecast[["y", "y-lo-80", "y-hi-80"]].to_numpy()).all()
    np.testing.assert_allclose(forecast["y"], 5.0, atol=0.5)


def test_the_estimator_contract_of_scikit_learn_holds() -> None:
    forecaster = FernForecaster(horizon=3, seed=5)
    assert forecaster.get_params()["seed"] == 5
    copy = FernForecaster(**forecaster.get_params())
    assert copy.get_params() == forecaster.get_params()
    assert forecaster.set_params(horizon=4).horizon == 4
    with pytest.raises(FernError, match="unknown parameter 'horizn': did you mean 'horizon'"):
        forecaster.set_params(horizn=3)
    assert repr(forecaster) == "FernForecaster(horizon=4, seed=5)"


def test_nothing_is_checked_before_fit() -> None:
    assert FernForecaster(horizon=-3).horizon == -3


def test_the_same_seed_gives_the_same_forecast(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    again = FernForecaster(horizon=7, epochs=4, progress="silent", threads=1).fit(panel)
    pd.testing.assert_frame_equal(again.predict(level=[80]), fitted.predict(level=[80]))


def test_a_fitted_forecaster_holds_the_newest_rows_and_not_the_table(fitted: FernForecaster) -> None:
    state = fitted._require_fitted()
    assert all(one.values.base is None for one in state.recent)
    assert state.findings is not None
    for profiled in state.findings.profiled:
        assert profiled.stamps is not None
        assert profiled.stamps.buffers()[1].size == 8 * len(profiled.stamps)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_answers_are_of_the_kind_that_came_in(fitted: FernForecaster, panel: pd.DataFrame, kind: str) -> None:
    kinds = {"pandas": lambda f: f, "polars": pl.from_pandas, "pyarrow": lambda f: pa.Table.from_pandas(f)}
    frame = kinds[kind](panel)
    assert type(fitted.predict(frame)) is type(frame)

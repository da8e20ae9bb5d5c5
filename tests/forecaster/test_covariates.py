"""Covariates: what they are worth, what they cost, and every way to get them wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.errors import raises_error

from fern import FernForecaster
from fern.forecaster import predict_file
from fern.forecaster.kernel_part import KernelPart
from fern.forecaster.save import pack_forecaster
from fern.forecaster.saved_state import join_state, split_state
from fern.models.kernel_regression import KernelRegressionConfig

H, ROWS = 6, 260


def driven(rows: int = ROWS + H, *, seed: int = 0, name: str = "a", noise: float = 0.3) -> pd.DataFrame:
    """y_t = 0.5 y_{t-1} + 2 x_t + noise, with x known ahead."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    y = np.zeros(rows)
    for t in range(1, rows):
        y[t] = 0.5 * y[t - 1] + 2.0 * x[t] + noise * rng.standard_normal()
    return pd.DataFrame(
        {"unique_id": name, "ds": pd.date_range("2024-01-01", periods=rows, freq="D"), "y": 20 + y, "x": x}
    )


def forecaster(**settings) -> FernForecaster:
    return FernForecaster(
        H, **{"model": "dlinear", "epochs": 1, "progress": "silent", "futr_exog_list": ["x"], **settings}
    )


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.concat([driven(), driven(seed=1, name="b")], ignore_index=True)


@pytest.fixture(scope="module")
def past(frame) -> pd.DataFrame:
    return frame.groupby("unique_id").head(ROWS).reset_index(drop=True)


@pytest.fixture(scope="module")
def future(frame) -> pd.DataFrame:
    return frame.groupby("unique_id").tail(H).drop(columns="y").reset_index(drop=True)


@pytest.fixture(scope="module")
def fitted(past) -> FernForecaster:
    return forecaster().fit(past)


@pytest.fixture(scope="module")
def plain(past) -> FernForecaster:
    """Fitted without the column."""
    return forecaster(futr_exog_list=None, ignore_columns=True).fit(past)


def test_a_known_driver_brings_the_error_near_the_noise():
    frame = driven(1500)
    made = forecaster().cross_validation(frame, n_windows=8)
    plain = forecaster(futr_exog_list=None, ignore_columns=True).cross_validation(frame, n_windows=8)
    error, without = (np.sqrt(np.square(rows["DLinear"] - rows["y"]).mean()) for rows in (made, plain))
    oracle = 0.3 * np.sqrt(np.mean([sum(0.25**k for k in range(h)) for h in range(1, H + 1)]))  # knows the equation
    assert error < 1.25 * oracle < 0.5 * without


def test_the_forecast_follows_the_future_frame(fitted, future):
    up, down = (fitted.predict(futr_df=future.assign(x=value))["DLinear"] for value in (1.0, -1.0))
    assert (up - down > 2.0).all()


def test_the_effect_of_a_column_does_not_depend_on_how_much_history_is_kept(frame):
    calm = frame[frame["unique_id"] == "a"].copy()
    calm.loc[calm.index[: ROWS // 2], "y"] *= 3.0  # the early rows are wilder than the newest ones
    model = forecaster(futr_exog_list=["x"]).fit(calm.head(ROWS))
    state = model._require_fitted()
    # A kernel regression learns from what is kept: the ridge regression's effect is meant.
    model._state = state = replace(state, covariates=replace(state.covariates, kernels=()))
    kept = replace(
        state,
        recent=tuple(replace(one, values=one.values[-100:], covariates=one.covariates[-100:]) for one in state.recent),
    )
    up, down = calm.tail(H).drop(columns="y").assign(x=1.0), calm.tail(H).drop(columns="y").assign(x=0.0)
    whole = model.compare(up, down)["DLinear"]
    model._state = kept
    np.testing.assert_allclose(model.compare(up, down)["DLinear"], whole, rtol=1e-6)


def test_rows_of_the_future_may_come_in_any_order(fitted, future):
    shuffled = future.sample(frac=1.0, random_state=0)
    pd.testing.assert_frame_equal(fitted.predict(futr_df=shuffled), fitted.predict(futr_df=future))


def test_polars_and_pandas_agree(fitted, past, future):
    made = forecaster().fit(pl.from_pandas(past)).predict(futr_df=pl.from_pandas(future))
    np.testing.assert_allclose(made["DLinear"].to_numpy(), fitted.predict(futr_df=future)["DLinear"], rtol=1e-6)


def test_saved_and_loaded_it_forecasts_the_same(fitted, future, tmp_path):
    fitted.save(tmp_path / "model")
    again = FernForecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.predict(futr_df=future, level=[80]), fitted.predict(futr_df=future, level=[80]))
    pd.testing.assert_frame_equal(again.importance(), fitted.importance())
    two = (future, future.assign(x=0.0))
    pd.testing.assert_frame_equal(again.compare(*two), fitted.compare(*two), rtol=1e-4)  # kept in single precision


def test_a_kernel_of_an_earlier_version_is_read_without_what_it_no_longer_has(fitted):
    state = fitted._require_fitted()
    part = KernelPart(KernelRegressionConfig(horizon=H, season=1), np.ones(H), 0.5, 1.0, 3)
    channels = len(state.channel_names)
    plain, arrays = split_state(replace(state, covariates=replace(state.covariates, kernels=(part,) * channels)))
    plain = json.loads(json.dumps(plain))
    for kernel in plain["covariates"]["kernels"]:
        del kernel["config"]["drift"], kernel["config"]["memory"]
        kernel["config"] |= {"half_life": 1000.0, "penalty": 0.2}
    read = join_state(plain, arrays, state.model)
    assert [one.config for one in read.covariates.kernels] == [replace(part.config, penalty=0.2)] * channels
    kernel["config"]["half_lives"] = 3.0
    with raises_error("covariates.kernels.0.config.half_lives"):
        join_state(plain, arrays, state.model)


def test_intervals_paths_and_totals_have_the_covariates_too(fitted, future):
    up, down = future.assign(x=1.0), future.assign(x=-1.0)
    interval = [fitted.predict(futr_df=rows, level=[80]) for rows in (up, down)]
    assert (interval[0]["DLinear-lo-80"] > interval[1]["DLinear-lo-80"]).all()
    paths = [fitted.simulate(futr_df=rows, n_paths=20)["DLinear"].mean() for rows in (up, down)]
    totals = [fitted.total(futr_df=rows)["DLinear"].mean() for rows in (up, down)]
    assert paths[0] > paths[1] and totals[0] > totals[1]


def test_a_comparison_is_the_difference_of_two_forecasts(fitted, future):
    up, down = future.assign(x=1.0), future.assign(x=-1.0)
    difference = fitted.compare(up, down)
    expected = fitted.predict(futr_df=up)["DLinear"] - fitted.predict(futr_df=down)["DLinear"]
    np.testing.assert_allclose(difference["DLinear"], expected)
    assert (difference["DLinear-lo-80"] <= difference["DLinear"] + 1e-9).all()
    assert (fitted.compare(up, up).iloc[:, 2:] == 0).to_numpy().all()


def test_the_interval_of_a_comparison_is_wide_where_the_effect_is_hard_to_tell(fitted, past, future):
    noisy = past.assign(y=past["y"] + 2.0 * np.random.default_rng(3).standard_normal(len(past)))
    sizes = []
    for model in (fitted, forecaster().fit(noisy)):
        difference = model.compare(future.assign(x=1.0), future.assign(x=0.0))
        sizes.append((difference["DLinear-hi-80"] - difference["DLinear-lo-80"]).mean())
    assert sizes[1] > 3 * sizes[0] > 0


@pytest.mark.slow
def test_eighty_percent_of_comparisons_hold_the_true_effect():
    held, repetitions, steps = [], 100, 4
    truth = 2.0 * np.cumsum(0.5 ** np.arange(steps))
    for seed in range(repetitions):
        rows = driven(500 + steps, seed=seed, noise=1.0)
        model = FernForecaster(steps, model="last-value", futr_exog_list=["x"], progress="silent").fit(rows[:-steps])
        ahead = rows[-steps:].drop(columns="y")
        made = model.compare(ahead.assign(x=1.0), ahead.assign(x=0.0))
        held.append((made["LastValue-lo-80"] <= truth) & (truth <= made["LastValue-hi-80"]))
    # Steps of a repetition are dependent, so at worst each repetition counts once: three binomial deviations.
    assert abs(np.mean(held) - 0.8) < 3 * np.sqrt(0.8 * 0.2 / repetitions)


def test_the_frame_to_fill_in_has_a_row_for_each_step(fitted, future):
    empty = fitted.make_future_dataframe()
    assert empty.columns.tolist() == ["unique_id", "ds", "x"]
    pd.testing.assert_frame_equal(empty[["unique_id", "ds"]], future[["unique_id", "ds"]], check_dtype=False)
    assert len(fitted.missing_future(future)) == 0
    assert len(fitted.missing_future(future.iloc[2:])) == 2
    assert len(fitted.missing_future(empty)) == 2 * H


def test_importance_names_the_column_that_matters(past):
    rng = np.random.default_rng(5)
    table = (
        forecaster(futr_exog_list=["x", "noise"]).fit(past.assign(noise=rng.standard_normal(len(past)))).importance()
    )
    assert table["covariate"].tolist()[0] == "x"
    assert table["importance"][0] > 10 * abs(table["importance"][1])


def test_columns_of_noise_cost_little(past):
    rng = np.random.default_rng(6)
    noise = {f"n{k}": rng.standard_normal(len(past)) for k in range(10)}
    plain, noisy = (
        forecaster(futr_exog_list=columns).cross_validation(
            past.assign(**noise)[["unique_id", "ds", "y", *columns]], n_windows=6
        )
        for columns in (["x"], ["x", *noise])
    )
    error = [np.abs(rows["DLinear"] - rows["y"]).mean() for rows in (plain, noisy)]
    assert error[1] < 1.3 * error[0] < 0.45  # from 254 rows; the values themselves deviate by about 2


def test_covariates_that_gain_less_than_their_noise_leave_the_forecast_as_it_is(past, future, monkeypatch):
    monkeypatch.setattr("fern.forecaster.covariates._measure_gain", lambda held, blend: (0.01, 0.02))
    fitted = forecaster().fit(past)
    assert fitted._require_fitted().covariates.blend.weight == 0
    plain = forecaster(futr_exog_list=None).fit(past.drop(columns="x"))
    pd.testing.assert_frame_equal(fitted.predict(futr_df=future, level=[80]), plain.predict(level=[80]))


def test_past_columns_need_no_future(past):
    made = forecaster(futr_exog_list=None, hist_exog_list=["x"]).fit(past).predict()
    assert len(made) == 2 * H and np.isfinite(made["DLinear"]).all()


def test_static_columns_may_be_in_a_frame_of_their_own(past):
    statics = pd.DataFrame({"unique_id": ["a", "b"], "size": [1.0, 2.0], "region": ["north", "south"]})
    settings = {"futr_exog_list": None, "stat_exog_list": ["size", "region"]}
    apart = forecaster(**settings).fit(past.drop(columns="x"), static_df=statics).predict()
    inside = forecaster(**settings).fit(past.drop(columns="x").merge(statics, on="unique_id")).predict()
    pd.testing.assert_frame_equal(apart, inside)


def test_booleans_and_categories_are_covariates(frame):
    promo = frame["x"] > 0
    table = frame.assign(promo=promo, kind=np.where(promo, "high", "low")).drop(columns="x")
    past, future = table.groupby("unique_id").head(ROWS), table.groupby("unique_id").tail(H).drop(columns="y")
    model = forecaster(futr_exog_list=["promo", "kind"]).fit(past)
    up, down = (
        model.predict(futr_df=future.assign(promo=value, kind="high" if value else "low"))["DLinear"].mean()
        for value in (True, False)
    )
    assert up > down
    unseen = model.predict(futr_df=future.assign(kind="never seen"))
    assert np.isfinite(unseen["DLinear"]).all()


def test_update_takes_the_columns_along(frame):
    first, later = (
        frame.groupby("unique_id").head(ROWS - 10),
        frame.groupby("unique_id").head(ROWS).groupby("unique_id").tail(10),
    )
    model = forecaster().fit(first).update(later)
    future = frame.groupby("unique_id").tail(H).drop(columns="y")
    assert model.make_future_dataframe()["ds"].min() == future["ds"].min()
    assert np.isfinite(model.predict(futr_df=future)["DLinear"]).all()


def test_without_covariates_nothing_changes(past, monkeypatch):
    """No regression is fitted nor asked, and columns that are left aside do not move a single bit."""
    for place in ("fit.fit_covariates", "covariates.fit_lag_regression", "predict.covariate_rows"):
        monkeypatch.delattr(f"fern.forecaster.{place}")
    plain = FernForecaster(H, epochs=1, progress="silent").fit(past.drop(columns="x"))
    beside = FernForecaster(H, epochs=1, progress="silent", ignore_columns=True).fit(past)
    assert plain._require_fitted().covariates is None and plain.notes_[1:] == beside.notes_[1:]
    made = [one.predict(level=[80]) for one in (plain, beside)]
    pd.testing.assert_frame_equal(*made, check_exact=True)


def test_a_wide_frame_has_covariates_too(frame):
    wide = frame[frame["unique_id"] == "a"].drop(columns="unique_id")
    model = forecaster().fit(wide.head(ROWS))
    made = model.predict(futr_df=wide.tail(H).drop(columns="y"))
    assert made.columns.tolist() == ["ds", "y"]


# --- bad input: (what is wrong, the argument that the error names) --------------------------------------------------

BAD_SETTINGS = [
    ({"futr_exog_list": ["z"]}, "futr_exog_list"),
    ({"futr_exog_list": ["X"]}, "futr_exog_list"),
    ({"futr_exog_list": "z"}, "futr_exog_list"),
    ({"futr_exog_list": 3}, "futr_exog_list"),
    ({"futr_exog_list": [3]}, "futr_exog_list"),
    ({"futr_exog_list": [""]}, "futr_exog_list"),
    ({"futr_exog_list": {"x"}}, "futr_exog_list"),
    ({"futr_exog_list": ["y"]}, "futr_exog_list"),
    ({"futr_exog_list": ["unique_id"]}, "futr_exog_list"),
    ({"futr_exog_list": ["x", "x"]}, "futr_exog_list, hist_exog_list, stat_exog_list"),
    ({"hist_exog_list": ["x"]}, "futr_exog_list, hist_exog_list, stat_exog_list"),
    ({"stat_exog_list": ["x"]}, "futr_exog_list, hist_exog_list, stat_exog_list"),
    ({"futr_exog_list": None, "hist_exog_list": ["z"]}, "hist_exog_list"),
    ({"futr_exog_list": None, "hist_exog_list": "y"}, "hist_exog_list"),
    ({"futr_exog_list": None, "hist_exog_list": 1.5}, "hist_exog_list"),
    ({"futr_exog_list": None, "stat_exog_list": ["z"]}, "stat_exog_list"),
    ({"futr_exog_list": None, "stat_exog_list": ["x"]}, "stat_exog_list"),
    ({"futr_exog_list": None, "stat_exog_list": [None]}, "stat_exog_list"),
    ({"calendar": "yes"}, "calendar"),
    ({"calendar": 2}, "calendar"),
    ({"holidays": 47}, "holidays"),
    ({"holidays": ["NO"]}, "holidays"),
]


@pytest.mark.parametrize(("settings", "argument"), BAD_SETTINGS)
def test_wrong_settings_are_refused(past, settings, argument):
    with raises_error(argument):
        forecaster(**settings).fit(past)


BAD_COLUMNS = [
    ("dates", lambda n: pd.date_range("2020-01-01", periods=n)),
    ("durations", lambda n: pd.to_timedelta(np.arange(n), unit="D")),
    ("bytes", lambda n: [b"a"] * n),
    ("lists", lambda n: [[1]] * n),
    ("text", lambda n: [f"note {k}" for k in range(n)]),
    ("infinity", lambda n: np.r_[np.inf, np.zeros(n - 1)]),
    ("minus infinity", lambda n: np.r_[np.zeros(n - 1), -np.inf]),
    ("a hole", lambda n: np.r_[np.zeros(n - 1), np.nan]),
    ("nothing", lambda n: np.full(n, np.nan)),
    ("a hole in text", lambda n: ["a"] * (n - 1) + [None]),
    ("no text", lambda n: pd.array([None] * n, dtype="string")),
]


@pytest.mark.parametrize("make", [make for _, make in BAD_COLUMNS], ids=[name for name, _ in BAD_COLUMNS])
@pytest.mark.parametrize("kind", ["futr_exog_list", "hist_exog_list"])
def test_columns_that_cannot_be_covariates_are_refused(past, make, kind):
    rows = past[past["unique_id"] == "a"].assign(x=make(ROWS))
    with raises_error():
        forecaster(**{"futr_exog_list": None, kind: ["x"]}).fit(rows)


BAD_FUTURES = [
    ("nothing given", lambda f: None),
    ("no rows", lambda f: f.head(0)),
    ("one step short", lambda f: f.groupby("unique_id").head(H - 1)),
    ("a step in the middle missing", lambda f: f.drop(index=2)),
    ("a series missing", lambda f: f[f["unique_id"] == "a"]),
    ("another series", lambda f: f.assign(unique_id="c")),
    ("other days", lambda f: f.assign(ds=f["ds"] + pd.Timedelta(days=40))),
    ("hours", lambda f: f.assign(ds=f["ds"] + pd.Timedelta(hours=1))),
    ("the past", lambda f: f.assign(ds=f["ds"] - pd.Timedelta(days=40))),
    ("a stamp twice", lambda f: pd.concat([f, f.head(1)])),
    ("a hole", lambda f: f.assign(x=np.r_[np.nan, np.zeros(len(f) - 1)])),
    ("infinity", lambda f: f.assign(x=np.inf)),
    ("text", lambda f: f.assign(x="high")),
    ("dates", lambda f: f.assign(x=f["ds"])),
    ("no known column", lambda f: f.drop(columns="x")),
    ("no time column", lambda f: f.drop(columns="ds")),
    ("no identifier", lambda f: f.drop(columns="unique_id")),
    ("a misspelt column", lambda f: f.rename(columns={"x": "X"})),
    ("a column too many", lambda f: f.assign(z=1.0)),
    ("times that are numbers", lambda f: f.assign(ds=np.tile(np.arange(H), 2))),
    ("times that are no times", lambda f: f.assign(ds="soon")),
    ("a number", lambda f: 3),
    ("a list", lambda f: [1, 2, 3]),
]


@pytest.mark.parametrize("change", [change for _, change in BAD_FUTURES], ids=[name for name, _ in BAD_FUTURES])
def test_a_future_that_lacks_something_is_refused(fitted, future, change):
    with raises_error() as caught:
        fitted.predict(futr_df=change(future))
    assert "futr_df" in (caught.value.argument + caught.value.where) or "frame" in str(caught.value)


BAD_STATICS = [
    ("no identifier", pd.DataFrame({"size": [1.0, 2.0]})),
    ("a series missing", pd.DataFrame({"unique_id": ["a"], "size": [1.0]})),
    ("two values for one series", pd.DataFrame({"unique_id": ["a", "a", "b"], "size": [1.0, 2.0, 3.0]})),
    ("a hole", pd.DataFrame({"unique_id": ["a", "b"], "size": [1.0, np.nan]})),
    ("no such column", pd.DataFrame({"unique_id": ["a", "b"], "area": [1.0, 2.0]})),
    ("dates", pd.DataFrame({"unique_id": ["a", "b"], "size": pd.date_range("2020", periods=2)})),
]


@pytest.mark.parametrize("statics", [frame for _, frame in BAD_STATICS], ids=[name for name, _ in BAD_STATICS])
def test_static_columns_that_are_wrong_are_refused(past, statics):
    with raises_error():
        forecaster(futr_exog_list=None, stat_exog_list=["size"]).fit(past.drop(columns="x"), static_df=statics)


def test_static_frames_and_future_frames_that_nobody_asked_for_are_refused(past, plain, future):
    with raises_error("static_df"):
        forecaster().fit(past, static_df=pd.DataFrame({"unique_id": ["a"]}))
    with raises_error("futr_df"):
        plain.predict(futr_df=future)


def test_a_longer_horizon_has_no_known_columns(fitted, future):
    with raises_error():
        fitted.predict(futr_df=future, h=2 * H)


def test_fewer_steps_are_the_first_of_all(fitted, future):
    whole, few = (fitted.predict(futr_df=future, h=h, level=[80]) for h in (H, 2))
    pd.testing.assert_frame_equal(few, whole.groupby("unique_id").head(2).reset_index(drop=True))
    paths = fitted.simulate(futr_df=future, h=2, n_paths=3)
    assert len(paths) == 2 * 3 * 2


def test_a_file_has_covariates_as_a_frame_has(past, fitted, future):
    past.to_csv("sales.csv", index=False)
    made = forecaster().fit("sales.csv").predict(futr_df=future)
    np.testing.assert_allclose(made["DLinear"], fitted.predict(futr_df=future)["DLinear"], rtol=1e-5)


def test_a_plot_and_a_report_show_the_future_that_is_given(fitted, future):
    assert fitted.plot(futr_df=future).axes
    assert "Forecast" in str(fitted.report(futr_df=future))


def test_the_command_line_takes_known_columns_and_their_future(past, future, tmp_path, fern):
    past.to_csv(tmp_path / "past.csv", index=False)
    future.to_csv(tmp_path / "future.csv", index=False)
    settings = ["--horizon", str(H), "--model", "dlinear", "--epochs", "1", "--known", "x"]
    rows = tmp_path / "past.csv"
    made = fern("forecast", rows, "--future", tmp_path / "future.csv", "--out", tmp_path / "out.csv", *settings)
    assert made.code == 0, made.err
    assert len(pd.read_csv(tmp_path / "out.csv")) == 2 * H
    without = fern("forecast", rows, *settings)
    assert without.code == 2 and "--future" in without.err
    assert fern("forecast", rows, "--future", tmp_path / "none.csv", *settings).code == 2


# --- files, Ray, importance and the report ---------------------------------------------------------------------------


@pytest.fixture
def files(past, future, tmp_path, monkeypatch) -> Path:
    """A folder with the past and what is known ahead."""
    monkeypatch.chdir(tmp_path)
    past.to_parquet("past.parquet", row_group_size=90)
    future.sample(frac=1.0, random_state=0).to_parquet("future.parquet", row_group_size=5)
    return tmp_path


@pytest.mark.parametrize("series_at_once", [1, 512])
def test_a_file_of_many_series_takes_the_future_of_each(files, fitted, past, future, monkeypatch, series_at_once):
    monkeypatch.setattr(predict_file, "SERIES_AT_ONCE", series_at_once)
    assert fitted.predict_file("past.parquet", "out.parquet", futr_df="future.parquet", level=[80]) == 2 * H
    expected = fitted.predict(past, futr_df=future, level=[80])
    pd.testing.assert_frame_equal(pd.read_parquet("out.parquet"), expected, rtol=1e-5)


def test_past_and_static_columns_of_a_file_need_no_future(files, past):
    settings = {"futr_exog_list": None, "hist_exog_list": ["x"], "stat_exog_list": ["size"]}
    rows = past.assign(size=np.where(past["unique_id"] == "a", 1.0, 2.0))
    model = forecaster(**settings).fit(rows)
    rows.to_parquet("sized.parquet")
    model.predict_file("sized.parquet", "out.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet("out.parquet"), model.predict(rows), rtol=1e-5)


BAD_FUTURE_FILES = [
    ("none given", None),
    ("no such file", "nowhere.parquet"),
    ("the file to write", "out.parquet"),
    ("no known column", lambda f: f.drop(columns="x")),
    ("no identifier", lambda f: f.drop(columns="unique_id")),
    ("a series missing", lambda f: f[f["unique_id"] == "a"]),
    ("a step missing", lambda f: f.drop(index=3)),
    ("a hole", lambda f: f.assign(x=np.r_[np.nan, np.zeros(len(f) - 1)])),
    ("text", lambda f: f.assign(x="high")),
    ("no rows", lambda f: f.head(0)),
]


@pytest.mark.parametrize("change", [change for _, change in BAD_FUTURE_FILES], ids=[n for n, _ in BAD_FUTURE_FILES])
def test_a_future_file_that_lacks_something_is_refused_and_nothing_is_written(files, fitted, future, change):
    path = change
    if callable(change):
        path = "wrong.parquet"
        change(future).to_parquet(path)
    with raises_error() as caught:
        fitted.predict_file("past.parquet", "out.parquet", futr_df=path)
    assert "futr_df" in caught.value.argument + caught.value.where
    assert not Path("out.parquet").exists()


def test_a_future_file_that_nobody_asked_for_and_one_that_is_none_are_refused(files, fitted, plain):
    with raises_error("futr_df"):
        plain.predict_file("past.parquet", "out.parquet", futr_df="future.parquet")
    Path("text.parquet").write_text("load, wind")
    with raises_error():
        fitted.predict_file("past.parquet", "out.parquet", futr_df="text.parquet")


def test_a_node_of_a_cluster_has_the_future_of_its_series(files, fitted, past, future):
    request = {"h": None, "level": [80], "quantiles": None, "id_col": "unique_id"}
    schema = pq.ParquetFile("past.parquet").schema_arrow.remove_metadata().serialize().to_pybytes()
    item = pa.table({"path": ["past.parquet"], "first": [0], "rows": [len(past)], "schema": [schema]})
    files = pack_forecaster(fitted)
    actor = predict_file.Actor(FernForecaster, files, {**request, "future": "future.parquet"})
    made = predict_file._unpack(actor(item).to_pylist()[0]).to_pandas()
    pd.testing.assert_frame_equal(made, fitted.predict(past, futr_df=future, level=[80]), rtol=1e-5)
    without = predict_file.Actor(FernForecaster, files, {**request, "future": None})
    with raises_error():
        predict_file._unpack(without(item).to_pylist()[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_gives_the_rows_of_the_local_engine(files, fitted, needs):
    needs("ray", "ray.data")
    for engine in ("local", "ray"):
        fitted.predict_file("past.parquet", f"{engine}.parquet", futr_df="future.parquet", engine=engine)
    pd.testing.assert_frame_equal(pd.read_parquet("ray.parquet"), pd.read_parquet("local.parquet"), rtol=1e-5)


def test_importance_is_drawn_and_on_the_page(fitted, plain, future):
    table, drawn = fitted.importance(), fitted.plot_importance()
    assert len(drawn.axes[0].patches) == len(table) == 1
    page = str(fitted.report(futr_df=future))
    assert 'id="covariates"' in page and "importance-figure" in page
    assert len(plain.importance()) == 0 and 'id="covariates"' not in str(plain.report())
    with raises_error():
        plain.plot_importance()


def test_the_report_of_the_command_line_shows_the_covariates(files, fern):
    settings = ["--horizon", str(H), "--model", "dlinear", "--epochs", "1", "--known", "x"]
    made = fern("report", "forecast", "past.parquet", "--future", "future.parquet", "-o", "page.html", *settings)
    assert made.code == 0, made.err
    assert 'id="covariates"' in Path("page.html").read_text()
    assert fern("report", "forecast", "past.parquet", "-o", "page.html", *settings).code == 2
    assert fern("report", "forecast", "past.parquet", "--future", "no.csv", "-o", "page.html", *settings).code == 2


def test_static_columns_tell_two_groups_apart_that_have_too_little_past():
    """One group rises, the other falls by half a unit a day, in noise of 14: 26 rows of a new series hardly show it."""
    rng, frames, learnt, new = np.random.default_rng(0), [], 40, 30
    groups = np.arange(learnt + new) % 2
    for number, group in enumerate(groups):
        rows = 80 if number < learnt else 26
        y = 50 + 10 * rng.random() + (group - 0.5) * np.arange(rows) + 14 * rng.standard_normal(rows)
        stamps = pd.date_range("2024-01-01", periods=rows, freq="D")
        own = {"unique_id": f"s{number:02d}", "ds": stamps, "y": y, "group": "up" if group else "down"}
        frames.append(pd.DataFrame(own))
    known, unknown = pd.concat(frames[:learnt]), pd.concat(frames[learnt:])
    right = []
    for settings in ({"stat_exog_list": ["group"]}, {"ignore_columns": True}):
        model = FernForecaster(H, model="last-value", progress="silent", season=1, **settings).fit(known)
        ahead = model.predict(unknown).groupby("unique_id")["LastValue"].last()
        rises = ahead > unknown.groupby("unique_id")["y"].mean()
        right.append((rises == groups[learnt:]).mean())
    assert right[0] > 0.9 and right[1] < 0.75


def levels_by_group(rows: int, series: int, *, seed: int) -> pd.DataFrame:
    """Two groups that rise or fall by a unit a day in noise of 3: few rows do not show which."""
    rng, frames = np.random.default_rng(seed), []
    for number in range(series):
        group = number % 2
        y = 100 + (2 * group - 1) * np.arange(rows) + 3 * rng.standard_normal(rows)
        stamps = pd.date_range("2024-01-01", periods=rows, freq="D")
        own = {"unique_id": f"s{seed}-{number:02d}", "ds": stamps, "y": y, "group": "up" if group else "down"}
        frames.append(pd.DataFrame(own))
    return pd.concat(frames)


@pytest.mark.parametrize(("learnt", "new"), [(80, 1), (80, 3), (20, 3)], ids=["one row", "three rows", "all short"])
def test_static_columns_tell_series_apart_that_are_shorter_than_the_context(learnt, new, tmp_path):
    fitted = FernForecaster(H, model="last-value", progress="silent", season=1, stat_exog_list=["group"])
    fitted.fit(levels_by_group(learnt, 40, seed=1))
    short = levels_by_group(new, 20, seed=2)
    made = fitted.predict(short)
    change = made.groupby("unique_id")["LastValue"].last() - short.groupby("unique_id")["y"].last()
    group = short.groupby("unique_id")["group"].first()
    assert (change[group == "up"].mean() > 2) and (change[group == "down"].mean() < -2)
    fitted.save(tmp_path / "saved")
    pd.testing.assert_frame_equal(FernForecaster.load(tmp_path / "saved").predict(short), made)

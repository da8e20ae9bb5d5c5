"""Backtests are scored beside seasonal naive and classical forecasts, on rows that the forecaster has not seen."""

import numpy as np
import pandas as pd
import pytest
from tests.errors import raises_error

from fern import FernForecaster
from fern.data import read_frame
from fern.forecaster.scores import keep_levels, list_quantiles, score_backtest


def make_table(rows=140, *, start="2024-01-01"):
    t = np.arange(rows)
    noise = np.random.default_rng(0).normal(size=(2, rows))
    return pd.DataFrame(
        {
            "ds": pd.date_range(start, periods=rows),
            "a": 10 + 3 * np.sin(2 * np.pi * t / 7) + 0.1 * noise[0],
            "b": 50 + noise[1],
        }
    )


def make_forecaster(**changes):
    return FernForecaster(7, model="last-value", progress="silent", **changes)


def backtest(frame, *, levels=(80,), n_windows=3):
    quantiles = list(list_quantiles(levels))
    rows = make_forecaster().cross_validation(frame, n_windows=n_windows, quantiles=quantiles)
    import pyarrow as pa

    table = read_frame(frame)
    rows = pa.Table.from_pandas(rows, preserve_index=False)
    return rows, table, score_backtest(rows, table, levels=levels, horizon=7, step=7, season=7, name="last-value")


@pytest.mark.filterwarnings("ignore")
def test_every_method_is_scored_on_the_same_steps():
    frame = make_table()
    rows, _, result = backtest(frame)
    assert [score.name for score in result.methods] == ["last-value", "seasonal naive", "classical"]
    assert {score.steps for score in result.methods} == {3 * 7 * 2}
    truth = frame[["a", "b"]].to_numpy()[-21:]
    naive = np.concatenate([frame[["a", "b"]].to_numpy()[140 - start - 7 : 140 - start] for start in (21, 14, 7)])
    assert result.methods[1].mae == pytest.approx(np.abs(truth - naive).mean())
    assert result.methods[0].mae == pytest.approx(
        np.mean([np.abs(rows[name].to_numpy() - rows[f"{name}-y"].to_numpy()).mean() for name in ("a", "b")])
    )


@pytest.mark.filterwarnings("ignore")
def test_mase_is_scaled_by_seasonal_naive_in_the_rows_before_the_windows():
    frame = make_table()
    _, _, result = backtest(frame)
    before = frame[["a", "b"]].to_numpy()[:-21]
    scale = np.abs(before[7:] - before[:-7]).mean(axis=0)
    parts = {score.name: score for score in result.parts}
    assert parts["a"].mase == pytest.approx(parts["a"].mae / scale[0])
    assert result.methods[0].mase == pytest.approx((parts["a"].mase + parts["b"].mase) / 2)


@pytest.mark.filterwarnings("ignore")
def test_a_verdict_says_who_is_better_by_how_much_over_how_many_windows():
    _, _, result = backtest(make_table())
    ours, naive, _ = result.methods
    assert ours.mase > naive.mase
    assert f"worse than seasonal naive (season 7) by {ours.mase / naive.mase - 1:.0%}" in result.verdict
    assert "3 windows" in result.verdict
    assert result.to_dict()["verdict"] == result.verdict


@pytest.mark.filterwarnings("ignore")
def test_a_series_that_never_changes_has_no_mase():
    frame = make_table().assign(a=1.0, b=2.0)
    _, _, result = backtest(frame)
    assert result.methods[0].mase is None
    assert "as good as" in result.verdict


@pytest.mark.filterwarnings("ignore")
def test_kept_levels_replace_the_quantiles():
    rows, table, _ = backtest(make_table(), levels=(80, 95))
    names = keep_levels(rows, table, levels=[80, 95]).column_names
    assert names[:2] == ["ds", "cutoff"]
    assert names[2:7] == ["a", "a-lo-80", "a-hi-80", "a-lo-95", "a-hi-95"]


@pytest.mark.filterwarnings("ignore")
def test_a_fitted_forecaster_is_not_scored_on_rows_that_it_has_seen():
    frame = make_table()
    forecaster = make_forecaster().fit(frame.head(120))
    with raises_error("n_windows") as caught:
        forecaster.cross_validation(frame, n_windows=3, use_fitted=True)
    assert "enough for 2 windows" in str(caught.value)
    assert len(forecaster.cross_validation(frame, n_windows=2, use_fitted=True)) == 14
    with raises_error("n_windows"):
        forecaster.cross_validation(frame.head(120), use_fitted=True)


@pytest.mark.filterwarnings("ignore")
def test_another_series_of_the_same_dates_may_be_forecast_by_a_fitted_forecaster():
    frame = make_table()
    forecaster = make_forecaster().fit(frame)
    other = frame.assign(a=frame["a"] * 2, b=frame["b"] + 5)
    assert len(forecaster.cross_validation(other, n_windows=2, use_fitted=True)) == 14


@pytest.mark.filterwarnings("ignore")
def test_rows_without_a_time_column_count_from_the_first():
    frame = make_table().drop(columns="ds")
    forecaster = make_forecaster().fit(frame.head(130))
    with raises_error("n_windows"):
        forecaster.cross_validation(frame, n_windows=2, use_fitted=True)
    assert len(forecaster.cross_validation(frame, n_windows=1, use_fitted=True)) == 7

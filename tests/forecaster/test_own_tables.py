"""Tables as people have them, from the first call to the forecast: dates, identifiers, rows, calendars."""

import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.errors import raises_error

from fern import FernForecaster, FernWarning

NAIVE: dict[str, Any] = {"horizon": 4, "model": "last-value", "progress": "silent"}


def fit(frame: Any, **settings: Any) -> FernForecaster:
    return FernForecaster(**{**NAIVE, **settings}).fit(frame)


@pytest.fixture
def said(recwarn: pytest.WarningsRecorder) -> Callable[[], list[str]]:
    """What was said so far."""
    return lambda: [str(one.message) for one in recwarn.list if issubclass(one.category, FernWarning)]


def daily(days: pd.DatetimeIndex) -> pd.DataFrame:
    return pd.DataFrame({"date": days, "sales": 20.0 + np.arange(len(days)) % 6})


def regions() -> pd.DataFrame:
    days = pd.date_range("2024-01-01", periods=40)
    parts = [
        pd.DataFrame({"region": region, "store": store, "date": days, "sales": 10.0 * store + np.arange(40) % 7})
        for region, store in product(("north", "south"), (1, 2))
    ]
    return pd.concat(parts, ignore_index=True)


# --- rows ---------------------------------------------------------------------------------------------------


def test_unsorted_rows_are_sorted_and_that_is_said_once(said: Callable[[], list[str]]) -> None:
    frame = daily(pd.date_range("2024-01-01", periods=60))
    forecaster = fit(frame.sample(frac=1.0, random_state=0))
    assert ["sorted" in text for text in said()] == [True]
    assert any("sorted" in note for note in forecaster.notes_)
    pd.testing.assert_frame_equal(forecaster.predict(), fit(frame).predict())


def test_a_duplicate_among_unsorted_rows_is_named_by_the_row_as_it_came() -> None:
    frame = daily(pd.date_range("2024-01-01", periods=20)).iloc[[5, *range(19, -1, -1)]]
    with raises_error(where="frame") as caught:
        fit(frame)
    assert "data row 16" in str(caught.value)


@pytest.mark.parametrize("missing", ["error", "interpolate", "ffill", "drop"])
def test_a_series_without_a_value_is_left_out_of_its_panel(missing: str, said: Callable[[], list[str]]) -> None:
    frame = regions().rename(columns={"store": "unique_id"})[["unique_id", "date", "sales", "region"]]
    frame = frame[frame["region"] == "north"].drop(columns="region")
    frame.loc[frame["unique_id"] == 2, "sales"] = np.nan
    forecast = fit(frame, missing=missing).predict()
    assert forecast["unique_id"].unique().tolist() == [1]
    assert any("left out" in text and "'2'" in text for text in said())


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_series_of_few_rows_fails_no_panel(rows: int) -> None:
    frame = regions().query("region == 'north'").drop(columns="region")
    frame = pd.concat([frame, pd.DataFrame({"store": 9, "date": frame["date"][:rows], "sales": 5.0})])
    forecast = fit(frame, id_col="store").predict()
    assert forecast["store"].unique().tolist() == [1, 2, 9]


def test_long_gaps_that_were_filled_are_said_with_length_and_place(said: Callable[[], list[str]]) -> None:
    frame = daily(pd.date_range("2024-01-01", periods=200)).drop(index=range(50, 124))
    forecaster = fit(frame, missing="interpolate")
    (text,) = said()
    assert all(part in text for part in ("74", "2024-02-20", "2024-05-03"))
    assert text in forecaster.notes_


def test_a_short_gap_is_filled_without_a_word(said: Callable[[], list[str]]) -> None:
    fit(daily(pd.date_range("2024-01-01", periods=60)).drop(index=[30, 31]), missing="interpolate")
    assert said() == []


# --- calendars ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("closed", "season"), [((6,), 6), ((0,), 6), ((4, 5), 5)], ids=["Sunday", "Monday", "Friday"])
def test_a_shop_that_is_closed_on_some_weekdays_has_the_calendar_of_the_others(
    closed: tuple[int, ...], season: int
) -> None:
    days = pd.date_range("2024-01-01", periods=120)
    forecaster = fit(daily(days[~days.day_of_week.isin(closed)]), horizon=12)
    ahead = forecaster.predict()["date"]
    every = pd.date_range(days[-1] + pd.Timedelta(days=1), periods=30)
    assert ahead.tolist() == every[~every.day_of_week.isin(closed)][:12].tolist()
    assert forecaster._require_fitted().season == season
    forecaster.save("saved")
    assert FernForecaster.load("saved").predict()["date"].tolist() == ahead.tolist()


def test_holidays_in_business_days_are_no_missing_rows(said: Callable[[], list[str]]) -> None:
    days = pd.bdate_range("2024-01-01", periods=200)
    kept = days[~days.isin(pd.to_datetime(["2024-03-29", "2024-04-01", "2024-05-01", "2024-07-04"]))]
    forecaster = fit(daily(kept))
    (text,) = said()
    assert "4 days" in text
    assert "2024-03-29" in text
    assert forecaster.predict()["date"].tolist() == pd.bdate_range(days[-1] + pd.offsets.BDay(1), periods=4).tolist()
    past = forecaster.cross_validation(daily(kept), n_windows=2)
    assert len(past) == 8


def test_rows_after_a_holiday_continue_the_series() -> None:
    days = pd.bdate_range("2024-01-01", periods=100)
    forecaster = fit(daily(days))
    newer = pd.bdate_range(days[-1] + pd.offsets.BDay(2), periods=3)  # the first day was a holiday
    assert forecaster.update(daily(newer)).predict()["date"].iloc[0] == newer[-1] + pd.offsets.BDay(1)
    with raises_error(where="frame"):
        forecaster.update(daily(newer))


def test_a_few_rows_have_the_calendar_of_the_fit() -> None:
    days = pd.date_range("2024-01-01", periods=120)
    frame = daily(days[days.day_of_week != 6])
    forecaster = fit(frame)
    assert forecaster.predict(frame.tail(12))["date"].tolist() == forecaster.predict()["date"].tolist()


def test_categories_may_name_the_series() -> None:
    frame = regions().astype({"region": "category", "store": "category"})
    forecast = fit(frame, id_col=["region", "store"]).predict()
    assert forecast["region"].unique().tolist() == ["north", "south"]
    assert fit(frame.drop(columns="region").iloc[:80]).predict().columns[0] == "store"


def test_a_month_without_rows_is_no_holiday() -> None:
    days = pd.bdate_range("2024-01-01", periods=200)
    with raises_error("missing"):
        fit(daily(days[(days.month != 4)]))


# --- dates and numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("freq", "step"), [("M", "1 month"), ("Q", "3 months"), ("Y", "12 months"), ("W", "7 days")])
def test_periods_of_pandas_come_back_as_periods(freq: str, step: str) -> None:
    periods = pd.period_range("1990-01-01", periods=48, freq=freq)
    forecaster = fit(pd.DataFrame({"period": periods, "sales": np.arange(48.0)}))
    ahead = pd.period_range(periods[-1] + 1, periods=4)
    assert forecaster.predict()["period"].tolist() == ahead.tolist()
    assert step in forecaster.notes_[0]
    indexed = fit(pd.DataFrame({"sales": np.arange(48.0)}, index=periods))
    assert indexed.predict().index.tolist() == ahead.tolist()
    forecaster.save("saved")
    assert FernForecaster.load("saved").predict()["period"].tolist() == ahead.tolist()


def test_a_year_is_time_and_not_forecast() -> None:
    forecast = fit(pd.DataFrame({"Year": range(1885, 1964), "Water": np.arange(79.0)})).predict()
    assert forecast.columns.tolist() == ["Year", "Water"]
    assert forecast["Year"].tolist() == [1964, 1965, 1966, 1967]


@pytest.mark.parametrize(
    ("written", "ahead"),
    [
        ([f"{y}Q{q}" for y in range(1990, 2000) for q in range(1, 5)], ["2000Q1", "2000Q2"]),
        ([f"{y}-{m:02d}" for y in range(1990, 1994) for m in range(1, 13)], ["1994-01", "1994-02"]),
        (pd.date_range("2014-01-01", periods=36, freq="MS").strftime("%b-%y").tolist(), ["Jan-17", "Feb-17"]),
        ([f"2019-W{w:02d}" for w in range(1, 51)], ["2019-W51", "2019-W52"]),
        (list(range(1885, 1964)), ["1964", "1965"]),
    ],
    ids=lambda value: str(value[0]),
)
def test_a_file_is_answered_in_its_own_way_to_write_time(
    written: list[Any], ahead: list[str], fern: Callable[..., Any]
) -> None:
    pd.DataFrame({"Period": written, "sales": np.arange(len(written)) * 1.5}).to_csv("own.csv", index=False)
    ran = fern("forecast", "own.csv", "--horizon", 2, "--model", "last-value")
    assert ran.code == 0
    assert [line.split(",")[0] for line in ran.out.splitlines()[1:]] == ahead
    assert "time: Period; target: sales" in ran.err
    assert "--target" in ran.err


def test_price_and_promo_are_asked_for_and_not_forecast(fern: Callable[..., Any]) -> None:
    frame = daily(pd.date_range("2024-01-01", periods=60)).assign(price=2.5, promo=[0, 1] * 30)
    with raises_error("target_col, futr_exog_list, hist_exog_list", where="frame"):
        fit(frame)
    assert fit(frame, target_col="sales", ignore_columns=True).predict().columns.tolist() == ["date", "sales"]
    assert fit(frame, target_col="sales", hist_exog_list=["price", "promo"]).predict().columns[-1] == "sales"
    assert fit(frame, target_col=["sales", "price", "promo"]).predict().columns.tolist()[1:] == [
        "sales", "price", "promo",
    ]  # fmt: skip
    frame.to_csv("shop.csv", index=False)
    ran = fern("forecast", "shop.csv", "--horizon", 3)
    assert ran.code == 2
    assert "--target, --known, --past" in ran.err


# --- several identifiers --------------------------------------------------------------------------------------


def test_series_may_be_named_by_several_columns() -> None:
    forecast = fit(regions(), id_col=["region", "store"]).predict(level=[80])
    assert forecast.columns.tolist()[:3] == ["region", "store", "date"]
    assert forecast["store"].dtype == np.int64
    assert forecast.groupby(["region", "store"]).size().tolist() == [4] * 4
    assert forecast[["region", "store"]].drop_duplicates().to_numpy().tolist() == [
        ["north", 1], ["north", 2], ["south", 1], ["south", 2],
    ]  # fmt: skip


def test_series_of_several_columns_survive_saving_updating_and_scoring() -> None:
    frame = regions()
    forecaster = fit(frame, id_col=["region", "store"])
    expected = forecaster.predict()
    pd.testing.assert_frame_equal(forecaster.predict(frame), expected)
    forecaster.save("saved")
    again = FernForecaster.load("saved")
    pd.testing.assert_frame_equal(again.predict(), expected)
    pd.testing.assert_frame_equal(again.predict(frame), expected)
    assert forecaster.cross_validation(frame).columns.tolist()[:3] == ["region", "store", "date"]
    newer = frame[frame["date"] == frame["date"].max()].assign(date=frame["date"].max() + pd.Timedelta(days=1))
    assert forecaster.update(newer).predict()["date"].min() == newer["date"].max() + pd.Timedelta(days=1)


def test_covariates_of_series_that_several_columns_name() -> None:
    frame = regions().assign(heat=lambda rows: rows["sales"] * 2.0, size=lambda rows: rows["store"] * 100)
    known = {"futr_exog_list": ["heat"], "stat_exog_list": ["size"]}
    forecaster = FernForecaster(4, id_col=["region", "store"], time_limit=1, progress="silent", **known).fit(frame)
    ahead = forecaster.make_future_dataframe()
    assert ahead.columns.tolist() == ["region", "store", "date", "heat"]
    forecast = forecaster.predict(futr_df=ahead.assign(heat=20.0))
    assert forecast.columns.tolist() == ["region", "store", "date", "Fern"]


def test_several_identifiers_from_the_shell(fern: Callable[..., Any]) -> None:
    frame = regions().rename(columns={"store": "size"})
    frame.to_csv("regions.csv", index=False)
    asked = fern("forecast", "regions.csv", "--horizon", 3, "--model", "last-value")
    assert asked.code == 2
    ran = fern("forecast", "regions.csv", "--id", "region,size", "--horizon", 3, "--model", "last-value")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "region,size,date,LastValue"
    assert "series: region / size (4)" in ran.err
    assert fern("clean", "regions.csv", "--id", "region,size", "-o", "clean.csv").code == 0
    assert {"region", "size"} <= {*pd.read_csv("clean.csv").columns}


def test_names_that_hold_the_mark_between_names_are_refused() -> None:
    frame = regions().replace({"region": {"north": "north / east"}})
    with raises_error("id_col", where="frame"):
        fit(frame, id_col=["region", "store"])


def test_columns_called_store_and_item_name_the_series_of_a_frame() -> None:
    frame = regions().assign(item=lambda rows: rows["region"].map({"north": 1, "south": 2})).drop(columns="region")
    forecaster = fit(frame)
    assert forecaster.predict().columns.tolist() == ["store", "item", "date", "LastValue"]
    assert "series: store / item (4)" in forecaster.notes_[0]
    assert "id_col" in forecaster.notes_[0]


def test_a_clean_table_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(daily(pd.date_range("2024-01-01", periods=60)))
    assert not Path("saved").exists()

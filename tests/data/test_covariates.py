"""Covariates as numbers: levels, calendars, and the rows of the future."""

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import raises_error

from fern.data.covariates import Covariates, align_future, calendar_features, encode_columns, learn_encoding
from fern.data.frequency import Frequency

HOUR = 3_600_000_000_000


def stamps(start: str, count: int, unit: str = "D") -> pa.Array:
    return pa.array((np.datetime64(start, unit) + np.arange(count)).astype("datetime64[ns]"))


def test_a_category_has_a_column_for_each_level_and_an_unseen_level_none():
    encoding = learn_encoding(pa.table({"shop": ["a", "b", "a", "b"]}), ["shop"], argument="x", where="frame")
    columns = encode_columns(pa.table({"shop": ["b", "c"]}), encoding, argument="x", where="frame")
    assert {name: values.tolist() for name, values in columns.items()} == {"shop=a": [0, 0], "shop=b": [1, 0]}


def test_booleans_and_numbers_stay_one_column():
    table = pa.table({"promo": [True, False], "price": [1, 2]})
    columns = encode_columns(
        table, learn_encoding(table, ["promo", "price"], argument="x", where=""), argument="x", where=""
    )
    assert {name: values.tolist() for name, values in columns.items()} == {"promo": [1, 0], "price": [1, 2]}


def test_missing_values_stay_missing():
    table = pa.table({"price": [1.0, None], "shop": ["a", None]})
    columns = encode_columns(
        table, learn_encoding(table, ["price", "shop"], argument="x", where=""), argument="x", where=""
    )
    assert np.isnan(columns["price"][1]) and np.isnan(columns["shop=a"][1])


@pytest.mark.parametrize(
    "column",
    [stamps("2020-01-01", 3), pa.array([b"a", b"b", b"c"]), pa.array([[1], [2], [3]]), pa.array([1.0, np.inf, 2.0])],
    ids=["dates", "bytes", "lists", "infinity"],
)
def test_columns_that_are_no_numbers_are_refused(column):
    with raises_error("futr_exog_list"):
        learn_encoding(pa.table({"x": column}), ["x"], argument="futr_exog_list", where="frame")


def test_free_text_is_refused():
    with raises_error("futr_exog_list"):
        learn_encoding(pa.table({"x": [f"note {n}" for n in range(99)]}), ["x"], argument="futr_exog_list", where="")


def test_a_column_has_one_role():
    with raises_error():
        Covariates.of(known=["x"], past=["x"], static=None)
    with raises_error("futr_exog_list"):
        Covariates.of(known=["y"], past=None, static=None).require_in(["ds", "y"], roles={"target": "y"}, where="frame")
    with raises_error("hist_exog_list"):
        Covariates.of(known=None, past=["gsa"], static=None).require_in(["ds", "gas"], roles={}, where="frame")


def test_the_calendar_follows_the_frequency():
    hourly, _ = calendar_features(stamps("2024-01-01", 48, "h"), Frequency("nanosecond", HOUR))
    daily, values = calendar_features(stamps("2024-01-01", 14), Frequency("day", 1))
    yearly, _ = calendar_features(stamps("2024-01-01", 3), Frequency("month", 12))
    assert "hour sin 1" in hourly and "hour sin 1" not in daily and "Monday" in daily
    assert "Monday" not in yearly
    np.testing.assert_array_equal(values[:7, :7], np.eye(7))  # 1 January 2024 was a Monday


def test_integers_have_no_calendar():
    names, values = calendar_features(pa.array([1, 2, 3]), Frequency("integer", 1))
    assert names == () and values.shape == (3, 0)


def test_holidays_have_a_day_before_and_after():
    pytest.importorskip("holidays")
    names, values = calendar_features(stamps("2024-12-22", 8), Frequency("day", 1), country="NO")
    flags = dict(zip(names, values.T, strict=True))
    assert flags["holiday"][3] == 1 and flags["day before a holiday"][2] == 1 and flags["day after a holiday"][5] == 1
    with raises_error("holidays"):
        calendar_features(stamps("2024-12-22", 8), Frequency("day", 1), country="XX")


def future(start: str = "2020-01-01", count: int = 3, values=None):
    numbers = np.arange(count, dtype=np.float64)[:, None] if values is None else values
    return {"a": (stamps(start, count), numbers)}


def test_future_rows_are_put_in_order_and_others_left_out():
    rows = {"a": (stamps("2020-01-01", 5).take(pa.array([4, 2, 3, 1, 0])), np.array([[4.0], [2], [3], [1], [0]]))}
    aligned = align_future(rows, {"a": stamps("2020-01-02", 3)}, columns=["x"])
    assert aligned["a"][:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (future(), {"a": stamps("2020-01-02", 3)}),
        (future(), {"b": stamps("2020-01-01", 3)}),
        (future(values=np.array([[1.0], [np.nan], [2.0]])), {"a": stamps("2020-01-01", 3)}),
        ({"a": (pa.concat_arrays([stamps("2020-01-01", 3)] * 2), np.zeros((6, 1)))}, {"a": stamps("2020-01-01", 3)}),
    ],
    ids=["a step is missing", "a series is missing", "a value is missing", "a stamp is there twice"],
)
def test_a_future_that_lacks_something_is_refused(rows, wanted):
    with raises_error("futr_df"):
        align_future(rows, wanted, columns=["x"])

"""Frames of every kind, wide and long, become the same series and come back as the kind that came in."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from tests.errors import raises_error

from fern.data.cleaning import clean
from fern.data.reading import unwrap
from fern.data.series_table import SeriesTable, read_frame
from fern.data.windows import Windows
from fern.errors import FernError

HOURS = pd.date_range("2020-03-28", periods=48, freq="h")
WIDE = pd.DataFrame({"ds": HOURS, "a": np.arange(48.0), "b": np.arange(48.0) ** 2})
LONG = pd.DataFrame({"unique_id": ["x"] * 30 + ["y"] * 20, "ds": [*HOURS[:30], *HOURS[:20]], "y": np.arange(50.0)})
KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def answered(table: SeriesTable) -> Any:
    """A row after each series, as a frame."""
    names, stamps = [one.name for one in table.series], [one.future(1) for one in table.series]
    return table.frame(names, stamps, {"y": np.zeros(len(names))})


@pytest.mark.parametrize("kind", KINDS)
def test_wide_frames_of_every_kind_are_one_series(kind: str) -> None:
    frame = KINDS[kind](WIDE)
    table = read_frame(frame)
    (series,) = table.series
    assert series.channel_names == ("a", "b")
    np.testing.assert_array_equal(series.values, WIDE[["a", "b"]].to_numpy())
    assert str(table.frequency) == "1 hour"
    answer = table.frame([""], [series.future(2)], {"a": np.zeros(2), "b": np.ones(2)})
    assert type(answer) is type(frame)
    assert pd.DataFrame(unwrap(answer)[0].to_pandas())["ds"].tolist() == [
        pd.Timestamp("2020-03-30 00:00"),
        pd.Timestamp("2020-03-30 01:00"),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_long_frames_of_every_kind_are_many_series(kind: str) -> None:
    shuffled = LONG.iloc[np.argsort(np.arange(50) % 7, kind="stable")].sort_values("ds", kind="stable")
    frame = KINDS[kind](shuffled)
    table = read_frame(frame)
    assert [series.name for series in table.series] == sorted({"x", "y"}, key=list(shuffled["unique_id"]).index)
    by_name = {series.name: series for series in table.series}
    np.testing.assert_array_equal(by_name["y"].values[:, 0], np.arange(30.0, 50))
    answer = answered(table)
    assert type(answer) is type(frame)
    assert list(unwrap(answer)[0].column_names) == ["unique_id", "ds", "y"]
    windows = Windows.over([s.values for s in table.series], context_length=8, horizon=4)
    assert len(windows) == 19 + 9


def test_rows_of_series_may_lie_one_after_the_other_or_mixed() -> None:
    together = pd.DataFrame({"unique_id": list("bbbaaa"), "ds": [1, 2, 3, 1, 2, 3], "y": np.arange(6.0)})
    mixed = together.iloc[[0, 3, 1, 4, 2, 5]]
    for frame in (together, mixed):
        table = read_frame(frame)
        assert [one.name for one in table.series] == ["b", "a"]
        assert [one.values[:, 0].tolist() for one in table.series] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        assert all(one.stamps is not None and one.stamps.to_pylist() == [1, 2, 3] for one in table.series)


@pytest.mark.parametrize(
    "names",
    [
        lambda frame: frame.with_columns(unique_id=pl.Series([1] * 30 + [2] * 20)),
        lambda frame: frame.with_columns(pl.col("unique_id").cast(pl.Categorical)),
        lambda frame: frame.to_pandas().astype({"unique_id": "category"}),
    ],
)
def test_series_names_come_back_in_their_type(names: Callable[[pl.DataFrame], Any]) -> None:
    frame = names(pl.from_pandas(LONG))
    table = read_frame(frame)
    answer = answered(table)
    assert answer["unique_id"].dtype == frame["unique_id"].dtype
    cleaned, _ = clean(frame)
    assert cleaned["unique_id"].dtype == frame["unique_id"].dtype


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "America/New_York"])
@pytest.mark.parametrize("kind", KINDS)
def test_time_zones_survive(kind: str, zone: str) -> None:
    stamps = pd.date_range("2020-03-28", periods=48, freq="h", tz=zone)  # over Berlin's missing hour
    frame = KINDS[kind](pd.DataFrame({"ds": stamps, "a": np.arange(48.0)}))
    table = read_frame(frame)
    assert str(table.frequency) == "1 hour"
    answer = unwrap(table.frame([""], [table.series[0].future(1)], {"a": np.zeros(1)}))[0]
    assert answer["ds"].type.tz == zone
    assert answer["ds"][0].as_py() == stamps[-1] + pd.Timedelta("1h")


@pytest.mark.parametrize("kind", KINDS)
def test_integer_time_counts_on(kind: str) -> None:
    frame = KINDS[kind](pd.DataFrame({"ds": np.arange(0, 100, 5), "a": np.arange(20.0)}))
    table = read_frame(frame)
    answer = unwrap(table.frame([""], [table.series[0].future(2)], {"a": np.zeros(2)}))[0]
    assert answer["ds"].to_pylist() == [100, 105]
    assert pa.types.is_integer(answer["ds"].type)


def test_a_pandas_index_is_the_time_column_and_stays_the_index() -> None:
    frame = WIDE.set_index("ds")
    table = read_frame(frame)
    answer = table.frame([""], [table.series[0].future(1)], {"a": np.zeros(1), "b": np.zeros(1)})
    assert answer.index.tolist() == [pd.Timestamp("2020-03-30")]
    assert answer.index.name == "ds"
    unnamed = read_frame(frame.rename_axis(None))
    again = unnamed.frame([""], [unnamed.series[0].future(1)], {"a": np.zeros(1)})
    assert again.index.name is None
    periods = pd.DataFrame({"a": np.arange(24.0)}, index=pd.period_range("2020-01", periods=24, freq="M"))
    assert str(read_frame(periods).frequency) == "1 month"


def test_pandas_labels_that_are_no_text_come_back() -> None:
    frame = pd.DataFrame({0: np.arange(5.0), 1: np.arange(5.0)}, index=pd.date_range("2020", periods=5))
    table, native = unwrap(frame)
    assert table.column_names == ["index", "0", "1"]
    back = native.wrap(table)
    assert list(back.columns) == [0, 1]
    pd.testing.assert_frame_equal(back, frame, check_freq=False, check_index_type=False)


def test_a_frame_without_time_counts_rows() -> None:
    table = read_frame(pa.table({"a": [1.0, 2.0, 3.0]}))
    assert table.time_col is None
    assert table.series[0].future(2) is None
    assert table.frame([""], [None], {"a": np.zeros(2)}).column_names == ["a"]


def test_text_dates_are_read() -> None:
    table = read_frame(pd.DataFrame({"date": ["31.01.2020", "01.02.2020", "02.02.2020"], "a": [1.0, 2.0, 3.0]}))
    assert str(table.frequency) == "1 day"


def test_gaps_are_breaks_that_windows_do_not_cross() -> None:
    table = read_frame(WIDE.drop(index=[20, 21]))
    (series,) = table.series
    assert series.breaks == (20,)
    windows = Windows(series.values, context_length=4, horizon=4, breaks=series.breaks)
    past, future = windows.gather(torch.arange(len(windows)))
    rows = torch.cat([past, future], dim=1)[..., 0]
    assert (rows.diff(dim=1) == 1).all()
    holidays = pd.DataFrame({"ds": pd.bdate_range("2020-01-01", periods=100).delete([40]), "a": np.arange(99.0)})
    assert read_frame(holidays).series[0].breaks == (40,)


def test_rows_may_be_taken_as_they_come() -> None:
    doubled = WIDE.iloc[[*range(10), 9, *range(10, 48)]]
    with pytest.raises(FernError, match=r"1 duplicate time stamp \(first in data row 11\)"):
        read_frame(doubled)
    table = read_frame(doubled, grid="rows")
    assert len(table.series[0].values) == 49
    assert table.series[0].breaks == ()
    assert str(table.frequency) == "1 hour"


def test_files_are_read_as_frames_are() -> None:
    WIDE.to_csv("wide.csv", index=False)
    np.testing.assert_array_equal(read_frame("wide.csv").series[0].values, read_frame(WIDE).series[0].values)


def test_the_step_can_be_said_where_the_time_column_does_not() -> None:
    integers = pa.table({"t": [0, 1, 2], "a": [1.0, 2.0, 3.0]})
    assert str(read_frame(integers, step=timedelta(minutes=10)).frequency) == "10 minutes"
    with raises_error("step"):
        read_frame(WIDE, step=timedelta(minutes=10))


def mixed() -> pd.DataFrame:
    hours = pd.date_range("2020-01-01", periods=100, freq="h")
    quarters = pd.date_range("2020-02-01", periods=100, freq="15min")
    return pd.DataFrame({"ds": hours.append(quarters), "a": np.arange(200.0)})


def two_frequencies() -> pd.DataFrame:
    days = pd.date_range("2020-01-01", periods=20, freq="D")
    return pd.DataFrame({"unique_id": ["x"] * 20 + ["y"] * 20, "ds": [*days, *HOURS[:20]], "y": np.arange(40.0)})


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "no frame": (lambda: [1, 2], "needs a pandas, polars or pyarrow data frame"),
    "lazy": (lambda: pl.LazyFrame({"a": [1.0]}), r"collected one"),
    "a pandas series": (lambda: pd.Series([1.0]), "needs a pandas, polars or pyarrow data frame"),
    "duplicates": (lambda: WIDE.iloc[[0, 1, 1, *range(2, 48)]], "1 duplicate time stamp"),
    "mixed": (mixed, "mixed frequencies"),
    "two frequencies": (two_frequencies, "mixed frequencies: series 'x' steps by 1 day, series 'y' by 1 hour"),
    "all missing": (lambda: WIDE.assign(b=np.nan), "column 'b' has no values"),
    "missing": (lambda: WIDE.assign(b=[np.nan, *range(47)]), r"column 'b' has 1 missing .*data row 1\)"),
    "infinite": (lambda: WIDE.assign(b=[1.0, np.inf, *range(46)]), r"1 missing or infinite .*data row 2\)"),
    "text": (lambda: WIDE.assign(b="x"), "'b' is neither identifier, time nor target"),
    "one row": (lambda: WIDE.iloc[:1], "at least 2"),
    "no rows": (lambda: WIDE.iloc[:0], "no rows"),
    "empty series name": (lambda: LONG.assign(unique_id=[None, *LONG["unique_id"][1:]]), "1 empty series names"),
    "doubled column": (lambda: pd.concat([WIDE, WIDE[["a"]]], axis=1), "'a' appears 2 times"),
    "two-level index": (lambda: WIDE.set_index(["ds", "a"]), "MultiIndex"),
    "kinds in one column": (lambda: WIDE.assign(b=[1, "x", *range(46)]), "mixed types|holds text"),
}


@pytest.mark.parametrize("case", BAD)
def test_frames_that_are_no_series_are_refused_with_the_reason(case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(FernError, match=message):
        read_frame(make())


def test_an_unknown_grid_is_refused() -> None:
    with raises_error("grid"):
        read_frame(WIDE, grid="row")


def _with_holes() -> pd.DataFrame:
    frame = WIDE.astype({"a": float, "b": float}).drop(index=[10, 11])
    frame.loc[20, "a"] = np.nan
    frame.loc[47, "b"] = np.nan
    return frame


def test_missing_values_are_refused_with_their_place_and_the_remedy() -> None:
    with pytest.raises(FernError, match=r"'a' has 1 missing.*data row 19.*'interpolate'"):
        read_frame(_with_holes())


@pytest.mark.parametrize(("rule", "at_10", "at_20"), [("interpolate", 10.0, 20.0), ("ffill", 9.0, 19.0)])
def test_filling_completes_values_and_time_grid(rule: str, at_10: float, at_20: float) -> None:
    (series,) = read_frame(_with_holes(), missing=rule).series  # type: ignore[arg-type]
    assert series.values.shape == (48, 2)
    assert series.breaks == ()
    assert [stamp.as_py() for stamp in series.stamps] == HOURS.to_pydatetime().tolist()
    assert (series.values[10, 0], series.values[20, 0]) == (at_10, at_20)
    assert series.values[47, 1] == 46.0**2  # at the end the nearest value


def test_dropped_rows_leave_breaks() -> None:
    (series,) = read_frame(_with_holes(), missing="drop").series
    assert len(series.values) == 44
    assert series.breaks == (10, 18)


def test_gaps_on_a_calendar_are_filled_with_its_own_stamps() -> None:
    months = pd.date_range("2020-01-31", periods=8, freq="ME")
    frame = pd.DataFrame({"ds": months, "a": np.arange(8.0)}).drop(index=[3])
    (series,) = read_frame(frame, missing="interpolate").series
    assert [stamp.as_py() for stamp in series.stamps] == months.to_pydatetime().tolist()
    assert series.values[3, 0] == 3.0


def test_an_unknown_rule_for_missing_values_is_answered_with_the_nearest() -> None:
    with pytest.raises(FernError, match="did you mean 'interpolate'"):
        read_frame(WIDE, missing="interpolat")  # type: ignore[arg-type]

"""Cleaning changes what the policy says and logs it; nothing else changes, and nothing in place."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error

from fern.data.auditing.audit import audit
from fern.data.auditing.policy import Policy
from fern.data.cleaning import clean
from fern.data.datasets import load_dataset
from fern.data.series_table import read_frame
from fern.data.splits import Part
from fern.data.windows import Windows
from fern.errors import FernError

HOURS = pd.date_range("2020-01-01", periods=1000, freq="h")
KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def frame(**holes: list[tuple[slice, float]]) -> pd.DataFrame:
    columns = {}
    for name, places in holes.items():
        values = np.arange(1000.0) + 1
        for place, value in places:
            values[place] = value
        columns[name] = values
    return pd.DataFrame({"ds": HOURS, **columns})


@pytest.mark.parametrize("kind", KINDS)
def test_the_cleaned_frame_is_of_the_kind_that_came_in_and_that_one_is_unchanged(kind: str) -> None:
    dirty = KINDS[kind](frame(a=[(slice(5, 7), 0.0)]))
    before = pl.from_pandas(frame(a=[(slice(5, 7), 0.0)])).clone()
    cleaned, _ = clean(dirty)
    assert type(cleaned) is type(dirty)
    assert np.asarray(cleaned["a"])[4:8].tolist() == [5.0, 5.0, 5.0, 8.0]
    assert np.asarray(dirty["a"]).tolist() == before["a"].to_list()


def test_short_zero_runs_are_filled_forwards_and_at_the_start_backwards() -> None:
    cleaned, log = clean(frame(a=[(slice(0, 3), 0.0), (slice(10, 12), 0.0)]))
    assert cleaned["a"][:4].tolist() == [4.0, 4.0, 4.0, 4.0]
    assert cleaned["a"][9:13].tolist() == [10.0, 10.0, 10.0, 13.0]
    assert [(c.action, c.first_row, c.last_row, c.was, c.now) for c in log.changes] == [
        ("fill", 0, 2, 0.0, 4.0),
        ("fill", 10, 11, 0.0, 10.0),
    ]
    assert log.changes[1].first_stamp == "2020-01-01 10:00:00"


def test_rows_of_long_zero_runs_go_for_every_column() -> None:
    cleaned, log = clean(frame(a=[(slice(100, 104), 0.0)], b=[]))
    assert len(cleaned) == 996
    assert 101.0 not in cleaned["b"].tolist()
    assert log.rows_deleted == 4
    assert log.columns("delete rows") == ["a"]
    assert str(cleaned["ds"].iloc[100]) == "2020-01-05 08:00:00"


def test_a_hole_beside_a_deleted_run_is_filled_from_true_values() -> None:
    # Six zeros (deleted), then a missing value, then good ones: the fill must not take a zero.
    cleaned, _ = clean(frame(a=[(slice(100, 106), 0.0), (slice(106, 107), np.nan)]))
    assert cleaned["a"].iloc[100] == 100.0


def test_deleted_rows_become_breaks_that_windows_respect() -> None:
    cleaned, _ = clean(frame(a=[(slice(100, 105), 0.0), (slice(500, 510), 0.0)]))
    (series,) = read_frame(cleaned).series
    assert series.breaks == (100, 495)
    windows = Windows(series.values, context_length=24, horizon=24, breaks=series.breaks)
    assert len(windows) == (100 - 47) + (395 - 47) + (490 - 47)


def test_columns_are_dropped_and_transformed_as_a_whole() -> None:
    cleaned, log = clean(frame(a=[(slice(0, 1000, 5), 0.0)], b=[(slice(0, 1000, 8), 0.0)], c=[]))
    assert list(cleaned.columns) == ["ds", "b", "c"]
    truth = frame(b=[(slice(0, 1000, 8), 0.0)])["b"]
    np.testing.assert_allclose(cleaned["b"], np.arcsinh(truth))
    assert log.columns("drop") == ["a"]
    assert log.columns("asinh") == ["b"]


def test_missing_and_infinite_values_are_filled_deleted_or_kept_as_asked() -> None:
    holed = frame(a=[(slice(5, 6), np.nan), (slice(8, 9), np.inf), (slice(100, 110), np.nan)])
    cleaned, log = clean(holed)
    assert np.isfinite(cleaned["a"]).all()
    assert len(cleaned) == 990
    assert log.changes[0].was is None
    kept, log = clean(holed, policy=Policy(missing="keep"))
    assert kept["a"].isna().sum() == 12
    assert log.changes == ()


def test_sentinels_are_kept_or_made_missing_as_asked() -> None:
    stuck = frame(a=[(slice(5, 6), -9999.0), (slice(200, 230), 7.5)])
    cleaned, log = clean(stuck)
    assert cleaned.equals(stuck)
    assert log.changes == ()
    cleaned, log = clean(stuck, policy=Policy(sentinels="missing"))
    assert cleaned["a"].iloc[5] == 5.0
    assert len(cleaned) == 970
    assert [(c.action, c.was, c.reason) for c in log.changes if c.action == "to missing"] == [
        ("to missing", -9999.0, "missing-value code"),
    ]
    assert [c.first_row for c in log.changes if c.action == "delete rows"] == [200]


def test_thresholds_are_fields() -> None:
    dirty = frame(a=[(slice(100, 104), 0.0)])
    assert len(clean(dirty, policy=Policy(delete_run=timedelta(hours=4)))[0]) == 1000
    cleaned, log = clean(dirty.assign(b=1.5 + np.arange(1000)), policy=Policy(zero_share=0.001, asinh_share=0.0005))
    assert log.columns("drop") == ["a"]
    assert list(cleaned.columns) == ["ds", "b"]


def test_types_come_back() -> None:
    dirty = pd.DataFrame(
        {
            "ds": HOURS.astype("datetime64[s]"),
            "single": np.where(np.arange(1000) == 5, 0, np.arange(1000) + 1).astype(np.float32),
            "whole": np.where(np.arange(1000) == 5, 0, np.arange(1000) + 1),
        }
    )
    cleaned, _ = clean(dirty)
    assert cleaned.dtypes.tolist() == dirty.dtypes.tolist()
    assert cleaned["whole"][5] == 5
    asinh, _ = clean(dirty, policy=Policy(asinh_share=0.0005))
    assert asinh["whole"].dtype == np.float64


def test_an_index_stays_an_index() -> None:
    cleaned, _ = clean(frame(a=[(slice(100, 104), 0.0)]).set_index("ds"))
    assert cleaned.index.name == "ds"
    assert list(cleaned.columns) == ["a"]


def test_long_tables_are_cleaned_series_by_series() -> None:
    long = pd.DataFrame(
        {
            "unique_id": np.repeat(["x", "y", "z"], 200),
            "ds": np.tile(HOURS[:200], 3),
            "y": np.tile(np.arange(200.0) + 1, 3),
        }
    )
    long.loc[10:14, "y"] = 0  # x: five hours
    long.loc[210, "y"] = 0  # y: one
    long.loc[400:499, "y"] = 0  # z: half of it
    cleaned, log = clean(long)
    assert cleaned.groupby("unique_id").size().to_dict() == {"x": 195, "y": 200}
    assert [(c.series, c.action) for c in log.changes] == [("x", "delete rows"), ("y", "fill"), ("z", "drop")]


def test_the_training_part_alone_may_decide_about_columns() -> None:
    # A tenth of zeros in all, none of them in the first half.
    dirty = frame(a=[(slice(500, 1000, 5), 0.0)])
    assert clean(dirty)[1].columns("asinh") == ["a"]
    cleaned, log = clean(dirty, part=Part(0, 500))
    assert log.columns("asinh") == []
    assert (cleaned["a"] > 0).all()
    with pytest.raises(FernError, match="none of them in"):
        clean(dirty, part=Part(2000, 2001))


@given(data=st.data())
def test_the_log_accounts_for_every_difference(data: st.DataObject) -> None:
    values = np.arange(300.0) + 1
    for _ in range(data.draw(st.integers(0, 6))):
        first = data.draw(st.integers(0, 299))
        values[first : first + data.draw(st.integers(1, 6))] = data.draw(st.sampled_from([0.0, np.nan]))
    dirty = pa.table({"t": np.arange(300), "a": values, "b": np.arange(300.0) + 1})
    cleaned, log = clean(dirty, step=timedelta(hours=1))
    rebuilt = {"t": np.arange(300.0), "a": values.copy(), "b": np.arange(300.0) + 1}
    gone = np.zeros(300, bool)
    for change in log.changes:
        assert change.first_row is not None
        assert change.last_row is not None
        rows = slice(change.first_row, change.last_row + 1)
        if change.action == "fill":
            rebuilt["a"][rows] = change.now
        elif change.action == "delete rows":
            gone[rows] = True
    for name in cleaned.column_names:
        np.testing.assert_array_equal(cleaned[name].to_numpy(), rebuilt[name][~gone])
    assert log.rows_deleted == gone.sum()
    json.dumps(log.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["ETTh1", "ETTm1"])
def test_etth1_and_ettm1_lose_no_column(name: str, published_path: Callable[[str], Path]) -> None:
    path = published_path(name)
    cleaned, log = clean(path)
    table = load_dataset(name)
    assert cleaned.column_names == table.column_names
    assert {change.action for change in log.changes} == {"fill", "delete rows"}
    assert not any((cleaned[column].to_numpy() == 0).any() for column in cleaned.column_names[1:])
    # What the audit announces is what happens (a fill in a row that is deleted for another column is not logged).
    promised = {
        (column.name, action.kind): action.entries
        for column in audit(path).series[0].columns
        for action in column.verdict.actions
    }
    made: dict[tuple[str, str], int] = {}
    for change in log.changes:
        made[change.column, change.action] = made.get((change.column, change.action), 0) + change.rows
    for key, entries in promised.items():
        assert made.get(key, 0) == entries if key[1] == "delete rows" else made.get(key, 0) <= entries


def test_etth2_loses_its_two_heavily_zero_columns(published_path: Callable[[str], Path]) -> None:
    cleaned, log = clean(published_path("ETTh2"))
    assert log.columns("drop") == ["HULL", "LULL"]
    assert cleaned.column_names == ["date", "HUFL", "MUFL", "MULL", "LUFL", "OT"]


def test_a_clean_frame_comes_back_as_it_is() -> None:
    cleaned, log = clean(frame(a=[], b=[]))
    assert cleaned.equals(frame(a=[], b=[]))
    assert log.changes == ()


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "all missing": (lambda: frame(a=[], b=[(slice(0, 1000), np.nan)]), "column 'b' has no values; ignore it"),
    "duplicates": (lambda: frame(a=[]).iloc[[0, 0, *range(1, 1000)]], "1 duplicate time stamp"),
    "unordered": (lambda: frame(a=[]).iloc[::-1], "earlier than the one before"),
    "mixed": (lambda: frame(a=[]).iloc[[*range(300), *range(300, 1000, 4)]], "mixed frequencies"),
    "text": (lambda: frame(a=[]).assign(place="Jena"), "column 'place' holds text"),
    "nothing left": (lambda: frame(a=[(slice(0, 500), 0.0)]), "drops every column"),
    "integer time": (
        lambda: pa.table({"t": np.arange(100), "a": [0.0] * 5 + [1.0, 2.0] * 47 + [3.0]}),
        "has 5 zeros or missing values, and their treatment depends on their duration",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_cleaned_is_refused(case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(FernError, match=message):
        clean(make())
    with raises_error("grid"):
        clean(frame(a=[]), grid="x")

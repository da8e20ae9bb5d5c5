"""pandas frames as Arrow tables: a small frame column by column is what Arrow makes of it as a whole."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fern.data import reading
from fern.data.reading import unwrap
from fern.errors import FernError

COLUMNS: dict[str, Any] = {
    "float": [1.5, np.nan, 3.0],
    "single": np.array([1.5, 2.5, 3.5], np.float32),
    "whole": [1, 2, 3],
    "yes": [True, False, True],
    "text": ["a", None, "c"],
    "object": pd.Series(["a", "b", "c"], dtype=object),
    "category": pd.Categorical(["b", "a", "b"]),
    "nullable": pd.array([1, None, 3], dtype="Int64"),
    "stamp": pd.date_range("2020-01-01", periods=3, freq="h"),
    "zoned": pd.date_range("2020-01-01", periods=3, freq="h", tz="Europe/Berlin"),
    "python stamps": pd.Series([datetime(2020, 1, day, tzinfo=UTC) for day in (1, 2, 3)], dtype=object),
    "sparse": pd.arrays.SparseArray([0.0, 1.0, 0.0]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_what_arrow_makes_of_the_whole_frame(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({name: COLUMNS[name]})
    table, _ = unwrap(frame)
    monkeypatch.setattr(reading, "_WORTH_THREADS", 0)  # every frame counts as large
    whole, _ = unwrap(frame)
    assert table.schema.equals(whole.schema, check_metadata=True)
    assert table.equals(whole)


@pytest.mark.parametrize("large", [False, True])
def test_the_column_that_cannot_be_read_is_named(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(reading, "_WORTH_THREADS", 0)
    mixed = pd.DataFrame({"good": [1.0, 2.0], "bad": pd.Series([1.0, "x"], dtype=object)})
    with pytest.raises(FernError, match=r"values of mixed types .*column bad"):
        unwrap(mixed)
    with pytest.raises(FernError, match=r"a column cannot be read .*complex"):
        unwrap(pd.DataFrame({"bad": [1j, 2j]}))


def test_numbers_of_a_frame_are_not_copied() -> None:
    frame = pd.DataFrame({"a": np.arange(5.0)})
    table, _ = unwrap(frame)
    assert isinstance(table, pa.Table)
    assert table["a"].chunk(0).buffers()[1].address == frame["a"].to_numpy().ctypes.data

"""`predict_file` on folders as people have them, and files that nobody finished."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.errors import raises_error

from fern.forecaster import FernForecaster
from fern.forecaster.predict_file import _write, find_chunks

pytestmark = pytest.mark.filterwarnings("ignore::fern.forecaster.FernWarning")

DAYS = pd.date_range("2024-01-01", periods=40, freq="D")


def make_rows(*names: Any) -> pa.Table:
    values = np.sin(np.arange(40 * len(names)))
    stamps = pa.array(np.tile(DAYS.values, len(names))).cast(pa.timestamp("us"))
    return pa.table({"unique_id": pa.array(np.repeat(names, 40).tolist()), "ds": stamps, "y": values})


def with_type(table: pa.Table, column: str, type_: pa.DataType) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, table[column].cast(type_))


@pytest.fixture(scope="module")
def forecaster() -> FernForecaster:
    model = FernForecaster(4, model="dlinear", epochs=1, context_length=8, progress="silent", threads=1)
    return model.fit(make_rows("a", "b"))


@pytest.fixture
def folder() -> Path:
    place = Path("rows")
    place.mkdir()
    pq.write_table(make_rows("1", "2"), place / "a.parquet")
    return place


OTHER_TYPES = {
    "identifiers": with_type(make_rows("3", "4"), "unique_id", pa.int64()),
    "identifiers, large": with_type(make_rows("3", "4"), "unique_id", pa.large_string()),
    "values": with_type(make_rows("3", "4"), "y", pa.float32()),
    "whole values": make_rows("3", "4").set_column(2, "y", pa.array(np.arange(80))),
    "unit of time": with_type(make_rows("3", "4"), "ds", pa.timestamp("ns")),
    "days": with_type(make_rows("3", "4"), "ds", pa.date32()),
}


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_files_of_other_types_that_can_be_brought_together_are(name: str, forecaster: Any, folder: Path) -> None:
    pq.write_table(OTHER_TYPES[name], folder / "b.parquet")
    assert forecaster.predict_file(folder, "out.parquet", level=80) == 16
    made = pq.read_table("out.parquet")
    assert sorted(set(made["unique_id"].to_pylist())) == ["1", "2", "3", "4"]


UNLIKE = {
    "text for values": make_rows("3").set_column(2, "y", pa.array(["x"] * 40)),
    "text for times": make_rows("3").set_column(1, "ds", pa.array(["noon"] * 40)),
    "zone": with_type(make_rows("3"), "ds", pa.timestamp("us", "UTC")),
    "no value": make_rows("3").drop_columns(["y"]),
    "no time": make_rows("3").drop_columns(["ds"]),
    "the same series": make_rows("2"),
    "a column twice": pa.Table.from_arrays([*make_rows("3").columns, pa.nulls(40)], ["unique_id", "ds", "y", "y"]),
    "hours for days": make_rows("3").set_column(1, "ds", pa.array(pd.date_range("2024-01-01", periods=40, freq="h"))),
    "values beyond single precision": make_rows("3").set_column(2, "y", pa.array(1e305 * np.arange(40.0))),
    "lists for identifiers": make_rows("3").set_column(0, "unique_id", pa.array([["3"]] * 40)),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_a_file_unlike_the_others_is_refused_and_nothing_is_left(name: str, forecaster: Any, folder: Path) -> None:
    pq.write_table(UNLIKE[name], folder / "b.parquet")
    with raises_error(where="b.parquet"):
        forecaster.predict_file(folder, "out.parquet")
    assert [path.name for path in Path().iterdir()] == ["rows"]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nothing")])
def test_what_is_no_file_is_not_left_out_without_a_word(make: Any, forecaster: Any, folder: Path) -> None:
    make(folder / "b.parquet")
    with raises_error(where="b.parquet"):
        forecaster.predict_file(folder, "out.parquet")


def test_the_leftover_of_an_interrupted_writer_is_not_read(forecaster: FernForecaster, folder: Path) -> None:
    (folder / ".b.x7.parquet").write_bytes(b"PAR1 half")
    assert forecaster.predict_file(folder, "out.parquet") == 8


def test_a_series_that_begins_again_is_named_with_its_row(folder: Path) -> None:
    pq.write_table(pa.concat_tables([make_rows("3"), make_rows("4"), make_rows("3")]), folder / "b.parquet")
    with raises_error(where="b.parquet") as caught:
        find_chunks(folder, id_col="unique_id", series_at_once=2)
    assert "'3'" in str(caught.value) and "data row 81" in str(caught.value)


def test_many_series_of_one_row_take_little_memory() -> None:
    names = pa.array(np.arange(600_000)).cast(pa.string())
    pq.write_table(pa.table({"unique_id": names}), "many.parquet")
    before = pa.total_allocated_bytes()
    chunks = find_chunks(Path("many.parquet"), id_col="unique_id", series_at_once=512)
    assert len(chunks) == 1172 and chunks[-1].first + chunks[-1].rows == 600_000
    assert pa.total_allocated_bytes() - before < 10**6


def _write_until_told() -> None:
    def tables() -> Iterator[pa.Table]:
        yield pa.table({"x": [1.0]})
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    _write(tables(), Path("out.parquet"))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_writer_that_is_told_to_end_leaves_no_half_written_file() -> None:
    writer = multiprocessing.get_context("fork").Process(target=_write_until_told)
    writer.start()
    writer.join(60)
    assert writer.exitcode == -signal.SIGTERM
    assert list(Path().iterdir()) == []


def test_a_program_that_finds_no_room_is_told_and_the_process_lives(forecaster: Any, monkeypatch: Any) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with raises_error(where="model.pt2"):
        forecaster.export("model.pt2")
    assert list(Path().iterdir()) == []

"""Files are read right or refused with a message that says what is wrong and where."""

import decimal
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fern.data.columns import Reading
from fern.data.reading import BATCH_ROWS, Source, open_source, table_source
from fern.errors import FernError

HOURS = pd.date_range("2020-01-01", periods=48, freq="h")


def frame(rows: int = 48) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    stamps = pd.date_range("2020-01-01", periods=rows, freq="h")
    return pd.DataFrame({"date": stamps, "a": rng.normal(size=rows).round(3), "b": rng.normal(20, 5, rows).round(2)})


def values(source: Source) -> np.ndarray:
    table = source.table()
    return np.column_stack([table[name].to_numpy() for name in source.roles.values])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_the_same_values_come_from_every_dialect(separator: str, mark: str, encoding: str) -> None:
    expected = frame().rename(columns={"b": "T (°C)"})
    expected.to_csv("f.csv", sep=separator, decimal=mark, encoding=encoding, index=False)
    source = open_source("f.csv")
    assert source.roles.values == ("a", "T (°C)")
    assert source.roles.time == "date"
    np.testing.assert_array_equal(values(source), expected[["a", "T (°C)"]].to_numpy())
    assert source.table()["date"].to_pylist() == list(HOURS)


def test_windows_line_ends_and_a_byte_order_mark_are_no_matter() -> None:
    Path("f.csv").write_bytes(b"\xef\xbb\xbfdate,a\r\n2020-01-01,1.5\r\n2020-01-02,2.5\r\n")
    assert values(open_source("f.csv")).tolist() == [[1.5], [2.5]]


def test_the_head_of_a_file_does_not_decide_the_type_of_the_rest() -> None:
    # A megabyte of whole numbers and whole seconds, then fractions of both.
    rows = 60_000
    stamps = [*pd.date_range("2020-01-01", periods=rows, freq="s").astype(str), "2020-01-01 16:40:00.5"]
    lines = [f"{stamp},{i}" for i, stamp in enumerate(stamps)]
    lines[-1] += ".25"
    Path("f.csv").write_text("date,a\n" + "\n".join(lines) + "\n")
    table = open_source("f.csv").table()
    assert table["a"][rows].as_py() == rows + 0.25
    assert table["date"][rows].as_py() == pd.Timestamp("2020-01-01 16:40:00.5")


def test_what_stands_for_nothing_is_missing() -> None:
    Path("f.csv").write_text(
        "date,a\n2020-01-01,NA\n2020-01-02,\n2020-01-03,nan\n2020-01-04,?\n2020-01-05,-\n2020-01-06,1\n"
    )
    assert np.isnan(values(open_source("f.csv"))[:, 0]).tolist() == [True] * 5 + [False]


def test_parquet_keeps_its_types_out_of_the_way() -> None:
    table = pa.table(
        {
            "when": pa.array(list(HOURS), pa.timestamp("us", tz="Europe/Berlin")),
            "float32": pa.array(np.arange(48, dtype=np.float32)),
            "whole": pa.array(np.arange(48)),
            "flag": pa.array([True, False] * 24),
            "decimal": pa.array([decimal.Decimal("1.25")] * 48, pa.decimal128(5, 2)),
        }
    )
    pq.write_table(table, "f.parquet")
    source = open_source("f.parquet")
    assert source.roles.time == "when"
    assert source.time_type == pa.timestamp("ns", tz="Europe/Berlin")
    found = values(source)
    assert found.dtype == np.float64
    assert found[3].tolist() == [3.0, 3.0, 0.0, 1.25]


def test_a_long_file_comes_in_bounded_batches() -> None:
    table = pa.table({"t": np.arange(200_000), "a": np.zeros(200_000)})
    pq.write_table(table, "f.parquet")
    assert max(batch.num_rows for batch in open_source("f.parquet").batches()) <= BATCH_ROWS
    assert open_source("f.parquet").table().num_rows == 200_000


def test_row_numbers_that_programs_write_are_no_values() -> None:
    frame().to_csv("f.csv")
    assert open_source("f.csv").roles.values == ("a", "b")
    frame().set_index(np.arange(100, 148)).to_parquet("f.parquet")
    assert open_source("f.parquet").roles.values == ("a", "b")


def test_roles_can_be_given() -> None:
    table = pa.table({"k": [1, 2], "who": ["x", "y"], "a": [1.0, 2.0], "note": ["?", "!"]})
    source = table_source(table, name="frame", reading=Reading(time_col="k", id_col=("who",), ignore=("note",)))
    assert (source.roles.time, source.roles.series, source.roles.values) == ("k", "who", ("a",))


def test_damaged_names_of_a_published_header_are_restored() -> None:
    Path("f.csv").write_text("date,SWDR (W/m\ufffd),other \ufffd\n2020-01-01,1,2\n2020-01-02,2,3\n")
    assert open_source("f.csv").roles.values == ("SWDR (W/m²)", "other \ufffd")


def write(name: str, content: bytes | str) -> Path:
    path = Path(name)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def truncated_parquet() -> Path:
    frame(5_000).to_parquet("whole.parquet")
    content = Path("whole.parquet").read_bytes()
    return write("cut.parquet", content[: len(content) // 2])


def broken_parquet_page() -> Path:
    frame(50_000).to_parquet("whole.parquet", compression="snappy")
    content = bytearray(Path("whole.parquet").read_bytes())
    content[4_000:300_000] = bytes(len(content[4_000:300_000]))
    return write("broken.parquet", bytes(content))


def late_text() -> Path:
    rows = "".join(f"2020-01-01 00:00:{i % 60:02d},{i}\n" for i in range(100_000))
    return write("late.csv", f"date,load\n{rows}2020-01-02,high\n")


BAD = {
    "missing": (lambda: Path("none.csv"), "no such file"),
    "directory": (lambda: Path(), "is a directory"),
    "zero bytes": (lambda: write("f.csv", b""), r"is empty \(0 bytes\)"),
    "zero bytes parquet": (lambda: write("f.parquet", b""), r"is empty \(0 bytes\)"),
    "white space": (lambda: write("f.csv", " \n\n"), "contains only whitespace"),
    "header only": (lambda: write("f.csv", "date,a,b\n"), "has a header but no rows"),
    "header only, no line end": (lambda: write("f.csv", "date,a,b"), "has a header but no rows"),
    "text column": (
        lambda: write("f.csv", "date,a,place\n2020-01-01,1,Jena\n2020-01-02,2,Ulm\n"),
        r"column 'place' holds text \('Jena' in data row 1\), needs numbers",
    ),
    "a word among numbers": (
        lambda: write("f.csv", "date,a\n2020-01-01,1\n2020-01-02,off\n"),
        r"column 'a' holds text \('off' in data row 2\)",
    ),
    "a word far down": (late_text, "column 'load' holds 'high' in line 100,002, needs numbers"),
    "unreadable encoding": (lambda: write("f.csv", b"\x00\x01\x02\xff\xfe" * 50), "unreadable encoding"),
    "unknown bytes": (lambda: write("f.csv", b"date,a\x81\n2020-01-01,1\n"), "unreadable encoding"),
    "truncated parquet": (truncated_parquet, "is not a readable Parquet"),
    "no parquet at all": (lambda: write("f.parquet", "date,a\n2020-01-01,1\n"), "is not a Parquet file"),
    "excel": (lambda: write("f.xlsx", b"PK\x03\x04 and so on"), "is an Excel or zip file"),
    "decimal commas among commas": (
        lambda: write("f.csv", "date,a,b\n2020-01-01,1,5,2,5\n"),
        "line 2 has 5 fields, the header has 3",
    ),
    "thousands": (lambda: write("f.csv", "date;a\n2020-01-01;1,234\n"), "thousands separator"),
    "ragged": (lambda: write("f.csv", "date,a\n2020-01-01,1\n2020-01-02\n"), "line 3 has 1 field, the header has 2"),
    "only time": (lambda: write("f.csv", "date\n2020-01-01\n2020-01-02\n"), "no value column"),
    "second time column": (
        lambda: write("f.csv", "date,a,end\n2020-01-01,1,2020-01-02\n2020-01-02,1,2020-01-03\n"),
        "'end' is a second time column",
    ),
    "swapped days": (lambda: write("f.csv", "date,a\n01/02/2020,1\n02/02/2020,2\n"), "day first or month first"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_with_the_reason(case: str) -> None:
    make, message = BAD[case]
    path = make()
    with pytest.raises(FernError, match=message):
        open_source(path).table()


def test_a_damaged_page_in_the_middle_is_refused() -> None:
    path = broken_parquet_page()
    with pytest.raises(FernError, match="is not a readable Parquet"):
        open_source(path).table()


def test_a_file_without_permission_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("f.csv", "date,a\n2020-01-01,1\n")
    path.chmod(0)
    if os.geteuid() == 0:  # root may read everything: let the system's answer be the one others get

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FernError, match="no permission"):
        open_source(path)


def test_ragged_lines_beyond_the_head_are_refused() -> None:
    rows = "".join(f"{i},{i}\n" for i in range(200_000))
    path = write("f.csv", f"t,a\n{rows}200000,1,2\n")
    with pytest.raises(FernError, match="line 200,002 has 3 fields, the header has 2"):
        open_source(path).table()


def test_a_misspelt_column_gets_the_nearest_name() -> None:
    path = write("f.csv", "date,load\n2020-01-01,1\n")
    with pytest.raises(FernError, match="unknown column 'laod': did you mean 'load'"):
        open_source(path, Reading(ignore=("laod",)))
    with pytest.raises(FernError, match="time column 'load' holds double, needs dates"):
        open_source(write("g.csv", "date,load\n2020-01-01,1.5\n"), Reading(time_col="load")).table()

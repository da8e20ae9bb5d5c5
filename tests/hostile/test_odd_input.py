"""Odd but honest input: read, or refused in one line that says what is wrong with it."""

import decimal
import io
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.hostile.support import SCENARIO, Case, cases, check, hourly, run, snapshot, write_files

from fern.caching import cached_njit
from fern.cli.app import main
from fern.data import audit, clean, read_frame
from fern.data.csv_files import Opened
from fern.data.reading import open_source
from fern.errors import FernError

HOURS = pa.array(np.arange(60) * 3_600_000_000, pa.timestamp("us"))
NUMBERS = np.arange(1.0, 61.0)
WHOLE = pa.array(np.arange(60), pa.int64())


def parquet(**columns: Any) -> bytes:
    held = io.BytesIO()
    pq.write_table(pa.table({"date": HOURS, **columns}), held)
    return held.getvalue()


def doubled() -> bytes:
    held = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([HOURS, pa.array(NUMBERS), pa.array(NUMBERS)], ["date", "a", "a"]), held)
    return held.getvalue()


def with_times(times: pa.Array) -> bytes:
    held = io.BytesIO()
    pq.write_table(pa.table({"time": times, "a": NUMBERS[: len(times)]}), held)
    return held.getvalue()


def not_text() -> bytes:
    """A column of text whose bytes are not UTF-8."""
    return parquet(a=NUMBERS, b=pa.Array.from_buffers(
        pa.string(), 60, [None, pa.py_buffer(np.arange(61, dtype=np.int32).tobytes()), pa.py_buffer(b"\xff" * 60)]
    ))  # fmt: skip


def coded(code: str) -> str:
    """An hourly table in which three values are a code for 'no data'."""
    lines = hourly(120).splitlines()
    for row in (20, 50, 90):
        lines[row] = f"{lines[row].split(',')[0]},{code}"
    return "\n".join(lines) + "\n"


def csv_file(name: str, text: str | bytes, code: int, says: str, *options: object) -> Case:
    return Case(f"CSV: {name}", ("audit", "x.csv", *options), code, says, {"x.csv": text})


def parquet_file(name: str, content: bytes, code: int, says: str) -> Case:
    return Case(f"Parquet: {name}", ("audit", "x.parquet"), code, says, {"x.parquet": content})


DEEP = 5000
HUGE = "1.7976931348623157e308"


@cases(
    csv_file("a code of 1.797e308", coded(HUGE), 0, "120 rows"),
    csv_file("a code of -1.797e308", coded(f"-{HUGE}"), 0, "120 rows"),
    csv_file("both", coded(HUGE).replace(HUGE, f"-{HUGE}", 1), 0, "120 rows"),
    csv_file("a number beyond float64", coded("1e400"), 0, "load|inf"),
    csv_file("inf", coded("inf"), 0, "load|inf"),
    csv_file("denormal numbers", coded("5e-324"), 0, "load"),
    csv_file("nothing but denormal numbers", "date,a\n" + "".join(f"2020-01-{d:02d},{d}e-320\n" for d in range(1, 29)),
             0, "28 rows"),
    csv_file("one value only", "date,a\n" + "".join(f"2020-01-{d:02d},7\n" for d in range(1, 29)), 0, "7  stuck"),
    csv_file("a cell of 200 kB", f"date,a\n2020-01-01,{'9' * 200_000}\n2020-01-02,1\n", 0, "a|inf"),
    csv_file("a text of 200 kB", f"date,a\n2020-01-01,{'x' * 200_000}\n2020-01-02,1\n", 2, "holds text"),
    csv_file("1,000 columns", "date," + ",".join(f"c{i}" for i in range(1000)) + "\n"
             + "".join(f"2020-01-0{d}," + ",".join(["1"] * 1000) + "\n" for d in range(1, 5)), 0, "4 rows"),
    csv_file("an encoding called rot13", hourly(), 2, "unknown encoding 'rot13'", "--encoding", "rot13"),
    csv_file("an encoding called hex", hourly(), 2, "unknown encoding 'hex'", "--encoding", "hex"),
    csv_file("an encoding called zip", hourly(), 2, "unknown encoding 'zip'", "--encoding", "zip"),
    csv_file("an encoding called base64", hourly(), 2, "unknown encoding 'base64'", "--encoding", "base64"),
    csv_file("an encoding called idna", hourly(), 2, "unknown encoding 'idna'", "--encoding", "idna"),
    csv_file("an encoding called undefined", hourly(), 2, "unknown encoding", "--encoding", "undefined"),
    csv_file("an encoding with a null", hourly(), 2, "unknown encoding", "--encoding", "a\0b"),
    csv_file("an encoding of 5,000 letters", hourly(), 2, "unknown encoding", "--encoding", "x" * 5000),
    csv_file("an encoding it has not", "date,ä\n2020-01-01,1\n", 2, "is not ascii", "--encoding", "ascii"),
    csv_file("null bytes", "date,a\n2020-01-01,\0\n", 2, "unreadable encoding"),
    csv_file("only a header", "date,a\n", 2, "no rows"),
    csv_file("only line ends", "\n\n\n", 2, "only whitespace"),
    csv_file("empty", "", 2, "is empty"),
    csv_file("a quote that does not end", 'date,a\n"2020-01-01,1\n2020-01-02,2\n', 2, "x.csv"),
    csv_file("an unknown time zone", "date,a\n2020-01-01T00:00:00 Mars/Phobos,1\n", 2, "date"),
    csv_file("years beyond nanoseconds", "date,a\n0001-01-01,1\n9999-01-01,2\n", 2, "1678 to 2262|date"),
    csv_file("a policy nested deep", hourly(), 2, "not a valid TOML file|no such", "--policy", "deep.toml"),
    csv_file("a step without sense", hourly(), 2, "duration|step", "--step", "moon"),
    csv_file("a step of 10^40 years", hourly(), 2, "duration|step|too large", "--step", "9" * 40 + " days"),
    csv_file("a separator of two signs", hourly(), 2, "separator", "--separator", "::"),
    csv_file("a separator of a line end", hourly(), 2, "separator|fields|CSV", "--separator", "\n"),
    csv_file("a separator that is a quote", hourly(), 2, "separator|fields|CSV|holds text", "--separator", '"'),
    csv_file("a decimal of letters", hourly(), 2, "decimal", "--decimal", "x"),
    parquet_file("lists", parquet(a=pa.array([[1.0, 2.0]] * 60)), 2, "'a' (holds list|is neither)"),
    parquet_file("records", parquet(a=pa.array([{"x": 1}] * 60)), 2, "'a' holds struct"),
    parquet_file("maps", parquet(a=pa.array([[("k", 1)]] * 60, pa.map_(pa.string(), pa.int64()))), 2, "'a' holds map"),
    parquet_file("bytes", parquet(a=pa.array([b"\xff"] * 60)), 2, "'a' holds binary"),
    parquet_file("two columns of one name", doubled(), 2, "column 'a' appears 2 times"),
    parquet_file("text that is not UTF-8", not_text(), 2, "x.parquet"),
    parquet_file("durations", parquet(a=WHOLE.cast(pa.duration("s"))), 2, "'a' holds duration"),
    parquet_file("times of day", parquet(a=WHOLE.cast(pa.int32()).cast(pa.time32("s"))), 2, "'a' holds time32"),
    parquet_file("decimals", parquet(a=pa.array([decimal.Decimal(1)] * 60, pa.decimal128(10, 2))), 0, "1  stuck"),
    parquet_file("half floats", parquet(a=pa.array(NUMBERS.astype(np.float16))), 0, "60 rows"),
    parquet_file("nothing but nulls", parquet(a=pa.nulls(60, pa.float64())), 1, "column 'a' has no values"),
    parquet_file("no columns", b"PAR1" + b"\0" * 40, 2, "is not a readable Parquet"),
    parquet_file("cut off", parquet(a=NUMBERS)[:-40], 2, "is not a readable Parquet"),
    parquet_file("an unknown time zone", with_times(WHOLE[:9].cast(pa.timestamp("s", "Mars/Phobos"))), 2,
                 "time zone|timezone|Mars"),
    parquet_file("unsigned times", with_times(pa.array(np.arange(9, dtype=np.uint64))), 0, "integer step of 1"),
    parquet_file("unsigned times beyond 2^63", with_times(pa.array([2**63 + i for i in range(9)], pa.uint64())), 2,
                 r"beyond 2\^63"),
    parquet_file("times that are small integers", with_times(pa.array(np.arange(9, dtype=np.uint8))), 0,
                 "integer step of 1"),
    Case("a name of 300 bytes", ("audit", "n" * 300), 2, "File name too long"),
    Case("a name with a null", ("audit", "a\0b"), 2, "null|NUL|name"),
    Case("a scenario of 300 bytes", ("simulate", "n" * 300, "-o", "x.csv"), 2, "File name too long|unknown scenario"),
    Case("a target of 300 bytes", ("stress", "n" * 300), 2, "File name too long|unknown model"),
    Case("a task of 300 bytes", ("bench", "run", "n" * 300, "--out", "r"), 2, "File name too long|unknown task"),
    Case("a results folder of 300 bytes", ("bench", "table", "quick", "--runs", "n" * 300), 2,
         "File name too long|not a results folder"),
    Case("a model folder of 300 bytes", ("forecast", "x.csv", "--model", "n" * 300, "--horizon", 2), 2,
         "File name too long|unknown model", {"x.csv": hourly()}),
    Case("a folder for a table", ("audit", "d"), 2, "is a directory", {"d/x": ""}),
    Case("lists nested deep in a scenario", ("simulate", "s.toml", "-o", "x.csv"), 2, "not a valid TOML file",
         {"s.toml": SCENARIO + f"params = {'[' * DEEP}{']' * DEEP}\n"}),
    Case("tables nested deep in a scenario", ("simulate", "s.toml", "-o", "x.csv"), 2, "not a valid TOML file|setting",
         {"s.toml": SCENARIO + f"a{'.a' * DEEP} = 1\n"}),
    Case("lists nested deep in a task", ("bench", "run", "t.toml", "--out", "r"), 2, "not a valid TOML file",
         {"t.toml": f"schema = 1\nseeds = {'[' * DEEP}{']' * DEEP}\n"}),
    Case("a scenario that is not UTF-8", ("simulate", "s.toml", "-o", "x.csv"), 2, "not a valid TOML file",
         {"s.toml": b"\xff\xfe"}),
    Case("a scenario that is a folder", ("simulate", "s.toml", "-o", "x.csv"), 2, "is a directory", {"s.toml/x": ""}),
)  # fmt: skip
def test_odd_input_is_read_or_refused_in_a_line(case: Case, capsys) -> None:
    if "--policy" in case.command:
        write_files({"deep.toml": f"a = {'[' * DEEP}{']' * DEEP}\n"})
    check(case, capsys)


NAME = os.fsdecode(b"caf\xe9")  # Latin-1 in a file name: no UTF-8


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_file_whose_name_is_not_utf_8_is_read(ending: str, capsys) -> None:
    try:
        write_files({NAME + ending: hourly() if ending == ".csv" else parquet(a=NUMBERS)})
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    before = snapshot()
    ran = run("audit", NAME + ending, "--html", "page.html", capsys=capsys)
    assert ran.code == 0, ran.err
    assert "caf\\udce9" in ran.out
    Path("page.html").unlink()
    ran = run("clean", NAME + ending, "-o", f"{NAME}.out.csv", capsys=capsys)
    assert ran.code == 0, ran.err
    Path(f"{NAME}.out.csv").unlink()
    assert snapshot() == before
    assert len(read_frame(NAME + ending).series[0].values) == 60


def _through(write: Callable[[Any], None], read: Callable[[Path], Any]) -> Any:
    os.mkfifo("pipe")

    def feed() -> None:
        with Path("pipe").open("wb") as file:
            write(file)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        return read(Path("pipe"))
    finally:
        feeder.join(20)


@pytest.mark.parametrize("size", [60, 60_000], ids=["small", "larger than a pipe"])
def test_a_table_comes_through_a_pipe(size: int, capsys) -> None:
    rows = "".join(f"{i},{i * 0.5 + 1}\n" for i in range(size))
    ran = _through(lambda file: file.write(f"t,a\n{rows}".encode()), lambda pipe: run("audit", pipe, capsys=capsys))
    assert ran.code == 0, ran.err
    assert f"{size:,} rows" in ran.out
    assert sorted(path.name for path in Path().iterdir()) == ["pipe"]


@pytest.mark.parametrize("read", [read_frame, audit, lambda path: open_source(path).table()])
def test_parquet_comes_through_a_pipe_in_python_too(read: Callable[[Path], Any]) -> None:
    content = parquet(a=NUMBERS)
    assert _through(lambda file: file.write(content), read) is not None


def test_a_copy_of_a_pipe_goes_with_its_reader() -> None:
    opened = _through(lambda file: file.write(b"a"), Opened)
    copy = opened.path
    assert copy.read_bytes() == b"a"
    del opened
    assert not copy.parent.exists()


def test_a_pipe_that_is_also_the_output_is_refused(capsys) -> None:
    os.mkfifo("pipe")
    ran = run("audit", "pipe", "--html", "pipe", capsys=capsys)
    assert (ran.code, "is also an input" in ran.err) == (2, True)


PIPE = {"p.toml": os.mkfifo}


@cases(
    Case("a task", ("bench", "run", "p.toml", "--out", "r"), 2, "not a regular file", PIPE),
    Case("a task of an export", ("bench", "export-fev", "d", "--task", "p.toml"), 2, "not a regular file", PIPE),
    Case("a scenario", ("simulate", "p.toml", "-o", "x.csv"), 2, "not a regular file", PIPE),
    Case("a scenario of a response", ("bench", "response", "last-value", "p.toml"), 2, "not a regular file", PIPE),
    Case("a scenario of a stress test", ("stress", "last-value", "--scenario", "p.toml"), 2, "regular file", PIPE),
    Case("a policy", ("audit", "x.csv", "--policy", "p.toml"), 2, "not a regular file", {**PIPE, "x.csv": hourly()}),
)
def test_a_pipe_is_no_file_of_settings_and_is_not_waited_for(case: Case, capsys) -> None:
    check(case, capsys)


def _on(stream: Any, *arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "argv", ["fern", *map(str, arguments)])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.parametrize("command", [("scenarios", "--json"), ("scenarios",), ("audit", "x.csv"), ("bench", "tasks")])
def test_a_terminal_that_knows_ascii_alone_gets_codes(command: tuple[str, ...], monkeypatch, capsys) -> None:
    write_files({"x.csv": hourly()})
    held = io.BytesIO()
    stream = io.TextIOWrapper(held, encoding="ascii")
    assert _on(stream, *command, monkeypatch=monkeypatch) == 0
    stream.flush()
    assert held.getvalue().isascii()
    assert len(held.getvalue()) > 100
    stream.detach()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no device that is always full")
@pytest.mark.parametrize("command", [("scenarios", "--json"), ("scenarios",), ("audit", "x.csv"), ("--version",)])
def test_a_full_standard_output_is_exit_code_1(command: tuple[str, ...], monkeypatch, capsys) -> None:
    write_files({"x.csv": hourly()})
    monkeypatch.setattr("fern.cli.app._abandon_output", lambda: None)
    stream = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115
    assert _on(stream, *command, monkeypatch=monkeypatch) == 1
    with suppress(OSError):
        stream.close()
    assert "error: standard output: was not written (No space left on device)" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error_message(monkeypatch, capsys) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr("fern.cli.app._abandon_output", lambda: None)
    stream = os.fdopen(writing, "w")
    assert _on(stream, "scenarios", "--json", monkeypatch=monkeypatch) == 1
    with suppress(BrokenPipeError):
        stream.close()
    assert capsys.readouterr().err == ""


def test_a_closed_standard_output_is_no_traceback(monkeypatch, capsys) -> None:
    assert _on(None, "scenarios", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "command",
    [
        ("audit", "x.csv"),
        ("audit", "ETTh1"),
        ("simulate", "OU_BASE", "-o", "x.csv"),
        ("bench", "run", "quick", "--out", "runs"),
        ("bench", "export-fev", "fev"),
        ("stress", "mine:forecast"),
        ("stress", "--list-adapters"),
        ("forecast", "x.csv", "--horizon", "2"),
        ("report", "folder", "runs", "-o", "r.html"),
        ("--version",),
    ],
    ids=" ".join,
)
def test_a_working_folder_that_was_deleted_is_told_before_anything_is_loaded(command, tmp_path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("FERN_DATA_DIR", str(tmp_path))
    held = io.StringIO()
    monkeypatch.setattr(sys, "stderr", held)
    code = _on(io.StringIO(), *command, monkeypatch=monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert (code, held.getvalue()) == (2, "error: the current folder does not exist any more; change to another\n")


FRAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "complex": (lambda: pd.DataFrame({"a": [1 + 2j] * 9}), "cannot be read|holds"),
    "objects": (lambda: pd.DataFrame({"a": [object()] * 9}), "frame"),
    "mixed": (lambda: pd.DataFrame({"a": [1.0, "x"] * 5}), "mixed types|holds text"),
    "two of one name": (lambda: pd.DataFrame(np.ones((9, 2)), columns=["a", "a"]), "appears 2 times"),
    "intervals": (lambda: pd.DataFrame({"a": pd.interval_range(0, 9)}), "frame"),
    "levels": (lambda: pd.DataFrame({("a", "b"): [1.0]}), "levels"),
    "polars objects": (lambda: pl.DataFrame({"a": [object()] * 9}), "frame"),
    "polars lists": (lambda: pl.DataFrame({"a": [[1.0]] * 9}), "'a' (holds|is neither)"),
    "polars lazy": (lambda: pl.LazyFrame({"a": [1.0]}), "lazy frame"),
    "a dictionary": (lambda: {"a": [1.0]}, "needs a pandas, polars or pyarrow"),
    "nothing": (lambda: None, "needs a pandas, polars or pyarrow"),
    "an empty frame": (lambda: pd.DataFrame(), "frame"),
    "no rows": (lambda: pd.DataFrame({"a": pd.Series(dtype=float)}), "frame"),
    "pyarrow lists": (lambda: pa.table({"a": [[1.0]] * 9}), "'a' (holds list|is neither)"),
    "a number": (lambda: 7, "needs a pandas, polars or pyarrow"),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("use", [audit, clean, read_frame], ids=["audit", "clean", "read_frame"])
def test_an_odd_frame_is_a_mistake(name: str, use: Callable[[Any], Any]) -> None:
    make, says = FRAMES[name]
    with pytest.raises(FernError, match=says):
        use(make())


def test_a_sparse_column_is_read_as_what_it_means() -> None:
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0, 0.0, 2.0] * 5)})
    assert audit(sparse).series[0].columns[0].statistics.zeros.total == 10


def test_loops_are_compiled_where_no_cache_can_be_written(monkeypatch) -> None:
    import numba.core.caching as caching

    def nowhere(*arguments: Any) -> Any:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(caching.FunctionCache, "__init__", nowhere)

    @cached_njit(nogil=True)
    def twice(x: float) -> float:
        return 2 * x

    assert twice(2.0) == 4.0


def test_loops_are_compiled_where_the_disk_of_the_cache_is_full(monkeypatch) -> None:
    import numba.core.caching as caching

    def full(*arguments: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.FunctionCache, "save_overload", full)

    @cached_njit(nogil=True)
    def thrice(x: float) -> float:
        return 3 * x

    assert thrice(2.0) == 6.0


def test_the_demo_notices_before_the_training_that_it_cannot_write(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    began: list[object] = []
    monkeypatch.setattr("fern.training.train", lambda *a, **k: began.append(a))
    ran = run("demo", "--out", "demo", capsys=capsys)
    assert (ran.code, "no permission" in ran.err, began) == (2, True, [])

"""Forecasts, backtests, diagnoses, reports, exports and `predict_file` keep the same rules as the older commands."""

import io
import os
import re
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.hostile.support import SCENARIO, Case, cases, check, hourly, run, snapshot, write_files

from fern.cli import console as screen
from fern.errors import FernError, NotWritten
from fern.forecaster import FernForecaster

ROWS = 120
HOURS = pa.array(np.arange(ROWS) * 3_600_000_000, pa.timestamp("us"))
WAVE = np.sin(np.arange(ROWS) / 4)
IN_PLACE = "is also an input; files are not changed in place"
KEPT = "whose files are not written by hand"
MARKS = ("\x1b", "\x07", "\x9b", "\u202e")
TASK = 'schema = 1\nmodels = ["last-value"]\ndatasets = ["s.toml"]\nhorizons = [4]\nseeds = [7]\ncontext_length = 6\n'
EXPORT = {"t.toml": TASK, "s.toml": SCENARIO.replace("60", "400")}


def wave(name: str = "load") -> pa.Table:
    return pa.Table.from_arrays([HOURS, pa.array(WAVE)], ["date", name])


def long(first: str = "a") -> pa.Table:
    names = pa.array([first] * ROWS + ["b"] * ROWS)
    return pa.table({"unique_id": names, "ds": pa.chunked_array([HOURS, HOURS]), "y": np.tile(WAVE, 2)})


def parquet(table: pa.Table) -> bytes:
    held = io.BytesIO()
    pq.write_table(table, held)
    return held.getvalue()


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A saved forecaster of a wide table, and one of a long table."""
    place = tmp_path_factory.mktemp("saved")
    sizes: dict[str, Any] = {"model": "dlinear", "context_length": 8, "epochs": 1, "threads": 1}
    FernForecaster(3, **sizes).fit(wave()).save(place / "wide")
    FernForecaster(3, **sizes).fit(long()).save(place / "long")
    return {name: place / name for name in ("wide", "long")}


@pytest.fixture
def m(fitted: dict[str, Path]) -> Path:
    """The saved forecaster ``m`` and its table ``x.csv`` in the scratch folder."""
    shutil.copytree(fitted["wide"], "m")
    lines = ["date,load", *(f"{stamp:%Y-%m-%d %H:%M:%S},{value:.4f}" for stamp, value in zip(
        HOURS.to_pylist(), WAVE, strict=True))]  # fmt: skip
    Path("x.csv").write_text("\n".join(lines) + "\n")
    return Path("m")


M = ("--model", "m")
QUICK = ("--model", "dlinear", "--epochs", 1, "--horizon", 2, "--context-length", 8)
FORECAST, BACKTEST, DIAGNOSE = ("forecast", "x.csv", *M), ("backtest", "x.csv", *M), ("diagnose", "x.csv", *M)
REPORT, AUDIT = ("report", "forecast", "x.csv", *M), ("report", "audit", "x.csv")


def linked(to: str) -> Callable[[Path], Any]:
    return lambda path: path.symlink_to(to)


@cases(
    Case("a report over its table", ("report", "forecast", "x.html", *M, "-o", "x.html"), 2, IN_PLACE,
         {"x.html": hourly()}),
    Case("a report over a link to its table", (*REPORT, "-o", "l.html"), 2, IN_PLACE, {"l.html": linked("x.csv")}),
    Case("a report into its forecaster", (*REPORT, "-o", "m/r.html"), 2, KEPT),
    Case("a report that is no page", (*REPORT, "-o", "r.txt"), 2, "a page needs one of .html"),
    Case("a report on standard output", (*REPORT, "-o", "-"), 2, "a page needs one of .html"),
    Case("an audit's report over its table", ("report", "audit", "x.html", "-o", "x.html"), 2, IN_PLACE,
         {"x.html": hourly()}),
    Case("an audit's report over its policy", (*AUDIT, "--policy", "p.html", "-o", "p.html"), 2, IN_PLACE,
         {"p.html": "schema = 1\n"}),
    Case("a folder's report among its rows", ("report", "r", "-o", "r/rows/x.html"), 2, KEPT, {"r/rows/a": ""}),
    Case("the report of a file", ("report", "x.csv", "-o", "r.html"), 2, "x.csv: is not a folder"),
    Case("a backtest into its forecaster", (*BACKTEST, "-o", "m/b.csv"), 2, KEPT),
    Case("a backtest over a hard link to its table", (*BACKTEST, "-o", "h.csv"), 2, IN_PLACE,
         {"h.csv": lambda path: os.link("x.csv", path)}),
    Case("a forecast and its plot in one file", (*FORECAST, "-o", "l.csv", "--plot", "l.png"), 2,
         "is named for two outputs", {"l.csv": linked("t"), "l.png": linked("t")}),
    Case("a forecast saved to a device", (*FORECAST, "--save", "/dev/null"), 2, "is a file, needs a folder"),
    Case("a forecast saved to a pipe", (*FORECAST, "--save", "p"), 2, "p is a file, needs a folder", {"p": os.mkfifo}),
    Case("a forecast saved among other files", (*FORECAST, "--save", "d"), 2, "holds other files", {"d/mine": "x"}),
    Case("a forecast saved through a link to what it reads", (*FORECAST, "--save", "l"), 2,
         "is also the forecaster that is read", {"l": linked("m")}),
    Case("an export into no name", ("bench", "export-fev", "", "--task", "t.toml"), 2, "an empty folder", EXPORT),
    Case("an export over files", ("bench", "export-fev", "d", "--task", "t.toml"), 2, "d: is not empty",
         {**EXPORT, "d/mine": "x"}),
    Case("an export into a file", ("bench", "export-fev", "f", "--task", "t.toml"), 2, "f is a file, needs a folder",
         {**EXPORT, "f": ""}),
    Case("an export below a device", ("bench", "export-fev", "/dev/null/x", "--task", "t.toml"), 2,
         "is a file, needs a folder", EXPORT),
    *(Case(f"an export of a scenario that calls itself {what}", ("bench", "export-fev", "d/e", "--task", "t.toml"), 2,
           "cannot be the name of a folder",
           {**EXPORT, "s.toml": EXPORT["s.toml"] + f'id = "{name}"\n', "evil/data.parquet": "theirs"},
           silent_on=MARKS)
      for what, name in (("a way out", "../../evil"), ("a root", "/tmp/evil"), ("the folder", "."),
                         ("the one above", ".."),
                         ("escape codes", "\\u001b[2J"), ("300 letters", "n" * 300), ("two lines", "a\\nb"))),
    Case("an export of two datasets of one name", ("bench", "export-fev", "d", "--task", "t.toml"), 2,
         "two of its datasets are called 'one'",
         {"t.toml": TASK.replace('["s.toml"]', '["a.toml", "b.toml"]'),
          **{f"{name}.toml": EXPORT["s.toml"] + f'id = "one"\nseed = {seed}\n' for seed, name in enumerate("ab")}}),
    Case("an export whose horizon does not fit", ("bench", "export-fev", "d", "--task", "t.toml"), 2,
         "rows|window", {**EXPORT, "t.toml": TASK.replace("[4]", "[4, 399]")}),
    Case("an export of no windows", ("bench", "export-fev", "d", "--task", "t.toml", "--windows", 0), 2,
         "windows: got 0", EXPORT),
    Case("a table of results over its task", ("bench", "table", "t.md", "--runs", "r", "-o", "t.exe"), 2,
         "a table needs one of .md", {"r/rows/x": ""}),
)  # fmt: skip
@pytest.mark.usefixtures("m")
def test_no_output_of_a_newer_command_takes_the_place_of_anything(case: Case, capsys) -> None:
    check(case, capsys)


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.is_char_device(), reason="no device that is always full")
@cases(
    *(Case(name, command, 1, "/dev/full: was not written", made=made) for name, command, made in (
        ("a forecast", (*FORECAST, "-o", FULL), ()),
        ("its plot", (*FORECAST, "-o", "f.csv", "--plot", FULL), ("f.csv",)),
        ("a backtest", (*BACKTEST, "-o", FULL), ()),
        ("a report", (*REPORT, "-o", FULL), ()),
        ("an audit's report", (*AUDIT, "-o", FULL), ()),
    )),
)  # fmt: skip
@pytest.mark.usefixtures("m")
def test_a_full_device_is_exit_code_1_and_no_mistake(case: Case, capsys) -> None:
    check(case, capsys)


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        ((*FORECAST, "-o", "pipe"), b"date,load"),
        ((*FORECAST, "-o", "f.csv", "--plot", "pipe"), b"\x89PNG"),
        ((*BACKTEST, "--windows", "1", "-o", "pipe"), b"date,cutoff"),
        ((*AUDIT, "-o", "pipe"), b"<!doctype html>"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.usefixtures("m")
def test_a_named_pipe_gets_the_result_and_stays_one(command, begins, capsys) -> None:
    os.mkfifo("pipe")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    ran = run(*command, capsys=capsys)
    reader.join(10)
    assert ran.code == 0, ran.err
    assert received[0].lower().startswith(begins.lower())
    assert stat.S_ISFIFO(Path("pipe").lstat().st_mode)


@pytest.mark.usefixtures("m")
def test_a_forecast_behind_a_link_replaces_what_it_points_to(capsys) -> None:
    write_files({"t": "old", "l.csv": linked("t")})
    before = snapshot()
    ran = run(*FORECAST, "-o", "l.csv", capsys=capsys)
    assert ran.code == 0, ran.err
    after = snapshot()
    assert {name for name in after if after[name] != before.get(name)} == {"t"}


def _changed(name: str, change: Callable[[Path], Any]) -> Callable[[], Any]:
    def apply() -> None:
        (path,) = Path("m").glob(name)
        change(path)

    return apply


def _instead(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    return lambda path: (path.unlink(), make(path))


BAD_FOLDERS: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing in it": (lambda: (shutil.rmtree("m"), Path("m").mkdir()), "holds no forecaster.json"),
    "a file": (lambda: (shutil.rmtree("m"), Path("m").write_text("x")), "m: is not a folder"),
    "a pipe": (lambda: (shutil.rmtree("m"), os.mkfifo("m")), "m: is not a folder"),
    "half a manifest": (_changed("forecaster.json", lambda p: p.write_text("{")), "is not JSON"),
    "a deep manifest": (_changed("forecaster.json", lambda p: p.write_text("[" * 90_000)), "is not JSON"),
    "a manifest of digits": (_changed("forecaster.json", lambda p: p.write_text("1" * 5000)), "is not JSON"),
    "a manifest of NaN": (_changed("forecaster.json", lambda p: p.write_text("NaN")), "NaN is no finite number"),
    "a manifest of bytes": (_changed("forecaster.json", lambda p: p.write_bytes(b"\xff")), "is not JSON"),
    "a changed manifest": (
        _changed("forecaster.json", lambda p: p.write_text(p.read_text().replace('"seed": ', '"seed": 1'))),
        "does not match its checksum",
    ),
    "a manifest that is a folder": (_changed("forecaster.json", _instead(Path.mkdir)), "is not a regular file"),
    "a manifest that is a pipe": (_changed("forecaster.json", _instead(os.mkfifo)), "is not a regular file"),
    "a manifest that is a link": (_changed("forecaster.json", _instead(linked("../x.csv"))), "is a link"),
    "no weights": (_changed("model*", Path.unlink), "no such file"),
    "weights that are a folder": (_changed("model*", _instead(Path.mkdir)), "is not a regular file"),
    "weights that are a pipe": (_changed("model*", _instead(os.mkfifo)), "is not a regular file"),
    "weights cut off": (_changed("model*", lambda p: p.write_bytes(p.read_bytes()[:-9])), "was changed or damaged"),
    "weights changed": (
        _changed("model*", lambda p: p.write_bytes(p.read_bytes()[:-1] + b"\x07")),
        "does not match its checksum",
    ),
    "a state of other bytes": (_changed("state*", lambda p: p.write_bytes(b"\xff" * 99)), "was changed or damaged"),
}


@pytest.mark.parametrize("kind", BAD_FOLDERS)
@pytest.mark.usefixtures("m")
def test_a_folder_that_is_no_saved_forecaster_is_a_mistake_in_every_command(kind: str, capsys) -> None:
    spoil, says = BAD_FOLDERS[kind]
    spoil()
    before = snapshot()
    for command in (FORECAST, BACKTEST, DIAGNOSE, (*REPORT, "-o", "r.html")):
        ran = run(*command, capsys=capsys)
        assert ran.code == 2, ran.err
        assert re.search(says, ran.err), ran.err
        assert ran.err.count("\n") == 1
    assert snapshot() == before


ODD_NAMES = ["\x1b[2J[/]<script>alert(1)</script>", "=1+1|$x_%s{0}", "", "\u202etxt", "cutoff"]
"""Escape codes, markup and a tag; a formula, a cell, math and a format; nothing; a direction; a column of ours."""


def test_foreign_names_reach_terminal_plot_and_page_as_text(capsys) -> None:
    """One table whose columns have all of the names, and one whose series have."""
    wide = pa.Table.from_arrays([HOURS, *([pa.array(WAVE)] * len(ODD_NAMES))], ["date", *ODD_NAMES])
    tall = pa.concat_tables(long(name).slice(0, ROWS) for name in ODD_NAMES)
    write_files({"w.parquet": parquet(wide), "l.parquet": parquet(tall)})
    sizes = ("--model", "last-value", "--horizon", 3, "--context-length", 8)
    for command in (
        ("forecast", "w.parquet", *sizes, "-o", "f.csv", "--plot", "f.svg"),
        ("forecast", "l.parquet", *sizes, "-o", "g.csv", "--plot", "g.svg"),
        ("backtest", "w.parquet", *sizes, "--windows", 2),
        ("backtest", "l.parquet", *sizes, "--windows", 2),
        ("report", "forecast", "w.parquet", *sizes, "-o", "f.html"),
    ):
        ran = run(*command, capsys=capsys)
        assert ran.code == 0, ran.err
        assert not [mark for mark in MARKS if mark in ran.out + ran.err]
    for name in ("f.html", "f.svg", "g.svg"):
        page = Path(name).read_text()
        assert not [mark for mark in MARKS if mark in page]
        assert "<script>alert" not in page
    assert pq.read_table("w.parquet").column_names == ["date", *ODD_NAMES]


def with_last(value: str) -> str:
    lines = hourly(ROWS).splitlines()
    return "\n".join([*lines[:-1], f"{lines[-1].split(',')[0]},{value}"]) + "\n"


@cases(
    *(Case(f"a {kind} of a table that ends in {value!r}", (*command, "--horizon", 2, "--context-length", 8), code, says,
           {"x.csv": with_last(value)})
      for kind, command in (
          ("forecast", ("forecast", "x.csv", "--model", "last-value")),
          ("backtest", ("backtest", "x.csv", "--model", "last-value")),
          ("report", ("report", "forecast", "x.csv", "-o", "r.html", "--model", "last-value")),
      )
      for value, code, says in (
          ("nan", 2, "'load' has 1 missing or infinite value"),
          ("inf", 2, "'load' has 1 missing or infinite value"),
          ("1e400", 2, "'load' has 1 missing or infinite value"),
          ("many", 2, "'load' holds text"),
      )),
    *(Case(f"a horizon of {horizon}", ("forecast", "x.csv", "--model", "last-value", "--horizon", horizon), 2, says,
           {"x.csv": hourly(ROWS)})
      for horizon, says in ((0, "horizon"), (-1, "horizon"), (10**12, "memory|horizon"), (10**30, "horizon|range"),
                            ("9" * 5000, "Invalid value"), ("moon", "valid int"), ("", "valid int"))),
    *(Case(f"levels of {level!r}",
           ("forecast", "x.csv", "--model", "last-value", "--horizon", 2, f"--level={level}"), 2,
           "--level", {"x.csv": hourly(ROWS)})
      for level in ("0", "100", "-5", "nan", "inf", "moon", "1e400", "80;90")),
    Case("a horizon beyond memory of a saved forecaster", (*FORECAST, "--horizon", 10**12), 2, "memory|horizon"),
    Case("a thousand horizons and a step", (*FORECAST, "--horizon", 3001), 2, "horizon|h: got 3001"),
    Case("a report of it", (*REPORT, "--horizon", 10**12, "-o", "r.html"), 2, "memory|horizon"),
    Case("10^12 windows", (*BACKTEST, "--windows", 10**12), 2, "--windows"),
    Case("windows 10^12 rows apart", (*BACKTEST, "--step-size", 10**12), 2, "--windows|--step-size"),
    Case("no windows", (*BACKTEST, "--windows", 0), 2, "--windows"),
    *(Case(f"{what}, told before any training", (*command, *QUICK, *given), 2, says,
           {"x.csv": hourly(ROWS, "load,promo")}, silent_on=("epoch", "fitted"))
      for command in (("forecast", "x.csv"), ("report", "forecast", "x.csv", "-o", "r.html"))
      for what, given, says in (
          (f"{command[0]}: known columns without their values", ("--known", "promo"), "--future"),
          (f"{command[0]}: values of no known column", ("--future", "x.csv"), "--known"),
          (f"{command[0]}: no such future", ("--known", "promo", "--future", "none.csv"), "none.csv: --future"),
          (f"{command[0]}: holidays of nowhere", ("--holidays", "XX", "--target", "load,promo"), "holidays"),
          (f"{command[0]}: a time column without a name", ("--time", ""), "--time"),
          (f"{command[0]}: series by a column without a name", ("--id", ""), "--id"),
          (f"{command[0]}: the target known ahead", ("--known", "load", "--target", "load", "--future", "x.csv"),
           "--known"),
      )),
    Case("a diagnosis without a forecaster", ("diagnose", "x.csv", "--model", "dlinear"), 2,
         "needs the folder of a saved forecaster"),
)  # fmt: skip
@pytest.mark.usefixtures("m")
def test_odd_values_and_sizes_are_refused_in_a_line(case: Case, capsys) -> None:
    Path("x.csv").unlink() if "x.csv" in case.files else None
    check(case, capsys)


def test_views_of_text_are_text(capsys) -> None:
    names = pa.array(["a"] * ROWS, pa.string_view())
    stamps = pa.array([f"{stamp:%Y-%m-%d %H:%M}" for stamp in HOURS.to_pylist()], pa.string_view())
    write_files({"v.parquet": parquet(pa.table({"unique_id": names, "ds": stamps, "y": WAVE}))})
    ran = run("forecast", "v.parquet", "--model", "last-value", "--horizon", 2, "--context-length", 8, capsys=capsys)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[1].startswith("a,1970-01-06 00:00,")


def _on(stream: Any, *arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    from fern.cli.app import main

    screen.console.cache_clear()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "argv", ["fern", *map(str, arguments)])
    monkeypatch.setattr("fern.cli.app._abandon_output", lambda: None)
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        screen.console.cache_clear()
    return 0


PRINTING = [FORECAST, BACKTEST, DIAGNOSE, ("stress", "--list-adapters")]


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
@pytest.mark.usefixtures("m")
def test_a_terminal_of_ascii_a_closed_one_and_a_full_one(command, monkeypatch, capsys) -> None:
    held = io.BytesIO()
    stream = io.TextIOWrapper(held, encoding="ascii")
    assert _on(stream, *command, monkeypatch=monkeypatch) == 0
    stream.flush()
    assert held.getvalue().isascii()
    stream.detach()
    assert _on(None, *command, monkeypatch=monkeypatch) == 0
    if FULL.is_char_device():
        full = os.fdopen(os.open(FULL, os.O_WRONLY), "w", encoding="utf-8")
        assert _on(full, *command, monkeypatch=monkeypatch) == 1
        assert "error: standard output: was not written" in capsys.readouterr().err
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # what is left in it goes nowhere
        full.close()


def _interrupt(*arguments: object, **options: object) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("at", "command"),
    [
        ("fern.forecaster.FernForecaster.predict", (*FORECAST, "-o", "f.csv")),
        ("fern.data.writing.write_table", (*FORECAST, "-o", "f.csv")),
        ("fern.data.writing.write_table", (*BACKTEST, "-o", "b.csv")),
        ("fern.forecaster.FernForecaster.diagnose", DIAGNOSE),
        ("fern.forecaster.FernForecaster.report", (*REPORT, "-o", "r.html")),
        ("fern.data.auditing.page.audit_page", (*AUDIT, "-o", "r.html")),
        ("fern.benchmark.fev_tasks._starts", ("bench", "export-fev", "d", "--task", "t.toml")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
@pytest.mark.usefixtures("m")
def test_an_interrupt_leaves_nothing_half_written(at: str, command: tuple[str, ...], monkeypatch, capsys) -> None:
    write_files(EXPORT)
    before = snapshot()
    monkeypatch.setattr(at, _interrupt)
    ran = run(*command, capsys=capsys)
    assert ran.code in (1, 130)
    assert "Traceback" not in ran.out + ran.err
    assert snapshot() == before


def test_an_interrupt_while_commands_are_loaded_is_no_traceback(monkeypatch) -> None:
    from fern.__main__ import main

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "fern.cli.app", Interrupted())
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


@pytest.fixture
def many(fitted: dict[str, Path]) -> FernForecaster:
    """A forecaster of a long table, whose file is ``many.parquet`` and, once more, in the folder ``parts``."""
    write_files({"many.parquet": parquet(long()), "parts/many.parquet": parquet(long())})
    return FernForecaster.load(fitted["long"])


OUTPUTS: dict[str, tuple[str, str, str]] = {
    "its input": ("many.parquet", "many.parquet", IN_PLACE),
    "its input named otherwise": ("many.parquet", "parts/../many.parquet", IN_PLACE),
    "a link to its input": ("many.parquet", "link.parquet", IN_PLACE),
    "a hard link to its input": ("many.parquet", "hard.parquet", IN_PLACE),
    "a file of its folder": ("parts", "parts/many.parquet", IN_PLACE),
    "a new file of its folder": ("parts", "parts/new.parquet", KEPT),
    "a folder": ("many.parquet", "d.parquet", "is a directory"),
    "no folder": ("many.parquet", "none/f.parquet", "the folder none does not exist"),
    "another format": ("many.parquet", "f.csv", "needs one of .parquet"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_forecast_of_many_series_keeps_the_rule_of_outputs(name: str, many: FernForecaster) -> None:
    source, out, says = OUTPUTS[name]
    write_files({"link.parquet": linked("many.parquet"), "d.parquet/x": ""})
    os.link("many.parquet", "hard.parquet")
    before = snapshot()
    with pytest.raises(FernError, match=says):
        many.predict_file(source, out)
    assert snapshot() == before


@pytest.mark.skipif(not FULL.is_char_device(), reason="no device that is always full")
def test_a_forecast_of_many_series_on_a_full_device_is_not_written(many: FernForecaster) -> None:
    with pytest.raises(NotWritten, match="/dev/full: was not written"):
        many.predict_file("many.parquet", FULL)


def damaged() -> bytes:
    """A file whose footer is whole and whose pages are not."""
    data = bytearray(parquet(long()))
    data[4:200] = b"\xff" * 196
    return bytes(data)


SOURCES: dict[str, tuple[bytes, str]] = {
    "no Parquet": (b"a,b\n1,2\n", "is not a readable Parquet file"),
    "empty": (b"", "is not a readable Parquet file"),
    "damaged within": (damaged(), "is not a readable Parquet file"),
    "lists for names": (parquet(pa.table({"unique_id": [["a"]] * 9, "ds": range(9), "y": WAVE[:9]})), "holds list"),
    "numbers with a point for names": (
        parquet(pa.table({"unique_id": [1.5] * 9, "ds": range(9), "y": WAVE[:9]})),
        "holds double",
    ),
    "no names": (parquet(pa.table({"ds": range(9), "y": WAVE[:9]})), "unknown column 'unique_id'"),
    "names that are missing": (
        parquet(pa.table({"unique_id": pa.array(["a", None]), "ds": [1, 2], "y": WAVE[:2]})),
        "is empty in data row 2",
    ),
    "no rows": (parquet(long().slice(0, 0)), "has no rows"),
    "text for values": (
        parquet(pa.table({"unique_id": ["a"] * 9, "ds": range(9), "y": ["x"] * 9})),
        "holds|type|time",
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_table_of_many_series_that_cannot_be_read_is_a_mistake(name: str, many: FernForecaster) -> None:
    content, says = SOURCES[name]
    write_files({"bad.parquet": content})
    before = snapshot()
    with pytest.raises(FernError, match=says):
        many.predict_file("bad.parquet", "f.parquet")
    assert snapshot() == before

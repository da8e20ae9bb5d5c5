"""Nothing is overwritten: outputs that are inputs, outputs named twice, links, devices, pipes."""

import os
import stat
import threading
from pathlib import Path

import pytest
from tests.hostile.support import SCENARIO, Case, Ran, cases, check, hourly, run, snapshot, write_files

from fern.errors import FernError, NotWritten
from fern.files import check_folder, check_outputs, check_writable, require_ending, write_whole

IN_PLACE = "is also an input; files are not changed in place"
TWICE = "is named for two outputs"
TABLE = {"x.csv": hourly()}
TASK = (
    'schema = 1\nmodels = ["last-value"]\ndatasets = ["OU_BASE"]\nhorizons = [12]\nseeds = [7]\ncontext_length = 24\n'
)
MODEL = "def forecast(context, horizon):\n    return context[..., -1:, :].repeat(horizon, axis=-2)\n"


def linked(to: str):
    return lambda path: path.symlink_to(to)


def hard_linked(to: str):
    return lambda path: os.link(to, path)


@cases(
    Case("audit's page over its table", ("audit", "x.csv", "--html", "x.csv"), 2, IN_PLACE, TABLE),
    Case("audit's page over its table, named otherwise", ("audit", "x.csv", "--html", "./a/../x.csv"), 2, IN_PLACE,
         {**TABLE, "a/b": ""}),
    Case("audit's page over its policy", ("audit", "x.csv", "--policy", "p.toml", "--html", "p.toml"), 2, IN_PLACE,
         {**TABLE, "p.toml": "schema = 1\n"}),
    Case("audit's page over a link to its table", ("audit", "x.csv", "--html", "l"), 2, IN_PLACE,
         {**TABLE, "l": linked("x.csv")}),
    Case("audit's page over the table behind a link", ("audit", "l.csv", "--html", "x.csv"), 2, IN_PLACE,
         {**TABLE, "l.csv": linked("x.csv")}),
    Case("audit's page over a hard link to its table", ("audit", "x.csv", "--html", "h"), 2, IN_PLACE,
         {**TABLE, "h": hard_linked("x.csv")}),
    Case("audit's page over a folder", ("audit", "x.csv", "--html", "d"), 2, "is a directory", {**TABLE, "d/e": ""}),
    Case("audit's page into no folder", ("audit", "x.csv", "--html", "d/e.html"), 2, "the folder d does not exist",
         TABLE),
    Case("audit's page behind a dangling link to no folder", ("audit", "x.csv", "--html", "l"), 2, "does not exist",
         {**TABLE, "l": linked("d/e.html")}),
    Case("audit's page behind links in a circle", ("audit", "x.csv", "--html", "l"), 2, "l: cannot be used",
         {**TABLE, "l": linked("m"), "m": linked("l")}),
    Case("audit's page under a name of 300 bytes", ("audit", "x.csv", "--html", "n" * 300), 2, "File name too long",
         TABLE),
    Case("audit's page under a name of 255 bytes", ("audit", "x.csv", "--html", "n" * 255), 0, "load", TABLE,
         made=("n" * 255,)),
    Case("cleaning in place", ("clean", "x.csv", "-o", "x.csv"), 2, IN_PLACE, TABLE),
    Case("cleaning over a link to the table", ("clean", "x.csv", "-o", "l.csv"), 2, IN_PLACE,
         {**TABLE, "l.csv": linked("x.csv")}),
    Case("the log over the cleaned table", ("clean", "x.csv", "-o", "c.csv", "--log", "c.csv"), 2, TWICE, TABLE),
    Case("the log over the cleaned table, named otherwise", ("clean", "x.csv", "-o", "c.csv", "--log", "a/../c.csv"),
         2, TWICE, {**TABLE, "a/b": ""}),
    Case("the log over the table", ("clean", "x.csv", "-o", "c.csv", "--log", "x.csv"), 2, IN_PLACE, TABLE),
    Case("the log over the policy", ("clean", "x.csv", "-o", "c.csv", "--policy", "p.toml", "--log", "p.toml"), 2,
         IN_PLACE, {**TABLE, "p.toml": "schema = 1\n"}),
    Case("log and table through one link", ("clean", "x.csv", "-o", "c.csv", "--log", "l"), 2, TWICE,
         {**TABLE, "l": linked("c.csv")}),
    Case("a trajectory over its scenario", ("simulate", "s.toml", "-o", "s.toml"), 2, "needs one of .csv",
         {"s.toml": SCENARIO}),
    Case("a trajectory over its scenario, a file called .csv", ("simulate", "s.csv", "-o", "s.csv"), 2, IN_PLACE,
         {"s.csv": SCENARIO}),
    Case("a plot over its scenario", ("simulate", "s.png", "--plot", "s.png"), 2, IN_PLACE, {"s.png": SCENARIO}),
    Case("a trajectory over a link to its scenario", ("simulate", "s.toml", "-o", "l.csv"), 2, IN_PLACE,
         {"s.toml": SCENARIO, "l.csv": linked("s.toml")}),
    Case("a forecast over its table", ("forecast", "x.csv", "--horizon", 3, "-o", "x.csv"), 2, IN_PLACE, TABLE),
    Case("a forecast's plot over its table", ("forecast", "x.png", "--horizon", 3, "--plot", "x.png"), 2, IN_PLACE,
         {"x.png": hourly()}),
    Case("a forecast into the folder it is saved to",
         ("forecast", "x.csv", "--horizon", 3, "-o", "f/y.csv", "--save", "f"), 2, "lies in f",
         {**TABLE, "f/forecaster.json": "{}"}),
    Case("a forecast saved over a file", ("forecast", "x.csv", "--horizon", 3, "--save", "x.csv"), 2,
         "x.csv: x.csv is a file, needs a folder", TABLE),
    Case("a forecast saved over the forecaster it reads", ("forecast", "x.csv", "--model", "f", "--save", "./f"), 2,
         "is also the forecaster that is read", {**TABLE, "f/forecaster.json": "{}"}),
    Case("a forecast into the forecaster it reads", ("forecast", "x.csv", "--model", "f", "-o", "f/y.csv"), 2,
         "lies in f", {**TABLE, "f/forecaster.json": "{}"}),
    Case("a backtest over its table", ("backtest", "x.csv", "--horizon", 3, "-o", "x.csv"), 2, IN_PLACE, TABLE),
    Case("a table over its task", ("bench", "table", "t.toml", "--runs", "r", "-o", "t.toml"), 2, IN_PLACE,
         {"t.toml": TASK, "r/rows/x": ""}),
    Case("a table over a row", ("bench", "table", "quick", "--runs", "r", "-o", "r/rows/0123456789abcdef.json"), 2,
         "lies in r/rows", {"r/rows/0123456789abcdef.json": "{}"}),
    Case("a sweep into a file", ("bench", "run", "quick", "--out", "f"), 2, "f is a file, needs a folder", {"f": ""}),
    Case("a sweep below a file", ("bench", "run", "quick", "--out", "f/r"), 2, "f is a file, needs a folder",
         {"f": ""}),
    Case("a response's plot over its scenario",
         ("bench", "response", "last-value", "s.png", "--plot", "s.png"), 2, IN_PLACE, {"s.png": SCENARIO}),
    Case("JUnit over the scenario", ("stress", "last-value", "--scenario", "s.toml", "--junit", "s.toml"), 2, IN_PLACE,
         {"s.toml": SCENARIO}),
    Case("JUnit over the forecaster's source", ("stress", "mine:forecast", "--junit", "mine.py"), 2, IN_PLACE,
         {"mine.py": MODEL}),
    Case("JUnit over a saved model", ("stress", "m.safetensors", "--junit", "m.safetensors"), 2, IN_PLACE,
         {"m.safetensors": "x"}),
    Case("JUnit into a saved model's folder", ("stress", "m", "--junit", "m/model.safetensors"), 2, "lies in m",
         {"m/model.safetensors": "x"}),
    Case("the demo into a file", ("demo", "--out", "f"), 2, "f is a file, needs a folder", {"f": ""}),
    Case("the demo where one of its files is a folder", ("demo", "--out", "d"), 2, "report.html: is a directory",
         {"d/report.html/x": ""}),
)  # fmt: skip
def test_no_output_takes_the_place_of_an_input_or_of_another_output(case: Case, capsys) -> None:
    check(case, capsys)


@cases(
    Case("a page", ("audit", "x.csv", "--html", "l"), 0, "load", {**TABLE, "t": "old", "l": linked("t")}),
    Case("a cleaned table", ("clean", "x.csv", "-o", "l.csv"), 0, "60 out",
         {**TABLE, "t": "old", "l.csv": linked("t")}),
    Case("a trajectory", ("simulate", "s.toml", "-o", "l.csv"), 0, "wrote l.csv",
         {"s.toml": SCENARIO, "t": "old", "l.csv": linked("t")}),
    Case("a new file behind a dangling link", ("clean", "x.csv", "-o", "l.csv"), 0, "60 out",
         {**TABLE, "l.csv": linked("t")}),
)  # fmt: skip
def test_behind_a_link_the_file_is_replaced_and_the_link_stays(case: Case, capsys) -> None:
    write_files(case.files)
    before = snapshot()
    ran = run(*case.command, capsys=capsys)
    assert (ran.code, ran.err.count("Traceback")) == (case.code, 0), ran.err
    after = snapshot()
    assert {name for name in after if after[name] != before.get(name)} == {"t"}
    assert len(after["t"]) > 100


def _through_a_pipe(*command: object, capsys) -> tuple[bytes, Ran]:
    os.mkfifo("pipe")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    ran = run(*command, capsys=capsys)
    reader.join(10)
    return received[0], ran


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        (("audit", "x.csv", "--html", "pipe"), b"<!doctype"),
        (("clean", "x.csv", "-o", "pipe"), b"date,load"),
        (("clean", "x.csv", "-o", "c.csv", "--log", "pipe"), b"{"),
        (("simulate", "s.toml", "-o", "pipe"), b'"time"'),
        (("simulate", "s.toml", "--plot", "pipe"), b"\x89PNG"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_named_pipe_is_written_through_and_stays_one(command, begins, capsys) -> None:
    write_files({**TABLE, "s.toml": SCENARIO})
    received, ran = _through_a_pipe(*command, capsys=capsys)
    assert ran.code == 0, ran.err
    assert received.lower().startswith(begins.lower())
    assert stat.S_ISFIFO(Path("pipe").lstat().st_mode)


@pytest.fixture
def null() -> Path:
    """A device like ``/dev/null`` in the scratch folder, or the real one, which nobody else than root can harm."""
    path = Path("null")
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.write_bytes(b"probe")  # a file system may be mounted without devices
    except OSError:
        path.unlink(missing_ok=True)
        if os.access("/dev", os.W_OK):
            pytest.skip("no devices here, and the real one is not to be risked")
        return Path("/dev/null")
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("audit", "x.csv", "--html", "{}"),
        ("clean", "x.csv", "-o", "{}"),
        ("clean", "x.csv", "-o", "{}", "--log", "{}"),
        ("simulate", "s.toml", "-o", "{}", "--plot", "{}"),
    ],
    ids=" ".join,
)
def test_a_device_is_written_through_and_stays_one(command, null: Path, capsys) -> None:
    write_files({**TABLE, "s.toml": SCENARIO})
    before = snapshot()
    ran = run(*(word.format(null) for word in command), capsys=capsys)
    assert ran.code == 0, ran.err
    assert snapshot() == before
    assert stat.S_ISCHR(null.lstat().st_mode)


def test_the_file_of_standard_output_is_no_output(capsys, monkeypatch) -> None:
    write_files(TABLE)
    with Path("out.txt").open("w") as file:
        monkeypatch.setattr("sys.stdout", file)
        with pytest.raises(FernError, match="standard output goes there already"):
            check_outputs([Path("out.txt")])


def test_the_file_of_standard_input_is_no_output(monkeypatch) -> None:
    write_files(TABLE)
    with Path("x.csv").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(FernError, match="is standard input"):
            check_outputs([Path("x.csv")])


def test_a_replaced_file_keeps_its_permissions() -> None:
    Path("secret").write_text("old")
    Path("secret").chmod(0o600)
    with write_whole(Path("secret")) as temporary:
        temporary.write_text("new")
    assert stat.S_IMODE(Path("secret").stat().st_mode) == 0o600
    assert Path("secret").read_text() == "new"


@pytest.mark.parametrize("failing", [ValueError, OSError(28, "No space left on device"), KeyboardInterrupt])
def test_a_write_that_fails_leaves_the_former_file_and_nothing_else(failing) -> None:
    write_files({"kept": "old"})
    before = snapshot()
    with (
        pytest.raises((ValueError, KeyboardInterrupt)),
        write_whole(Path("kept")) as temporary,
    ):
        temporary.write_text("half")
        raise failing
    assert snapshot() == before


def test_a_socket_is_refused() -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as own:
        own.bind("socket")
        with pytest.raises(FernError, match="is a socket"):
            check_writable(Path("socket"))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: check_writable(Path("a\0b")), "is no file name"),
        (lambda: check_outputs([Path("a" * 300)]), "File name too long"),
        (lambda: check_outputs([Path("x"), Path("y")], inputs=["a\0b"]), "is no file name"),
        (lambda: check_folder(Path("n" * 300) / "x"), "File name too long"),
        (lambda: require_ending(Path("x.exe"), (".csv",), what="a table"), "needs one of .csv"),
    ],
)
def test_names_that_cannot_be_files_are_mistakes(attempt, message) -> None:
    with pytest.raises(FernError, match=message) as caught:
        attempt()
    assert not isinstance(caught.value, NotWritten)

"""A full disk: exit code 1, what is missing is named, the former file stays, nothing half-written is left."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.benchmark.support import InlineEngine, tiny_plan
from tests.hostile.support import SCENARIO, Case, cases, check, hourly, run, snapshot, write_files

from fern.benchmark.engines.local import LocalEngine
from fern.benchmark.execute import RunCache, RunContext, execute_run
from fern.benchmark.store import Store
from fern.errors import FernError, NotWritten
from fern.files import make_folder, write_whole
from fern.forecaster.saved_folder import write_folder
from fern.models import build_model, save_model
from fern.plot.canvas import figure, save_figure

TABLE = {"x.csv": hourly(700, "a,b,c")}
TASK = 'schema = 1\nmodels = ["last-value"]\ndatasets = ["s.toml"]\nhorizons = [4]\nseeds = [7]\ncontext_length = 6\n'
MISSING = "was not written"


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """git, which tells a row its commit, refreshes the index of this repository: killed at that, it leaves a lock."""
    monkeypatch.setattr("fern.benchmark.execute.versions", dict)


@contextmanager
def room_for(count: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the operating system refuses the write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1000, 9000])
@pytest.mark.parametrize(
    ("command", "output"),
    [
        (("clean", "x.csv", "-o", "c.parquet"), "c.parquet"),
        (("clean", "x.csv", "-o", "c.csv"), "c.csv"),
        (("audit", "x.csv", "--html", "c.html"), "c.html"),
        (("simulate", "s.toml", "-o", "c.csv"), "c.csv"),
        (("simulate", "s.toml", "-o", "c.parquet"), "c.parquet"),
        (("simulate", "s.toml", "-o", "c.npz"), "c.npz"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_result_that_does_not_fit_is_told_and_the_former_one_stays(command, output, room, capsys) -> None:
    write_files({**TABLE, "s.toml": SCENARIO.replace("60", "4000"), output: "the former result"})
    before = snapshot()
    with room_for(room):
        ran = run(*command, capsys=capsys)
    assert ran.code == 1, ran.out + ran.err
    assert f"error: {output}: {MISSING} (File too large)" in ran.err
    assert snapshot() == before


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.is_char_device(), reason="no device that is always full")
@cases(
    Case("a page", ("audit", "x.csv", "--html", FULL), 1, f"/dev/full: {MISSING}", TABLE),
    Case("a table", ("clean", "x.csv", "-o", FULL), 1, f"/dev/full: {MISSING}", TABLE),
    Case("a log", ("clean", "x.csv", "-o", "c.csv", "--log", FULL), 1, f"/dev/full: {MISSING}", TABLE,
         made=("c.csv",)),
    Case("a trajectory", ("simulate", "s.toml", "-o", FULL), 1, f"/dev/full: {MISSING}", {"s.toml": SCENARIO}),
    Case("a plot", ("simulate", "s.toml", "--plot", FULL), 1, f"/dev/full: {MISSING}", {"s.toml": SCENARIO}),
)  # fmt: skip
def test_a_full_device_is_exit_code_1(case: Case, capsys) -> None:
    check(case, capsys)


def _refuse(*arguments: object, **options: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_disk_that_is_found_full_only_when_it_syncs_leaves_the_former_file(monkeypatch) -> None:
    write_files({"kept": "old"})
    before = snapshot()
    monkeypatch.setattr("os.fsync", _refuse)
    with pytest.raises(NotWritten, match="kept: was not written"), write_whole(Path("kept")) as temporary:
        temporary.write_text("new")
    assert snapshot() == before


@pytest.mark.parametrize(
    "write",
    [
        lambda: save_model(build_model("dlinear", context_length=48, horizon=48, channels=1), Path("m.safetensors")),
        lambda: write_folder(Path("folder"), {}, {"state": {"x": np.arange(5000)}}),
        lambda: save_figure(figure(4, 3), "p.png"),
        lambda: save_figure(figure(4, 3), "p.svg"),
    ],
    ids=["model", "forecaster", "png", "svg"],
)
def test_every_writer_of_python_says_that_it_did_not_write(write) -> None:
    with room_for(500), pytest.raises(NotWritten, match="was not written"):
        write()
    assert not [path for path in Path().rglob("*") if path.is_file()]


def test_a_folder_that_finds_no_room_is_told(monkeypatch) -> None:
    monkeypatch.setattr(Path, "mkdir", _refuse)
    with pytest.raises(NotWritten, match="x: was not made"):
        make_folder(Path("x"))


def test_a_sweep_without_room_for_its_row_ends_with_exit_code_1_and_names_it(capsys, monkeypatch) -> None:
    write_files({"t.toml": TASK, "s.toml": SCENARIO.replace("60", "200")})
    monkeypatch.setattr("fern.benchmark.engines.open_engine", lambda name, plan, out, **options: InlineEngine(out))
    Store("runs").for_writing()
    with room_for(100):
        ran = run("bench", "run", "t.toml", "--out", "runs", capsys=capsys)
    assert ran.code == 1, ran.out + ran.err
    assert "the result of last-value on s, 6 to 4, seed 7 is missing: make room" in ran.err
    assert not [path for path in Path("runs").rglob("*") if path.is_file() and path.name != ".gitignore"]
    again = run("bench", "run", "t.toml", "--out", "runs", capsys=capsys)
    assert (again.code, "1 results in runs" in again.out) == (0, True), again.err


def test_a_run_without_room_for_its_checkpoint_leaves_no_row_that_says_failed() -> None:
    work = tiny_plan(models=["dlinear"]).runs[0]
    store = Store("runs").for_writing()
    with room_for(300), pytest.raises(NotWritten, match="safetensors: was not written"):
        execute_run(work, RunContext(checkpoints=store.checkpoint_path(work.key)), RunCache())
    assert store.contents().results == ()


def test_a_worker_hands_on_that_the_disk_is_full(monkeypatch) -> None:
    engine = LocalEngine(Path(), slots=1, threads=1)
    told = NotWritten("x: was not written")

    class Pipe:
        def recv(self) -> FernError:
            return told

    class Worker:
        pipe = Pipe()

    monkeypatch.setattr(engine, "_workers", [Worker()])
    monkeypatch.setattr("fern.benchmark.engines.local.wait", lambda pipes, seconds: pipes)
    with pytest.raises(NotWritten):
        engine.wait(0)

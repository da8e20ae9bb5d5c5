"""Nothing is executed that nobody named, and nothing is deleted through a link."""

import multiprocessing
import os
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.benchmark.support import tiny_plan
from tests.hostile.support import SCENARIO, leave_a_note, run, snapshot, write_files

from fern.benchmark.adapters.outside import import_object
from fern.benchmark.execute import RunCache, RunContext, execute_run, fail_run
from fern.benchmark.locks import Claims, hold_lock
from fern.benchmark.store import Store
from fern.benchmark.stress.targets import open_target
from fern.errors import FernError
from fern.extras import add_search_folder
from fern.processes import spawn

TRAP = "from pathlib import Path\nPath({!r}).write_text('executed')\n"
TRAPS = ("random", "lightning_fabric", "tempfile", "selectors", "numpy", "torch", "pyarrow", "typer", "tensorboard")
FORECASTER = "def forecast(context, horizon):\n    return context[..., -1:, :].repeat(horizon, axis=-2)\n"
TASK = 'schema = 1\nmodels = ["last-value"]\ndatasets = ["s.toml"]\nhorizons = [4]\nseeds = [7]\ncontext_length = 6\n'


def lay_traps(folder: Path) -> Path:
    """Modules that leave a mark when they are executed; the folder of the marks."""
    marks = folder / "marks"
    marks.mkdir(parents=True)
    for name in TRAPS:
        (folder / f"{name}.py").write_text(TRAP.format(str(marks / name)))
    return marks


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder full of traps, which is not on the path; its marks."""
    marks = lay_traps(tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path / "work"))])
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return marks


def test_the_processes_of_a_sweep_import_only_the_module_that_was_named(trapped, capsys) -> None:
    write_files({"t.toml": TASK, "s.toml": SCENARIO.replace("60", "200"), "mine.py": FORECASTER})
    ran = run("bench", "run", "t.toml", "--out", "runs", "--with", "mine:forecast", "--jobs", 1, capsys=capsys)
    assert ran.code == 0, ran.err
    assert "2 results in runs" in ran.out
    assert list(trapped.iterdir()) == []


def test_a_process_is_born_without_the_modules_of_the_current_folder(tmp_path, trapped) -> None:
    process = spawn(leave_a_note, str(tmp_path / "note"), daemon=True, name="trapped")
    process.join(60)
    assert list(trapped.iterdir()) == []
    where, safe = (tmp_path / "note").read_text().splitlines()
    assert Path(where).parent != Path.cwd()
    assert safe == "None"  # what it starts itself is as it always is
    assert "PYTHONSAFEPATH" not in os.environ


@pytest.mark.parametrize("target", ["last-value", "saved.safetensors"])
def test_a_target_that_names_no_code_leaves_the_path_alone(target, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    write_files({"saved.safetensors": "no model"})
    try:
        open_target(target, folder=str(tmp_path))
    except FernError:
        assert target != "last-value"
    assert sys.path == before


def test_the_named_module_is_looked_for_last(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    write_files({"named_in_a_test.py": FORECASTER, "json.py": FORECASTER})
    assert callable(open_target("named_in_a_test:forecast", folder=str(tmp_path)).source)
    assert sys.path[-1] == str(tmp_path)
    with pytest.raises(FernError, match=r"json is another module than json\.py in the current folder"):
        import_object("json:forecast")
    before = list(sys.path)
    add_search_folder(str(tmp_path))
    assert sys.path == before


def test_a_response_of_a_registered_model_imports_nothing_from_the_folder(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    write_files(
        {"s.toml": SCENARIO.replace("60", "400") + '[[shocks]]\nkind = "param"\nat = 0.9\nparams = { mu = 3.0 }\n'}
    )
    ran = run("bench", "response", "last-value", "s.toml", "--context-length", 8, "--horizon", 4, capsys=capsys)
    assert ran.code == 0, ran.err
    assert sys.path == before


@pytest.fixture
def others() -> Path:
    """Somebody's folder with a model, to which the checkpoints of a run are linked."""
    write_files({"theirs/best.safetensors": "a month of work", "theirs/last.safetensors": "and another"})
    return Path("theirs").absolute()


def test_a_run_whose_checkpoint_folder_is_a_link_leaves_the_other_folder_alone(others: Path) -> None:
    before = snapshot(others)
    store = Store("runs").for_writing()
    work = tiny_plan(models=["dlinear"]).runs[0]
    link = store.checkpoint_path(work.key)
    link.symlink_to(others)
    outcome = execute_run(work, RunContext(checkpoints=link), RunCache())
    assert outcome.result.status == "done", outcome.result.error
    assert snapshot(others) == before
    assert not link.is_symlink()
    store.write(outcome.result, outcome.windows)
    assert not link.exists()


def test_dropped_checkpoints_that_are_a_link_are_only_the_link(others: Path) -> None:
    before = snapshot(others)
    store = Store("runs").for_writing()
    link = store.checkpoint_path("0" * 16)
    link.symlink_to(others)
    store.drop_checkpoints("0" * 16)
    assert snapshot(others) == before
    assert not link.is_symlink()


def test_links_inside_dropped_checkpoints_are_not_followed(others: Path) -> None:
    before = snapshot(others)
    store = Store("runs").for_writing()
    folder = store.checkpoint_path("0" * 16)
    folder.mkdir()
    (folder / "sub").symlink_to(others)
    (folder / "best.safetensors").symlink_to(others / "best.safetensors")
    store.drop_checkpoints("0" * 16)
    assert not folder.exists()
    assert snapshot(others) == before


def test_a_row_file_that_is_a_link_is_replaced_and_not_what_it_points_to(others: Path) -> None:
    before = snapshot(others)
    store = Store("runs").for_writing()
    outcome = fail_run(tiny_plan(models=["last-value"]).runs[0], RunContext(), "it was lost")
    path = store.result_path(outcome.result.key)
    path.symlink_to(others / "best.safetensors")
    store.write(outcome.result)
    assert not path.is_symlink()
    assert store.read(outcome.result.key) == outcome.result
    assert snapshot(others) == before


def test_a_claim_that_is_a_link_does_not_empty_the_file_behind_it(others: Path) -> None:
    before = snapshot(others)
    folder = Path("claims")
    folder.mkdir()
    (folder / "ab").symlink_to(others / "best.safetensors")
    with Claims(folder) as claims, pytest.raises(FernError, match="cannot be claimed"):
        claims.take("ab")
    assert snapshot(others) == before


def test_a_claim_that_is_a_pipe_is_refused_and_does_not_wait() -> None:
    folder = Path("claims")
    folder.mkdir()
    os.mkfifo(folder / "ab")
    with Claims(folder) as claims, pytest.raises(FernError, match="not a regular file"):
        claims.take("ab")


def test_a_lock_is_not_taken_through_a_link(others: Path) -> None:
    Path("lock").symlink_to(others / "best.safetensors")
    with pytest.raises(OSError, match="symbolic links"), hold_lock(Path("lock")):
        pass


def test_only_half_written_files_of_ours_are_swept_out() -> None:
    store = Store("runs").for_writing()
    kept = [".gitkeep", ".mine.json", ".0123456789abcdef.json", ".0123456789abcdef.tmp.txt"]
    ours = ".0123456789abcdef.q1w2e3.json"
    for name in (*kept, ours):
        path = store.folder / "rows" / name
        path.touch()
        os.utime(path, (time.time() - 1e5,) * 2)
    store.remove_leftovers()
    assert sorted(path.name for path in (store.folder / "rows").iterdir()) == sorted(kept)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import sys; sys.exit(3)", r"called sys.exit\(3\)"),
        ("1/0", "ZeroDivisionError"),
        ("def forecast(:", "SyntaxError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("forecast = 3", "is int, needs a callable"),
        ("import no_such_thing", "No module named 'no_such_thing'"),
        ("raise BaseException('gone')", "BaseException: gone"),
        ("def recurse(): recurse()\nrecurse()", "RecursionError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_a_mistake(program, says, tmp_path, monkeypatch) -> None:
    name = f"broken_{abs(hash(program))}"
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    write_files({f"{name}.py": textwrap.dedent(program)})
    with pytest.raises(FernError, match=says):
        import_object(f"{name}:forecast")


def test_no_process_is_left_over() -> None:
    assert multiprocessing.active_children() == []

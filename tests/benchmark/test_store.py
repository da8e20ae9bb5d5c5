"""A store keeps rows whole, names the damaged ones and never mixes up two writers."""

import os
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest
from tests.benchmark.test_results import ROW

from fern.benchmark.store import Damaged, Store
from fern.errors import FernError


def test_a_written_row_is_read_again_with_its_windows(store):
    store.write(ROW, {"mse": np.array([0.1, 0.2]), "mae": np.array([1.0, 2.0])})
    assert store.read(ROW.key) == ROW
    assert store.contents().results == (ROW,)
    errors = store.window_errors(ROW.key)
    assert {name: values.dtype for name, values in errors.items()} == {"mse": np.float32, "mae": np.float32}
    np.testing.assert_array_equal(errors["mae"], np.float32([1.0, 2.0]))


def test_git_takes_the_rows_of_a_store_and_nothing_else(store):
    store.write(ROW, {"mse": np.ones(2), "mae": np.ones(2)})
    git = ["git", "-C", str(store.folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    shown = subprocess.run([*git, "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True).stdout
    assert shown.split() == ["??", ".gitignore", "??", f"rows/{ROW.key}.json"]


def test_a_row_that_replaces_another_leaves_none_of_it(store):
    store.write(ROW, {"mse": np.ones(2), "mae": np.ones(2)})
    failed = replace(ROW, status="failed", error="it broke", metrics={})
    store.write(failed)
    assert store.contents().results == (failed,)
    assert store.window_errors(ROW.key) is None


def test_the_checkpoints_of_a_run_that_failed_stay(store):
    folder = store.checkpoint_path(ROW.key)
    folder.mkdir()
    store.write(replace(ROW, status="failed", error="No space left on device", metrics={}))
    assert folder.exists()


def test_the_checkpoints_of_a_run_go_when_its_row_is_there(store):
    folder = store.checkpoint_path(ROW.key)
    folder.mkdir()
    (folder / "last.safetensors").write_bytes(b"x")
    store.write(ROW)
    assert not folder.exists()


def test_a_damaged_row_is_named_and_left_out(store):
    other = replace(ROW, seed=8)
    for row in (ROW, other):
        store.write(row)
    store.result_path(other.key).write_text("{")
    contents = store.contents()
    assert contents.results == (ROW,)
    assert [file.path for file in contents.damaged] == [store.result_path(other.key)]
    assert "is not JSON" in contents.damaged[0].problem
    assert isinstance(store.read(other.key), Damaged)


def test_a_row_under_another_rows_name_is_damage(store):
    store.write(ROW)
    wrong = "0" * len(ROW.key)
    store.result_path(ROW.key).rename(store.result_path(wrong))
    assert "holds the result" in store.contents().damaged[0].problem


def test_files_that_are_no_rows_are_not_looked_at(store):
    store.write(ROW)
    for name in ("notes.json", ".abc.json", "README"):
        (store.folder / "rows" / name).write_text("{")
    contents = store.contents()
    assert (contents.results, contents.damaged) == ((ROW,), ())


def test_what_killed_writers_left_is_swept_out_but_not_what_is_being_written(store):
    old, new = (store.folder / "rows" / name for name in (f".{ROW.key}.old.json", f".{ROW.key}.new.json"))
    for path in (old, new):
        path.write_text("{")
    two_hours_ago = time.time() - 7200
    os.utime(old, (two_hours_ago, two_hours_ago))
    store.remove_leftovers()
    assert not old.exists()
    assert new.exists()


def test_damaged_window_errors_are_refused(store):
    store.write(ROW, {"mse": np.ones(2), "mae": np.ones(2)})
    path = store.windows_path(ROW.key)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(FernError, match="is damaged"):
        store.window_errors(ROW.key)


def test_pickled_window_errors_are_refused(store):
    with store.windows_path(ROW.key).open("wb") as file:
        np.savez(file, mse=np.array([{}], dtype=object))
    with pytest.raises(FernError, match="is damaged"):
        store.window_errors(ROW.key)


def test_reading_a_folder_that_is_no_store_is_an_error_and_makes_nothing(tmp_path):
    with pytest.raises(FernError, match="is not a results folder"):
        Store(tmp_path / "none").contents()
    assert not (tmp_path / "none").exists()


def test_a_store_that_cannot_be_written_is_an_error_before_anything_is_made(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for check in (Store(file).check_writable, Store(file / "below").check_writable):
        with pytest.raises(FernError, match="is a file, needs a folder"):
            check()
    with pytest.raises(FernError, match="is a file or below one, needs a folder"):
        Store(file / "below").for_writing()


def test_a_folder_without_permission_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for a user; root may write everywhere
    with pytest.raises(FernError, match="no permission"):
        Store(tmp_path / "runs").check_writable()
    with pytest.raises(FernError, match="no permission"):
        Store(tmp_path / "runs").for_writing()

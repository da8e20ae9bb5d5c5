"""One bad row does not spoil the table: it is named, left out, counted, and done again when that is asked for."""

import io
import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.benchmark.support import InlineEngine, row_for, tiny_plan
from tests.hostile.support import examples, run

from fern.benchmark.results import RunResult, result_from_json, result_to_json
from fern.benchmark.runs import canonical
from fern.benchmark.store import Damaged, Store
from fern.benchmark.sweep import run_sweep
from fern.errors import FernError

PLAN = tiny_plan(models=["dlinear", "last-value"])
GOOD, VICTIM = (row_for(run, metrics={"mse": 1.0 + i, "mae": 0.5 + i}, windows=40) for i, run in enumerate(PLAN.runs))
ERRORS = {"mse": np.linspace(0.5, 1.5, 40, dtype=np.float32), "mae": np.linspace(0.2, 0.8, 40, dtype=np.float32)}


@pytest.fixture
def store() -> Store:
    made = Store("runs").for_writing()
    for row in (GOOD, VICTIM):
        made.write(row, ERRORS)
    return made


def changed(**changes: Any) -> bytes:
    """The victim's file with other fields, under a checksum that fits where there can be one."""
    from fern.benchmark.results import _checksum

    whole = {**json.loads(result_to_json(VICTIM)), **changes}
    try:
        whole["checksum"] = _checksum(whole)
    except ValueError:
        whole["checksum"] = "0" * 64
    return json.dumps(whole).encode()


def deep(levels: int) -> bytes:
    return b'{"schema": 1, "history": ' + b"[" * levels + b"]" * levels + b"}"


TEXT = result_to_json(VICTIM)
BAD_ROWS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not JSON"),
    "cut off": (TEXT[:200], "is not JSON"),
    "not UTF-8": (TEXT.replace(b"last-value", b"\xff\xfe"), "is not JSON"),
    "a list": (b"[]", "needs a JSON object, got list"),
    "a number": (b"7", "needs a JSON object, got int"),
    "null": (b"null", "needs a JSON object"),
    "zeros": (b"\0" * 4096, "is not JSON"),
    "NaN": (TEXT.replace(b'"mse": 2.0', b'"mse": NaN'), "NaN is no finite number"),
    "Infinity": (TEXT.replace(b'"mse": 2.0', b'"mse": Infinity'), "Infinity is no finite number"),
    "-Infinity": (TEXT.replace(b'"mse": 2.0', b'"mse": -Infinity'), "-Infinity is no finite number"),
    "1e999": (TEXT.replace(b'"mse": 2.0', b'"mse": 1e999'), "1e999 is no finite number"),
    "1e200": (changed(metrics={"mse": 1e200, "mae": 1.0}), "mse is 1e[+]200, needs a finite number"),
    "an integer of 400 digits": (changed(metrics={"mse": 10**400, "mae": 1.0}), "metrics"),
    "an integer of 5,000 digits": (TEXT.replace(b'"mse": 2.0', b'"mse": ' + b"1" * 5000), "is not JSON"),
    "half a surrogate pair": (changed(task="\ud800"), "surrogates not allowed"),
    "half a surrogate pair in a key": (changed(metrics={"mse": 1.0, "\udfff": 1.0}), "surrogates not allowed"),
    "nested 100,000 deep": (deep(100_000), "is not JSON"),
    "nested 900 deep": (changed(history=json.loads("[" * 900 + "]" * 900)), "history"),
    "history of numbers": (changed(history=[1, 2]), "history"),
    "history without epochs": (changed(history=[{}]), r"history\[0\]: epoch: got None"),
    "history with text for a figure": (
        changed(history=[{"epoch": 1, "validation": {"mse": "low"}}]),
        "mse: got 'low', needs a finite number",
    ),
    "history with a list for figures": (changed(history=[{"epoch": 1, "validation": [1]}]), "needs a table of numbers"),
    "history with a negative epoch": (changed(history=[{"epoch": -1, "validation": {}}]), "epoch: got -1"),
    "history with a truth value for an epoch": (changed(history=[{"epoch": True, "validation": {}}]), "got True"),
    "text for a metric": (changed(metrics={"mse": "2.0", "mae": 1.0}), "metrics.mse"),
    "a truth value for a metric": (changed(metrics={"mse": True, "mae": 1.0}), "metrics.mse"),
    "text for a seed": (changed(seed="7"), "seed"),
    "a truth value for a horizon": (changed(horizon=True), "horizon"),
    "no metrics": (changed(metrics={}), "needs at least its mse"),
    "an unknown status": (changed(status="perfect"), "status"),
    "an unknown field": (changed(surprise=1), "unknown setting 'surprise'"),
    "another schema": (changed(schema=2), "schema is 2"),
    "schema as text": (changed(schema="1"), "schema is '1'"),
    "schema as truth": (changed(schema=True), "schema is True"),
    "a foreign key": (changed(key="0" * 16), "its settings give the key"),
    "settings of another row": (result_to_json(GOOD), "holds the result"),
    "no checksum": (TEXT.replace(b'"checksum"', b'"checksam"'), "has no checksum"),
    "another figure": (TEXT.replace(b'"mse": 2.0', b'"mse": 0.0'), "the checksum does not match"),
    "too large": (b" " * (1 << 24) + TEXT, "at most 16,777,216 are read"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_named_and_left_out_and_counted(name: str, store: Store, capsys) -> None:
    content, says = BAD_ROWS[name]
    store.result_path(VICTIM.key).write_bytes(content)
    found = store.contents()
    assert found.results == (GOOD,)
    assert len(found.damaged) == 1
    assert re.search(says, found.damaged[0].problem), found.damaged[0].problem
    ran = run("bench", "table", "tiny", "--runs", "runs", "--format", "md", capsys=capsys)
    assert ran.code == 0, ran.err
    assert "1 damaged result file was skipped" in ran.out
    assert VICTIM.key in ran.out
    assert store.result_path(VICTIM.key).read_bytes() == content


def _fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    "put",
    [
        _fifo,
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(path.absolute()),
    ],
    ids=["a pipe", "a folder", "an endless device", "a link to itself"],
)
def test_what_is_no_file_does_not_hang_the_table(put: Callable[[Path], Any], store: Store, capsys) -> None:
    path = store.result_path(VICTIM.key)
    path.unlink()
    put(path)
    assert len(store.contents().damaged) == 1
    assert store.text(VICTIM.key) is None
    ran = run("bench", "compare", "dlinear", "last-value", "--runs", "runs", capsys=capsys)
    assert (ran.code, "Traceback" in ran.err) == (2, False)
    assert "last-value" in ran.err


def npz(**members: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return held.getvalue()


def array(values: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, values)
    return held.getvalue()


def header(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


WHOLE = npz(mse=array(ERRORS["mse"]), mae=array(ERRORS["mae"]))


def garbage_deflate() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mse.npy", bytes(2000))
    data = bytearray(held.getvalue())
    data[45:60] = b"\xff" * 15
    return bytes(data)


def unknown_compression() -> bytes:
    data = bytearray(WHOLE)
    place = data.find(b"PK\x01\x02")
    data[8:10] = data[place + 10 : place + 12] = (99).to_bytes(2, "little")
    return bytes(data)


BAD_WINDOWS: dict[str, bytes] = {
    "empty": b"",
    "cut off": WHOLE[:-200],
    "text": b"no archive at all",
    "garbage in the deflated part": garbage_deflate(),
    "unknown compression": unknown_compression(),
    "a huge shape": npz(mse=header("(10**15,)") + bytes(16), mae=array(ERRORS["mae"])),
    "a huge number": npz(mse=header("(1000000000000000,)") + bytes(16), mae=array(ERRORS["mae"])),
    "a negative shape": npz(mse=header("(-1,)") + bytes(16), mae=array(ERRORS["mae"])),
    "text for values": npz(mse=array(np.array(["a", "b"])), mae=array(ERRORS["mae"])),
    "integers": npz(mse=array(np.arange(3)), mae=array(ERRORS["mae"])),
    "objects": npz(mse=header("(1,)", "|O") + bytes(16), mae=array(ERRORS["mae"])),
    "two dimensions": npz(mse=array(np.zeros((4, 2), np.float32)), mae=array(ERRORS["mae"])),
    "NaN": npz(mse=array(np.full(3, np.nan, np.float32)), mae=array(ERRORS["mae"])),
    "code in the header": npz(mse=header("(__import__('os').mkdir('executed'),)"), mae=array(ERRORS["mae"])),
    "no magic": npz(mse=b"nothing", mae=array(ERRORS["mae"])),
    "version 9": npz(mse=b"\x93NUMPY\x09\x00" + bytes(200), mae=array(ERRORS["mae"])),
    "no list of that metric": npz(other=array(ERRORS["mae"])),
    "fewer windows than the other model": npz(mse=array(ERRORS["mse"][:7]), mae=array(ERRORS["mae"][:7])),
}


@pytest.mark.parametrize("name", BAD_WINDOWS)
def test_a_bad_window_file_is_named_and_the_rest_is_compared(name: str, store: Store, capsys) -> None:
    store.windows_path(VICTIM.key).write_bytes(BAD_WINDOWS[name])
    ran = run("bench", "compare", "dlinear", "last-value", "--runs", "runs", "--json", capsys=capsys)
    assert ran.code == 0, ran.err
    verdict = json.loads(ran.out)["verdicts"][0]
    assert (verdict["first"], verdict["second"], verdict["test"]) == (1.0, 2.0, None)
    assert "damaged" in verdict["words"] or "windows" in verdict["words"], verdict["words"]
    assert not Path("executed").exists()


def test_a_pipe_in_place_of_a_window_file_does_not_hang(store: Store, capsys) -> None:
    store.windows_path(VICTIM.key).unlink()
    os.mkfifo(store.windows_path(VICTIM.key))
    ran = run("bench", "compare", "dlinear", "last-value", "--runs", "runs", capsys=capsys)
    assert ran.code == 0, ran.err
    with pytest.raises(FernError, match="is not a regular file"):
        store.window_errors(VICTIM.key)


@pytest.mark.parametrize("damage", ["row", "windows", "pipe"])
def test_damaged_runs_are_done_again_when_that_is_asked_for(damage: str, store: Store) -> None:
    path = store.windows_path(VICTIM.key) if damage == "windows" else store.result_path(VICTIM.key)
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"damaged")
    kept = run_sweep(PLAN, store, InlineEngine(store.folder))
    assert (kept.made, len(kept.damaged)) == (0, int(damage != "windows"))
    again = run_sweep(PLAN, store, InlineEngine(store.folder), retry_failed=True)
    assert (again.made, len(again.results), again.damaged) == (1, 2, ())
    assert isinstance(store.read(VICTIM.key), RunResult)
    assert set(store.window_errors(VICTIM.key) or ()) == {"mse", "mae"}


def test_a_row_without_mae_is_named_and_the_command_says_what_is_left(store: Store, capsys) -> None:
    lacking = row_for(PLAN.runs[1], metrics={"mse": 2.0})
    store.write(lacking, ERRORS)
    ran = run("bench", "compare", "dlinear", "last-value", "--runs", "runs", "--metric", "mae", capsys=capsys)
    assert (ran.code, "Traceback" in ran.err) == (2, False)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.just(10**400)
    | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@examples(150, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.dictionaries(st.sampled_from([*json.loads(TEXT)]), values, max_size=3)
    | st.dictionaries(st.text(max_size=8), values, max_size=2),
    honest=st.booleans(),
)
def test_any_json_is_a_row_or_a_mistake(changes: dict[str, Any], honest: bool) -> None:
    text = changed(**changes) if honest else json.dumps(changes).encode()
    try:
        row = result_from_json(text, where="it")
    except FernError:
        return
    assert result_from_json(result_to_json(row), where="again") == row
    canonical({"key": row.key, "epochs": len(row.epoch_history())})


@given(st.binary(max_size=60))
def test_any_bytes_are_a_row_or_a_mistake(data: bytes) -> None:
    with pytest.raises(FernError):
        result_from_json(data, where="it")


def test_a_damaged_row_is_told_by_its_path(store: Store) -> None:
    store.result_path(VICTIM.key).write_bytes(b"{")
    found = store.read(VICTIM.key)
    assert isinstance(found, Damaged)
    assert str(found.path) in found.problem

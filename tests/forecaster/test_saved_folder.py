"""A hostile folder executes nothing, reads nothing outside, and is refused in under a second with the reason."""

import hashlib
import json
import os
import pickle
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fern.errors import FernError
from fern.forecaster import FernForecaster


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path("/tmp/fern-was-here").touch, ()


def signed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest and sign it anew, as an attacker can."""
    body = json.loads((folder / "forecaster.json").read_text())
    body.pop("sha256")
    change(body)
    body["sha256"] = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    (folder / "forecaster.json").write_text(json.dumps(body))


def with_file(folder: Path, part: str, data: bytes) -> None:
    """Replace the file of a part, with checksums that fit."""
    digest = hashlib.sha256(data).hexdigest()
    name = f"{part}-{digest[:16]}.safetensors"
    (folder / name).write_bytes(data)
    signed(folder, lambda body: body["files"].update({part: {"name": name, "sha256": digest, "bytes": len(data)}}))


def data_file(folder: Path, part: str) -> Path:
    return next(folder.glob(f"{part}-*.safetensors"))


def named(name: str) -> Callable[[Path], None]:
    return lambda folder: signed(folder, lambda body: body["files"]["state"].update(name=name))


def set_in(*path: str, to: Any) -> Callable[[Path], None]:
    def change(body: dict[str, Any]) -> None:
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = to

    return lambda folder: signed(folder, change)


def text(contents: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "forecaster.json").write_text(contents) and None


def many_keys(count: int) -> Callable[[Path], None]:
    return lambda folder: text(json.dumps(dict.fromkeys(map(str, range(count)), 0)))(folder)


def linked(part: str) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        file = data_file(folder, part)
        shutil.move(file, folder.parent / file.name)
        file.symlink_to(folder.parent / file.name)

    return attack


def manifest_linked(folder: Path) -> None:
    shutil.move(folder / "forecaster.json", folder.parent / "forecaster.json")
    (folder / "forecaster.json").symlink_to(folder.parent / "forecaster.json")


def piped(folder: Path) -> None:
    file = data_file(folder, "state")
    file.unlink()
    os.mkfifo(file)


def flipped(folder: Path) -> None:
    file = data_file(folder, "model")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def sparse(folder: Path) -> None:
    file = data_file(folder, "state")
    os.truncate(file, 2**40)
    signed(folder, lambda body: body["files"]["state"].update(bytes=2**40))


HEADER = json.dumps({"x": {"dtype": "F64", "shape": [10**15], "data_offsets": [0, 8 * 10**15]}}).encode()

ATTACKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (text(""), "is not JSON"),
    "another program's": (text('{"format": "pt"}'), "not of a fern forecaster"),
    "a list": (text("[]"), "not of a fern forecaster"),
    "a million keys": (many_keys(10**6), r"bytes, at most 4,194,304 are read"),
    "many keys within the limit": (many_keys(300_000), "not of a fern forecaster"),
    "deeply nested": (text("[" * 10**6), "is not JSON"),
    "a huge number": (text('{"format": ' + "9" * 10**5 + "}"), "is not JSON"),
    "not a number": (text('{"format": NaN}'), "NaN is no finite number"),
    "changed by hand": (
        lambda folder: text((folder / "forecaster.json").read_text().replace('"seed": 7', '"seed": 8'))(folder),
        "does not match its checksum",
    ),
    "newer": (set_in("schema", to=2), "install a newer fern"),
    "path traversal": (named("../../etc/passwd"), "is no file of this folder"),
    "absolute path": (named("/etc/passwd"), "is no file of this folder"),
    "another name": (named("state-0123456789abcdef.safetensors"), "is no file of this folder"),
    "file that is missing": (lambda folder: data_file(folder, "state").unlink(), "no such file"),
    "no file named": (set_in("files", to={}), "names no file for 'state'"),
    "a link out of the folder": (linked("state"), "is a link"),
    "a linked manifest": (manifest_linked, "is a link"),
    "a pipe": (piped, "not a regular file"),
    "a flipped bit": (flipped, "does not match its checksum"),
    "a terabyte": (sparse, "at most"),
    "pickle for weights": (lambda folder: with_file(folder, "model", pickle.dumps(Bomb())), "safetensors"),
    "an oversized header": (
        lambda folder: with_file(folder, "model", struct.pack("<Q", 2**62) + b"{}"),
        "no safetensors header of at most",
    ),
    "huge claimed shapes": (
        lambda folder: with_file(folder, "model", struct.pack("<Q", len(HEADER)) + HEADER),
        "not a readable safetensors file",
    ),
    "a nested header": (
        lambda folder: with_file(folder, "model", struct.pack("<Q", 10**5) + b"[" * 10**5),
        "not a readable safetensors file",
    ),
    "a huge model": (set_in("model", "config", "hidden", to=10**9), "far larger than"),
    "endless layers": (set_in("model", "config", "layers", to=10**9), "layers: got 1000000000"),
    "a huge context": (set_in("model", "config", "context_length", to=10**12), "far larger than|has shape"),
    "a little larger a model": (set_in("model", "config", "hidden", to=129), "by the settings"),
    "an unknown model": (set_in("model", "name", to="os.system"), "unknown model 'os.system'"),
    "an unknown setting": (set_in("model", "config", "hiden", to=3), "did you mean 'hidden'"),
    "an unknown parameter": (set_in("params", "horizn", to=3), "unknown parameter 'horizn': did you mean 'horizon'"),
    "a parameter of another type": (set_in("params", "seed", to="os"), "seed: got 'os', which is not of its type"),
    "no horizon": (set_in("params", to={}), "a part is missing"),
    "a zone that is a path": (
        set_in("state", "form", "time_type", to="timestamp[ns, tz=../../../etc/passwd]"),
        "column type .* is not known",
    ),
    "another library": (set_in("state", "form", "kind", to="os"), "form.kind: Input should be"),
    "another unit": (set_in("state", "frequency", "unit", to="fortnight"), "frequency.unit: Input should be"),
    "a horizon that does not fit": (set_in("state", "horizon", to=8), "its horizon is 7, the forecaster's 8"),
    "channels that do not fit": (set_in("state", "channel_names", to=["a", "b"]), "channels"),
    "no state": (set_in("state", to=None), "state: got None, needs a mapping"),
    "no calibration settings": (
        set_in("state", "calibration", to={"format": 2}),
        "calibration.settings: Field required",
    ),
    "a calibration of another format": (
        set_in("state", "calibration", "format", to=1),
        "format 1 is not known, needs 2",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_folder_is_refused(attack: str, saved: Path, tmp_path: Path) -> None:
    Path("/tmp/fern-was-here").unlink(missing_ok=True)
    folder = tmp_path / "model"
    shutil.copytree(saved, folder)
    change, message = ATTACKS[attack]
    change(folder)
    began = time.thread_time()  # others share the machine
    with pytest.raises(FernError, match=message):
        FernForecaster.load(folder)
    assert time.thread_time() - began < 5.0  # refused by its sizes, not after the work they ask for
    assert not Path("/tmp/fern-was-here").exists()


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FernError, match="no such folder"):
        FernForecaster.load(tmp_path / "nowhere")
    with pytest.raises(FernError, match=r"holds no forecaster.json"):
        FernForecaster.load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FernError, match="is not a folder"):
        FernForecaster.load(tmp_path / "file")

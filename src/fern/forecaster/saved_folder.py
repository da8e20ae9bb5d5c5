"""A folder of arrays and one manifest: written so that a kill leaves the old one whole, read as if it were hostile.

``forecaster.json`` names every file with its size and SHA-256 and carries a checksum of its own. Data files are named
by their contents, so a new version never touches the files of the old: they are written first, then the manifest takes
its new meaning in one rename, then what it no longer names is deleted.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from fern._version import __version__
from fern.errors import FernError
from fern.files import make_folder, read_plain, write_whole
from fern.settings import read_json

Arrays = dict[str, NDArray[Any]]

MANIFEST = "forecaster.json"
FORMAT, SCHEMA = "fern-forecaster", 1
MOST_MANIFEST = 4 * 2**20
MOST_HEADER = 16 * 2**20
"""Of a data file: about 200,000 arrays."""
MOST_BYTES = 2 * 2**30
"""Of one data file; arrays are read into memory whole."""

_DATA = re.compile(r"(?P<part>[a-z]{1,20})-(?P<hash>[0-9a-f]{16})\.safetensors")
_HALF_WRITTEN = re.compile(r"\.(?:[a-z]{1,20}-[0-9a-f]{16}\.\w+\.safetensors|forecaster\.\w+\.json)")

Place = Callable[[str], Path]
"""Where the file of a name lies: a folder's, or one that a hub has fetched."""


def write_folder(folder: Path, described: Mapping[str, Any], parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
    """Write the parts and the manifest that describes them, in place of what `write_folder` wrote there before.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "kept"
        >>> write_folder(folder, {"made": "by hand"}, {"state": {"x": np.arange(3)}})
        >>> described, read = read_folder(lambda name: folder / name, where="kept")
        >>> described["made"], read("state")["x"].tolist()
        ('by hand', [0, 1, 2])
    """
    _require_ours(folder)
    files: dict[str, dict[str, Any]] = {}
    for part, arrays in parts.items():
        data = safetensors.numpy.save({name: np.require(values, requirements="C") for name, values in arrays.items()})
        if len(data) > MOST_BYTES:
            raise FernError(f"{part} takes {len(data):,} bytes, at most {MOST_BYTES:,} can be saved", where=folder)
        if _header_size(data) > MOST_HEADER:  # what is written can be read
            raise FernError(f"{part} holds {len(arrays):,} arrays, more than can be read again", where=folder)
        digest = hashlib.sha256(data).hexdigest()
        name = f"{part}-{digest[:16]}.safetensors"
        files[part] = {"name": name, "sha256": digest, "bytes": len(data)}
        _write(folder / name, data)
    body = {"format": FORMAT, "schema": SCHEMA, "version": __version__, "files": files, **described}
    text = json.dumps({**body, "sha256": _checksum(body)}, indent=1, sort_keys=True, allow_nan=False)
    if len(text.encode()) > MOST_MANIFEST:
        problem = f"the description takes more than {MOST_MANIFEST:,} bytes; shorten the columns' names"
        raise FernError(problem, where=folder)
    _write(folder / MANIFEST, text.encode())
    _delete_stale(folder, keep={entry["name"] for entry in files.values()})


def read_folder(place: Place, *, where: str) -> tuple[dict[str, Any], Callable[[str], Arrays]]:
    """The manifest, and a function that reads the arrays of a part; all of it checked, nothing executed."""
    body = _manifest(place(MANIFEST), where=where)

    def read(part: str) -> Arrays:
        entry = _entry(body, part, where=where)
        data = _bytes(place(entry["name"]), most=MOST_BYTES, where=f"{where}: {entry['name']}", size=entry["bytes"])
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise FernError(f"{entry['name']} does not match its checksum; it was changed or damaged", where=where)
        if len(data) < 8 or _header_size(data) > MOST_HEADER:
            raise FernError(f"{entry['name']} has no safetensors header of at most {MOST_HEADER:,} bytes", where=where)
        try:
            return dict(safetensors.numpy.load(data))
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise FernError(f"{entry['name']} is not a readable safetensors file ({error})", where=where) from None

    return body, read


def _manifest(path: Path, *, where: str) -> dict[str, Any]:
    data = _bytes(path, most=MOST_MANIFEST, where=f"{where}: {MANIFEST}")
    body = read_json(data, where=f"{where}: {MANIFEST}")
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        kind = body.get("format") if isinstance(body, dict) else type(body).__name__
        raise FernError(f"{MANIFEST} is not of a fern forecaster (format {str(kind)[:40]!r})", where=where)
    schema = body.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise FernError(
            f"was saved with schema {str(schema)[:20]} by fern {str(body.get('version'))[:20]}; this is fern "
            f"{__version__}, which reads up to {SCHEMA}: install a newer fern",
            where=where,
        )
    claimed = body.pop("sha256", None)
    if claimed != _checksum(body):
        raise FernError(f"{MANIFEST} does not match its checksum; it was changed or damaged", where=where)
    return body


def _entry(body: Mapping[str, Any], part: str, *, where: str) -> dict[str, Any]:
    """What the manifest says of a part's file, whose name can only be one that `write_folder` gives."""
    files = body.get("files")
    entry = files.get(part) if isinstance(files, dict) else None
    if not isinstance(entry, dict) or not {"name", "sha256", "bytes"} <= entry.keys():
        raise FernError(f"{MANIFEST} names no file for {part!r}", where=where)
    match = _DATA.fullmatch(str(entry["name"]))
    if match is None or match["part"] != part or match["hash"] != str(entry["sha256"])[:16]:
        raise FernError(f"{MANIFEST} names {str(entry['name'])[:60]!r}, which is no file of this folder", where=where)
    return entry


def _bytes(path: Path, *, most: int, where: str, size: int | None = None) -> bytes:
    """The contents of a regular file: links, pipes and devices are refused before anything is read."""
    if path.is_symlink():
        raise FernError(f"{where} is a link; a saved forecaster has none")
    try:
        data = read_plain(path, most=most)
    except FileNotFoundError:
        raise Missing(f"{where}: no such file") from None
    except OSError as error:
        raise FernError(f"{where} cannot be opened ({error.strerror})") from None
    if size is not None and len(data) != size:
        raise FernError(f"{where} has {len(data):,} bytes, the manifest says {size!r}; it was changed or damaged")
    return data


class Missing(FernError):  # noqa: N818 - what a file is
    """A file of the folder is not there."""


def _write(path: Path, data: bytes) -> None:
    with write_whole(path) as temporary:
        temporary.write_bytes(data)


def _require_ours(folder: Path) -> None:
    """Make the folder, or refuse one that holds anything else than a saved forecaster (or one half written)."""
    if not folder.parent.is_dir():
        raise FernError(f"the folder {folder.parent} does not exist", where=folder)
    make_folder(folder)
    names = {entry.name for entry in os.scandir(folder)}
    if MANIFEST in names:
        try:
            _manifest(folder / MANIFEST, where=str(folder))
        except FernError as error:
            problem, expected = f"{error.problem}; it is not overwritten", "another folder, or this one deleted"
            raise FernError(problem, expected=expected, where=folder) from None
        return
    foreign = sorted(name for name in names if not (_DATA.fullmatch(name) or _HALF_WRITTEN.fullmatch(name)))
    if foreign:
        raise FernError(f"holds {foreign[0]!r} and no forecaster; give a new or an empty folder", where=folder)


def _delete_stale(folder: Path, *, keep: set[str]) -> None:
    """Delete what no manifest names any more. Only plain files of our own naming; links are left alone."""
    with os.scandir(folder) as entries:
        for entry in list(entries):
            ours = _DATA.fullmatch(entry.name) or _HALF_WRITTEN.fullmatch(entry.name)
            if ours and entry.name not in keep and entry.is_file(follow_symlinks=False):
                Path(entry.path).unlink(missing_ok=True)


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _header_size(data: bytes) -> int:
    """Of a safetensors file: its first eight bytes."""
    return int.from_bytes(data[:8], "little")

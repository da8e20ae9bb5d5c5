"""Published data sets: found on this machine or downloaded, checked byte for byte, read right."""

import hashlib
import os
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from fern.data.catalogue import Published, published
from fern.data.tables.native import FrameKind, Native
from fern.data.tables.readers import open_source
from fern.errors import FernError, NotWritten, unknown_name
from fern.files import DISK_TROUBLE, made_folder, written_whole
from fern.text import terminal

FOLDER_VARIABLE = "FERN_DATA_DIR"
_CHUNK = 1 << 16
_TIMEOUT = 30.0


def load(
    name: str,
    *,
    variant: str | None = None,
    columns: Sequence[str] | None = None,
    kind: FrameKind = "pyarrow",
) -> Any:
    """A published data set as a data frame: the time column ``date`` and its columns as float64.

    Looked for in ``FERN_DATA_DIR``, then ``../shared/data``, then the user's cache, then downloaded there.
    ``variant`` picks a known choice of columns (Weather's ``air_parcel``: the paper's 14 columns, meant for
    ``fit_scaler("robust", …)``); ``columns`` picks any. ``kind`` is the frame library of the result.
    """
    dataset = published(name)
    if variant is not None and columns is not None:
        raise FernError("columns: give a variant or columns, not both")
    chosen = dataset.variant(variant).columns if variant is not None else columns or dataset.columns
    for column in chosen:
        if column not in dataset.columns:
            raise unknown_name(f"column of {name}", column, dataset.columns)
    table = open_source(find(name)).table()
    return Native(kind).wrap(table.select(["date", *chosen]))


def find(name: str) -> Path:
    """The file of a published data set on this machine, downloaded if need be, its checksum verified."""
    dataset = published(name)
    for folder in (*local_folders(), cache_folder()):
        path = folder / dataset.file
        if path.is_file():
            _verify(path, dataset)
            return path
    return _download(dataset)


def local_folders() -> list[Path]:
    """Where files are looked for before the cache: ``FERN_DATA_DIR``, then ``shared/data`` beside the repository."""
    folders = []
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        folders.append(Path(given))
    # Beside the working folder, and beside the repository this package is installed from in editable mode.
    repository = Path(__file__).resolve().parents[3]
    folders += [base.parent / "shared" / "data" for base in (Path.cwd(), repository)]
    return folders


def cache_folder() -> Path:
    """The user's cache for downloaded data (``XDG_CACHE_HOME`` is honoured)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fern" / "data"


def _verify(path: Path, dataset: Published) -> None:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise FernError(f"{path}: cannot be read ({error.strerror or error})") from None
    if digest.hexdigest() != dataset.sha256:
        raise FernError(
            f"{path}: is not the published {dataset.name} (sha256 {digest.hexdigest()[:12]}…, "
            f"needs {dataset.sha256[:12]}…); remove it, or replace it with the file from {dataset.address}"
        )


def _download(dataset: Published) -> Path:
    """Fetch the file into the cache; it appears there whole and verified, or not at all."""
    path = cache_folder() / dataset.file
    try:
        made_folder(path.parent)
    except NotWritten:
        raise
    except FernError as error:
        raise FernError(f"{error}; set {FOLDER_VARIABLE} to a folder with {dataset.file}") from None
    with written_whole(path) as temporary:
        try:
            _fetch(dataset, temporary)
        except (OSError, HTTPException) as error:  # URLError and time-outs are OSErrors
            if getattr(error, "errno", None) in DISK_TROUBLE:
                raise  # the disk's, not the network's: `written_whole` tells it
            reason = getattr(error, "reason", error)
            raise FernError(
                f"{dataset.name}: no local copy, and the download failed ({reason}). Put {dataset.file} into "
                f"{path.parent}, or set {FOLDER_VARIABLE} to a folder that has it; it is published at "
                f"{dataset.address}"
            ) from None
        _verify(temporary, dataset)
    return path


def _fetch(dataset: Published, path: Path) -> None:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=terminal(stderr=True),
        transient=True,
    )
    with (
        urllib.request.urlopen(dataset.address, timeout=_TIMEOUT) as answer,
        path.open("wb") as file,
        bar,
    ):
        size = int(answer.headers.get("Content-Length") or 0) or None
        task = bar.add_task(f"Downloading {dataset.name}", total=size)
        received = 0
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            received += len(chunk)
            bar.update(task, completed=received)
    if size is not None and received < size:
        raise ConnectionError(f"broken off after {received:,} of {size:,} bytes")

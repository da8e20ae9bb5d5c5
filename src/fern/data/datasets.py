"""Published data sets: which file, which bytes, which columns; found on this machine or downloaded, and checked."""

import hashlib
import os
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from fern.data.csv_files import DAMAGED_IN_CIRCULATION
from fern.data.reading import FrameKind, Native, open_source
from fern.errors import FernError, NotWritten, unknown_name
from fern.files import DISK_TROUBLE, make_folder, write_whole
from fern.text import terminal


@dataclass(frozen=True)
class Variant:
    """A choice of columns of a data set, and the scaling that goes with it (a kind of `fern.data.fit_scaler`)."""

    columns: tuple[str, ...]
    scaling: str
    why: str


@dataclass(frozen=True)
class Published:
    """One data set as published.

    ``grid`` says how its rows are used: ``time`` where its time stamps form a grid, ``rows`` where they do not
    and, as in the literature, the rows are taken as equally spaced.
    """

    name: str
    file: str
    sha256: str
    address: str
    licence: str
    columns: tuple[str, ...]
    rows: int
    grid: Literal["time", "rows"] = "time"
    variants: Mapping[str, Variant] = field(default_factory=dict)

    def variant(self, name: str) -> Variant:
        """The variant of this name.

        Example:
            >>> len(PUBLISHED["Weather"].variant("air_parcel").columns)
            14
        """
        if name not in self.variants:
            raise unknown_name(f"variant of {self.name}", name, self.variants)
        return self.variants[name]


_ETT = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
_ETT_ADDRESS = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/"
_ETT_LICENCE = "CC BY-ND 4.0, zhouhaoyi/ETDataset"

_AIR_PARCEL = (
    *("p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)"),
    *("sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)", "wd (deg)", "Tlog (degC)"),
)
_WEATHER = (
    *("p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)", "VPdef (mbar)"),
    *("sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)", "wd (deg)"),
    *("rain (mm)", "raining (s)", *DAMAGED_IN_CIRCULATION, "Tlog (degC)", "OT"),
)


def _ett(name: str, rows: int, sha256: str) -> Published:
    return Published(name, f"{name}.csv", sha256, f"{_ETT_ADDRESS}{name}.csv", _ETT_LICENCE, _ETT, rows)


PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        dataset.name: dataset
        for dataset in (
            _ett("ETTh1", 17_420, "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066"),
            _ett("ETTh2", 17_420, "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b"),
            _ett("ETTm1", 69_680, "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e"),
            _ett("ETTm2", 69_680, "db973ca252c6410a30d0469b13d696cf919648d0f3fd588c60f03fdbdbadd1fd"),
            Published(
                name="Weather",
                file="weather.csv",
                sha256="34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",
                address="https://huggingface.co/datasets/thuml/Time-Series-Library/resolve/main/weather/weather.csv",
                licence="CC BY 4.0, Max Planck Institute for Biogeochemistry, Jena",
                columns=_WEATHER,
                rows=52_696,
                grid="rows",  # one time stamp comes twice (12 May 2020), nine are not there (29 May 2020)
                variants={
                    "air_parcel": Variant(
                        columns=_AIR_PARCEL,
                        scaling="robust",
                        why="the state variables of one air parcel, as the paper selects and scales them",
                    )
                },
            ),
        )
    }
)


def get_dataset(name: str) -> Published:
    """The data set of this name.

    Example:
        >>> get_dataset("ETTh1").columns
        ('HUFL', 'HULL', 'MUFL', 'MULL', 'LUFL', 'LULL', 'OT')
    """
    if name not in PUBLISHED:
        raise unknown_name("data set", name, PUBLISHED)
    return PUBLISHED[name]


FOLDER_VARIABLE = "FERN_DATA_DIR"
_CHUNK = 1 << 16
_TIMEOUT = 30.0


def load_dataset(
    name: str,
    *,
    variant: str | None = None,
    columns: Sequence[str] | None = None,
    kind: FrameKind = "pyarrow",
) -> Any:
    """A published data set as a data frame: the time column ``date`` and its columns as float64.

    Looked for in ``FERN_DATA_DIR``, then in the user's cache, then downloaded there.
    ``variant`` picks a known choice of columns (Weather's ``air_parcel``: the paper's 14 columns, meant for
    ``fit_scaler("robust", …)``); ``columns`` picks any. ``kind`` is the frame library of the result.
    """
    dataset = get_dataset(name)
    if variant is not None and columns is not None:
        raise FernError("give a variant or columns, not both", argument="columns")
    chosen = dataset.variant(variant).columns if variant is not None else columns or dataset.columns
    for column in chosen:
        if column not in dataset.columns:
            raise unknown_name(f"column of {name}", column, dataset.columns)
    table = open_source(find_dataset(name)).table()
    return Native(kind).wrap(table.select(["date", *chosen]))


def find_dataset(name: str) -> Path:
    """The file of a published data set on this machine, downloaded if need be, its checksum verified."""
    dataset = get_dataset(name)
    for folder in (*local_folders(), cache_folder()):
        path = folder / dataset.file
        if path.is_file():
            _verify(path, dataset)
            return path
    return _download(dataset)


def local_folders() -> list[Path]:
    """Where files are looked for before the cache: the folder ``FERN_DATA_DIR``, if it is set."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return [Path(folder)] if folder else []


def cache_folder() -> Path:
    """The user's cache for downloaded data (``XDG_CACHE_HOME`` is honoured)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fern" / "data"


def _verify(path: Path, dataset: Published) -> None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FernError(f"cannot be read ({error.strerror or error})", where=path) from None
    if digest != dataset.sha256:
        expected = f"{dataset.sha256[:12]}…); remove it, or replace it with the file from {dataset.address}"
        raise FernError(f"is not the published {dataset.name} (sha256 {digest[:12]}…", expected=expected, where=path)


def _download(dataset: Published) -> Path:
    """Fetch the file into the cache; it appears there whole and verified, or not at all."""
    path = cache_folder() / dataset.file
    try:
        make_folder(path.parent)
    except FernError as error:
        if not isinstance(error, NotWritten):
            error.expected = f"a folder to write to, or {FOLDER_VARIABLE} set to a folder with {dataset.file}"
        raise
    with write_whole(path) as temporary:
        try:
            _fetch(dataset, temporary)
        except (OSError, HTTPException) as error:  # URLError and time-outs are OSErrors
            if getattr(error, "errno", None) in DISK_TROUBLE:
                raise  # the disk's, not the network's: `write_whole` tells it
            reason = getattr(error, "reason", error)
            raise FernError(
                f"no local copy, and the download failed ({reason}). Put {dataset.file} into {path.parent}, or set "
                f"{FOLDER_VARIABLE} to a folder that has it; it is published at {dataset.address}",
                argument=dataset.name,
            ) from None
        _verify(temporary, dataset)
    return path


def _fetch(dataset: Published, path: Path) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=terminal(stderr=True), transient=True)
    with urllib.request.urlopen(dataset.address, timeout=_TIMEOUT) as answer, path.open("wb") as file, bar:
        size = int(answer.headers.get("Content-Length") or 0) or None
        task = bar.add_task(f"Downloading {dataset.name}", total=size)
        received = 0
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            received += len(chunk)
            bar.update(task, completed=received)
    if size is not None and received < size:
        raise ConnectionError(f"broken off after {received:,} of {size:,} bytes")

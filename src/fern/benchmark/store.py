"""A folder of results: one JSON file for each finished run, whole or absent, and what belongs to it.

``rows/<key>.json``       the rows: all that tables need, meant to be committed.
``windows/<key>.npz``     squared and absolute error of every test window, for significance tests.
``checkpoints/<key>/``    of runs under way or failed, removed when there is a result.
``claims/<key>``          who is at work on what, see `fern.benchmark.locks`.
"""

import io
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fern.benchmark.results import RunResult, result_from_json, result_to_json
from fern.benchmark.runs import KEY_LENGTH
from fern.errors import FernError
from fern.files import check_folder, make_folder, read_plain, write_whole

WindowErrors = Mapping[str, NDArray[np.float32]]
"""``mse`` and ``mae`` of each test window, ``(n,)`` in the order of time."""

_KEY = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}")
_HALF_WRITTEN = re.compile(rf"\.{_KEY.pattern}\.\w+\.(json|npz)")
_ABANDONED_AFTER = 3600.0  # seconds; a temporary file this old is of a writer that was killed


_MOST_ROW = 1 << 24  # bytes; a result with figures of many epochs has some thousands
_MOST_WINDOWS = 1 << 30


@dataclass(frozen=True)
class Damaged:
    """A result file that cannot be read: where it is and what is wrong with it."""

    path: Path
    problem: str


@dataclass(frozen=True)
class Contents:
    """The results of a store, and the files that should be results and are not."""

    results: tuple[RunResult, ...]
    damaged: tuple[Damaged, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out and why, for people."""
        if not self.damaged:
            return ()
        single = len(self.damaged) == 1
        what = "1 damaged result file was" if single else f"{len(self.damaged):,} damaged result files were"
        again = f"{what} skipped; fern bench run --retry-failed does such runs again."
        return (*(f"Skipped: {entry.problem}" for entry in self.damaged), again)


def default_folder(task: str) -> Path:
    """Where the results of a task go unless a folder is named: ``runs/TASK``.

    Example:
        >>> default_folder("shock").as_posix(), default_folder("tasks/mine.toml").as_posix()
        ('runs/shock', 'runs/mine')
    """
    path = Path(task)
    return Path("runs") / (path.stem if path.suffix.lower() == ".toml" else path.name)


class Store:
    """The store in ``folder``. Opening it for writing makes its folders; reading changes nothing.

    Example:
        >>> import tempfile
        >>> store = Store(Path(tempfile.mkdtemp()) / "runs").for_writing()
        >>> result = RunResult(task="mine", model="dlinear", preset="paper", dataset="OU_BASE", data_fingerprint="ab",
        ...     context_length=96, horizon=24, split="shock", scaling="none", seed=7, code_version="1",
        ...     status="done", metrics={"mse": 0.25})
        >>> store.write(result)
        >>> store.contents().results == (result,)
        True
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders whose files are the store's."""
        return tuple(self.folder / name for name in ("rows", "windows", "checkpoints", "claims"))

    def check_writable(self) -> None:
        """An error where the store could not be written, found without making anything."""
        check_folder(self.folder)

    def for_writing(self) -> "Store":
        """This store with its folders made; an error where they cannot be."""
        for path in self.folders:
            make_folder(path)
            if not os.access(path, os.W_OK | os.X_OK):
                raise FernError(f"{path} is not writable (no permission)", where=self.folder)
        ignored = self.folder / ".gitignore"
        if not ignored.exists():
            with write_whole(ignored) as temporary:
                temporary.write_text("windows/\ncheckpoints/\nclaims/\n")
        return self

    def result_path(self, key: str) -> Path:
        """The file of a result."""
        return self.folder / "rows" / f"{key}.json"

    def windows_path(self, key: str) -> Path:
        """The file of the windows' errors."""
        return self.folder / "windows" / f"{key}.npz"

    def checkpoint_path(self, key: str) -> Path:
        """The folder of a run's checkpoints."""
        return self.folder / "checkpoints" / key

    def read(self, key: str) -> RunResult | Damaged | None:
        """The result of this key, what is wrong with its file, or None when there is no file."""
        path = self.result_path(key)
        try:
            result = result_from_json(read_plain(path, most=_MOST_ROW), where=str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            return Damaged(path, f"{path}: cannot be read ({error.strerror})")
        except FernError as error:
            return Damaged(path, str(error))
        if result.key != key:
            return Damaged(path, f"{path}: holds the result {result.key}")
        return result

    def contents(self) -> Contents:
        """All results by name of their files, and the damaged ones."""
        if not (self.folder / "rows").is_dir():
            raise FernError(
                "is not a results folder (it has no folder 'rows'); fern bench run --out makes one", where=self.folder
            )
        names = sorted(path.stem for path in (self.folder / "rows").glob("*.json") if _KEY.fullmatch(path.stem))
        read = [self.read(name) for name in names]
        return Contents(
            results=tuple(result for result in read if isinstance(result, RunResult)),
            damaged=tuple(result for result in read if isinstance(result, Damaged)),
        )

    def write(self, result: RunResult, windows: WindowErrors | None = None) -> None:
        """Put a result into the store in place of an earlier one of its key, then drop the run's checkpoints.

        The windows' errors come first: a result that is there has everything that belongs to it. Of a run that failed
        the checkpoints stay: done again, it goes on from there.
        """
        for target in (self.windows_path(result.key), self.result_path(result.key)):
            if target.is_symlink() or target.is_fifo():
                target.unlink()  # a file that is linked belongs to somebody else, and nobody reads a pipe here
        path = self.windows_path(result.key)
        if windows is None:
            path.unlink(missing_ok=True)
        else:
            with write_whole(path) as temporary:
                np.savez(temporary, mse=np.float32(windows["mse"]), mae=np.float32(windows["mae"]))
        with write_whole(self.result_path(result.key)) as temporary:
            temporary.write_bytes(result_to_json(result))
        if result.status != "failed":
            self.drop_checkpoints(result.key)

    def window_errors(self, key: str) -> dict[str, NDArray[np.float32]] | None:
        """The errors of each test window, or None where they were not kept."""
        path = self.windows_path(key)
        try:
            return _arrays(read_plain(path, most=_MOST_WINDOWS))
        except FileNotFoundError:
            return None
        except FernError as error:
            raise FernError(f"is damaged ({str(error).removeprefix(f'{path}: ')})", where=path) from None
        except Exception as error:  # noqa: BLE001  whatever damaged bytes make the decoders of zip and numpy raise
            raise FernError(f"is damaged ({str(error)[:200] or type(error).__name__})", where=path) from None

    def text(self, key: str) -> bytes | None:
        """What stands in a row's file, whatever that is; None where it cannot be read."""
        try:
            return read_plain(self.result_path(key), most=_MOST_ROW)
        except (OSError, FernError):
            return None

    def drop_checkpoints(self, key: str) -> None:
        """Remove a run's checkpoints; of a link to elsewhere only the link."""
        path = self.checkpoint_path(key)
        if path.is_symlink():
            path.unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Remove temporary files that killed writers left behind."""
        horizon = time.time() - _ABANDONED_AFTER
        for name in ("rows", "windows"):
            for path in (self.folder / name).glob(".*"):
                with suppress(OSError):  # another process was faster, or may not; either way it does no harm
                    if _HALF_WRITTEN.fullmatch(path.name) and path.lstat().st_mtime < horizon:
                        path.unlink()


def _arrays(data: bytes) -> dict[str, NDArray[np.float32]]:
    """The arrays of an NPZ file: lists of finite float32, as `Store.write` writes them, and nothing else."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        if sum(info.file_size for info in archive.zip.infolist()) > _MOST_WINDOWS:
            raise FernError(f"says it has more than {_MOST_WINDOWS:,} bytes")
        arrays = {name: archive[name] for name in archive.files}
    for name, values in arrays.items():
        if getattr(values, "dtype", None) != np.float32 or values.ndim != 1 or not np.isfinite(values).all():
            raise FernError(f"{name} holds something else than a list of finite float32")
    return arrays

"""Opening what is given as a file: pipes and devices, names that are not text, and what Arrow cannot make sense of."""

import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from fern.errors import FernError, NotWritten


class Opened:
    """A file that can be read more than once: itself, or a copy of a pipe that lasts as long as this object.

    Example:
        >>> _ = Path("load.csv").write_text("a")
        >>> Opened(Path("load.csv")).path
        PosixPath('load.csv')
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not _is_stream(path):
            return
        folder = tempfile.mkdtemp(prefix="fern-")
        self._finalizer = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "table"
        try:
            with path.open("rb") as source, self.path.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
        except OSError as error:
            self._finalizer()
            raise NotWritten(f"{path}: cannot be read into {tempfile.gettempdir()} ({error.strerror})") from None


def _is_stream(path: Path) -> bool:
    """Whether a file can be read only once: a pipe, standard input, a terminal."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # what is wrong with it is told by whoever opens it
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


@contextmanager
def for_arrow(path: Path) -> Iterator[Path | BinaryIO]:
    """The path, or the open file where its name is no text: Arrow takes names in UTF-8 alone."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with path.open("rb") as file:
            yield file
    else:
        yield path


@contextmanager
def readable(name: str) -> Iterator[None]:
    """What Arrow cannot make sense of within the block is a `FernError`."""
    try:
        yield
    except pa.ArrowException as error:
        reason = " ".join(str(error.args[0] if error.args else error).split())[:300]
        raise FernError(f"{name}: cannot be read ({reason.rstrip('.')})") from None
    except UnicodeDecodeError as error:
        raise FernError(f"{name}: holds text that is not UTF-8 ({error.reason})") from None

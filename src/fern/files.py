"""Writing files so that they are whole or absent."""

import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fern.errors import FernError


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well, and is deleted when it does not.

    Example:
        >>> import tempfile
        >>> note = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with written_whole(note) as temporary:
        ...     _ = temporary.write_text("all of it")
        >>> note.read_text()
        'all of it'
    """
    check_writable(path)
    # The suffix is kept: writers such as matplotlib choose the format by it.
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise FernError(f"{path}: cannot be written ({error.strerror})") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise FernError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """An error where a file could not be written: a directory, a missing folder, no permission.

    Example:
        >>> check_writable(Path("no/such/folder/out.csv"))
        Traceback (most recent call last):
            ...
        fern.errors.FernError: no/such/folder/out.csv: the folder no/such/folder does not exist
    """
    if path.is_dir():
        raise FernError(f"{path}: is a directory, needs a file name")
    if not path.parent.is_dir():
        raise FernError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise FernError(f"{path}: cannot be written (no permission)")


def ending_of(path: Path, endings: Collection[str], *, what: str) -> str:
    """The ending of a file's name in lower case, which must be one that ``what`` can be written as.

    Example:
        >>> ending_of(Path("shock.PNG"), (".png", ".svg"), what="a picture")
        '.png'
    """
    ending = path.suffix.lower()
    if ending not in endings:
        raise FernError(f"{path}: got the suffix {ending or 'none'!r}, {what} needs one of {', '.join(endings)}")
    return ending


def _sync_folder(folder: Path) -> None:
    """Have the new name itself on the disk: a power cut must not bring the former file back."""
    with suppress(OSError):  # some systems and file systems cannot
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    """The process's file mode mask (reading it means setting it for a moment)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask

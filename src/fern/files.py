"""The rule of outputs: a file is written whole or not at all, and never over what the same command reads or writes.

`check_outputs` is asked before anything is computed, `write_whole` writes. A regular file is replaced by one rename,
after its contents have reached the disk; behind a symbolic link the file that it points to is replaced, the link
stays. A device or a named pipe is written through: replacing its name by a regular file would break it for others.
"""

import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path

from fern.errors import FernError, NotWritten

DISK_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
"""What the system says of a disk that is full or failing: no mistake of the user."""

_LONGEST_STEM = 60  # bytes of a file's name that its temporary file shows
_STANDARD = {
    "stdin": "is standard input; files are not changed in place",
    "stdout": "standard output goes there already",
    "stderr": "standard error goes there already",
}


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """A temporary path that takes the place of ``path`` when the block ends well, and is deleted when it does not.

    It lies beside the file that it is to replace; for a device or a named pipe it lies elsewhere, and its contents
    are sent there at the end.

    Example:
        >>> import tempfile
        >>> note = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with write_whole(note) as temporary:
        ...     _ = temporary.write_text("all of it")
        >>> note.read_text()
        'all of it'
    """
    path = Path(path)
    check_writable(path)
    status = _status(path)
    through = status is not None and not stat.S_ISREG(status.st_mode)
    place = Path(os.path.realpath(path))
    # The suffix is kept: writers such as matplotlib choose the format by it.
    prefix = os.fsdecode(b"." + os.fsencode(path.stem)[:_LONGEST_STEM] + b".")
    try:
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=path.suffix, dir=None if through else place.parent)
    except OSError as error:
        raise _not_written(path, error) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _to_disk(temporary)
        if through:
            _send(temporary, path)
        else:
            temporary.chmod(0o666 & ~_umask() if status is None else stat.S_IMODE(status.st_mode))
            temporary.replace(place)
            _sync_folder(place.parent)
    except OSError as error:
        raise _not_written(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def check_outputs(
    outputs: Iterable[Path | None],
    *,
    inputs: Iterable[Path | str | None] = (),
    kept: Iterable[Path | str | None] = (),
) -> None:
    """Refuse outputs that cannot be written, that are an input, or that are another output of the same command.

    ``kept`` are folders whose contents belong to an input or to another output: no output may lie in one.

    Example:
        >>> Path("table.csv").touch()
        >>> check_outputs([Path("table.csv"), None], inputs=["table.csv"])
        Traceback (most recent call last):
            ...
        fern.errors.FernError: table.csv: is also an input; files are not changed in place, give another name
    """
    written = [Path(path) for path in outputs if path is not None]
    sources = [path for path in (Path(name) for name in inputs if name is not None) if _status(path) is not None]
    folders = [Path(folder) for folder in kept if folder is not None]
    for path in written:
        check_writable(path)
        if any(_same(path, source) for source in sources):
            raise FernError("is also an input; files are not changed in place, give another name", where=path)
        _refuse_standard(path)
        for folder in folders:
            if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
                raise FernError(f"lies in {folder}, whose files are not written by hand; give another name", where=path)
    for first, second in combinations(written, 2):
        if _same(first, second):
            raise FernError("is named for two outputs; give each a name of its own", where=first)


def check_writable(path: Path) -> None:
    """An error where a file could not be written: a directory, a missing folder, no permission."""
    status = _status(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise FernError("is a directory", expected="a file name", where=path)
    if status is not None and stat.S_ISSOCK(status.st_mode):
        raise FernError("is a socket", expected="a file, a device or a named pipe", where=path)
    if status is not None and not stat.S_ISREG(status.st_mode):
        if not os.access(path, os.W_OK):
            raise FernError("cannot be written (no permission)", where=path)
        return
    folder = Path(os.path.realpath(path)).parent
    shown = path.parent if not path.is_symlink() else folder
    if not folder.is_dir():
        raise FernError(f"the folder {shown} does not exist", where=path)
    if not os.access(folder, os.W_OK | os.X_OK) or (status is not None and not os.access(path, os.W_OK)):
        raise FernError("cannot be written (no permission)", where=path)


def check_folder(folder: Path) -> None:
    """An error where files could not be written into a folder that is there or is yet to be made."""
    for place in (folder, *folder.absolute().parents):
        status = _status(place)
        if status is None:
            continue
        if not stat.S_ISDIR(status.st_mode):
            parts = (folder, *folder.parents)
            shown = next((part for part in parts if part.absolute() == place), place)  # as the user wrote it
            raise FernError(f"{shown} is a file", expected="a folder", where=folder)
        if not os.access(place, os.W_OK | os.X_OK):
            raise FernError(f"{place} is not writable (no permission)", where=folder)
        return


def make_folder(folder: Path) -> Path:
    """The folder, made with those above it where it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FernError("is a file or below one", expected="a folder", where=folder) from None
    except OSError as error:
        if error.errno in DISK_TROUBLE:
            raise NotWritten(f"was not made ({error.strerror})", where=folder) from None
        raise FernError(f"the folder cannot be created ({error.strerror})", where=folder) from None
    return folder


def read_plain(path: Path, *, most: int) -> bytes:
    """The contents of a regular file of at most ``most`` bytes; a pipe or a device is refused and never waited for."""
    # Without NONBLOCK opening a pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        os.close(handle)
        if stat.S_ISREG(status.st_mode):
            raise FernError(f"has {status.st_size:,} bytes, at most {most:,} are read", where=path)
        raise FernError("is not a regular file", where=path)
    with os.fdopen(handle, "rb") as file:
        return file.read(most + 1)


def require_ending(path: Path, endings: Collection[str], *, what: str) -> str:
    """The ending of a file's name in lower case, which must be one that ``what`` can be written as.

    The name of a device or a named pipe has none, and the first of the ``endings`` is taken.
    """
    ending = path.suffix.lower()
    if ending not in endings:
        status = _status(path)
        if status is not None and (stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
            return next(iter(endings))
        raise FernError(f"got the suffix {ending or 'none'!r}, {what} needs one of {', '.join(endings)}", where=path)
    return ending


def _status(path: Path) -> os.stat_result | None:
    """What is there, links followed; None where nothing is. A name that cannot be one is an error."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FernError(f"cannot be used ({error.strerror})", where=path) from None
    except ValueError as error:
        raise FernError(f"is no file name ({error})", where=repr(str(path))) from None


def _same(path: Path, other: Path) -> bool:
    """Whether two names mean one file. Character devices are never in each other's way."""
    first, second = _status(path), _status(other)
    if first is not None and second is not None:
        return os.path.samestat(first, second) and not stat.S_ISCHR(first.st_mode)
    return first is second is None and os.path.realpath(path) == os.path.realpath(other)


def _refuse_standard(path: Path) -> None:
    """Refuse the regular file that is the command's standard input, or into which it prints."""
    status = _status(path)
    if status is None or not stat.S_ISREG(status.st_mode):
        return
    for stream, does in _STANDARD.items():
        open_file = _open_file(stream)
        if open_file is not None and os.path.samestat(status, open_file):
            raise FernError(f"{does}; give another name", where=path)


def _open_file(stream: str) -> os.stat_result | None:
    with suppress(OSError, ValueError, AttributeError):  # closed, or not a file
        return os.fstat(getattr(sys, stream).fileno())
    return None


def _send(temporary: Path, path: Path) -> None:
    """The contents into a device or a named pipe, which stays what it is."""
    handle = os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0))
    with temporary.open("rb") as source, os.fdopen(handle, "wb") as sink:
        shutil.copyfileobj(source, sink)


def _not_written(path: Path, error: OSError) -> FernError:
    if error.errno == errno.ENAMETOOLONG:
        return FernError(f"cannot be written ({error.strerror})", where=path)
    return NotWritten(f"was not written ({error.strerror or error})", where=path)


def _to_disk(path: Path) -> None:
    """Have the contents on the disk: some file systems find out only here that it is full."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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

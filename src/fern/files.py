"""Writing files so that they are whole or absent."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fern.errors import FernError


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well, and is deleted when it does not.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with written_whole(target) as temporary:
        ...     _ = temporary.write_text("all of it")
        >>> target.read_text()
        'all of it'
    """
    if path.is_dir():
        raise FernError(f"{path}: is a directory, needs a file name")
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
    except OSError as error:
        raise FernError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """The process's file mode mask (reading it means setting it for a moment)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask

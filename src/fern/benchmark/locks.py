"""Claims: who is at work on which run, so that several sweeps on one folder share the work.

A claim is a file ``claims/<key>`` on which its owner holds a lock (``flock``). The kernel drops it when the owner dies,
however it dies, so a claim is never left behind. NFS (version 4, or 3 with its lock daemon) passes the lock to other
machines. Where it does not (mounted with ``nolock`` or ``local_lock``), two sweeps on two machines can do the same run:
results are written whole, so nothing but time is lost.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from fern.errors import FernError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


class Claims:
    """The claims of one sweep in ``folder``.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with Claims(folder) as mine, Claims(folder) as theirs:
        ...     first = mine.take("ab"), theirs.take("ab")
        ...     mine.release("ab")
        ...     first, theirs.take("ab")
        ((True, False), True)
    """

    def __init__(self, folder: Path) -> None:
        if fcntl is None:
            raise FernError("sweeps need POSIX file locks, which this system does not have", argument="benchmark")
        self._folder = folder
        self._held: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for key in list(self._held):
            self.release(key)

    def take(self, key: str) -> bool:
        """Claim a run; False when somebody else who is alive has it, this sweep included."""
        path = self._folder / key
        if key in self._held:
            return False
        try:
            handle = _open_lock_file(path)
        except OSError as error:
            raise FernError(f"cannot be claimed ({error.strerror})", where=path) from None
        taken = False
        try:
            taken = _lock(handle, path)
        finally:
            if not taken:
                os.close(handle)
        if taken:
            self._held[key] = handle
        return taken

    def release(self, key: str) -> None:
        """Give a claim back."""
        handle = self._held.pop(key)
        # The file goes before the lock does: whoever opened it meanwhile finds that it is no longer there.
        (self._folder / key).unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def hold_lock(path: Path, *, patience: float = 0.0) -> Iterator[bool]:
    """Hold the lock of a file within the block; gives False when it is still another's after ``patience`` seconds.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "lock"
        >>> with hold_lock(file) as mine, hold_lock(file) as again:
        ...     mine, again
        (True, False)
    """
    until = time.monotonic() + patience
    while True:
        handle = _open_lock_file(path)
        try:
            taken = _lock(handle, path)
            if taken or time.monotonic() >= until:
                yield taken
                return
        finally:
            os.close(handle)
        time.sleep(0.05)


def _open_lock_file(path: Path) -> int:
    """The file of a lock, made where it is not there. Links are not followed: what they point to is no lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return handle


def _lock(handle: int, path: Path) -> bool:
    """Lock the open file, and make sure that it still is the one of that name."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False  # its owner released it meanwhile
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise FernError(
            f"cannot be locked ({error.strerror}); the folder needs a file system with locks", where=path
        ) from None

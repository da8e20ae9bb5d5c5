"""Claims: who is at work on which run, so that several sweeps on one folder share the work.

A claim is a file ``claims/<key>`` on which its owner holds a lock (``flock``) and whose time stamp the owner renews.

- On one machine the lock decides alone. The kernel drops it when the owner dies, however it dies, so a claim is never
  left behind. NFS (version 4, or 3 with its lock daemon) passes the lock to the other machines too.
- Where locks do not reach other machines (NFS mounted with ``nolock`` or ``local_lock``, some cluster file systems),
  the time stamp decides: a claim of another machine counts as alive while it is younger than ``STALE_AFTER`` seconds.
  Ages are taken against a file written just now on the same file system, so clocks of machines need not agree.

Limits: without locks across machines two sweeps that reach for the same run within the same fraction of a second can
both get it, and an owner that stands still for longer than ``STALE_AFTER`` loses it. Both then do the run; results are
written whole, so nothing but time is lost.
"""

import errno
import json
import os
import platform
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from fern.errors import FernError, NotWritten

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

RENEW_EVERY = 10.0
STALE_AFTER = 60.0


class Claims:
    """The claims of one sweep in ``folder``; a thread renews them while the sweep lives.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with Claims(folder) as mine, Claims(folder) as theirs:
        ...     first = mine.take("ab"), theirs.take("ab")
        ...     mine.release("ab")
        ...     first, theirs.take("ab")
        ((True, False), True)
    """

    def __init__(self, folder: Path, *, renew_every: float = RENEW_EVERY, stale_after: float = STALE_AFTER) -> None:
        if fcntl is None:
            raise FernError("sweeps need POSIX file locks, which this system does not have", argument="benchmark")
        self._folder, self._renew_every, self._stale_after = folder, renew_every, stale_after
        self._held: dict[str, int] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="claims", daemon=True)

    def __enter__(self) -> Self:
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._renewer.join()
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
        try:
            mine = _lock(handle, path) and not self._belongs_to_another_machine(handle)
        except FernError:
            os.close(handle)
            raise
        if not mine:
            os.close(handle)
            return False
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps({"host": platform.node(), "process": os.getpid()}).encode(), 0)
        except OSError as error:
            path.unlink(missing_ok=True)
            os.close(handle)
            raise NotWritten(f"was not written ({error.strerror})", where=path) from None
        with self._lock:
            self._held[key] = handle
        return True

    def release(self, key: str) -> None:
        """Give a claim back."""
        with self._lock:
            handle = self._held.pop(key)
        # The file goes before the lock does: whoever opened it meanwhile finds that it is no longer there.
        (self._folder / key).unlink(missing_ok=True)
        os.close(handle)

    def _belongs_to_another_machine(self, handle: int) -> bool:
        """Whether the locked file names an owner elsewhere whose last sign of life is recent."""
        try:
            owner = json.loads(os.pread(handle, 4096, 0) or b"{}").get("host")
        except (ValueError, AttributeError):
            owner = None  # killed while it wrote its name; on this machine the lock tells that it is gone
        if owner in (None, platform.node()):
            return False
        return self._now() - os.fstat(handle).st_mtime < self._stale_after

    def _now(self) -> float:
        """The present by the clock that stamps this folder's files."""
        probe = self._folder / f".now-{platform.node()}-{os.getpid()}"
        probe.touch()
        stamp = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
        return stamp

    def _renew(self) -> None:
        while not self._over.wait(self._renew_every):
            with self._lock, suppress(OSError):  # a full disk must not end the sweep
                for handle in self._held.values():
                    os.utime(handle)


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
            mine = _lock(handle, path)
            if mine or time.monotonic() >= until:
                yield mine
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

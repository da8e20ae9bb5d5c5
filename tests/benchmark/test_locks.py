"""A run has one owner at a time, and an owner that dies is noticed."""

import errno
import threading
import time

import pytest

from fern.benchmark import locks as module
from fern.benchmark.locks import Claims, hold_lock
from fern.errors import FernError


def test_a_released_claim_is_free_and_leaves_no_file(tmp_path):
    with Claims(tmp_path) as mine, Claims(tmp_path) as theirs:
        assert mine.take("ab")
        assert not mine.take("ab")
        assert not theirs.take("ab")
        mine.release("ab")
        assert list(tmp_path.iterdir()) == []
        assert theirs.take("ab")


def test_claims_end_with_their_block(tmp_path):
    with Claims(tmp_path) as mine:
        mine.take("ab")
    assert list(tmp_path.iterdir()) == []


def test_many_claimants_never_hold_the_same_run_together(tmp_path):
    holders, most, errors = 0, 0, []
    guard = threading.Lock()

    def contend():
        nonlocal holders, most
        try:
            with Claims(tmp_path) as mine:
                for _ in range(300):
                    if mine.take("ab"):
                        with guard:
                            holders += 1
                            most = max(most, holders)
                        time.sleep(0)
                        with guard:
                            holders -= 1
                        mine.release("ab")
        except Exception as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=contend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert most == 1


def test_a_lock_is_waited_for_no_longer_than_asked(tmp_path):
    with hold_lock(tmp_path / "lock") as mine:
        assert mine
        began = time.monotonic()
        with hold_lock(tmp_path / "lock", patience=0.2) as again:
            assert not again
        assert time.monotonic() - began >= 0.2
    with hold_lock(tmp_path / "lock") as free:
        assert free


def test_a_system_without_file_locks_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "fcntl", None)
    with pytest.raises(FernError, match="POSIX file locks"):
        Claims(tmp_path)


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with Claims(tmp_path / "none") as mine, pytest.raises(FernError, match="cannot be claimed"):
        mine.take("ab")


def test_a_file_system_without_locks_is_an_error_not_an_endless_wait(tmp_path, monkeypatch):
    def no_locks(handle, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(module.fcntl, "flock", no_locks)
    with Claims(tmp_path) as mine, pytest.raises(FernError, match="needs a file system with locks"):
        mine.take("ab")
    with pytest.raises(FernError, match="No locks available"), hold_lock(tmp_path / "lock"):
        pass

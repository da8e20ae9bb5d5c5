"""Sweeps that are told to end, and others on the same folder: what they have is given back, or waited for."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.benchmark.support import ScriptedEngine
from tests.hostile.support import SCENARIO, run, write_files

from fern.benchmark.locks import Claims

TASK = 'schema = 1\nmodels = ["last-value"]\ndatasets = ["s.toml"]\nhorizons = [4]\nseeds = [7]\ncontext_length = 6\n'


def _hold(folder: Path, pipe: Connection) -> None:
    with Claims(folder) as mine:
        pipe.send(mine.take("ab"))
        time.sleep(60)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[BaseProcess]:
    """Another process that has claimed ``ab``."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(tmp_path, theirs))
    process.start()
    assert ours.poll(60)
    assert ours.recv() is True
    yield process
    process.kill()
    process.join()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    ("what", "free"), [(None, False), (signal.SIGSTOP, False), (signal.SIGKILL, True), (signal.SIGTERM, True)]
)
def test_a_claim_lives_as_long_as_its_process(
    what: signal.Signals | None, free: bool, elsewhere: BaseProcess, tmp_path: Path
) -> None:
    if what is not None:
        assert elsewhere.pid is not None
        os.kill(elsewhere.pid, what)
    if free:
        elsewhere.join(60)
    with Claims(tmp_path) as mine:
        assert mine.take("ab") is free
        assert mine.take("cd")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_sweep_that_is_told_to_end_ends_its_workers_and_gives_its_claims_back(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    seen: list[list[str]] = []

    class Told(ScriptedEngine):
        def wait(self, seconds: float) -> Any:
            os.kill(os.getpid(), number)
            time.sleep(10)

        def __exit__(self, *exception: object) -> None:
            seen.append([path.name for path in Path("runs/claims").iterdir()])

    monkeypatch.setattr("fern.benchmark.engines.open_engine", lambda *arguments, **options: Told())
    before = signal.signal(number, signal.SIG_DFL)  # under nohup, SIGHUP is ignored
    write_files({"t.toml": TASK, "s.toml": SCENARIO.replace("60", "200")})
    try:
        ran = run("bench", "run", "t.toml", "--out", "runs", capsys=capsys)
    finally:
        signal.signal(number, before)
    assert ran.code == 128 + number, ran.err
    assert "Traceback" not in ran.err
    assert [len(claims) for claims in seen] == [1]  # the workers end first
    assert list(Path("runs/claims").iterdir()) == []
    assert list(Path("runs/rows").iterdir()) == []

"""Sweeps that are told to end, and others on the same folder: what they have is given back, or waited for."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.benchmark.support import ScriptedEngine
from tests.hostile.support import SCENARIO, run, write_files

from fern.benchmark.locks import Claims

TASK = 'schema = 1\nmodels = ["last-value"]\ndatasets = ["s.toml"]\nhorizons = [4]\nseeds = [7]\ncontext_length = 6\n'
HOLD = """
import sys, time
from pathlib import Path
from fern.benchmark.locks import Claims
with Claims(Path(sys.argv[1])) as mine:
    print(mine.take("ab"), flush=True)
    time.sleep(60)
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has claimed ``ab``."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize(
    ("what", "free"), [(None, False), (signal.SIGSTOP, False), (signal.SIGKILL, True), (signal.SIGTERM, True)]
)
def test_a_claim_lives_as_long_as_its_process(
    what: signal.Signals | None, free: bool, elsewhere: subprocess.Popen[str], tmp_path: Path
) -> None:
    if what is not None:
        elsewhere.send_signal(what)
    if free:
        elsewhere.wait(60)
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

"""Forecasters that hang or crash, in this process and in one of their own."""

import importlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.benchmark.stress.support import last_value

from fern.benchmark.stress.targets import ScenarioData
from fern.benchmark.stress.time_limit import guard_forecaster
from fern.data.splits import Part
from fern.errors import FernError

SOURCE = '''
import os, subprocess, sys, time
from pathlib import Path

def moody(context, horizon):
    """Does what the first value of the context says."""
    mood = int(context[0, 0])
    if mood == 1:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path("pids").write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    if mood == 2:
        os._exit(3)
    if mood == 3 and not Path("daemon").exists():
        program = "import os, time; open('daemon', 'w').write(str(os.getpid())); time.sleep(600)"
        detach = "env={}, start_new_session=True"
        leave = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], {detach})"
        subprocess.run([sys.executable, "-c", leave, program], check=True)  # forks twice, without its environment
        while not Path("daemon").exists() or not Path("daemon").read_text():
            time.sleep(0.05)
    return context[-1:].repeat(horizon, axis=0)
'''


def data(mood=0.0):
    contexts = np.full((4, 6, 1), mood, np.float32)
    return ScenarioData(np.zeros((50, 1), np.float32), Part(0, 40), Part(40, 50), contexts, horizon=5, takes="window")


def hang(context, horizon):
    time.sleep(600)


def swallow(context, horizon):
    while True:
        try:
            time.sleep(600)
        except Exception:  # noqa: BLE001  the mistake under test
            return last_value(context, horizon)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="this system has no SIGALRM")
@pytest.mark.parametrize("function", [hang, swallow])
def test_a_function_that_hangs_is_interrupted_and_the_alarm_is_gone(function):
    handler = signal.getsignal(signal.SIGALRM)
    with (
        guard_forecaster(function) as guarded,
        pytest.raises(FernError, match=r"returned no forecast within the time limit of 0\.3 s"),
    ):
        guarded.forecast_windows(data(), time_limit=0.3, training_limit=60.0)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="this system has no SIGALRM")
def test_an_alarm_that_another_tool_set_is_left_standing():
    rung = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
    signal.setitimer(signal.ITIMER_REAL, 500.0)
    try:
        with guard_forecaster(hang) as guarded, pytest.raises(FernError):
            guarded.forecast_windows(data(), time_limit=0.1, training_limit=60.0)
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 300.0 < left < 500.0
        assert not rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)


def test_off_the_main_thread_a_hanging_function_is_left_behind():
    outcome = []
    release = threading.Event()

    def ask():
        for function in (lambda c, h: release.wait(60), lambda c, h: c[-1:].repeat(h, axis=0)):
            try:
                outcome.append(
                    guard_forecaster(function)
                    .forecast_windows(data(), time_limit=5.0 if outcome else 0.2, training_limit=60.0)
                    .shape
                )
            except FernError as error:
                outcome.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(60)
    release.set()
    assert outcome == ["returned no forecast within the time limit of 0.2 s", (4, 5, 1)]


def alive(pid):
    """Whether a process runs (a zombie that nobody waits for does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ended(pid):
    """Whether a process is gone within ten seconds."""
    deadline = time.monotonic() + 10.0
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_a_target_is_killed_with_all_it_started_and_the_next_question_is_answered():
    Path("moods.py").write_text(SOURCE)
    with guard_forecaster("moods:moody") as guarded:

        def ask(mood, time_limit=60.0):
            return guarded.forecast_windows(data(mood), time_limit=time_limit, training_limit=60.0)

        if sys.platform == "linux":  # where orphans are adopted
            assert (ask(3) == 3).all()
        with pytest.raises(FernError, match="returned no forecast within the time limit of 2 s"):
            ask(1, time_limit=2.0)
        pids = [
            int(pid) for name in ("pids", "daemon") if Path(name).exists() for pid in Path(name).read_text().split()
        ]
        assert os.getpid() not in pids
        assert all(map(ended, pids))
        assert (ask(7) == 7).all()
        with pytest.raises(FernError, match="its process exited with code 3"):
            ask(2)


SLOW = """
import time
from torch import nn

class Slow(nn.Module):
    def __init__(self, *, context_length, horizon, channels):
        super().__init__()
        self.map = nn.Linear(context_length, horizon)

    def forward(self, past):
        time.sleep(600)
"""


def test_a_model_that_hangs_in_training_fails_in_time(monkeypatch):
    Path("slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    with (
        guard_forecaster(importlib.import_module("slow").Slow) as guarded,
        pytest.raises(FernError, match="was not trained within the time limit of 2 s"),
    ):
        guarded.forecast_windows(data(), time_limit=60.0, training_limit=2.0)
    sys.modules.pop("slow", None)

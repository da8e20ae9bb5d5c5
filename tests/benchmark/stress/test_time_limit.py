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
        pytest.raises(FernError, match="returned no forecast within the time limit of 1 s"),
    ):
        guarded.forecast_windows(data(), time_limit=1.0, training_limit=60.0)
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


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_a_target_that_hangs_is_killed_with_its_children_and_the_next_question_is_answered():
    Path("moods.py").write_text(SOURCE)
    with guard_forecaster("moods:moody") as guarded:
        with pytest.raises(FernError, match="returned no forecast within the time limit of 2 s"):
            guarded.forecast_windows(data(1), time_limit=2.0, training_limit=60.0)
        pids = [int(pid) for pid in Path("pids").read_text().split()]
        assert len(pids) == 2
        assert pids[0] != os.getpid()
        deadline = time.monotonic() + 10.0
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(alive, pids))
        assert (
            guarded.forecast_windows(data(7), time_limit=60.0, training_limit=60.0).tolist()
            == np.full((4, 5, 1), 7.0).tolist()
        )
        with pytest.raises(FernError, match="its process exited with code 3"):
            guarded.forecast_windows(data(2), time_limit=60.0, training_limit=60.0)


DAEMON = """
import os, subprocess, sys, time
from pathlib import Path

def forecast(context, horizon):
    program = "import os, time; open('daemon', 'w').write(str(os.getpid())); time.sleep(600)"
    detach = "env={}, start_new_session=True"
    leave = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], {detach})"
    subprocess.run([sys.executable, "-c", leave, program], check=True)  # forks twice, without its environment
    while not Path("daemon").exists() or not Path("daemon").read_text():
        time.sleep(0.05)
    return context[..., -1:, :].repeat(horizon, axis=-2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")
def test_a_process_that_a_target_starts_and_disowns_ends_with_the_test():
    Path("daemon_maker.py").write_text(DAEMON)
    with guard_forecaster("daemon_maker:forecast") as guarded:
        guarded.forecast_windows(data(7), time_limit=60.0, training_limit=60.0)
        daemon = int(Path("daemon").read_text())
        assert alive(daemon)
    deadline = time.monotonic() + 10.0
    while alive(daemon) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(daemon)


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


@pytest.mark.parametrize("as_text", [True, False])
def test_a_model_that_hangs_in_training_fails_in_time(monkeypatch, as_text):
    Path("slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    target = "slow:Slow" if as_text else importlib.import_module("slow").Slow
    with (
        guard_forecaster(target) as guarded,
        pytest.raises(FernError, match="was not trained within the time limit of 2 s"),
    ):
        guarded.forecast_windows(data(), time_limit=60.0, training_limit=2.0)
    sys.modules.pop("slow", None)

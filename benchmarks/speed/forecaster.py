"""FernForecaster as people use it: one forecast, a fit of a usual table, and the memory of a fit of a long one.

A forecast of one series is timed from frame to frame and against neuralforecast's DLinear on the same frame, both with
80 and 95 % intervals and already fitted, in turns; where neuralforecast is not installed, ours stands alone. Theirs is
timed twice: as it comes, with a progress bar and a logger that writes to disk, and with these turned off, which is the
least it can take. Either keeps its trainer from one call to the next, as it does by itself. The table of a usual fit
has the size of ETTh1 (17,420 rows of 7 channels, by the hour), made here. The memory of a fit is what the process grows
by while it fits, together with the frame itself, over the bytes of the frame.
"""

import contextlib
import importlib.util
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.speed.harness import Effort, Measurement, best_in_turns, best_seconds, quiet
from fern.forecaster import FernForecaster
from fern.models import build_model
from fern.training.runtime import threads

PACKAGES = ("torch", "numpy", "numba", "pandas", "pyarrow")
LENGTH, HORIZON, CHANNELS = 336, 336, 3
HOURS, COLUMNS = 17_420, 7
FEW = 3_000
LONG = 10_000_000
SECONDS_OF_A_LONG_FIT = 20.0
PAGE = 4096
LEVELS = [80, 95]
PEERS: Mapping[str, Mapping[str, bool]] = {
    "neuralforecast's DLinear": {},
    "neuralforecast's DLinear, its bar and logger off": {
        "enable_progress_bar": False,
        "logger": False,
        "enable_model_summary": False,
    },
}


def measure(effort: Effort) -> list[Measurement]:
    with threads(1):
        serving = [*_bare_calls(effort), *_forecasts(effort)]
    return [*serving, *_fits(effort), _memory(effort)]


def _bare_calls(effort: Effort) -> list[Measurement]:
    """One window through the model, without gradients."""
    past = torch.randn(1, LENGTH, CHANNELS)
    found = []
    for preset in ("paper", "level"):
        model = build_model("fern", preset=preset, context_length=LENGTH, horizon=HORIZON, channels=CHANNELS).eval()
        with torch.no_grad():
            seconds = best_seconds(partial(model, past), repeats=effort.rounds(300), warmups=3)
        found.append(
            Measurement(_sized(f"one window, preset {preset}"), 1e3 * seconds, None, "ms", "", "at most 0.7 ms")
        )
    return found


def _sized(name: str) -> str:
    return f"{name}, {LENGTH} to {HORIZON} of {CHANNELS} channels"


def _forecasts(effort: Effort) -> list[Measurement]:
    rows = effort.size(3_000, least=1_400)
    wide = pd.DataFrame(_waves(rows, CHANNELS), columns=list("abc"))
    fitted = FernForecaster(HORIZON, context_length=LENGTH, epochs=1, progress="silent", threads=1).fit(wide)
    past, state = wide.to_numpy()[-LENGTH:], fitted._require_fitted()
    assert state.model is not None
    model, window = state.model, torch.from_numpy(past[None].astype(np.float32))

    def bare() -> None:
        with torch.no_grad():
            model(window)

    calls: dict[str, Callable[[], object]] = {"bare": bare, "array": lambda: fitted.predict_array(past)}
    milliseconds = {name: 1e3 * t for name, t in best_in_turns(calls, rounds=effort.rounds(300)).items()}
    series = pd.DataFrame(
        {
            "unique_id": "a",
            "ds": pd.date_range("2024-01-01", periods=rows, freq="h"),
            "y": _waves(rows, 1)[:, 0],
        }
    )
    ours = FernForecaster(96, epochs=1, progress="silent", threads=1).fit(series)
    newest = series.tail(400)
    timed: dict[str, Callable[[], object]] = {"": lambda: ours.predict(newest, level=LEVELS)}
    with quiet(), tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # the logger writes where it is
        if importlib.util.find_spec("neuralforecast") is not None:
            for name, options in PEERS.items():
                library = _neuralforecast(series, options)
                timed[name] = partial(library.predict, newest, level=LEVELS)
        taken = best_in_turns(timed, rounds=effort.rounds(30))
    return [
        Measurement(
            _sized("predict_array of one window"),
            milliseconds["array"],
            milliseconds["bare"],
            "ms",
            "the bare call of the same model",
            "ratio >= 0.67",
        ),
        *(
            Measurement(
                "predict of one series of 400 rows, 96 ahead, with intervals, frame to frame",
                1e3 * taken[""],
                1e3 * taken[peer] if peer else None,
                "ms",
                peer,
                "at most 3 ms, ratio >= 15",
            )
            for peer in (list(taken)[1:] or [""])
        ),
    ]


def _neuralforecast(series: pd.DataFrame, options: Mapping[str, bool]) -> Any:
    from neuralforecast import NeuralForecast
    from neuralforecast.models import DLinear
    from neuralforecast.utils import PredictionIntervals

    library = NeuralForecast(models=[DLinear(h=96, input_size=336, max_steps=5, **options)], freq="h")
    library.fit(series, prediction_intervals=PredictionIntervals(n_windows=2))
    return library


def _fits(effort: Effort) -> list[Measurement]:
    """Default fits; a smoke run has one epoch."""
    found = []
    for name, rows, columns, horizon, target in (
        (f"default fit of {HOURS:,} rows of {COLUMNS} channels, 96 ahead, 2 cores", HOURS, COLUMNS, 96, 60),
        (f"default fit of {FEW:,} rows of 1 channel, 24 ahead, 2 cores", FEW, 1, 24, 10),
    ):
        frame = pd.DataFrame(_waves(effort.size(rows, least=500), columns), columns=[f"c{c}" for c in range(columns)])
        forecaster = FernForecaster(
            horizon,
            epochs="auto" if effort.share == 1.0 else 1,
            progress="silent",
        )
        began = time.perf_counter()
        forecaster.fit(frame)
        found.append(Measurement(name, time.perf_counter() - began, None, "s", "", f"at most {target} s"))
    return found


def _waves(rows: int, columns: int) -> np.ndarray:  # (rows, columns)
    """Days and weeks of hours, with noise that remembers."""
    rng, hours = np.random.default_rng(7), np.arange(rows)[:, None]
    phases = rng.uniform(0, 2 * np.pi, (2, columns))
    seasons = np.sin(2 * np.pi * hours / 24 + phases[0]) + 0.5 * np.sin(2 * np.pi * hours / 168 + phases[1])
    noise = rng.normal(size=(rows, columns))
    for row in range(1, min(rows, 100_000)):
        noise[row] += 0.8 * noise[row - 1]
    return np.asarray(seasons + 0.3 * noise)


def _memory(effort: Effort) -> Measurement:
    """In a process of its own, after a small fit has loaded what any fit loads; a smoke run stays in this one."""
    rows = effort.size(LONG, least=2_000)
    grown, frame = _grown_elsewhere(rows) if effort.share == 1.0 else _grown(rows, seconds=1.0)
    return Measurement(
        f"memory of fitting {rows:,} rows, the frame's own included",
        (grown + frame) / 1e6,
        frame / 1e6,
        "MB",
        "the frame alone",
        "ratio >= 0.33 (at most three times the series)",
    )


def _grown_elsewhere(rows: int) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed.forecaster", str(rows)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    grown, frame = map(int, done.stdout.split())
    return grown, frame


def _grown(rows: int, *, seconds: float) -> tuple[int, int]:
    """Bytes that a fit of so many rows adds to this process at most, and those of the frame."""
    FernForecaster(48, epochs=1, progress="silent", threads=1).fit(_long(2_000))
    frame = _long(rows)
    ended = threading.Event()
    base = peak = _resident()  # a process that gives memory back meanwhile has grown by nothing

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.005):
            peak = max(peak, _resident())

    watching = threading.Thread(target=watch)
    watching.start()
    FernForecaster(48, time_limit=seconds, progress="silent", threads=1).fit(frame)
    ended.set()
    watching.join()
    return peak - base, int(frame.memory_usage(index=False).sum())


def _long(rows: int) -> pd.DataFrame:
    return pd.DataFrame({"ds": np.arange(rows), "y": np.random.default_rng(7).normal(size=rows).cumsum()})


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


if __name__ == "__main__":
    print(*_grown(int(sys.argv[1]), seconds=SECONDS_OF_A_LONG_FIT))

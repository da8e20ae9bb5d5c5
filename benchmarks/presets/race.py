"""``python -m benchmarks.presets.race [DATA ...]``: Fern by the paper's ``shock`` protocol against our ``default``.

Raw values, 336 to 336, 70/20/10, seeds 7 and 1955, one thread. The error is the test MSE of the weights a run would
keep by its validation windows if it ended there. Time is processor time, so that what else the machine does matters
less. Each finished run is a row in ``results/``; a row of the same settings is not run again, and a run that was cut
short goes on where it was. The summary goes to the speed results: times to the same error, and at the end the errors
and the paper's objective.
"""

import json
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.harness import Measurement, record
from fern.data.splits import split
from fern.data.windows import Windows
from fern.models import build_model
from fern.systems import simulate
from fern.training import EpochRecord, TrainConfig, resumable, train
from fern.training.logging import Progress

RESULTS = Path(__file__).parent / "results"
RUNS = Path("runs/presets")
ETTH1 = Path(__file__).parents[3] / "shared" / "data" / "ETTh1.csv"
DATA = ("LORENZ_BASE", "ROSSLER_BASE", "ETTh1")
PRESETS = ("shock", "default")
SEEDS = (7, 1955)
SIZE = 336


class Curve(Progress):
    """The processor time and test error after each epoch, of the weights that are kept by then.

    Kept in a file, so that a run which goes on after a kill adds to its time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.points: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        self._began = time.process_time() - (self.points[-1]["seconds"] if self.points else 0.0)

    def epoch(self, record: EpochRecord, *, kept: bool) -> None:
        self.points = [point for point in self.points if point["epoch"] < record.epoch]
        seconds = round(time.process_time() - self._began, 1)
        before = self.points[-1]["mse"] if self.points else None
        error = record.test["mse"] if kept and record.test is not None else before
        self.points.append({"epoch": record.epoch, "seconds": seconds, "mse": error, "loss": record.train_loss})
        self._path.write_text(json.dumps(self.points))
        print(f"    epoch {record.epoch}: {seconds:.0f} s, test MSE {error}", flush=True)


def values_of(data: str) -> NDArray[np.floating[Any]]:  # (T, C)
    """The series of a scenario, or the columns of ETTh1 as they are."""
    if data != "ETTh1":
        return simulate(data).values
    return np.loadtxt(ETTH1, delimiter=",", skiprows=1, usecols=range(1, 8), dtype=np.float32)


def run(data: str, preset: str, seed: int) -> dict[str, Any]:
    """The row of one run, from its file where there is one of these settings."""
    config = TrainConfig(preset=preset, threads=1, seed=seed)
    path = RESULTS / f"{data}-{preset}-seed{config.seed}.json"
    if path.exists():
        row: dict[str, Any] = json.loads(path.read_text())
        if row["settings"] == config.to_mapping():
            return row
    values, folder = values_of(data), RUNS / path.stem
    folder.mkdir(parents=True, exist_ok=True)
    curve = Curve(folder / "curve.json")
    parts = split(len(values), "shock")
    train_, validation, test = (
        Windows(values, context_length=SIZE, horizon=SIZE, part=part)
        for part in (parts.train, parts.validation, parts.test)
    )
    model = build_model("fern", preset="paper-compact", context_length=SIZE, horizon=SIZE, channels=values.shape[1])
    print(f"  {data}, {preset}:", flush=True)
    again = resumable(folder)
    result = train(
        model,
        train_,
        validation,
        config,
        windows_test=test,
        progress=curve,
        directory=None if again else folder,
        resume=folder if again else None,
    )
    row = {
        "command": f"python -m benchmarks.presets.race {data}",
        "data": data,
        "preset": preset,
        "settings": config.to_mapping(),
        "best_epoch": result.best_epoch,
        "stopped": result.stopped,
        "seconds": curve.points[-1]["seconds"],
        "test": result.best.test,
        "curve": curve.points,
        "data_fingerprint": result.fingerprint.data,
        "versions": result.fingerprint.versions,
    }
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(row, indent=2) + "\n")
    return row


def seconds_to(row: dict[str, Any], error: float) -> float:
    """The processor time after which a run would have kept weights with at most this error; infinite if never."""
    reached = [point["seconds"] for point in row["curve"] if point["mse"] is not None and point["mse"] <= error]
    return min(reached, default=float("inf"))


def measurements(data: str) -> list[Measurement]:
    """Our preset against the paper's on one series, means over the seeds."""
    pairs = [(run(data, "default", seed), run(data, "shock", seed)) for seed in SEEDS]
    errors = [theirs["test"]["mse"] for _, theirs in pairs]
    times = [(seconds_to(ours, e), seconds_to(theirs, e)) for (ours, theirs), e in zip(pairs, errors, strict=True)]
    whole = [fmean(row["seconds"] for row in side) for side in zip(*pairs, strict=True)]
    seeds = " and ".join(map(str, SEEDS))
    found = [
        Measurement(
            f"{data}: processor time to the test MSE of the whole shock run, seeds {seeds}",
            fmean(ours for ours, _ in times),
            fmean(theirs for _, theirs in times),
            "s",
            "shock",
            "ratio > 1",
        )
    ]
    for metric, target in (("mse", "ratio > 1"), ("mae", "recorded"), ("objective", "recorded")):
        ours, theirs = (fmean(row["test"][metric] for row in side) for side in zip(*pairs, strict=True))
        name = f"{data}: test {metric} of the whole run (default {whole[0]:.0f} s, shock {whole[1]:.0f} s)"
        found.append(Measurement(name, ours, theirs, "", "shock", target))
    return found


if __name__ == "__main__":
    asked = sys.argv[1:] or DATA
    found = [row for data in asked for row in measurements(data)]
    if tuple(asked) == DATA:
        record("presets", found, packages=("torch", "numpy"), command="python -m benchmarks.presets.race")

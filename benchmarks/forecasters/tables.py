"""The tables on which libraries are compared: few, each with at least 20 windows or all that its panel has."""

import runpy
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.public.tasks import Task, named_task
from fern.data import load_dataset
from fern.data.datasets import get_dataset
from fern.systems import scenario, simulate
from fern.systems.noise import observed

ROOT = Path(__file__).parents[2]
WINDOWS = 20
SIMULATED_ROWS = 8_000
SIMULATED_HORIZON = 96


def air_passengers() -> pd.DataFrame:
    """The monthly airline passengers of Box and Jenkins, 1949 to 1960."""
    # By its path: some installed library brings a package called tests.
    values = runpy.run_path(str(ROOT / "tests" / "forecaster" / "air_passengers.py"))["AIR_PASSENGERS"]
    stamps = pd.date_range("1949-01-01", periods=len(values), freq="MS")
    return pd.DataFrame({"unique_id": "air", "ds": stamps, "y": np.array(values, dtype=float)})


def etth1() -> pd.DataFrame:
    """The 14,400 hours of the literature's split of ETTh1, a series a column."""
    table = load_dataset("ETTh1", kind="pandas").iloc[:14_400]
    parts = [
        pd.DataFrame({"unique_id": column, "ds": table["date"], "y": table[column].to_numpy(float)})
        for column in get_dataset("ETTh1").columns
    ]
    return pd.concat(parts, ignore_index=True)


def simulated(name: str, *, noise: float = 0.0) -> pd.DataFrame:
    """A system's channels as series; with noise ``y`` is what is observed. Forecasts are judged by ``true``."""
    steps = SIMULATED_ROWS + WINDOWS * SIMULATED_HORIZON
    trajectory = simulate(scenario(name, steps=steps))
    true = trajectory.values.astype(float)
    seen = observed(true, share=noise, seed=scenario(name).seed) if noise else true
    stamps = pd.date_range("2000-01-01", periods=steps, freq="h")  # no calendar, but libraries want one
    parts = [
        pd.DataFrame({"unique_id": channel, "ds": stamps, "y": seen[:, c], "true": true[:, c]})
        for c, channel in enumerate(trajectory.channel_names)
    ]
    return pd.concat(parts, ignore_index=True)


def _simulated_task(name: str, *, noise: float = 0.0) -> Task:
    label = f"{name}_noise{noise:g}" if noise else name
    return Task(
        name=label,
        read=lambda: simulated(name, noise=noise),
        files=(),
        horizon=SIMULATED_HORIZON,
        season=1,
        frequency="h",
        windows=WINDOWS,
        published={},
        judged="true",
    )


TABLES: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task("AirPassengers", air_passengers, (), 12, 12, "MS", WINDOWS, {}, step=3),
        Task("ETTh1", etth1, ("ETTh1.csv",), 96, 24, "h", WINDOWS, {}),
        named_task("m4_weekly"),
        named_task("m3_quarterly"),
        _simulated_task("OU_BASE"),
        _simulated_task("LORENZ_BASE", noise=0.05),
    )
}
"""AirPassengers has no room for 20 windows of a year side by side: they begin a quarter apart, and overlap."""

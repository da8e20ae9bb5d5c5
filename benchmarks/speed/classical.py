"""The classical ensemble on one core: months of many short series, from arrays to quantiles.

Where statsforecast is installed, its AutoETS and AutoTheta on the same series, on some of them, stand beside ours.
"""

import importlib.util
import time

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.harness import Effort, Measurement, best_seconds, quiet
from fern.models.classical import ClassicalSettings, forecast_panel

PACKAGES = ("numpy", "numba")
ROWS, HORIZON, SEASON = 60, 12, 12
PEER_SERIES = 40


def sales(count: int) -> list[NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    t = np.arange(ROWS)
    season = 1 + 0.3 * np.sin(2 * np.pi * t / SEASON)
    return [100 * season * np.exp(np.cumsum(rng.normal(0, 0.03, ROWS))) for _ in range(count)]


def measure(effort: Effort) -> list[Measurement]:
    series = sales(effort.size(4000, least=4))
    settings = ClassicalSettings(season=SEASON)

    def ours() -> None:
        forecast_panel(series, HORIZON, settings).quantile([0.1, 0.5, 0.9])

    seconds = best_seconds(ours, repeats=effort.rounds(3), clock=time.process_time) / len(series)
    peer = None
    if importlib.util.find_spec("statsforecast") is not None:
        some = series[: effort.size(PEER_SERIES, least=1)]
        peer = best_seconds(lambda: _theirs(some), repeats=1, clock=time.process_time) / len(some)
    return [
        Measurement(
            name=f"a series of {ROWS} months, processor time",
            ours=1e3 * seconds,
            peer=None if peer is None else 1e3 * peer,
            unit="ms",
            peer_name="statsforecast's AutoETS and AutoTheta" if peer is not None else "",
            target="under 1 ms",
        )
    ]


def _theirs(series: list[NDArray[np.float64]]) -> None:
    from statsforecast.models import AutoETS, AutoTheta

    with quiet():
        for values in series:
            for model in (AutoETS(season_length=SEASON), AutoTheta(season_length=SEASON)):
                model.forecast(values, h=HORIZON, level=[80])

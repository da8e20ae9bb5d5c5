"""What covariates are worth and what they cost, where the truth is known.

    python -m benchmarks.covariates [--only noise driven] [--draws 5] [--model fern]

``noise``: ten columns of pure noise, known ahead, beside panels like AirPassengers, ETTh1's newest rows and
Ornstein-Uhlenbeck processes: CRPS with them over CRPS without any covariates, on the same windows. The regression that
comes with covariates reads lags and the calendar, too, so the ratio to ``calendar=True`` tells what noise alone costs.
``driven``: series that a known column drives, y_t = 0.5 y_{t-1} + 2 x_t + e_t: root mean square error over that of the
oracle, which knows the equation. Each draw has noise of its own, and simulated panels are new. The result, with the
spread over draws, goes to ``benchmarks/results/covariates.json``.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.small_series.make import SHARES, crps
from fern.data.datasets import get_dataset, load_dataset
from fern.forecaster import FernForecaster

Floats = NDArray[np.float64]

RESULT = Path(__file__).parent / "results" / "covariates.json"
NOISE_COLUMNS = tuple(f"noise{k}" for k in range(10))


@dataclass(frozen=True)
class Effort:
    """How much is simulated and forecast."""

    draws: int = 5
    series: int = 20
    rows: int = 2000
    windows: int = 4


TINY = Effort(draws=2, series=2, rows=200, windows=1)


@dataclass(frozen=True)
class Panel:
    """A panel to which noise is added."""

    make: Callable[[np.random.Generator, Effort], pd.DataFrame]
    horizon: int


def passengers(rng: np.random.Generator, effort: Effort) -> pd.DataFrame:
    """Twelve years of months each: a growing level, a season in proportion to it, and noise."""
    months, series = np.arange(144), []
    for _ in range(effort.series):
        shape = rng.normal(0, 0.12, 12)
        level = 100 * np.exp(rng.uniform(0.004, 0.012) * months)
        series.append(level * np.exp(shape[months % 12] + rng.normal(0, 0.04, len(months))))
    return _frame(series, "MS")


def ornstein_uhlenbeck(rng: np.random.Generator, effort: Effort) -> pd.DataFrame:
    """Processes that return to their mean within about twenty steps."""
    rows = min(effort.rows, 600)
    shocks, series = rng.normal(0, 1, (effort.series, rows)), np.zeros((effort.series, rows))
    for t in range(1, rows):
        series[:, t] = 0.95 * series[:, t - 1] + shocks[:, t]
    return _frame(list(50 + series), "h")


def etth1(rng: np.random.Generator, effort: Effort) -> pd.DataFrame:
    """The newest rows of ETTh1, a series for each column."""
    frame = load_dataset("ETTh1")
    return _frame(
        [np.asarray(frame[name], dtype=np.float64)[-effort.rows :] for name in get_dataset("ETTh1").columns], "h"
    )


PANELS: Mapping[str, Panel] = {
    "AirPassengers-like": Panel(passengers, 12),
    "ETTh1": Panel(etth1, 24),
    "OU": Panel(ornstein_uhlenbeck, 24),
}


def measure_noise(effort: Effort, settings: Mapping[str, Any]) -> dict[str, Any]:
    """CRPS with ten columns of noise over CRPS without, and over CRPS with the calendar alone; by panel and draw."""
    found: dict[str, dict[str, Any]] = {"crps_ratio": {}, "crps_ratio_to_calendar": {}}
    for name, panel in PANELS.items():
        ratios: dict[str, list[float]] = {kind: [] for kind in found}
        for draw in range(effort.draws):
            rng = np.random.default_rng((draw, len(name)))
            frame = panel.make(rng, effort)
            noisy = frame.assign(**{column: rng.normal(size=len(frame)) for column in NOISE_COLUMNS})
            plain = _score(frame, panel.horizon, effort.windows, settings)
            calendar = _score(frame, panel.horizon, effort.windows, {**settings, "calendar": True})
            beside = {**settings, "futr_exog_list": list(NOISE_COLUMNS)}
            score = _score(noisy, panel.horizon, effort.windows, beside)
            ratios["crps_ratio"].append(score / plain)
            ratios["crps_ratio_to_calendar"].append(score / calendar)
            print(f"noise, {name}, draw {draw}: {score / plain:.4f}, {score / calendar:.4f}", flush=True)
        for kind, several in ratios.items():
            found[kind][name] = _spread(several)
    averages = {kind: float(np.mean([entry["mean"] for entry in panels.values()])) for kind, panels in found.items()}
    return {**found, "average": averages}


def driven(rng: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Floats]:
    """A series that a known column drives, and the values without the newest shocks to judge an oracle by."""
    x, shocks, y = rng.normal(size=rows), rng.normal(0, 0.3, rows), np.zeros(rows)
    for t in range(1, rows):
        y[t] = 0.5 * y[t - 1] + 2.0 * x[t] + shocks[t]
    return _frame([20 + y], "D").assign(x=x), shocks


def measure_driven(effort: Effort, settings: Mapping[str, Any], *, horizon: int = 6) -> dict[str, Any]:
    """The root mean square error over the oracle's, on windows at the end of each draw."""
    ratios = []
    for draw in range(effort.draws):
        frame, shocks = driven(np.random.default_rng((draw, 1)), effort.rows)
        windows = max(2, effort.rows // 100)
        forecaster = FernForecaster(horizon, **{**settings, "futr_exog_list": ["x"]})
        made = forecaster.cross_validation(frame, n_windows=windows)
        error = _error(made)
        ends = shocks[-windows * horizon :].reshape(windows, horizon)
        missed = np.zeros_like(ends)  # the oracle misses what the shocks of the window add
        for step in range(horizon):
            missed[:, step] = (0.5 * missed[:, step - 1] if step else 0.0) + ends[:, step]
        ratios.append(float(np.sqrt(np.mean(np.square(error)) / np.mean(np.square(missed)))))
        print(f"driven, draw {draw}: {ratios[-1]:.4f}", flush=True)
    return {"rmse_ratio": _spread(ratios)}


TOPICS: Mapping[str, Callable[[Effort, Mapping[str, Any]], dict[str, Any]]] = {
    "noise": measure_noise,
    "driven": measure_driven,
}


def _frame(series: list[Floats], frequency: str) -> pd.DataFrame:
    parts = []
    for number, y in enumerate(series):
        stamps = pd.date_range("2000-01-01", periods=len(y), freq=frequency)
        parts.append(pd.DataFrame({"unique_id": f"s{number:02d}", "ds": stamps, "y": y}))
    return pd.concat(parts, ignore_index=True)


def _score(frame: pd.DataFrame, horizon: int, windows: int, settings: Mapping[str, Any]) -> float:
    """The mean over series of the CRPS in units of each series' standard deviation."""
    forecaster = FernForecaster(horizon, **settings)
    made = forecaster.cross_validation(frame, n_windows=windows, quantiles=SHARES.tolist())
    scale = frame.groupby("unique_id")["y"].std()[made["unique_id"]].to_numpy()
    quantiles = made[[name for name in made.columns if "-ql" in name]].to_numpy().T
    return crps(made["y"].to_numpy() / scale, quantiles / scale)


def _error(made: pd.DataFrame) -> Floats:
    (point,) = [name for name in made.columns if name not in ("unique_id", "ds", "cutoff", "y")]
    return np.asarray((made[point] - made["y"]).to_numpy())


def _spread(ratios: list[float]) -> dict[str, Any]:
    deviation = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else 0.0
    error = deviation / len(ratios) ** 0.5
    return {"mean": float(np.mean(ratios)), "standard_error": error, "draws": ratios}


def main(arguments: list[str] | None = None, *, effort: Effort | None = None, result: Path = RESULT) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(TOPICS), default=list(TOPICS))
    parser.add_argument("--draws", type=int, default=Effort.draws)
    parser.add_argument("--model", default="fern")
    given = parser.parse_args(arguments)
    effort = effort or Effort(draws=given.draws)
    settings = {"model": given.model, "progress": "silent"}
    found = json.loads(result.read_text()) if result.is_file() else {}
    for topic in given.only:
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short panels are forecast with a warning
            measured = TOPICS[topic](effort, settings)
        found[topic] = {
            **measured,
            "model": given.model,
            "effort": asdict(effort),
            "processor_seconds": round(time.process_time() - began),
            "command": f"python -m benchmarks.covariates --only {topic} --draws {effort.draws} --model {given.model}",
        }
        result.parent.mkdir(exist_ok=True)
        result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

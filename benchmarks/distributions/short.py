"""``python -m benchmarks.distributions.short [--series 4]``: intervals of series that leave one or two windows to
calibrate on.

Simulated series of 110 to 150 rows of three kinds: a season of 12 with AR(1) noise, an Ornstein-Uhlenbeck process
around a trend, and growth with a season that grows along. Each is fitted as `FernForecaster` does, with the trained
distribution counted as so many held-out windows (`CalibrationSettings.distribution_windows`), and forecast three
times, 12 rows at a time. Written down are the CRPS from 19 quantiles (the geometric mean of its ratio to that at 0
windows) and the coverage of 80 and 95 % intervals. Rows go to ``benchmarks/distributions/results/short/``.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.rows import save_row
from fern.calibration import CalibrationSettings
from fern.data.frequency import Frequency
from fern.data.series_table import Series
from fern.forecaster.fit import FitSettings, fit_model
from fern.forecaster.plan import make_plan, measure_scales
from fern.models.base import distribution_of

RESULTS = Path(__file__).parent / "results" / "short"
KINDS = ("season", "trend", "growth")
HORIZON, SEASON, TESTS = 12, 12, 3
COUNTED = (0.0, CalibrationSettings().distribution_windows)
SHARES = tuple(np.round(np.arange(1, 20) / 20, 2).tolist())
ENDS = {80: 2, 95: 0}
"""Where the lower end of a level's interval stands among the quantiles."""
Floats = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=4, help="of each kind")
    parser.add_argument("--epochs", type=int, default=None, help="fewer than FernForecaster takes by itself")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for kind in KINDS:
        row = measured(kind, series=given.series, epochs=given.epochs)
        save_row(RESULTS / f"{kind}.json", row)


def measured(kind: str, *, series: int, epochs: int | None) -> dict[str, Any]:
    """The row of one kind."""
    began = time.process_time()
    found = {counted: [_one(kind, seed, counted, epochs) for seed in range(series)] for counted in COUNTED}
    base = np.array([one["crps"] for one in found[COUNTED[0]]])
    return {
        "command": f"python -m benchmarks.distributions.short --series {series}"
        + (f" --epochs {epochs}" if epochs else ""),
        "kind": kind,
        "series": series,
        "processor_seconds": round(time.process_time() - began, 1),
        "distribution_windows": {
            f"{counted:g}": {
                "crps_ratio": float(np.exp(np.log(np.array([one["crps"] for one in rows]) / base).mean())),
                **{name: float(np.mean([one[name] for one in rows])) for name in ("coverage_80", "coverage_95")},
            }
            for counted, rows in found.items()
        },
    }


def simulated(kind: str, seed: int) -> Floats:  # (T,)
    """A short series, the rows that are forecast included."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(110, 150)) + TESTS * HORIZON
    steps = np.arange(rows)
    season = rng.normal(size=SEASON)
    season = (season - season.mean())[steps % SEASON]
    if kind == "season":
        return np.asarray(10 + season + _autoregressive(rng, 0.7, 0.35, rows))
    if kind == "trend":
        return np.asarray(5 + rng.uniform(0.01, 0.04) * steps + _autoregressive(rng, 0.9, 0.3, rows))
    return np.asarray(np.exp(4 + 0.009 * steps + 0.12 * season + _autoregressive(rng, 0.8, 0.03, rows)))


def _autoregressive(rng: np.random.Generator, decay: float, deviation: float, rows: int) -> Floats:
    noise = rng.normal(0, deviation, rows)
    noise[0] /= np.sqrt(1 - decay**2)
    for t in range(1, rows):
        noise[t] += decay * noise[t - 1]
    return noise


def _one(kind: str, seed: int, counted: float, epochs: int | None) -> dict[str, float]:
    values = simulated(kind, seed)[:, None]
    learnt = len(values) - TESTS * HORIZON
    series = Series(kind, None, values[:learnt], ("y",), Frequency("row", 1))
    plan = make_plan([series], horizon=HORIZON, context_length=None, season=1 if kind == "trend" else SEASON)
    scales = measure_scales([series], plan)
    how = CalibrationSettings(distribution_windows=counted)
    fit = fit_model([series], scales, plan, FitSettings(epochs=epochs, threads=1, progress="silent", calibration=how))
    scaled = scales[0].apply(values)
    cuts = [learnt + test * HORIZON for test in range(TESTS)]
    past = torch.from_numpy(np.stack([scaled[cut - plan.context_length : cut] for cut in cuts]))
    forecast = fit.calibration.apply(distribution_of(fit.model.eval(), past))
    quantiles = np.moveaxis(forecast.quantile([0.025, *SHARES, 0.975])[..., 0], 0, -1)  # (tests, H, shares)
    truth = np.stack([scaled[cut : cut + HORIZON, 0] for cut in cuts])
    missed = truth[..., None] - quantiles[..., 1:-1]
    inside = {
        level: (quantiles[..., low] <= truth) & (truth <= quantiles[..., -1 - low]) for level, low in ENDS.items()
    }
    return {
        "crps": float(2 * np.maximum(np.array(SHARES) * missed, (np.array(SHARES) - 1) * missed).mean()),
        **{f"coverage_{level}": float(held.mean()) for level, held in inside.items()},
    }


if __name__ == "__main__":
    main()

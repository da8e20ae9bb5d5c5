"""``python -m benchmarks.distributions.shock [--series 20]``: coverage after a shock, with static and with online
calibration.

The noise of an Ornstein-Uhlenbeck process doubles at a known row that no model has seen. Margins of 90 % are calibrated
before it and then either left alone or updated with every outcome as it comes in (a forecast's first patch is known 24
rows after its origin). Coverage is written down by how many rows after the shock a forecast was made, and after how
many rows it is back within two points of nominal. Rows go to ``benchmarks/distributions/results/after_shock/``.
"""

import argparse
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.distributions.coverage import Sizes, residuals_of, standardised, strided, trained
from benchmarks.rows import save_row
from fern.calibration import OnlineCalibration, OnlineSettings, fit_calibration
from fern.data import Part
from fern.forecaster.fit import FERN
from fern.models import Forecaster
from fern.models.base import distribution_of
from fern.systems import ParamShock, scenario, simulate

RESULTS = Path(__file__).parent / "results" / "after_shock"
LEVEL, NOMINAL = 90, 0.9
STRIDE = 12
EDGES = (-400, 0, 24, 48, 96, 192, 384, 768, 1536, 2600)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Course:
    """The rows of a followed series: calibrated until, followed from, shocked at, ends at."""

    calibrated_until: int = 5400
    first: int = 5600
    shock: int = 6000
    rows: int = 8600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    row = measured(Sizes(series=given.series), Course(), seed=given.seed)
    save_row(RESULTS / f"OU_BASE-seed{given.seed}.json", row)


def measured(sizes: Sizes, course: Course, *, seed: int) -> dict[str, Any]:
    """Coverage by time since the shock, over many series."""
    base = scenario("OU_BASE", steps=sizes.rows)
    values, shift, spread = standardised(simulate(base).values.astype(np.float64), None)
    part = Part(0, len(values) * 7 // 10)
    windows = [strided(values, part, 1, sizes), strided(values, Part(part.stop, len(values)), 1, sizes)]
    recipe = next(one for one in FERN if one.name == "state")
    began = time.process_time()
    model, _ = trained("fern", recipe, windows, sizes, seed)
    shocked = replace(base, steps=course.rows, shocks=(ParamShock(at=course.shock, params={"sigma": 2 * 0.3}),))
    inside: dict[str, list[Floats]] = {"static": [], "online": []}
    for number in range(sizes.series):
        series = simulate(replace(shocked, seed=2000 + number)).values.astype(np.float64)
        scaled, _, _ = standardised(series, (shift, spread))
        for name, found in _followed(model, scaled, sizes, course).items():
            inside[name].append(found)
    origins = np.arange(course.first, course.rows - sizes.horizon, STRIDE) - course.shock
    coverage = {name: np.mean(found, axis=0) for name, found in inside.items()}
    return {
        "command": f"python -m benchmarks.distributions.shock --series {sizes.series} --seed {seed}",
        "system": "OU_BASE, sigma doubled",
        "level": LEVEL,
        "series": sizes.series,
        "seed": seed,
        "processor_seconds": round(time.process_time() - began, 1),
        "rows since the shock": [f"{low} to {high}" for low, high in pairwise(EDGES)],
        **{
            name: [
                round(float(values[(origins >= low) & (origins < high)].mean()), 4)
                for low, high in pairwise(EDGES)
                if ((origins >= low) & (origins < high)).any()
            ]
            for name, values in coverage.items()
        },
        "rows until within 2 points": {name: _recovered(values, origins) for name, values in coverage.items()},
    }


def _followed(model: Forecaster, values: NDArray[np.float32], sizes: Sizes, course: Course) -> dict[str, Floats]:
    """The share of each forecast's steps inside its 90 % margins, in the order of origins."""
    held_out = residuals_of(model, strided(values, Part(sizes.context, course.calibrated_until), 6, sizes))
    calibration = fit_calibration(held_out)
    online = OnlineCalibration.start(calibration, settings=OnlineSettings(levels=(float(LEVEL),), stride=STRIDE))
    patch = held_out.patch_size
    waiting: list[tuple[int, Any]] = []
    found: dict[str, list[float]] = {"static": [], "online": []}
    series = torch.from_numpy(values)
    for origin in range(course.first, course.rows - sizes.horizon, STRIDE):
        while waiting and waiting[0][0] + patch <= origin:
            start, distribution = waiting.pop(0)
            online = online.update(distribution, series[None, start : start + patch])
        distribution = distribution_of(model, series[None, origin - sizes.context : origin])
        truth = values[None, origin : origin + sizes.horizon]
        for name, forecast in (("static", calibration.apply(distribution)), ("online", online.apply(distribution))):
            low, high = forecast.interval(LEVEL)
            found[name].append(float(((low <= truth) & (truth <= high)).mean()))
        waiting.append((origin, distribution))
    return {name: np.array(shares) for name, shares in found.items()}


def _recovered(coverage: Floats, origins: NDArray[np.int64]) -> int | None:
    """Rows after the shock from which on the coverage of the next 96 rows' forecasts is within 2 points, if ever."""
    window = 96 // STRIDE
    for place in np.flatnonzero(origins >= 0):
        ahead = coverage[place : place + window]
        if len(ahead) == window and ahead.mean() >= NOMINAL - 0.02:
            return int(origins[place])
    return None


if __name__ == "__main__":
    main()

"""``python -m benchmarks.paper.titration [--systems …] [--sigmas …]``: intervals under noise of a known size.

The paper's follow-up (Noise Titration, arXiv 2603.22219) adds Gaussian noise of standard deviation σ to what is
observed and counts how much of it lies inside the forecast intervals: 90 % intervals of its Fern hold about 58 % at σ =
1 and 33 % at σ = 2. Here the same with ours (context 336, horizon 192): trained by the CRPS on the noisy training part
of the scenario's own trajectory, then calibrated and judged on each of several trajectories (the scenario's own, and
others of other random numbers or starts), each by its own rows: the validation part gives the scales and radii, the
test part the coverage. What one trajectory covers is chance to several points. Results go to
``benchmarks/paper/results/titration/``; ``--table`` prints them beside the published coverage.
"""

import argparse
import csv
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.distributions.coverage import LEVELS, Floats, residuals_of, standardised
from fern.calibration import Calibration, fit_calibration
from fern.data import Part, Windows
from fern.data.splits import split
from fern.models import Forecaster, build_model
from fern.models.base import distribution_of
from fern.systems import Scenario, scenario, simulate
from fern.systems.families import Flow
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "titration"
PUBLISHED = Path(__file__).parent / "titration_published.csv"
SIGMAS = (0.0, 0.25, 1.0, 2.0)
SYSTEMS = ("DOUBLEWELL_BASE", "DOUBLEWELL_PARAM", "ROSSLER_BASE", "ROSSLER_PARAM")
SETTINGS: Mapping[str, Any] = {"preset": "state"}


@dataclass(frozen=True)
class Sizes:
    """How much is done: ``series`` trajectories, ``stride`` rows from one window that is forecast to the next."""

    context: int = 336
    horizon: int = 192
    epochs: int = 8
    stride: int = 5
    rows: int | None = None
    series: int = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--sigmas", nargs="+", type=float, default=list(SIGMAS))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the table of what there is")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(read_results(arguments.out)))
        return
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for system in arguments.systems:
        for sigma in arguments.sigmas:
            path = arguments.out / f"{system}-sigma{sigma:g}-seed{arguments.seed}.json"
            if not path.exists():
                result = measure(system, sigma, Sizes(), seed=arguments.seed)
                path.write_text(json.dumps(result, indent=1) + "\n")
                print(json.dumps(result), flush=True)


def measure(system: str, sigma: float, sizes: Sizes, *, seed: int) -> dict[str, Any]:
    """Coverage of the intervals of one system under noise of one size."""
    began = time.process_time()
    chosen = trajectories(scenario(system, steps=sizes.rows), sizes.series)
    clean = [simulate(each).values.astype(np.float64) for each in chosen]
    rng = np.random.default_rng(seed)
    series = [values + sigma * rng.standard_normal(values.shape) for values in clean]
    parts = split(len(series[0]), "shock")
    trained_rows = series[0][parts.train.start : parts.train.stop]
    scale = trained_rows.mean(axis=0), trained_rows.std(axis=0)

    def windows(values: Floats, part: Part, stride: int = sizes.stride) -> Windows:
        standard, _, _ = standardised(values, scale)
        return Windows(standard, context_length=sizes.context, horizon=sizes.horizon, part=part, stride=stride)

    model = build_model(
        "fern", context_length=sizes.context, horizon=sizes.horizon, channels=series[0].shape[1], **SETTINGS
    )
    config = TrainConfig(preset="distribution", loss="crps", epochs=sizes.epochs, seed=seed, threads=1)
    trained = train(
        model, windows(series[0], parts.train, 1), windows(series[0], parts.validation), config, progress="silent"
    )
    model.eval()
    middle = (parts.validation.start + parts.validation.stop) // 2
    halves = Part(parts.validation.start, middle), Part(middle, parts.validation.stop)
    covered = []
    for values in series:
        early, late = (residuals_of(model, windows(values, half)) for half in halves)
        covered.append(cover(model, fit_calibration(late, early), windows(values, parts.test)))
    return {
        "command": f"python -m benchmarks.paper.titration --systems {system} --sigmas {sigma:g} --seed {seed}",
        "system": system,
        "sigma": sigma,
        "seed": seed,
        "epochs": len(trained.history),
        "series": len(series),
        "coverage": {name: round(float(np.mean([one[name] for one in covered])), 4) for name in covered[0]},
        "spread": {name: round(float(np.std([one[name] for one in covered], ddof=1)), 4) for name in covered[0]},
        "processor_seconds": round(time.process_time() - began, 1),
    }


def trajectories(base: Scenario, count: int) -> list[Scenario]:
    """The scenario, then others of its kind: other random numbers, or starts along its own trajectory."""
    if isinstance(base.source, Flow):
        states = simulate(base).values[:: base.steps // count][1:count]
        others = [replace(base, initial_state=tuple(state.tolist())) for state in states]
    else:
        others = [replace(base, seed=base.seed + number) for number in range(1, count)]
    return [base, *others]


def cover(model: Forecaster, calibration: Calibration, test: Windows) -> dict[str, float]:
    """The share of values inside the intervals, by kind and level."""
    inside: dict[str, float] = {f"{kind}/{level}": 0.0 for kind in ("calibrated", "as trained") for level in LEVELS}
    counted = len(test) * test.horizon * test.channels
    for first in range(0, len(test), 256):
        past, future = test.gather(torch.arange(first, min(first + 256, len(test))))
        truth = future.numpy().astype(np.float64)
        distribution = distribution_of(model, past)
        calibrated = calibration.apply(distribution)
        for level in LEVELS:
            low, high = calibrated.interval(level)
            inside[f"calibrated/{level}"] += float(((low <= truth) & (truth <= high)).sum()) / counted
            shares = torch.tensor([0.5 - level / 200, 0.5 + level / 200])[:, None, None, None]
            raw = distribution.icdf(shares).numpy().swapaxes(-1, -2)
            inside[f"as trained/{level}"] += float(((raw[0] <= truth) & (truth <= raw[1])).sum()) / counted
    return inside


def read_results(folder: Path) -> list[dict[str, Any]]:
    """The results of a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def published() -> dict[tuple[str, float], float]:
    """The author's coverage of 90 % intervals by system and σ."""
    lines = [line for line in PUBLISHED.read_text().splitlines() if not line.startswith("#")]
    return {(row["system"], float(row["sigma"])): float(row["coverage_90"]) for row in csv.DictReader(lines)}


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """A Markdown table: the author's 90 % intervals and ours, by system and σ."""
    ours = {(result["system"], float(result["sigma"])): result for result in results}
    lines = ["| system | σ | the author's Fern | ours, calibrated | ours, as trained |", "|---|---|---|---|---|"]
    for (system, sigma), theirs in published().items():
        own = ours.get((system, sigma))
        shown = ["–", "–"] if own is None else [_shown(own, f"{kind}/90") for kind in ("calibrated", "as trained")]
        lines.append(f"| {system} | {sigma:g} | {theirs:.1%} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _shown(result: Mapping[str, Any], name: str) -> str:
    return f"{100 * result['coverage'][name]:.1f} ± {100 * result['spread'][name] / result['series'] ** 0.5:.1f} %"


if __name__ == "__main__":
    main()

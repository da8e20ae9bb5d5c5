"""``python -m benchmarks.paper.titration [--systems …] [--sigmas …]``: intervals under noise of a known size.

The paper's follow-up (Noise Titration, arXiv 2603.22219) adds Gaussian noise of standard deviation σ to what is
observed and counts how much of it lies inside the forecast intervals: 90 % intervals of its Fern hold about 58 % at σ =
1 and 33 % at σ = 2. Here the same with ours: trained by the CRPS on noisy rows, stopped by the first half of the
validation part, calibrated on the second, and judged by the noisy rows of the test part (context 336, horizon 192).
Results go to
``benchmarks/paper/results/titration/``; ``--table`` prints them beside the published coverage.
"""

import argparse
import csv
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.distributions.coverage import LEVELS, residuals_of, standardised
from fern.calibration import fit_calibration
from fern.data import Part, Windows
from fern.data.splits import split
from fern.models import build_model
from fern.models.base import distribution_of
from fern.systems import scenario, simulate
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "titration"
PUBLISHED = Path(__file__).parent / "titration_published.csv"
SIGMAS = (0.0, 0.25, 1.0, 2.0)
SYSTEMS = ("DOUBLEWELL_BASE", "DOUBLEWELL_PARAM", "ROSSLER_BASE", "ROSSLER_PARAM")
SETTINGS: Mapping[str, Any] = {"preset": "state"}


@dataclass(frozen=True)
class Sizes:
    """How much is done; ``stride`` is from one calibration or test window to the next."""

    context: int = 336
    horizon: int = 192
    epochs: int = 8
    stride: int = 5
    rows: int | None = None


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
    trajectory = simulate(scenario(system, steps=sizes.rows))
    noise = np.random.default_rng(seed).standard_normal(trajectory.values.shape)
    observed = trajectory.values.astype(np.float64) + sigma * noise
    parts = split(len(observed), "shock")
    trained_rows = observed[parts.train.start : parts.train.stop]
    values, _, _ = standardised(observed, (trained_rows.mean(axis=0), trained_rows.std(axis=0)))
    middle = (parts.validation.start + parts.validation.stop) // 2

    def windows(part: Part, stride: int) -> Windows:
        return Windows(values, context_length=sizes.context, horizon=sizes.horizon, part=part, stride=stride)

    stopping = windows(Part(parts.validation.start, middle), sizes.stride)
    model = build_model(
        "fern", context_length=sizes.context, horizon=sizes.horizon, channels=values.shape[1], **SETTINGS
    )
    config = TrainConfig(preset="distribution", loss="crps", epochs=sizes.epochs, seed=seed, threads=1)
    trained = train(model, windows(parts.train, 1), stopping, config, progress="silent")
    model.eval()
    held_out = windows(Part(middle, parts.validation.stop), sizes.stride)
    calibration = fit_calibration(residuals_of(model, held_out), residuals_of(model, stopping))
    inside: dict[str, list[float]] = {
        f"{kind}/{level}": [] for kind in ("calibrated", "as trained") for level in LEVELS
    }
    test = windows(parts.test, sizes.stride)
    for first in range(0, len(test), 256):
        past, future = test.gather(torch.arange(first, min(first + 256, len(test))))
        truth = future.numpy().astype(np.float64)
        distribution = distribution_of(model, past)
        calibrated = calibration.apply(distribution)
        for level in LEVELS:
            low, high = calibrated.interval(level)
            inside[f"calibrated/{level}"].append(float(((low <= truth) & (truth <= high)).sum()))
            shares = torch.tensor([0.5 - level / 200, 0.5 + level / 200])[:, None, None, None]
            raw = distribution.icdf(shares).numpy().swapaxes(-1, -2)
            inside[f"as trained/{level}"].append(float(((raw[0] <= truth) & (truth <= raw[1])).sum()))
    counted = len(test) * sizes.horizon * values.shape[1]
    return {
        "command": f"python -m benchmarks.paper.titration --systems {system} --sigmas {sigma:g} --seed {seed}",
        "system": system,
        "sigma": sigma,
        "seed": seed,
        "epochs": len(trained.history),
        "windows": len(test),
        "coverage": {name: round(sum(counts) / counted, 4) for name, counts in inside.items()},
        "processor_seconds": round(time.process_time() - began, 1),
    }


def read_results(folder: Path) -> list[dict[str, Any]]:
    """The results of a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def published() -> dict[tuple[str, float], float]:
    """The author's coverage of 90 % intervals by system and σ."""
    lines = [line for line in PUBLISHED.read_text().splitlines() if not line.startswith("#")]
    return {(row["system"], float(row["sigma"])): float(row["coverage_90"]) for row in csv.DictReader(lines)}


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """A Markdown table: the author's 90 % intervals and ours, by system and σ."""
    ours = {(result["system"], float(result["sigma"])): result["coverage"] for result in results}
    lines = ["| system | σ | the author's Fern | ours, calibrated | ours, as trained |", "|---|---|---|---|---|"]
    for (system, sigma), theirs in published().items():
        own = ours.get((system, sigma))
        shown = ["–", "–"] if own is None else [f"{own[f'{kind}/90']:.1%}" for kind in ("calibrated", "as trained")]
        lines.append(f"| {system} | {sigma:g} | {theirs:.1%} | {' | '.join(shown)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

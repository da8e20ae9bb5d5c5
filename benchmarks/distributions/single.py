"""``python -m benchmarks.distributions.single [--datasets …]``: coverage on one real series, with the error bar of
its n_eff.

Fern by the recipe ``level``, trained on the usual training part, stopped by the first half of the validation part, its
shape refitted there, its radii from the second half; then every 13th window of the test part. On one series coverage
cannot be told more precisely than the effective numbers of its calibration and test windows allow, so each figure has
the bar of both (`fern.calibration.coverage.error_bar`). Rows go to ``benchmarks/distributions/results/single/``.
"""

import argparse
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.distributions.coverage import residuals_of
from benchmarks.rows import save_row
from fern.benchmark import DatasetChoice, load_dataset
from fern.calibration import coverage_report, fit_calibration
from fern.data import Part, Windows, fit_scaler, split
from fern.models import build_model
from fern.models.base import distribution_of
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "single"
SPLITS = {"ETTh1": "ett_hourly", "ETTh2": "ett_hourly", "ETTm1": "ett_minutely", "Weather": "detailed"}


@dataclass(frozen=True)
class Sizes:
    """How much is done. ``rows``: of the series; None takes all of them. Strides have no common divisor with a day."""

    context: int = 336
    horizon: int = 96
    epochs: int = 10
    steps_per_epoch: int = 200
    stride: int = 13
    calibration_stride: int = 7
    rows: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(SPLITS), choices=list(SPLITS))
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.datasets:
        row = measured(name, Sizes(), seed=given.seed)
        save_row(RESULTS / f"{name}-seed{given.seed}.json", row)


def measured(name: str, sizes: Sizes, *, seed: int) -> dict[str, Any]:
    """The row of one series."""
    dataset = load_dataset(DatasetChoice(dataset=name))
    values = dataset.values[: sizes.rows]
    parts = split(len(values), SPLITS[name] if sizes.rows is None else "detailed")
    scaled = fit_scaler("standard", values, part=parts.train).apply(values).astype(np.float32)
    middle = (parts.validation.start + parts.validation.stop) // 2
    held_out = (Part(parts.validation.start, middle), Part(middle, parts.validation.stop))

    def windows(part: Part, stride: int) -> Windows:
        return Windows(scaled, context_length=sizes.context, horizon=sizes.horizon, part=part, stride=stride)

    channels = scaled.shape[1]
    model = build_model("fern", preset="level", context_length=sizes.context, horizon=sizes.horizon, channels=channels)
    config = TrainConfig(
        preset="distribution", epochs=sizes.epochs, steps_per_epoch=sizes.steps_per_epoch, seed=seed, threads=1
    )
    began = time.process_time()
    stopping = windows(held_out[0], sizes.calibration_stride)
    train(model, windows(parts.train, 1), stopping, config, progress="silent")
    seconds = time.process_time() - began
    model.eval()
    calibration = fit_calibration(
        *(residuals_of(model, windows(part, sizes.calibration_stride)) for part in (held_out[1], held_out[0]))
    )
    test = windows(parts.test, sizes.stride)
    indices = torch.arange(len(test))
    past, future = test.gather(indices)
    origins = (test.starts(indices) + sizes.context).tolist()
    report = coverage_report(
        calibration.apply(distribution_of(model, past)), future, origins=origins, paths=32, seed=seed
    )
    return {
        "command": f"python -m benchmarks.distributions.single --datasets {name} --seed {seed}",
        "dataset": name,
        "data_fingerprint": dataset.fingerprint,
        "seed": seed,
        "windows": len(test),
        "processor_seconds": round(seconds, 1),
        "crps": {"before": report.crps_before, "after": report.crps_after},
        "energy": {"before": report.energy_before, "after": report.energy_after},
        "coverage": [asdict(row) for row in report.rows],
    }


if __name__ == "__main__":
    main()

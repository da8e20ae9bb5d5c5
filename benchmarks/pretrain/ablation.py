"""``python -m benchmarks.pretrain.ablation [TASK …]``: what each trick of inference is worth.

On the windows before the test part of the development tasks, by the weights of the package. Writes
``benchmarks/pretrain/results/ablation.json`` and prints a table.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.pretrain.validation import ALL, Array, Moments, Score, judge_all, mean_relative
from fern.pretrained import forecast, training_record

RESULTS = Path(__file__).parent / "results" / "ablation.json"
VARIANTS: Mapping[str, Mapping[str, bool]] = {
    "as it is": {},
    "season told": {"told": True},
    "without sign flip": {"flip": False},
    "without logarithms": {"log": False},
    "without coarser time steps": {"resample": False},
    "without all three": {"flip": False, "log": False, "resample": False},
}


def variant_of(*, told: bool = False, flip: bool = True, log: bool = True, resample: bool = True) -> Moments:
    """The forecasts of one variant."""

    def moments(series: list[Array], horizon: int, season: int) -> tuple[Array, Array]:
        known = season if told and season > 1 else None
        ahead = forecast(series, horizon, season=known, flip=flip, log=log, resample=resample)
        return ahead.mean, ahead.stddev

    return moments


def main(names: list[str]) -> None:
    """Judge all variants, keep and show the figures."""
    torch.set_num_threads(1)
    results: dict[str, dict[str, Score]] = {}
    for name, options in VARIANTS.items():
        results[name], line = judge_all(variant_of(**options), names or ALL)
        print(f"{name}: {line}", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    kept = {
        "command": "python -m benchmarks.pretrain.ablation",
        "training": training_record(),
        "scores": {name: {task: asdict(score) for task, score in scores.items()} for name, scores in results.items()},
    }
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    print("\n| | relative MASE | relative WQL | coverage of 80 % |\n|---|---|---|---|")
    for name, scores in results.items():
        mase, wql, cover = mean_relative(scores)
        print(f"| {name} | {mase:.4f} | {wql:.4f} | {100 * cover:.1f} % |")


if __name__ == "__main__":
    main(sys.argv[1:])

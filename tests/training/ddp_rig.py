"""Runs on the number of processes that is given; the first process prints one JSON document of their histories.

A program of its own, because Lightning Fabric starts the other processes by running it again.
``python ddp_rig.py FOLDER PROCESSES``
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fern.data.splits import Part
from fern.data.windows import Windows
from fern.models import ModelConfig, PointForecaster, build_model
from fern.training import Diverged, TrainConfig, TrainResult, train

SIZES = {"context_length": 24, "horizon": 12}


def windows(part: Part) -> Windows:
    """Two noisy waves; 103 training windows, so that batches of 34 leave one window to the last."""
    time = torch.arange(220.0)
    noise = torch.randn(220, 2, generator=torch.Generator().manual_seed(1))
    series = torch.stack((torch.sin(time / 5), torch.cos(time / 7)), dim=1) + 0.1 * noise
    return Windows(series, **SIZES, part=part)


def run(name: str, config: TrainConfig, **where: Any) -> TrainResult:
    """A run of the model of this name."""
    small = {"hidden": 16, "latent": 4, "layers": 2, "patch_size": 6, "reflections": 2} if name == "fern" else {}
    model = build_model(name, **SIZES, channels=2, **small)
    train_windows, validation = windows(Part(0, 138)), windows(Part(138, 220))
    return train(model, train_windows, validation, config, progress="lines", **where)


class OneSided(PointForecaster):
    """Its forecasts are infinite, but only in the second process."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.map = torch.nn.Linear(config.context_length, config.horizon)

    def predict(self, past: torch.Tensor) -> torch.Tensor:
        broken = not self.training and os.environ.get("LOCAL_RANK") == "1"
        return self.map(past.mT).mT * (float("inf") if broken else 1.0)


def divergence(config: TrainConfig) -> str:
    """What this process hears of a run that diverges in the second one alone."""
    try:
        model = OneSided(ModelConfig(**SIZES, channels=2))
        train(model, windows(Part(0, 138)), windows(Part(138, 220)), config, progress="silent")
    except Diverged as error:
        return str(error)
    return "nothing"


def outcome(result: TrainResult) -> dict[str, Any]:
    """What is compared."""
    figures = [{k: v for k, v in record.items() if "seconds" not in k} for record in result.history.to_list()]
    return {"history": figures, "weights": sum(p.double().sum().item() for p in result.model.parameters())}


def outcomes(folder: Path, processes: int) -> dict[str, dict[str, Any]]:
    """DLinear, also judged by sliced Wasserstein distances; Fern, also in one go and in two parts."""
    linear = TrainConfig(
        preset="shock",
        epochs=4,
        batch_size=34,
        learning_rate=1e-2,
        accelerator="cpu",
        devices=processes,
        strategy="ddp" if processes > 1 else "auto",
        threads=1,
    )
    sliced = replace(linear, distance="sliced_w2")
    fern = replace(linear, epochs=40, patience=None)
    longer = replace(linear, grace=2)
    results = {"linear": run("dlinear", linear), "sliced": run("dlinear", sliced), "fern": run("fern", fern)}
    results["whole"] = run("fern", longer)
    run("fern", replace(longer, epochs=3), directory=folder / "run")
    results["resumed"] = run("fern", longer, resume=folder / "run")
    found = {name: outcome(result) for name, result in results.items()}
    return found | {"divergence": {"told": divergence(linear)}}


if __name__ == "__main__":
    found = outcomes(Path(sys.argv[1]), int(sys.argv[2]))
    if int(os.environ.get("LOCAL_RANK", "0")) == 0:
        json.dump(found, sys.stdout)

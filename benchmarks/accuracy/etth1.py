"""``python -m benchmarks.accuracy.etth1 MODEL [--preset etth1] [--training detailed|published] [--context 336] …``.

Trains a baseline on ETTh1, 96 steps ahead, as the literature does: standardised by the training part, ETT's borders
of 12/4/4 months, every test window scored. Writes one row with its provenance to ``benchmarks/accuracy/results/``.
``detailed`` is the paper's protocol; ``published`` is what the model's own scripts use, as far as `PUBLISHED` says.
A run that was cut short goes on where it was.
"""

import argparse
import json
import shutil
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fern.data import Windows, fit_scaler, load_dataset, split
from fern.data.datasets import get_dataset
from fern.metrics import MetricAccumulator, ObjectiveWeights
from fern.models import build_model
from fern.models.footprint import parameter_count
from fern.training import TrainConfig, resumable, train

HORIZON = 96
REPORTED = {"dlinear": 0.375, "patchtst": 0.375, "timemixer": 0.375}
"""The authors' test MSE at this horizon (TimeMixer: from 96 steps of context, the others from 336)."""

PUBLISHED: dict[str, dict[str, Any]] = {
    # Adam at 1e-4, batches of 8, at most 10 epochs. Theirs halves the rate each epoch; ours falls along a cosine.
    "dlinear": {"learning_rate": 1e-4, "batch_size": 8, "epochs": 10, "patience": 3, "schedule": "cosine"},
    # Adam at 1e-4, batches of 128, 100 epochs. Theirs loses 10 % an epoch from the third on; ours falls along a cosine.
    "patchtst": {"learning_rate": 1e-4, "batch_size": 128, "epochs": 100, "patience": None, "schedule": "cosine"},
    # Adam, one cycle to 1e-2 with a fifth of it rising, batches of 128, 10 epochs. Theirs keeps the epoch that is
    # best on the test part; ours the one that is best on the validation part.
    "timemixer": {
        "learning_rate": 1e-2,
        "batch_size": 128,
        "epochs": 10,
        "patience": None,
        "schedule": "one-cycle",
        "warmup": 0.2,
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(REPORTED))
    parser.add_argument("--preset", default="etth1")
    parser.add_argument("--training", choices=("detailed", "published"), default="detailed")
    parser.add_argument("--context", type=int, default=336)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--epochs", type=int)
    given = parser.parse_args()
    training, validation, test = _windows(given.context)
    model = build_model(
        given.model, preset=given.preset, context_length=given.context, horizon=HORIZON, channels=test.channels
    )
    config = _training(given)
    name = f"{given.model}-etth1-{given.preset}-{given.context}to{HORIZON}-{given.training}-seed{given.seed}"
    if given.epochs is not None:
        name += f"-epochs{given.epochs}"
    folder = Path("runs/accuracy") / name
    again = resumable(folder)
    result = train(
        model,
        training,
        validation,
        config,
        progress="lines",
        directory=None if again else folder,
        resume=folder if again else None,
    )
    row = {
        "command": _command(given),
        "data": "ETTh1",
        "data_sha256": get_dataset("ETTh1").sha256,
        "scaling": "standard, fitted on the training part",
        "split": "ett_hourly",
        "model": given.model,
        "model_settings": asdict(model.config),
        "parameters": parameter_count(model),
        "training_settings": config.to_mapping(),
        "seed": given.seed,
        "epochs": len(result.history),
        "best_epoch": result.best_epoch,
        "stopped": result.stopped,
        "test": _scores(model, test),
        "test_windows": len(test),
        "reported_mse": REPORTED[given.model],
        "seconds": round(result.seconds, 1),
        "versions": {package: version(package) for package in ("torch", "numpy")},
    }
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / f"{name}.json").write_text(json.dumps(row, indent=2) + "\n")
    shutil.rmtree(folder)
    print(json.dumps(row, indent=2))


def _windows(context: int) -> tuple[Windows, Windows, Windows]:
    """Training, validation and test windows; contexts may reach into the part before, forecast rows never do."""
    frame = load_dataset("ETTh1")
    values = np.column_stack([frame[column].to_numpy() for column in get_dataset("ETTh1").columns])
    parts = split(len(values), "ett_hourly")
    scaled = fit_scaler("standard", values, part=parts.train).apply(values).astype(np.float32)
    training, validation, test = (
        Windows(scaled, context_length=context, horizon=HORIZON, part=part)
        for part in (parts.train, parts.validation, parts.test)
    )
    assert len(test) == len(parts.test) - HORIZON + 1 == 2785
    return training, validation, test


def _training(given: argparse.Namespace) -> TrainConfig:
    settings: dict[str, Any] = {"preset": "detailed", "seed": given.seed, "threads": 1}
    if given.training == "published":
        settings |= {
            "loss": "mse",
            "objective": ObjectiveWeights(mse=1.0, mae=0.0, distance=0.0),
            **PUBLISHED[given.model],
        }
    if given.epochs is not None:
        settings["epochs"] = given.epochs
    return TrainConfig(**settings)


def _scores(model: Any, test: Windows) -> dict[str, float]:
    gathered = MetricAccumulator(("mse", "mae"))
    scored = 0
    with torch.no_grad():
        for past, future in test.batches(256):
            gathered.update(model(past).mean, future)
            scored += len(past)
    assert scored == len(test)
    return {key: float(value) for key, value in gathered.compute().items()}


def _command(given: argparse.Namespace) -> str:
    command = (
        f"python -m benchmarks.accuracy.etth1 {given.model} --preset {given.preset} --training {given.training} "
        f"--context {given.context} --seed {given.seed}"
    )
    return command if given.epochs is None else f"{command} --epochs {given.epochs}"


if __name__ == "__main__":
    main()

"""The training protocols: the paper's two, and ours for people's own data."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fern.metrics import ObjectiveWeights


@dataclass(frozen=True)
class Preset:
    """A training protocol: its settings, and the split and seeds of the tables it stands for."""

    settings: Mapping[str, Any]
    split: str
    seeds: tuple[int, ...]


NEUTRAL: Mapping[str, Any] = {
    "weight_decay": 0.0,
    "warmup": 0.0,
    "loss": "huber",
    "huber_delta": 1.0,
    "energy_samples": 16,
    "schedule": "constant",
    "clip_norm": None,
    "averaging": None,
    "smoothing": None,
    "tolerance": 0.0,
    "keep": "best",
    "objective": ObjectiveWeights(),
    "projections": 500,
    "evaluation_batch_size": 512,
    "validation_windows": None,
    "seed": 7,
    "start": "fresh",
    "threads": None,
    "accelerator": "auto",
    "devices": 1,
    "strategy": "auto",
    "precision": "32-true",
    "compile": False,
    "checkpoint_steps": None,
    "checkpoint_seconds": 60.0,
    "steps_per_epoch": None,
    "time_limit": None,
}
"""The plain protocol that every preset starts from: what is not named there is switched off or the paper's."""

_DEFAULT: Mapping[str, Any] = {
    **NEUTRAL,
    "learning_rate": 2e-3,
    "schedule": "one-cycle",
    "warmup": 0.1,
    "clip_norm": 1.0,
    "averaging": 0.995,
    "batch_size": None,
    "epochs": 20,
    "patience": 5,
    "tolerance": 0.005,
    "grace": 0,
    "distance": "w2",
}

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "shock": Preset(
            {
                **NEUTRAL,
                "learning_rate": 3e-4,
                "batch_size": 95,
                "epochs": 50,
                "patience": 5,
                "grace": 3,
                "distance": "w2",
            },
            split="shock",
            seeds=(7, 1955),
        ),
        "detailed": Preset(
            {
                **NEUTRAL,
                "learning_rate": 9e-4,
                "batch_size": 128,
                "epochs": 50,
                "patience": 5,
                "grace": 0,
                "distance": "sliced_w2",
            },
            split="detailed",
            seeds=(7, 1955, 2023, 4),
        ),
        "default": Preset(_DEFAULT, split="shock", seeds=(7,)),
        "chaos": Preset(
            {
                **_DEFAULT,
                "epochs": 20,
                "steps_per_epoch": 250,
                "batch_size": 256,
                "loss": "mse",
                "patience": 20,
                "tolerance": 0.0,
                "evaluation_batch_size": 1024,
                "validation_windows": 1000,
            },
            split="shock",
            seeds=(7,),
        ),
        "law": Preset(
            {
                **_DEFAULT,
                "epochs": 10,
                "loss": "whitened_crps",
                "objective": ObjectiveWeights(mse=0.0, mae=0.0, distance=0.0, crps=1.0),
            },
            split="shock",
            seeds=(7,),
        ),
    }
)
"""``shock`` and ``detailed`` are the paper's protocols, ``default`` is ours for people's own data. ``law`` is
``default`` for models with a law: a proper score of it is what is minimised, and its CRPS judges an epoch. ``chaos`` is
for flow maps that are rolled on (``fern-rolled``): their error falls as long as one trains, and squared error is what a
smooth map is fitted by; rolling over all validation windows would take longer than an epoch's training."""

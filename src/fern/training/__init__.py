"""Training: one loop for every model, with explicit stopping rules and runs that survive a crash."""

from fern.training.checkpoints import resumable
from fern.training.config import PRESETS, TrainConfig
from fern.training.evaluation import Diverged, EpochRecord, History
from fern.training.optimisation import StoppingRule
from fern.training.trainer import TrainResult, train

__all__ = [
    "PRESETS",
    "Diverged",
    "EpochRecord",
    "History",
    "StoppingRule",
    "TrainConfig",
    "TrainResult",
    "resumable",
    "train",
]

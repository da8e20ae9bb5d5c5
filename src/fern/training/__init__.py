"""Training: one loop for every model, with explicit stopping rules and runs that survive a crash."""

from fern.training.checkpoints import resumable
from fern.training.config import PRESETS, TrainConfig
from fern.training.evaluation import Diverged
from fern.training.history import EpochRecord, History
from fern.training.stopping import StoppingRule
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

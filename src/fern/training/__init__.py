"""Training: one loop for every model, with explicit stopping rules and runs that survive a crash."""

from fern.training.checkpoints import resumable
from fern.training.config import PRESETS, Preset, TrainConfig
from fern.training.evaluation import Diverged
from fern.training.history import EpochRecord, History, RecencyRow
from fern.training.random_state import generator_for
from fern.training.stopping import StoppingRule, StoppingState
from fern.training.trainer import TrainResult, train

__all__ = [
    "PRESETS",
    "Diverged",
    "EpochRecord",
    "History",
    "Preset",
    "RecencyRow",
    "StoppingRule",
    "StoppingState",
    "TrainConfig",
    "TrainResult",
    "generator_for",
    "resumable",
    "train",
]

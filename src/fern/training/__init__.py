"""Training: one loop for every model, with explicit stopping rules and runs that survive a crash."""

from fern.training.checkpoint import resumable
from fern.training.config import TrainConfig
from fern.training.divergence import Diverged
from fern.training.entry import train
from fern.training.history import EpochRecord, History, RecencyRow
from fern.training.presets import PRESETS, Preset
from fern.training.result import TrainResult
from fern.training.seeds import generator_for
from fern.training.stopping import StoppingRule, StoppingState

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

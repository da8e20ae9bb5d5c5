"""Training: one loop for every model, with explicit stopping rules and runs that survive a crash."""

from fern.training.config import TrainConfig
from fern.training.divergence import Diverged
from fern.training.entry import train
from fern.training.presets import PRESETS, Preset
from fern.training.records.history import EpochRecord, History, RecencyRow
from fern.training.records.result import TrainResult
from fern.training.saving.checkpoint import resumable
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

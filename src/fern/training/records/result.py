"""What a run leaves behind."""

from dataclasses import dataclass
from pathlib import Path

from fern.models import Forecaster
from fern.training.config import TrainConfig
from fern.training.records.history import EpochRecord, History
from fern.training.saving.fingerprint import Fingerprint
from fern.training.stopping import Reason


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a run.

    ``model``       the model that was given, holding the weights of ``best_epoch``, in evaluation mode.
    ``history``     every epoch's figures.
    ``best_epoch``  the epoch the stopping rule kept, from 1 (0 for a model with nothing to train).
    ``stopped``     why the run ended: ``epochs``, ``patience`` or ``nothing to train``.
    """

    model: Forecaster
    history: History
    best_epoch: int
    stopped: Reason
    config: TrainConfig
    fingerprint: Fingerprint
    directory: Path | None

    @property
    def best(self) -> EpochRecord:
        """The record of the epoch that was kept."""
        return self.history.of_epoch(self.best_epoch)

    @property
    def seconds(self) -> float:
        """Time spent on training and evaluation, over all processes that worked on the run one after another."""
        return sum(record.seconds + record.evaluation_seconds for record in self.history)

    @property
    def processor_seconds(self) -> float:
        """Processor time of the same, over all threads."""
        return sum(record.processor_seconds for record in self.history)

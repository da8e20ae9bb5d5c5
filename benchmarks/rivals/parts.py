"""What the measurements here share: the windows of a problem's parts, thinned, and a rolled Fern trained by them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fern.benchmark import DatasetChoice, load_dataset
from fern.benchmark.problem import Problem
from fern.data import Windows
from fern.models import build_model
from fern.models.rolled import RolledFern
from fern.training import TrainConfig, TrainResult, train


def thinned(problem: Problem, part: str, stride: int) -> Windows:
    """Every ``stride``-th window of ``train``, ``validation`` or ``test``."""
    return Windows(
        problem.values,
        context_length=problem.context_length,
        horizon=problem.horizon,
        part=getattr(problem.split, part),
        stride=stride,
    )


@dataclass(frozen=True)
class Rolled:
    """A trained `fern-rolled`, the problem it was trained on, and the validation windows that stopped it."""

    model: RolledFern
    problem: Problem
    validation: Windows
    result: TrainResult

    def provenance(self) -> dict[str, Any]:
        """Of data and training, for a row."""
        return {
            "data_fingerprint": self.problem.dataset.fingerprint,
            "epochs": len(self.result.history),
            "best_epoch": self.result.best_epoch,
            "processor_seconds": round(self.result.processor_seconds, 1),
        }


def train_rolled(
    choice: DatasetChoice,
    *,
    seed: int,
    length: int,
    settings: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> Rolled:
    """`fern-rolled` by its presets ``chaos`` on one thread, stopped by every fourth validation window.

    ``settings`` and ``training`` go over those of the presets.
    """
    problem = Problem(load_dataset(choice), "shock", "none", length, length)
    channels = len(problem.dataset.channel_names)
    model = build_model(
        "fern-rolled", preset="chaos", context_length=length, horizon=length, channels=channels, **(settings or {})
    )
    assert isinstance(model, RolledFern)
    validation = thinned(problem, "validation", 4)
    config = TrainConfig(**{"preset": "chaos", "seed": seed, "threads": 1, **(training or {})})
    result = train(model, problem.train, validation, config, progress="silent")
    return Rolled(model, problem, validation, result)

"""What a run is given, checked before anything is computed or written."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from fern.data.windows import Windows
from fern.errors import FernError
from fern.files import require_path
from fern.models import Forecaster
from fern.training.config import TrainConfig
from fern.training.history import MetricValues
from fern.training.losses import require_distribution

T = TypeVar("T")

LAST = "last_"
"""What the names of figures of the last test windows alone begin with."""


@dataclass(frozen=True)
class WindowSets:
    """The windows that train a model, choose its epoch and, where given, judge it; ``last`` are the last of these."""

    train: Windows
    validation: Windows
    test: Windows | None
    last: Windows | None = None

    def named(self) -> dict[str, Windows | None]:
        """The sets under the names of ``train``'s arguments."""
        return {
            "windows_train": self.train,
            "windows_val": self.validation,
            "windows_test": self.test,
            "windows_last": self.last,
        }

    def to(self, device: torch.device) -> "WindowSets":
        """The same windows on another device."""
        test, last = (None if windows is None else windows.to(device) for windows in (self.test, self.last))
        return WindowSets(self.train.to(device), self.validation.to(device), test, last)

    def test_figures(self, figures: Callable[[Windows], MetricValues]) -> MetricValues | None:
        """The figures of the test windows, those of the last beside them; None without test windows."""
        if self.test is None:
            return None
        last = {} if self.last is None else figures(self.last)
        return figures(self.test) | {f"{LAST}{name}": value for name, value in last.items()}


def require_inputs_fit(model: Forecaster, config: TrainConfig, data: WindowSets) -> None:
    """Refuse a model, settings and window sets that do not belong together."""
    if not isinstance(model, Forecaster):
        raise FernError(argument="model", got=type(model), expected="a fern.models.Forecaster")
    if not isinstance(config, TrainConfig):
        raise FernError(argument="config", got=type(config), expected="a TrainConfig")
    for name, windows in data.named().items():
        if windows is not None:
            _require_windows(name, windows, model)
    require_distribution(config.weights, model)


def _require_windows(name: str, windows: Windows, model: Forecaster) -> None:
    if not isinstance(windows, Windows):
        raise FernError(argument=name, got=type(windows), expected="fern.data.Windows")
    if len(windows) == 0:
        raise FernError("has no windows", argument=name, expected="at least one")
    for size in ("context_length", "horizon", "channels"):
        has, needs = getattr(windows, size), getattr(model.config, size)
        if has != needs:
            raise FernError(f"{size} is {has}, the model's is {needs}; needs the same", argument=name)


def require_methods(name: str, value: T, example: type, *, known: Iterable[str]) -> T:
    """The object, which must have the methods of the example; ``known`` are the names it could have been."""
    for method in (entry for entry in vars(example) if not entry.startswith("_")):
        if not callable(getattr(value, method, None)):
            names = ", ".join(repr(entry) for entry in known)
            raise FernError(argument=name, got=value, expected=f"{names}, or an object with a method {method!r}")
    return value


def run_directory(directory: Path | str | None, resume: Path | str | None) -> Path | None:
    """Where the run is kept: the directory, or the one it resumes from, which must be the same."""
    for name, value in (("directory", directory), ("resume", resume)):
        if value is not None:
            require_path(value, argument=name)
    if directory is None or resume is None:
        value = directory if resume is None else resume
        return None if value is None else Path(value)
    if Path(directory).resolve() != Path(resume).resolve():
        raise FernError(
            (f"got {directory} but resume is {resume}; a run resumes in its own directory; give one of them"),
            argument="directory",
        )
    return Path(resume)


def batch_size_for(windows: int) -> int:
    """A batch size from the number of training windows: about 250 steps an epoch, between 16 and 128 windows each."""
    return max(16, min(128, 8 * round(windows / 250 / 8)))

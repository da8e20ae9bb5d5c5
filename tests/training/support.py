"""What the tests of training share."""

import importlib.util
from pathlib import Path
from types import ModuleType

from fern.training.logging import Progress


class InterruptionError(Exception):
    """Stands for whatever ends a process."""


class InterruptedAt(Progress):
    """Ends the run after so many steps."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def step(self, *, epoch: int, loss: float) -> None:
        self._left -= 1
        if self._left == 0:
            raise InterruptionError


def program(path: Path) -> ModuleType:
    """A program of its own, as a module in this process."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

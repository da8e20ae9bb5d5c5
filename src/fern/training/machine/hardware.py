"""Where a run computes: threads, device, precision and processes."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from fern.checks import require_memory, shown
from fern.errors import FernError
from fern.training.config import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


MOST_THREADS = 256
PROCESS_BYTES = 300e6
"""About what a process with torch in it takes."""


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Within the block torch uses ``count`` threads; None leaves them as they are."""
    before = torch.get_num_threads()
    if count is not None:
        require_threads(count)
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def require_threads(count: int) -> None:
    """Refuse more threads than a machine of this size could ever use: starting them ends the process.

    Example:
        >>> require_threads(100_000)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        fern.errors.FernError: threads: got 100000, this machine has ... cores; needs at most ...
    """
    most = max(MOST_THREADS, 8 * _cores())
    if count > most:
        raise FernError(f"threads: got {shown(count)}, this machine has {_cores()} cores; needs at most {most}")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def require_devices(config: TrainConfig) -> None:
    """Refuse more processes on the CPU than it has cores; a strategy that is named says that they are meant."""
    cores = _cores()
    if config.accelerator in ("cpu", "auto") and config.devices > cores and not torch.cuda.is_available():
        if config.strategy == "auto":
            raise FernError(
                f"devices: got {shown(config.devices)}, which are processes on the CPU, and this machine has {cores} "
                "cores; where that is meant, give a strategy too, such as strategy='ddp'"
            )
        require_memory(f"devices: {shown(config.devices)} processes", PROCESS_BYTES * min(config.devices, 10**9))


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Within the block these libraries' loggers report nothing but errors."""
    loggers = {name: logging.getLogger(name) for name in names}
    before = {name: logger.level for name, logger in loggers.items()}
    for logger in loggers.values():
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, logger in loggers.items():
            logger.setLevel(before[name])


def launch(config: TrainConfig) -> "Fabric":
    """The devices and processes of a run, ready to use."""
    require_devices(config)
    from lightning_fabric import Fabric  # takes seconds to import, so not before it is needed

    try:
        with quiet("lightning_fabric"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning_fabric")
            fabric = Fabric(
                accelerator=config.accelerator,
                devices=config.devices,
                strategy=config.strategy,
                precision=config.precision,
            )
            fabric.launch()
    except (ValueError, RuntimeError, TypeError, ImportError) as error:
        raise FernError(
            f"accelerator {config.accelerator!r}, devices {config.devices}, strategy {config.strategy!r}: "
            f"not available here ({error})"
        ) from None
    return fabric

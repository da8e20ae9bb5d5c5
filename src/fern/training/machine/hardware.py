"""Where a run computes: threads, device, precision and processes."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from fern.errors import FernError
from fern.training.config import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Within the block torch uses ``count`` threads; None leaves them as they are."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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

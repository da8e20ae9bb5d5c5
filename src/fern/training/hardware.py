"""Where a run computes: threads, device, precision and processes."""

import logging
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
def _quiet(name: str) -> Iterator[None]:
    """Within the block a library's logger says nothing below a warning."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def launch(config: TrainConfig) -> "Fabric":
    """The devices and processes of a run, ready to use."""
    from lightning_fabric import Fabric  # takes seconds to import, so not before it is needed

    try:
        with _quiet("lightning_fabric"):
            fabric = Fabric(
                accelerator=config.accelerator,
                devices=config.devices,
                strategy=config.strategy,
                precision=config.precision,
            )
            fabric.launch()
    except (ValueError, RuntimeError, TypeError) as error:
        raise FernError(
            f"accelerator {config.accelerator!r}, devices {config.devices}, strategy {config.strategy!r}: "
            f"not available here ({error})"
        ) from None
    return fabric

"""What the processes of a run tell each other."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from fern.errors import FernError

if TYPE_CHECKING:
    from lightning_fabric import Fabric

V = TypeVar("V")


def on_first(work: Callable[[], None], fabric: "Fabric") -> None:
    """Have the first process do something; where it cannot, every process says why."""
    problem: str | None = None
    if fabric.is_global_zero:
        try:
            work()
        except FernError as error:
            problem = str(error)
    told = of_all(problem, fabric)[0]
    if told is not None:
        raise FernError(told)


def of_all(value: V, fabric: "Fabric") -> list[V]:
    """The value that each process has, in the order of their ranks; every process must ask."""
    if fabric.world_size == 1:
        return [value]
    values: list[Any] = [None] * fabric.world_size
    torch.distributed.all_gather_object(values, value)
    return values

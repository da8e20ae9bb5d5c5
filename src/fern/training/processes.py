"""What the processes of a run tell each other."""

from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from lightning_fabric import Fabric

V = TypeVar("V")


def of_all(value: V, fabric: "Fabric") -> list[V]:
    """The value that each process has, in the order of their ranks; every process must ask."""
    if fabric.world_size == 1:
        return [value]
    values: list[Any] = [None] * fabric.world_size
    torch.distributed.all_gather_object(values, value)
    return values

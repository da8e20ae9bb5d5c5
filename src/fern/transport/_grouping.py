"""Broadcasting batch shapes without copying the reflections."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fern.transport._checks import common_shape


@dataclass(frozen=True)
class Grouping:
    """Which batch dimensions number the sets of reflections, and which only repeat them.

    Dimensions along which all set tensors (vectors, eigenvalues) have length 1, or repeat by ``expand``, are
    moved to the front of x, as right-hand sides that share a set. Where x has the batch shape of the sets
    behind any number of leading dimensions nothing moves (``batch`` is None), which costs no operation.
    """

    dtype: torch.dtype
    batch: torch.Size | None = None
    shared: tuple[int, ...] = ()  # lengths of the batch dimensions of the sets, 1 where shared
    order: tuple[int, ...] = ()  # the shared dimensions of the batch, then the others

    @classmethod
    def of(cls, x: Tensor, *parts: tuple[Tensor, int]) -> Self:
        """The grouping for x (..., p) and set tensors with their number of core dimensions."""
        first, core = parts[0]
        sets = first.shape[:-core]
        if all(
            part.shape[:-core] == sets and part.dtype == x.dtype and 0 not in part.stride() for part, core in parts
        ) and (x.shape[x.ndim - 1 - len(sets) : -1] == sets):
            return cls(x.dtype)
        given = [part.shape[:-core] for part, core in parts]
        message = f"batch shapes {(*map(tuple, given), tuple(x.shape[:-1]))} do not broadcast to one shape"
        batch = common_shape(message, *given, x.shape[:-1])
        packed = common_shape(message, *(_unexpanded(*part).shape[: -part[1]] for part in parts))
        shared = (*[1] * (len(batch) - len(packed)), *packed)
        repeats = [d for d in range(len(batch)) if shared[d] == 1]
        dtype = x.dtype
        for part, _ in parts:
            dtype = torch.promote_types(dtype, part.dtype)
        return cls(dtype, batch, shared, (*repeats, *(d for d in range(len(batch)) if shared[d] != 1)))

    def sets(self, part: Tensor, core: int) -> Tensor:  # (..., *core) -> (*sets, *core)
        """A set tensor, broadcast to all sets."""
        if self.batch is None:
            return part
        spread = _unexpanded(part, core).to(self.dtype).expand(*self.shared, *part.shape[-core:])
        return spread.reshape(*(length for length in self.shared if length != 1), *part.shape[-core:])

    def sides(self, x: Tensor) -> Tensor:  # (..., p) -> (*sides, *sets, p)
        """The right-hand sides of all sets."""
        if self.batch is None:
            return x
        return x.to(self.dtype).expand(*self.batch, x.shape[-1]).permute(*self.order, -1)

    def undo(self, y: Tensor) -> Tensor:  # (*sides, *sets, p) -> (*batch, p)
        """A result of the shape `sides` gives, in the broadcast shape of the arguments."""
        if self.batch is None:
            return y
        return y.permute(*sorted(range(len(self.order)), key=self.order.__getitem__), -1)


def _unexpanded(tensor: Tensor, core: int) -> Tensor:
    """The tensor without the repeats that ``expand`` made (stride 0) in its batch dimensions."""
    for d in range(tensor.ndim - core):
        if tensor.stride(d) == 0 and tensor.shape[d] > 1:
            tensor = tensor.narrow(d, 0, 1)
    return tensor

"""Fern's network for a few series without gradients: one compiled call in place of some forty small operations."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from fern.models.fern_parts import _small_batch_kernels as kernels
from fern.models.fern_parts.clamps import ROTATION, SCALE
from fern.models.fern_parts.coupling import bounds_table, compiled
from fern.models.fern_parts.heads import CouplingHead, TransportHead

FEW = 24
"""Up to so many rows one compiled call is faster than a product of matrices for each layer (by 5 for one window)."""


def takes(rows: Tensor) -> bool:
    """Whether a `Network` takes the rows: it keeps no record for gradients, and tracers cannot look into it."""
    recorded = torch.is_grad_enabled() or torch._C._get_tracing_state() is not None
    return not recorded and type(rows) is Tensor and compiled(rows) and rows.shape[0] <= FEW


class Network:
    """ψ after the coupling layers, of which there are two or more, with ReLU features: ``head(encode(rows, z))``.

    The weights are kept as the arrays that compiled code takes. These share the tensors' memory, so that an
    optimiser's steps show; a tensor that lies elsewhere than before (``to``, a replaced parameter) is told by its
    address, and looked up anew. A copy of the model looks for its own.
    """

    def __init__(self) -> None:
        self._kept: tuple[list[int], Any] = ([], None)  # addresses, arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return Network, ()

    def __call__(
        self,
        rows: Tensor,  # (N, L)
        z: Tensor,  # (N, latent), overwritten
        features: tuple[nn.Linear, nn.Linear],  # H_x, H_z
        heads_x: Iterable[nn.Module],
        heads_z: Iterable[nn.Module],
        head: TransportHead,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The parts of the distribution, in patches."""
        groups = (
            [*features, head.hidden],
            [_linear(part) for part in heads_x],
            [_linear(part) for part in heads_z],
            [head.spectrum, head.vectors],
        )
        maps_x, to_z, to_x, (spectrum, vectors), tables = self._arrays(groups, head, rows.dtype)
        outputs = [rows.new_empty(rows.shape[0], size) for size in head.sizes]
        arrays = tuple(output.numpy() for output in outputs)
        kernels.run(rows.contiguous().numpy(), z.numpy(), maps_x, to_z, to_x, spectrum, vectors, tables, arrays)
        return head.patched(*outputs)

    def _arrays(self, groups: tuple[list[nn.Linear], ...], head: TransportHead, dtype: torch.dtype) -> Any:
        """The weights of each group of linear maps, and the bounds of the clamps."""
        addresses = [tensor.data_ptr() for group in groups for one in group for tensor in (one.weight, one.bias)]
        kept, arrays = self._kept
        if addresses != kept:
            weights = (
                tuple((one.weight.detach().numpy(), one.bias.detach().numpy()) for one in group) for group in groups
            )
            bounds = ((SCALE,), (ROTATION,), head.bounds)
            arrays = (*weights, tuple(bounds_table(dtype, *pair) for pair in bounds))
            self._kept = addresses, arrays
        return arrays


def _linear(part: nn.Module) -> nn.Linear:
    assert isinstance(part, CouplingHead)
    return part.linear

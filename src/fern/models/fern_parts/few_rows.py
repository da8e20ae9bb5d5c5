"""Fern's network for a few series without gradients: one compiled call in place of some forty small operations."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from fern.models.fern_parts import _small_batch
from fern.models.fern_parts.coupling import bounds_table, compiled
from fern.models.fern_parts.heads import CouplingHead, TransportHead
from fern.models.fern_parts.softclamp import ROTATION, SCALE

FEW = 24
"""Up to so many rows one compiled call is faster than a product of matrices for each layer (by 5 for one window)."""


def takes(rows: Tensor) -> bool:
    """Whether `network` takes the rows: it keeps no record for gradients, and tracers cannot look into it."""
    recorded = torch.is_grad_enabled() or torch._C._get_tracing_state() is not None
    return not recorded and type(rows) is Tensor and compiled(rows) and rows.shape[0] <= FEW


def network(
    rows: Tensor,  # (N, L)
    z: Tensor,  # (N, latent), overwritten
    features: tuple[nn.Linear, nn.Linear],  # H_x, H_z
    heads_x: Iterable[nn.Module],
    heads_z: Iterable[nn.Module],
    head: TransportHead,
) -> tuple[Tensor, Tensor, Tensor]:
    """ψ after the coupling layers, of which there are two or more, with ReLU features: ``head(encode(rows, z))``."""
    outputs = [rows.new_empty(rows.shape[0], size) for size in head.sizes]
    bounds = ((SCALE,), (ROTATION,), head.bounds)
    _small_batch.run(
        rows.contiguous().numpy(),
        z.numpy(),
        tuple(_arrays(linear) for linear in (*features, head.hidden)),
        tuple(_arrays(_linear(part)) for part in heads_x),
        tuple(_arrays(_linear(part)) for part in heads_z),
        _arrays(head.spectrum),
        _arrays(head.vectors),
        tuple(bounds_table(rows.dtype, *pair) for pair in bounds),
        tuple(output.numpy() for output in outputs),
    )
    return head.patched(*outputs)


def _linear(part: nn.Module) -> nn.Linear:
    assert isinstance(part, CouplingHead)
    return part.linear


def _arrays(linear: nn.Linear) -> tuple[Any, Any]:
    return linear.weight.detach().numpy(), linear.bias.detach().numpy()

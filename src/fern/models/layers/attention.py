"""Attention of a row's tokens on each other, for many short rows and narrow heads.

It exists as plain torch operations, which define it and run on any device, and as compiled loops for float32 on the
CPU, where rows of dozens of tokens and heads of 4 to 16 numbers leave matrix products mostly waiting. A test holds
the two equal, values and gradients.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fern.models.layers import _attention_kernels as kernels
from fern.models.layers.dropout import Dropout, Keys, compiled
from fern.transport._lanes import LANES

_NOTHING = np.empty(0, np.float32)


def attend(
    qkv: Tensor,  # (N, P, 3·W): queries, keys and values, each with the heads one after the other
    before: Tensor | None = None,
    *,
    heads: int,
    dropout: Dropout,
    residual: bool = False,
) -> tuple[Tensor, Tensor | None]:  # (N, P, W)
    """dropout(softmax(Q Kᵀ / √d + before)) V for each head of width d, and with ``residual`` the scores.

    The scores are those before the softmax, for the ``before`` of the next layer (He 2020, RealFormer). How they lie
    in memory is not said.

    Example:
        >>> attended, scores = attend(torch.zeros(5, 3, 3 * 8), heads=2, dropout=Dropout(0.0))
        >>> attended.shape, scores
        (torch.Size([5, 3, 8]), None)
    """
    if compiled(qkv):
        attended, scores = _Attention.apply(qkv, before, heads, residual, dropout.keys())  # type: ignore[no-untyped-call]
        return attended, scores
    return _plain(qkv, before, heads=heads, dropout=dropout, residual=residual)


def _plain(
    qkv: Tensor, before: Tensor | None, *, heads: int, dropout: Dropout, residual: bool
) -> tuple[Tensor, Tensor | None]:
    rows, tokens, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    parts = qkv.view(rows, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4).flatten(1, 2)
    query, key, value = parts.unbind()  # (N·heads, P, d)
    if residual or dropout.active:
        scaled = query * query.shape[-1] ** -0.5
        transposed = key.transpose(1, 2)
        scores = torch.bmm(scaled, transposed) if before is None else torch.baddbmm(before, scaled, transposed)
        attended = torch.bmm(dropout(scores.softmax(dim=-1)), value)
    else:
        scores = None
        attended = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    joined = attended.view(rows, heads, tokens, -1).transpose(1, 2).reshape(rows, tokens, width)
    return joined, scores if residual else None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, before: Tensor | None, heads: int, residual: bool, keys: Keys
    ) -> tuple[Tensor, Tensor | None]:
        rows, tokens, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
        out = qkv.new_empty(rows, tokens, width)
        blocks = -(-rows // LANES)
        scores = qkv.new_empty(blocks, heads, tokens, tokens, LANES) if residual else None
        scale = np.float32((width // heads) ** -0.5)
        kernels.attend(_cube(qkv), _flat(before), heads, scale, keys, _cube(out), _flat(scores))
        ctx.save_for_backward(qkv, scores)
        ctx.heads, ctx.scale, ctx.keys, ctx.chained = heads, scale, keys, before is not None
        ctx.set_materialize_grads(False)  # the last layer's scores are not used: no zeros for their gradient
        return out, scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_scores: Tensor | None) -> tuple[Tensor | None, ...]:
        qkv, scores = ctx.saved_tensors
        if grad is None:
            grad = qkv.new_zeros(*qkv.shape[:2], qkv.shape[2] // 3)
        grad_qkv = torch.empty_like(qkv, memory_format=torch.contiguous_format)
        grad_before = torch.empty_like(scores) if ctx.chained else None
        kernels.attend_backward(
            _cube(qkv),
            _flat(scores),
            ctx.heads,
            ctx.scale,
            ctx.keys,
            _cube(grad),
            _flat(grad_scores),
            _cube(grad_qkv),
            _flat(grad_before),
        )
        return grad_qkv, grad_before, None, None, None


def _cube(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


def _flat(tensor: Tensor | None) -> Any:
    return _NOTHING if tensor is None else tensor.detach().contiguous().view(-1).numpy()

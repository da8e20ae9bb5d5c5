"""Feed-forward layers (linear, GELU, dropout, linear) in blocks that stay in the processor's cache, and perceptrons."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu

from fern.models.layers import _elementwise_kernels as kernels
from fern.models.layers.basic import activation as named_activation
from fern.models.layers.dropout import NONE_DROPPED, Dropout, Keys, compiled

BLOCK = 1 << 17  # inner numbers a block: half a megabyte
NARROW = 64  # outer width from which computing the inner numbers again costs more than keeping them


def feedforward(
    x: Tensor,  # (..., inputs)
    first: tuple[Tensor, Tensor],  # weight (inner, inputs) and bias (inner,)
    second: tuple[Tensor, Tensor],  # weight (outputs, inner) and bias (outputs,)
    dropout: Dropout,
) -> Tensor:  # (..., outputs)
    """second(dropout(gelu(first(x)))).

    Example:
        >>> maps = (torch.ones(3, 2), torch.zeros(3)), (torch.ones(1, 3), torch.ones(1))
        >>> feedforward(torch.zeros(5, 2), *maps, Dropout(0.0)).flatten()
        tensor([1., 1., 1., 1., 1.])
    """
    linear = torch.nn.functional.linear
    inner, inputs = first[0].shape
    # The compiled loops take 16 numbers at a time: another inner width would leave a remainder in every block.
    if not compiled(x) or inner % 16 or inputs >= NARROW:
        return linear(dropout(gelu(linear(x, *first))), *second)
    out: Tensor = _FeedForward.apply(x.reshape(-1, x.shape[-1]), *first, *second, dropout.keys())  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], -1)


def added_feedforward(
    base: Tensor,  # (outputs, M)
    x: Tensor,  # (inputs, M): the vectors are columns
    first: tuple[Tensor, Tensor],  # weight (inner, inputs) and bias (inner,)
    second: tuple[Tensor, Tensor],  # weight (outputs, inner) and bias (outputs,)
) -> Tensor:  # (outputs, M)
    """base + W₂ gelu(W₁ x + b₁) + b₂.

    Example:
        >>> maps = (torch.ones(3, 2), torch.zeros(3)), (torch.ones(1, 3), torch.ones(1))
        >>> added_feedforward(torch.ones(1, 4), torch.zeros(2, 4), *maps)
        tensor([[2., 2., 2., 2.]])
    """
    if not compiled(x) or first[0].shape[0] % 16:
        inner = gelu(torch.addmm(first[1][:, None], first[0], x))
        return base + torch.addmm(second[1][:, None], second[0], inner)
    out: Tensor = _AddedFeedForward.apply(base, x, *first, *second)  # type: ignore[no-untyped-call]
    return out


def _blocks(rows: int, inner: int) -> Iterator[slice]:
    size = max(8, BLOCK // inner)
    return (slice(at, min(at + size, rows)) for at in range(0, rows, size))


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, keys: Keys) -> Tensor:
        x = x.contiguous()
        rows, inner = x.shape[0], w1.shape[0]
        out = x.new_empty(rows, w2.shape[0])
        scratch = x.new_empty(max(8, BLOCK // inner), inner)
        for rows_of in _blocks(rows, inner):
            a = scratch[: rows_of.stop - rows_of.start]
            torch.addmm(b1, x[rows_of], w1.t(), out=a)
            kernels.gelu(_flat(a), rows_of.start * inner, keys)
            torch.addmm(b2, a, w2.t(), out=out[rows_of])
        ctx.save_for_backward(x, w1, b1, w2)
        ctx.keys = keys
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, w1, b1, w2 = ctx.saved_tensors
        grad = grad.contiguous()
        rows, inner = x.shape[0], w1.shape[0]
        grad_x, grad_w1, grad_w2 = torch.empty_like(x), w1.new_zeros(w1.shape[::-1]), torch.zeros_like(w2)
        grad_b1 = torch.zeros_like(b1)
        scratch = x.new_empty(2, max(8, BLOCK // inner), inner)
        for rows_of in _blocks(rows, inner):
            a, g = scratch[:, : rows_of.stop - rows_of.start]
            torch.addmm(b1, x[rows_of], w1.t(), out=a)
            torch.mm(grad[rows_of], w2, out=g)
            kernels.gelu_backward(_flat(a), rows_of.start * inner, ctx.keys, _flat(g))
            grad_w2.addmm_(grad[rows_of].t(), a)
            grad_w1.addmm_(x[rows_of].t(), g)  # transposed, the product is faster
            grad_b1 += g.sum(dim=0)
            torch.mm(g, w1, out=grad_x[rows_of])
        return grad_x, grad_w1.t(), grad_b1, grad_w2, grad.sum(dim=0), None


class _AddedFeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, base: Tensor, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        inner = w1.shape[0]
        out = torch.add(base, b2[:, None])
        scratch = x.new_empty(inner * max(8, BLOCK // inner))
        for part in _blocks(x.shape[1], inner):
            a = _inner(scratch, inner, part)
            torch.addmm(b1[:, None], w1, x[:, part], out=a)
            kernels.gelu(_flat(a), 0, NONE_DROPPED)
            out[:, part].addmm_(w2, a)
        ctx.save_for_backward(x, w1, b1, w2)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        x, w1, b1, w2 = ctx.saved_tensors
        inner = w1.shape[0]
        grad_x, grad_w1, grad_w2 = torch.empty_like(x), torch.zeros_like(w1), torch.zeros_like(w2)
        grad_b1 = torch.zeros_like(b1)
        scratch = x.new_empty(2, inner * max(8, BLOCK // inner))
        for part in _blocks(x.shape[1], inner):
            a, g = (_inner(each, inner, part) for each in scratch)
            torch.addmm(b1[:, None], w1, x[:, part], out=a)
            torch.mm(w2.t(), grad[:, part], out=g)
            kernels.gelu_backward(_flat(a), 0, NONE_DROPPED, _flat(g))
            grad_w2.addmm_(grad[:, part], a.t())
            grad_w1.addmm_(g, x[:, part].t())
            grad_b1 += g.sum(dim=1)
            torch.mm(w1.t(), g, out=grad_x[:, part])
        return grad, grad_x, grad_w1, grad_b1, grad_w2, grad.sum(dim=1)


def _inner(scratch: Tensor, inner: int, part: slice) -> Tensor:  # (inner, size of part), contiguous
    return scratch[: inner * (part.stop - part.start)].view(inner, -1)


def _flat(tensor: Tensor) -> Any:
    return tensor.view(-1).numpy()


class Perceptron(nn.Module):
    """Linear maps between the given widths, with an activation and dropout after each but the last.

    Example:
        >>> import torch
        >>> Perceptron((3, 8, 2), activation="relu")(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """

    def __init__(self, widths: Sequence[int], *, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths))
        self.activate = named_activation(activation)
        self.dropout = Dropout(dropout)

    @property
    def linear_maps(self) -> list[nn.Linear]:
        """The maps in order."""
        return [part for part in self.maps if isinstance(part, nn.Linear)]

    def forward(
        self,
        x: Tensor,  # (..., first width)
    ) -> Tensor:  # (..., last width)
        """The maps in turn."""
        if self.activate is nn.functional.gelu and len(self.maps) == 2:
            first, second = ((part.weight, part.bias) for part in self.linear_maps)
            return feedforward(x, first, second, self.dropout)
        rows = x.reshape(-1, x.shape[-1])  # in place on a view of more dimensions, an activation makes autograd copy
        for linear in self.maps[:-1]:
            rows = self.dropout(self.activate(linear(rows)))
        last: Tensor = self.maps[-1](rows)
        return last.view(*x.shape[:-1], -1)

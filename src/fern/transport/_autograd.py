"""The two autograd functions: forward by the fastest engine, backward by retracing instead of storing."""

import math
from typing import Any, Protocol

import torch
from torch import Tensor

from fern.transport import _compiled, _steps

Gradients = tuple[Tensor | None, ...]


class _Engine(Protocol):
    """What `_compiled` and `_steps` both offer."""

    def reflect(self, vectors: Tensor, x: Tensor, *, back: bool) -> Tensor: ...
    def reflect_backward(self, vectors: Tensor, x: Tensor, grad: Tensor, *, back: bool) -> tuple[Tensor, Tensor]: ...
    def push(self, vectors: Tensor, eigenvalues: Tensor, x: Tensor) -> tuple[Tensor, Tensor]: ...
    def push_backward(
        self, vectors: Tensor, eigenvalues: Tensor, turned: Tensor, grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]: ...


def _engine(x: Tensor) -> _Engine:
    return _compiled if _compiled.fits(x) else _steps


class Reflect(torch.autograd.Function):
    """U x, or Uᵀ x where ``back``. Keeps its two arguments."""

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,  # (*sets, R, p)
        x: Tensor,  # (*sides, *sets, p)
        back: bool,
    ) -> Tensor:
        ctx.save_for_backward(vectors, x)
        ctx.back = back
        v = _as_sets(vectors, 2)
        return _engine(x).reflect(v, _as_sides(x, v), back=back).view(x.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        vectors, x = ctx.saved_tensors
        v = _as_sets(vectors, 2)
        if torch.is_grad_enabled():
            y = _steps.reflect(v, _as_sides(x, v), back=ctx.back).reshape(x.shape)
            return *_recorded(y, (vectors, x), grad), None
        sides = _as_sides(grad, v)
        if not ctx.needs_input_grad[0]:
            return None, _engine(x).reflect(v, sides, back=not ctx.back).view(x.shape), None
        grad_v, grad_x = _engine(x).reflect_backward(v, _as_sides(x, v), sides, back=ctx.back)
        return grad_v.view(vectors.shape), grad_x.view(x.shape), None


class Push(torch.autograd.Function):
    """Uᵀ Λ U x. Keeps its three arguments and U x: O(R·n) numbers, none per reflection."""

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,  # (*sets, R, p)
        eigenvalues: Tensor,  # (*sets, p)
        x: Tensor,  # (*sides, *sets, p)
    ) -> Tensor:
        v = _as_sets(vectors, 2)
        y, turned = _engine(x).push(v, _as_sets(eigenvalues, 1), _as_sides(x, v))
        ctx.save_for_backward(vectors, eigenvalues, x, turned)
        return y.view(x.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        vectors, eigenvalues, x, turned = ctx.saved_tensors
        v, scale = _as_sets(vectors, 2), _as_sets(eigenvalues, 1)
        if torch.is_grad_enabled():
            y = _steps.push(v, scale, _as_sides(x, v))[0].reshape(x.shape)
            return _recorded(y, (vectors, eigenvalues, x), grad)
        sides = _as_sides(grad, v)
        if not any(ctx.needs_input_grad[:2]):  # the map is symmetric: it is its own adjoint
            return None, None, _engine(x).push(v, scale, sides)[0].view(x.shape)
        found = _engine(x).push_backward(v, scale, turned, sides)
        return tuple(g.view(t.shape) for g, t in zip(found, (vectors, eigenvalues, x), strict=True))


def _as_sets(tensor: Tensor, core: int) -> Tensor:  # (*sets, ...) -> (N, ...)
    shape = tensor.shape
    return tensor.reshape(math.prod(shape[:-core]), *shape[-core:])


def _as_sides(x: Tensor, vectors: Tensor) -> Tensor:  # (*sides, *sets, p) -> (S, N, p)
    n, p = vectors.shape[0], x.shape[-1]
    return x.reshape(x.numel() // (n * p) if n * p else 0, n, p)


def _recorded(y: Tensor, inputs: tuple[Tensor, ...], grad: Tensor) -> Gradients:
    """Gradients that can be differentiated again: autograd follows the plain loop."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True))
    return tuple(next(found) if tensor.requires_grad else None for tensor in inputs)

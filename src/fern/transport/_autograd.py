"""The two autograd functions: forward by the fastest engine, backward by retracing instead of storing."""

from typing import Any, Protocol

import torch
from torch import Tensor

from fern.transport import _compiled, _steps

Gradients = tuple[Tensor | None, ...]


class _Engine(Protocol):
    """What `_compiled` and `_steps` both offer."""

    def reflect(self, vectors: Tensor, x: Tensor, *, back: bool) -> Tensor: ...
    def reflect_backward(self, vectors: Tensor, y: Tensor, grad: Tensor, *, back: bool) -> tuple[Tensor, Tensor]: ...
    def push(self, vectors: Tensor, eigenvalues: Tensor, x: Tensor) -> tuple[Tensor, Tensor]: ...
    def push_backward(
        self, vectors: Tensor, eigenvalues: Tensor, turned: Tensor, grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]: ...


def _engine(x: Tensor) -> _Engine:
    # torch.compile traces and fuses the torch operations; it cannot look into a Numba kernel.
    return _compiled if _compiled.fits(x) and not torch.compiler.is_compiling() else _steps


class Reflect(torch.autograd.Function):
    """U x, or Uᵀ x where ``back``. Keeps its two arguments and its result, from which the way back is walked."""

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,  # (*sets, R, p)
        x: Tensor,  # (*sides, *sets, p)
        back: bool,
    ) -> Tensor:
        y = _engine(x).reflect(vectors, x, back=back)
        ctx.save_for_backward(vectors, x, y)
        ctx.back = back
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        vectors, x, y = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *_recorded(_steps.reflect(vectors, x, back=ctx.back), (vectors, x), grad), None
        if not ctx.needs_input_grad[0]:
            return None, _engine(x).reflect(vectors, grad, back=not ctx.back), None
        return *_engine(y).reflect_backward(vectors, y, grad, back=ctx.back), None


class Push(torch.autograd.Function):
    """Uᵀ Λ U x. Keeps its three arguments and U x: O(R·n) numbers, none per reflection."""

    @staticmethod
    def plain(vectors: Tensor, eigenvalues: Tensor, x: Tensor) -> Tensor:
        """The map without a record."""
        return _engine(x).push(vectors, eigenvalues, x)[0]

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,  # (*sets, R, p)
        eigenvalues: Tensor,  # (*sets, p)
        x: Tensor,  # (*sides, *sets, p)
    ) -> Tensor:
        y, turned = _engine(x).push(vectors, eigenvalues, x)
        ctx.save_for_backward(vectors, eigenvalues, x, turned)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        vectors, eigenvalues, x, turned = ctx.saved_tensors
        if torch.is_grad_enabled():
            inputs = (vectors, eigenvalues, x)
            return _recorded(_steps.push(*inputs)[0], inputs, grad)
        if not any(ctx.needs_input_grad[:2]):  # the map is symmetric: it is its own adjoint
            return None, None, _engine(x).push(vectors, eigenvalues, grad)[0]
        return _engine(x).push_backward(vectors, eigenvalues, turned, grad)


def _recorded(y: Tensor, inputs: tuple[Tensor, ...], grad: Tensor) -> Gradients:
    """Gradients that can be differentiated again: autograd follows the plain loop."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True))
    return tuple(next(found) if tensor.requires_grad else None for tensor in inputs)

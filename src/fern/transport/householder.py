"""Products of Householder reflections and the symmetric positive map built on them, in O(R·n).

The forward pass uses the fastest engine (compiled on the CPU, torch operations elsewhere); the backward pass
retraces it instead of storing it. Batch shapes broadcast without copying the reflections.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fern.errors import FernError
from fern.transport import _checks, _compiled, _steps
from fern.transport._checks import find_common_shape


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
        shapes = [part.shape[:-core] for part, core in parts]
        problem = f"batch shapes {(*map(tuple, shapes), tuple(x.shape[:-1]))} do not broadcast to one shape"
        batch = find_common_shape(*shapes, x.shape[:-1], problem=problem)
        packed = find_common_shape(*(_drop_expanded(*part).shape[: -part[1]] for part in parts), problem=problem)
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
        spread = _drop_expanded(part, core).to(self.dtype).expand(*self.shared, *part.shape[-core:])
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


def _drop_expanded(tensor: Tensor, core: int) -> Tensor:
    """The tensor without the repeats that ``expand`` made (stride 0) in its batch dimensions."""
    for d in range(tensor.ndim - core):
        if tensor.stride(d) == 0 and tensor.shape[d] > 1:
            tensor = tensor.narrow(d, 0, 1)
    return tensor


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
    return _compiled if _compiled.fits_kernels(x) else _steps


class _Reflect(torch.autograd.Function):
    """U x, or Uᵀ x where ``back``. Keeps the vectors and its result, from which the way back is walked."""

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,  # (*sets, R, p)
        x: Tensor,  # (*sides, *sets, p)
        back: bool,
    ) -> Tensor:
        y = _engine(x).reflect(vectors, x, back=back)
        ctx.save_for_backward(vectors, y)
        ctx.back = back
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        vectors, y = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None, _engine(y).reflect(vectors, grad, back=not ctx.back), None
        return *_engine(y).reflect_backward(vectors, y, grad, back=ctx.back), None


class _Push(torch.autograd.Function):
    """Uᵀ Λ U x. Keeps vectors, eigenvalues and U x: O(R·n) numbers, none per reflection."""

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,  # (*sets, R, p)
        eigenvalues: Tensor,  # (*sets, p)
        x: Tensor,  # (*sides, *sets, p)
    ) -> Tensor:
        y, turned = _engine(x).push(vectors, eigenvalues, x)
        ctx.save_for_backward(vectors, eigenvalues, turned)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        vectors, eigenvalues, turned = ctx.saved_tensors
        if not any(ctx.needs_input_grad[:2]):  # the map is symmetric: it is its own adjoint
            return None, None, _engine(turned).push(vectors, eigenvalues, grad)[0]
        return _engine(turned).push_backward(vectors, eigenvalues, turned, grad)


def reflect(
    vectors: Tensor,  # (..., R, p)
    x: Tensor,  # (..., p)
) -> Tensor:
    """U x for U = H_R ... H_1 with H_i = I - 2 v_i v_iᵀ / (v_iᵀ v_i); batch shapes broadcast.

    The vectors need not have unit length: normalising them is part of the map. A zero vector (exactly: one
    whose squared length is below the smallest normal number of its dtype) is the identity and receives a zero
    gradient. R = 0 gives x. Time and memory are O(R·n) for n numbers in x, forward and backward.

    Example:
        >>> import torch
        >>> reflect(torch.tensor([[3.0, 0.0]]), torch.tensor([1.0, 2.0]))
        tensor([-1.,  2.])
    """
    return _turn(vectors, x, back=False)


def reflect_back(
    vectors: Tensor,  # (..., R, p)
    x: Tensor,  # (..., p)
) -> Tensor:
    """Uᵀ x, the inverse of `reflect`.

    Example:
        >>> import torch
        >>> vectors, x = torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor([1.0, 2.0])
        >>> torch.allclose(reflect_back(vectors, reflect(vectors, x)), x)
        True
    """
    return _turn(vectors, x, back=True)


def spd_push(
    vectors: Tensor,  # (..., R, p)
    eigenvalues: Tensor,  # (..., p)
    x: Tensor,  # (..., p)
) -> Tensor:
    """Uᵀ diag(Λ) U x: the symmetric map with eigenvalues Λ and eigenvectors the rows of U (paper, Alg. 1).

    Fused: one pass forward, one backward, and the backward pass keeps vectors, eigenvalues and U x only. Batch
    shapes broadcast; samples in leading dimensions of x share the vectors without a copy.

    Example:
        >>> import torch
        >>> spd_push(torch.tensor([[1.0, 1.0]]), torch.tensor([2.0, 3.0]), torch.tensor([1.0, 0.0]))
        tensor([3., 0.])
    """
    _check(vectors, x)
    _checks.require_floating("eigenvalues", eigenvalues)
    if eigenvalues.ndim < 1 or eigenvalues.shape[-1] != x.shape[-1]:
        expected = f"(..., {x.shape[-1]}) to match x"
        raise FernError(f"got shape {tuple(eigenvalues.shape)}", argument="eigenvalues", expected=expected)
    _checks.require_one_device(vectors=vectors, eigenvalues=eigenvalues, x=x)
    grouping = Grouping.of(x, (vectors, 2), (eigenvalues, 1))
    arguments = grouping.sets(vectors, 2), grouping.sets(eigenvalues, 1), grouping.sides(x)
    if not torch.is_grad_enabled():  # nothing to record: autograd's own bookkeeping takes longer than a small push
        return grouping.undo(_engine(arguments[2]).push(*arguments)[0])
    result: Tensor = _Push.apply(*arguments)  # type: ignore[no-untyped-call]
    return grouping.undo(result)


def _turn(vectors: Tensor, x: Tensor, *, back: bool) -> Tensor:
    _check(vectors, x)
    _checks.require_one_device(vectors=vectors, x=x)
    grouping = Grouping.of(x, (vectors, 2))
    arguments = grouping.sets(vectors, 2), grouping.sides(x)
    result: Tensor = _Reflect.apply(*arguments, back)  # type: ignore[no-untyped-call]
    return grouping.undo(result)


def _check(vectors: Tensor, x: Tensor) -> None:
    _checks.require_floating("vectors", vectors)
    _checks.require_floating("x", x)
    if x.ndim < 1:
        raise FernError("got a scalar", argument="x", expected="shape (..., p)")
    if vectors.ndim < 2 or vectors.shape[-1] != x.shape[-1]:
        expected = f"(..., R, {x.shape[-1]}) to match x"
        raise FernError(f"got shape {tuple(vectors.shape)}", argument="vectors", expected=expected)

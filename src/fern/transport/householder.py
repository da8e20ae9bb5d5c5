"""Products of Householder reflections and the symmetric positive map built on them, in O(R·n)."""

import math

import torch
from torch import Tensor

from fern.errors import FernError
from fern.transport import _checks
from fern.transport._autograd import Push, Reflect


def reflect(
    vectors: Tensor,  # (..., R, p)
    x: Tensor,  # (..., p)
) -> Tensor:
    """U x for U = H_R ... H_1 with H_i = I - 2 v_i v_iᵀ / (v_iᵀ v_i); batch shapes broadcast.

    The vectors need not have unit length: normalising them is part of the map. A zero vector (exactly: one
    whose squared length is below the smallest normal number of its dtype) is the identity and receives a zero
    gradient. R = 0 gives x. Time and memory are O(R·n) for n numbers in x, forward and backward.

    Example:
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

    Fused: one pass forward, one backward, and the backward pass keeps its arguments and U x only. Batch
    shapes broadcast; samples in leading dimensions of x share the vectors without a copy.

    Example:
        >>> spd_push(torch.tensor([[1.0, 1.0]]), torch.tensor([2.0, 3.0]), torch.tensor([1.0, 0.0]))
        tensor([3., 0.])
    """
    _check(vectors, x)
    _checks.floating("eigenvalues", eigenvalues)
    if eigenvalues.ndim < 1 or eigenvalues.shape[-1] != x.shape[-1]:
        raise FernError(f"eigenvalues: got shape {tuple(eigenvalues.shape)}, needs (..., {x.shape[-1]}) to match x")
    grouped = _Groups(vectors, x, eigenvalues)
    result: Tensor = Push.apply(grouped.vectors, grouped.eigenvalues, grouped.x)  # type: ignore[no-untyped-call]
    return grouped.undo(result)


def _turn(vectors: Tensor, x: Tensor, *, back: bool) -> Tensor:
    _check(vectors, x)
    grouped = _Groups(vectors, x, None)
    result: Tensor = Reflect.apply(grouped.vectors, grouped.x, back)  # type: ignore[no-untyped-call]
    return grouped.undo(result)


def _check(vectors: Tensor, x: Tensor) -> None:
    _checks.floating("vectors", vectors)
    _checks.floating("x", x)
    if x.ndim < 1:
        raise FernError("x: got a scalar, needs shape (..., p)")
    if vectors.ndim < 2 or vectors.shape[-1] != x.shape[-1]:
        raise FernError(f"vectors: got shape {tuple(vectors.shape)}, needs (..., R, {x.shape[-1]}) to match x")


class _Groups:
    """Broadcasting without copying.

    Batch dimensions along which vectors and eigenvalues are shared become one dimension of right-hand sides
    (S), the others one dimension of sets (N).
    """

    def __init__(self, vectors: Tensor, x: Tensor, eigenvalues: Tensor | None) -> None:
        sets = [_unexpanded(vectors, 2)] + ([] if eigenvalues is None else [_unexpanded(eigenvalues, 1)])
        given = [vectors.shape[:-2], x.shape[:-1]] + ([] if eigenvalues is None else [eigenvalues.shape[:-1]])
        message = f"batch shapes {', '.join(str(tuple(s)) for s in given)} do not broadcast to one shape"
        batch = _checks.common_shape(message, *given)
        shared = _checks.common_shape(message, sets[0].shape[:-2], *(s.shape[:-1] for s in sets[1:]))
        dtype = x.dtype
        for s in sets:
            dtype = torch.promote_types(dtype, s.dtype)
        shared = torch.Size([1] * (len(batch) - len(shared)) + list(shared))
        self.rows = [d for d in range(len(batch)) if shared[d] == 1 and batch[d] != 1]
        self.columns = [d for d in range(len(batch)) if d not in self.rows]
        self.batch, p = batch, x.shape[-1]
        count = math.prod(batch[d] for d in self.columns)
        repeats = math.prod(batch[d] for d in self.rows)
        spread = x.to(dtype).expand(*batch, p)
        self.x = spread.permute(*self.rows, *self.columns, -1).reshape(repeats, count, p)
        r = vectors.shape[-2]
        self.vectors = sets[0].to(dtype).expand(*shared, r, p).reshape(count, r, p)
        if eigenvalues is not None:
            self.eigenvalues = sets[1].to(dtype).expand(*shared, p).reshape(count, p)

    def undo(self, y: Tensor) -> Tensor:
        """The result (S, N, p) in the broadcast shape of the arguments."""
        order = [*self.rows, *self.columns]
        split = y.reshape(*(self.batch[d] for d in order), y.shape[-1])
        back = sorted(range(len(order)), key=order.__getitem__)
        return split.permute(*back, -1)


def _unexpanded(tensor: Tensor, core: int) -> Tensor:
    """The tensor without the repeats that ``expand`` made (stride 0) in its batch dimensions."""
    for d in range(tensor.ndim - core):
        if tensor.stride(d) == 0 and tensor.shape[d] > 1:
            tensor = tensor.narrow(d, 0, 1)
    return tensor

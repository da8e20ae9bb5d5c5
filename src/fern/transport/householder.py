"""Products of Householder reflections and the symmetric positive map built on them, in O(R·n)."""

import torch
from torch import Tensor

from fern.errors import FernError
from fern.transport import _checks
from fern.transport._autograd import Push, Reflect
from fern.transport._grouping import Grouping


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

    Fused: one pass forward, one backward, and the backward pass keeps its arguments and U x only. Batch
    shapes broadcast; samples in leading dimensions of x share the vectors without a copy.

    Example:
        >>> import torch
        >>> spd_push(torch.tensor([[1.0, 1.0]]), torch.tensor([2.0, 3.0]), torch.tensor([1.0, 0.0]))
        tensor([3., 0.])
    """
    _check(vectors, x)
    _checks.floating("eigenvalues", eigenvalues)
    if eigenvalues.ndim < 1 or eigenvalues.shape[-1] != x.shape[-1]:
        raise FernError(f"eigenvalues: got shape {tuple(eigenvalues.shape)}, needs (..., {x.shape[-1]}) to match x")
    _checks.one_device(vectors=vectors, eigenvalues=eigenvalues, x=x)
    grouping = Grouping.of(x, (vectors, 2), (eigenvalues, 1))
    arguments = grouping.sets(vectors, 2), grouping.sets(eigenvalues, 1), grouping.sides(x)
    if not torch.is_grad_enabled():  # nothing to record: autograd's own bookkeeping takes longer than a small push
        return grouping.undo(Push.plain(*arguments))
    result: Tensor = Push.apply(*arguments)  # type: ignore[no-untyped-call]
    return grouping.undo(result)


def _turn(vectors: Tensor, x: Tensor, *, back: bool) -> Tensor:
    _check(vectors, x)
    _checks.one_device(vectors=vectors, x=x)
    grouping = Grouping.of(x, (vectors, 2))
    arguments = grouping.sets(vectors, 2), grouping.sides(x)
    result: Tensor = Reflect.apply(*arguments, back)  # type: ignore[no-untyped-call]
    return grouping.undo(result)


def _check(vectors: Tensor, x: Tensor) -> None:
    _checks.floating("vectors", vectors)
    _checks.floating("x", x)
    if x.ndim < 1:
        raise FernError("x: got a scalar, needs shape (..., p)")
    if vectors.ndim < 2 or vectors.shape[-1] != x.shape[-1]:
        raise FernError(f"vectors: got shape {tuple(vectors.shape)}, needs (..., R, {x.shape[-1]}) to match x")

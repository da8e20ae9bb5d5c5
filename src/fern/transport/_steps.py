"""The reflections written as torch operations: any device, any floating dtype.

``vectors`` (*sets, R, p), ``eigenvalues`` (*sets, p), ``x`` (*sides, *sets, p): the right-hand sides along the
leading dimensions share a set.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


def weights(vectors: Tensor) -> Tensor:  # (*sets, R, p) -> (*sets, R)
    """The factor 2 / vᵀv of each reflection, 0 (the identity) where vᵀv is below the smallest normal number.

    Where vᵀv overflows the factor is NaN: what cannot be computed must not pass for the identity.
    """
    squared = vectors.square().sum(-1)
    vanishing = squared < torch.finfo(squared.dtype).tiny
    factor = 2.0 / torch.where(vanishing, 1.0, squared)
    return torch.where(vanishing, 0.0, factor).masked_fill(squared.isinf(), torch.nan)


def _reflect_in_order(vectors: Tensor, weight: Tensor, x: Tensor, order: Iterable[int]) -> Tensor:
    for i in order:
        v = vectors[..., i, :]
        x = x - (weight[..., i] * (v * x).sum(-1)).unsqueeze(-1) * v
    return x


def reflect(vectors: Tensor, x: Tensor, *, back: bool) -> Tensor:
    """U x, or Uᵀ x where ``back``."""
    order = range(vectors.shape[-2])
    return _reflect_in_order(vectors, weights(vectors), x, reversed(order) if back else order)


def push(vectors: Tensor, eigenvalues: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(Uᵀ Λ U x, U x)."""
    weight, order = weights(vectors), range(vectors.shape[-2])
    turned = _reflect_in_order(vectors, weight, x, order)
    return _reflect_in_order(vectors, weight, eigenvalues * turned, reversed(order)), turned


def _retrace(
    vectors: Tensor,
    weight: Tensor,
    x: Tensor,  # (*sides, *sets, p) what the reflections gave
    grad: Tensor,  # (*sides, *sets, p) the gradient with respect to it
    order: Iterable[int],  # last applied first
    into: Tensor,  # (*sets, R, p) gradients of the vectors, added to
) -> tuple[Tensor, Tensor]:
    """Walk the reflections backwards: a reflection undoes itself, so no intermediate state is stored.

    With a = w vᵀx and f = w vᵀg before a reflection is undone, it gives x - a v and g - f v, and adds
    a (g - f v) - f (x - a v) to the gradient of v.
    """
    for i in order:
        v = vectors[..., i, :]
        a = (weight[..., i] * (v * x).sum(-1)).unsqueeze(-1)
        f = (weight[..., i] * (v * grad).sum(-1)).unsqueeze(-1)
        x, grad = x - a * v, grad - f * v
        into[..., i, :] += (a * grad - f * x).sum_to_size(v.shape)
    return x, grad


def reflect_backward(vectors: Tensor, y: Tensor, grad: Tensor, *, back: bool) -> tuple[Tensor, Tensor]:
    """Gradients of (vectors, x), given y, the result of `reflect`."""
    order = range(vectors.shape[-2])
    into = torch.zeros_like(vectors)
    _, grad = _retrace(vectors, weights(vectors), y, grad, order if back else reversed(order), into)
    return into, grad


def push_backward(vectors: Tensor, eigenvalues: Tensor, turned: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of (vectors, eigenvalues, x), given ``turned`` = U x."""
    weight, order = weights(vectors), range(vectors.shape[-2])
    into = torch.zeros_like(vectors)
    y = _reflect_in_order(vectors, weight, eigenvalues * turned, reversed(order))
    _, grad = _retrace(vectors, weight, y, grad, order, into)
    grad_eigenvalues = (grad * turned).sum_to_size(eigenvalues.shape)
    _, grad = _retrace(vectors, weight, turned, eigenvalues * grad, reversed(order), into)
    return into, grad_eigenvalues, grad

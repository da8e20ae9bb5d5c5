"""The closed-form Wasserstein distance between two ellipsoids."""

import math

import torch
from torch import Tensor

from fern.errors import FernError
from fern.transport._checks import common_shape
from fern.transport.ellipsoid import Ellipsoid, wide_dtype


def bures_wasserstein_squared(first: Ellipsoid, second: Ellipsoid) -> Tensor:  # (*batch)
    """W2² of two distributions with the same patches: |m1 - m2|² + Σ_patches tr(Σ1 + Σ2 - 2 (Σ1^½ Σ2 Σ1^½)^½).

    Here Σ^½ = √a A is known in factored form, so the only decomposition is one `eigvalsh` of A1 A2² A1 a
    patch: O(p³) time and O(p²) memory, in float64. Eigenvalues below the rounding error of the largest count
    as that error, which keeps the gradient finite and adds at most 3e-8 √(a1 a2) max Λ1 max Λ2 a step to the
    result. Batch shapes broadcast.

    Example:
        >>> no_turn = torch.zeros(1, 0, 1)
        >>> a = Ellipsoid(torch.tensor([[1.0]]), torch.tensor([[0.0]]), no_turn, base_variance=1.0)
        >>> b = Ellipsoid(torch.tensor([[3.0]]), torch.tensor([[2.0]]), no_turn, base_variance=1.0)
        >>> bures_wasserstein_squared(a, b)  # means 0 and 6, deviations 1 and 3
        tensor(40.)
    """
    _check_alike(first, second)
    wide = wide_dtype(first.shift.device)
    a, b = first.patch_jacobians.to(wide), second.patch_jacobians.to(wide)
    product = b @ a
    spectrum = torch.linalg.eigvalsh(product.mT @ product)
    noise = torch.finfo(wide).eps * spectrum.detach().amax(-1, keepdim=True)
    missing = first.patches * first.patch_size - first.horizon  # both maps are 1 on each step beyond the horizon
    cross = torch.maximum(spectrum, noise).sqrt().sum((-2, -1)) - missing
    spread = _total_variance(first) + _total_variance(second)
    spread = spread - 2.0 * math.sqrt(first.base_variance * second.base_variance) * cross
    apart = (first.mean.to(wide) - second.mean.to(wide)).square().sum(-1)
    return (apart + spread.clamp_min(0.0)).to(torch.promote_types(first.shift.dtype, second.shift.dtype))


def _total_variance(distribution: Ellipsoid) -> Tensor:  # (*batch)
    missing = distribution.patches * distribution.patch_size - distribution.horizon
    squares = distribution.eigenvalues.to(wide_dtype(distribution.shift.device)).square()
    return distribution.base_variance * (squares.sum((-2, -1)) - missing)


def _check_alike(first: Ellipsoid, second: Ellipsoid) -> None:
    for name in ("horizon", "patch_size"):
        if getattr(first, name) != getattr(second, name):
            raise FernError(
                f"its {name} is {getattr(second, name)}",
                argument="second",
                expected=f"{getattr(first, name)} as first has",
            )
    problem = f"its batch shape is {tuple(second.batch_shape)}"
    needs = f"one that broadcasts with {tuple(first.batch_shape)} of first"
    common_shape(first.batch_shape, second.batch_shape, problem=problem, argument="second", expected=needs)

"""The diagonal of Uᵀ Λ² U without the matrix."""

import torch
from torch import Tensor

from fern.transport._precision import wide_dtype


def spd_square_diagonal(
    vectors: Tensor,  # (..., R, p)
    eigenvalues: Tensor,  # (..., p)
) -> Tensor:  # (..., p)
    """diag(Uᵀ Λ² U) in O(R²·p) time and O(R·p) memory a set.

    Compact WY form: U = I - Vᵀ Q with Q = L⁻¹ V and L the lower triangle of V Vᵀ with halved diagonal (from
    c_i vᵢᵀvᵢ/2 + Σ_{j<i} vᵢᵀvⱼ c_j = vᵢᵀx, the coefficients of the reflections one after another). Then
    (Uᵀ D U)_kk = D_k (1 - 2 Σ_a V_ak Q_ak) + Q_kᵀ (V D Vᵀ) Q_k.

    The terms cancel where an eigenvalue is small beside the largest, so the sum is taken in float64, and held
    to the bounds min Λ² <= diagonal <= max Λ²: the error of the square root of the diagonal is then below
    1e-7 of the largest eigenvalue.
    """
    wide = wide_dtype(vectors.device)
    v, squares = vectors.to(wide), eigenvalues.to(wide).square()
    gram = v @ v.mT
    lengths = gram.diagonal(dim1=-2, dim2=-1)
    halved = torch.where(lengths < torch.finfo(vectors.dtype).tiny, 1.0, 0.5 * lengths)
    q: Tensor = torch.linalg.solve_triangular(gram.tril(-1) + torch.diag_embed(halved), v, upper=False)
    middle = (v * squares.unsqueeze(-2)) @ v.mT
    diagonal = squares * (1.0 - 2.0 * (v * q).sum(-2)) + (q * (middle @ q)).sum(-2)
    lowest, highest = squares.amin(-1, keepdim=True), squares.amax(-1, keepdim=True)
    bounded = torch.minimum(torch.maximum(diagonal, lowest), highest)
    # The bounds correct rounding only: the gradient is that of the formula.
    return (diagonal + (bounded - diagonal).detach()).to(eigenvalues.dtype)

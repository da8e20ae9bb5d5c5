"""Views of the map A = Uᵀ Λ U of an ellipsoid: the diagonal of A², eigen-summaries by patch, dense matrices."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from fern.caching import cached_njit
from fern.transport.householder import spd_push


def wide_dtype(device: torch.device) -> torch.dtype:
    """float64, or float32 on the one device type (mps) that has nothing wider."""
    return torch.float32 if device.type == "mps" else torch.float64


FEW = 64
"""Up to so many sets, without gradients, one compiled call is quicker than torch's twenty small operations."""


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
    if _takes(vectors, eigenvalues):
        return _few(vectors, eigenvalues)
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


def _takes(vectors: Tensor, eigenvalues: Tensor) -> bool:
    """Whether compiled code may do it: few sets with reflections, on the CPU, and nobody records or traces."""
    return (
        not torch.is_grad_enabled()
        and type(vectors) is Tensor
        and vectors.device.type == "cpu"
        and vectors.dtype in (torch.float32, torch.float64)
        and eigenvalues.dtype == vectors.dtype
        and vectors.shape[:-2] == eigenvalues.shape[:-1]
        and vectors.numel() > 0
        and math.prod(eigenvalues.shape[:-1]) <= FEW
        and torch._C._get_tracing_state() is None
        and not torch.compiler.is_compiling()
    )


def _few(vectors: Tensor, eigenvalues: Tensor) -> Tensor:
    diagonal = torch.empty_like(eigenvalues, memory_format=torch.contiguous_format)
    v = vectors.detach().contiguous().numpy().reshape(-1, *vectors.shape[-2:])
    scales = eigenvalues.detach().contiguous().numpy().reshape(-1, eigenvalues.shape[-1])
    _square_diagonals(v, scales, torch.finfo(vectors.dtype).tiny, diagonal.numpy().reshape(scales.shape))
    return diagonal


@cached_njit(nogil=True, error_model="numpy")
def _square_diagonals(
    vectors: Any,  # (n, R, p)
    eigenvalues: Any,  # (n, p)
    tiny: float,
    out: Any,  # (n, p)
) -> None:
    """The formula of `spd_square_diagonal`, in float64."""
    sets, reflections, size = vectors.shape
    v, q = np.empty((reflections, size)), np.empty((reflections, size))
    middle = np.empty((reflections, reflections))
    squares = np.empty(size)
    for n in range(sets):
        lowest, highest = np.inf, 0.0
        for k in range(size):
            squares[k] = np.float64(eigenvalues[n, k]) * np.float64(eigenvalues[n, k])
            lowest, highest = min(lowest, squares[k]), max(highest, squares[k])
        for a in range(reflections):
            for k in range(size):
                v[a, k] = q[a, k] = vectors[n, a, k]
            for b in range(a + 1):
                inner, weighted = 0.0, 0.0
                for k in range(size):
                    inner += v[a, k] * v[b, k]
                    weighted += v[a, k] * squares[k] * v[b, k]
                middle[a, b] = middle[b, a] = weighted
                by = (1.0 if inner < tiny else 0.5 * inner) if a == b else inner
                for k in range(size):
                    q[a, k] = q[a, k] / by if a == b else q[a, k] - by * q[b, k]
        for k in range(size):
            turned, crossed = 0.0, 0.0
            for a in range(reflections):
                turned += v[a, k] * q[a, k]
                row = 0.0
                for b in range(reflections):
                    row += middle[a, b] * q[b, k]
                crossed += q[a, k] * row
            found = squares[k] * (1.0 - 2.0 * turned) + crossed
            found = lowest if found < lowest else found  # a NaN passes both
            out[n, k] = highest if found > highest else found


class MapViews(Distribution):
    """The part of `Ellipsoid` that looks at the map and not at where the distribution lies."""

    eigenvalues: Tensor  # (*batch, g, p)
    reflections: Tensor  # (*batch, g, R, p)
    base_variance: float
    horizon: int
    patches: int
    patch_size: int

    # --- dense, on demand ----------------------------------------------------------------------------------

    @property
    def jacobian(self) -> Tensor:  # (*batch, H, H)
        """A = Uᵀ Λ U, symmetric with the eigenvalues Λ, as one block-diagonal matrix. O(H²) memory."""
        return self._dense(self.patch_jacobians)

    @property
    def patch_jacobians(self) -> Tensor:  # (*batch, g, p, p)
        """A of each patch; beyond the horizon the identity. O(g·p²) memory."""
        return self._blocks(self.eigenvalues)

    @property
    def covariance_matrix(self) -> Tensor:  # (*batch, H, H)
        """a A², block-diagonal. O(H²) memory."""
        return self._dense(self.base_variance * self._blocks(self.eigenvalues.square()))

    # --- eigen-summaries of the Jacobian, one number a patch -----------------------------------------------

    @property
    def spectral_radius(self) -> Tensor:  # (*batch, g)
        """max Λ: the strongest stretching."""
        return self._spectrum(-math.inf).amax(-1)

    @property
    def trace(self) -> Tensor:  # (*batch, g)
        """Σ Λ."""
        return self._spectrum(0.0).sum(-1)

    @property
    def log_det(self) -> Tensor:  # (*batch, g)
        """Σ log Λ: the log of the change of volume."""
        return self.eigenvalues.log().sum(-1)

    @property
    def condition_number(self) -> Tensor:  # (*batch, g)
        """max Λ / min Λ."""
        return self.spectral_radius / self._spectrum(math.inf).amin(-1)

    @property
    def effective_rank(self) -> Tensor:  # (*batch, g)
        """exp(-Σ q log q) with q = Λ / Σ Λ: from 1 (one direction) to p (a ball). Roy and Vetterli, 2007."""
        trace = self.trace
        # Beyond the horizon Λ is 1, and 1 log 1 = 0.
        return (trace.log() - (self.eigenvalues * self.eigenvalues.log()).sum(-1) / trace).exp()

    # --- inside --------------------------------------------------------------------------------------------

    def _inside(self, device: torch.device) -> Tensor:  # (g, p)
        steps = torch.arange(self.patches * self.patch_size, device=device)
        return (steps < self.horizon).reshape(self.patches, self.patch_size)

    def _spectrum(self, beyond: float) -> Tensor:  # (*batch, g, p)
        """The eigenvalues, with ``beyond`` where the last patch has no step."""
        if self.horizon == self.patches * self.patch_size:
            return self.eigenvalues
        return torch.where(self._inside(self.eigenvalues.device), self.eigenvalues, beyond)

    def _blocks(self, eigenvalues: Tensor) -> Tensor:  # (*batch, g, p) -> (*batch, g, p, p)
        identity = torch.eye(self.patch_size, dtype=eigenvalues.dtype, device=eigenvalues.device)
        vectors = self.reflections.unsqueeze(-3)
        rows = spd_push(vectors, eigenvalues.unsqueeze(-2), identity)
        return 0.5 * (rows + rows.mT)

    def _dense(self, blocks: Tensor) -> Tensor:  # (*batch, g, p, p) -> (*batch, H, H)
        g, p = self.patches, self.patch_size
        patch = torch.arange(g, device=blocks.device)
        dense = blocks.new_zeros(*self.batch_shape, g, p, g, p)
        dense[..., patch, :, patch, :] = blocks.movedim(-3, 0)
        return dense.flatten(-2).flatten(-3, -2)[..., : self.horizon, : self.horizon]

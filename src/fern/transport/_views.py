"""What can be read off the map A = Uᵀ Λ U of an ellipsoid: eigen-summaries for each patch, and dense matrices."""

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from fern.transport.householder import spd_push


class MapViews(Distribution):
    """The part of `Ellipsoid` that looks at the map and not at where the law lies."""

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

"""The predictive law of Fern: independent patches, each a Gaussian ellipsoid in factored form."""

import math
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.nn.functional import pad

from fern.errors import FernError
from fern.transport import _checks
from fern.transport._diagonal import spd_square_diagonal
from fern.transport.householder import spd_push

# With eigenvalues of order 1 to 10 the condition number stays below 1/eps of float32, so that `inverse` and
# `log_prob` keep their meaning in the precision models run in.
EIGENVALUE_FLOOR = 1e-4

NO_SAMPLE_SHAPE = torch.Size()


class Ellipsoid(Distribution):
    r"""The law of y = Uᵀ Λ U (y0 + t) with y0 ~ N(0, aI), independently for each of g patches of length p.

    In each patch U is a product of R Householder reflections (`fern.transport.reflect`), so the law is
    N(At, aA²) with the symmetric Jacobian A = Uᵀ Λ U, the optimal transport map from N(0, aI) plus shift
    (paper, "Methods", Alg. 1). Nothing is stored but Λ, t and the R vectors; no method builds a dense matrix
    except `jacobian`, `patch_jacobians` and `covariance_matrix`. Nothing is cached: keep what is used twice.

    Arguments:
        eigenvalues: (\*batch, g, p), the diagonal of Λ, not negative.
        shift: (\*batch, g, p), t.
        reflections: (\*batch, g, R, p), R >= 0; of any length, a zero vector is the identity.
        base_variance: a, the variance of y0.
        horizon: H with (g-1)p < H <= gp; the last patch then has H - (g-1)p steps: its vectors are cut to
            their first entries, which decouples the rest exactly, and the rest is dropped.
        eigenvalue_floor: eigenvalues below it are raised to it, in every method alike: one law, whose samples
            have the density `log_prob` and whose `push` has the inverse `inverse`. (The gradient of a raised
            eigenvalue is zero.) Without a floor a zero eigenvalue has no density.
        validate_args: shapes are always checked; values (finite, not negative) where True, or where None and
            torch's `Distribution.set_default_validate_args` is on, as it is unless Python runs with -O or
            `torch.compile` was used in the process, which turns it off.

    The batch shape is ``batch``, the event shape (H,). ``eigenvalues``, ``shift`` and ``reflections`` are
    kept broadcast, floored and cut; entries beyond the horizon read 1, 0 and 0.

    Example:
        >>> law = Ellipsoid(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.5]]), torch.zeros(1, 0, 2))
        >>> law.mean, law.variance
        (tensor([3., 1.]), tensor([0.1000, 0.4000]))
    """

    has_rsample = True
    support = constraints.real_vector
    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "eigenvalues": constraints.independent(constraints.positive, 2),  # type: ignore[no-untyped-call]
        "shift": constraints.independent(constraints.real, 2),  # type: ignore[no-untyped-call]
        "reflections": constraints.independent(constraints.real, 3),  # type: ignore[no-untyped-call]
    }

    def __init__(
        self,
        eigenvalues: Tensor,  # (*batch, g, p)
        shift: Tensor,  # (*batch, g, p)
        reflections: Tensor,  # (*batch, g, R, p)
        *,
        base_variance: float = 0.1,
        horizon: int | None = None,
        eigenvalue_floor: float = EIGENVALUE_FLOOR,
        validate_args: bool | None = None,
    ) -> None:
        self.horizon = _checks.ellipsoid_shapes(eigenvalues, shift, reflections, horizon)
        _checks.positive_number("base_variance", base_variance)
        _checks.positive_number("eigenvalue_floor", eigenvalue_floor)
        batch = _checks.common_shape(
            f"batch shapes of eigenvalues {tuple(eigenvalues.shape[:-2])}, shift {tuple(shift.shape[:-2])} and "
            f"reflections {tuple(reflections.shape[:-3])} do not broadcast to one shape",
            eigenvalues.shape[:-2],
            shift.shape[:-2],
            reflections.shape[:-3],
        )
        checked = Distribution._validate_args if validate_args is None else validate_args
        if checked:
            _checks.finite("eigenvalues", eigenvalues)
            _checks.not_negative("eigenvalues", eigenvalues)
            _checks.finite("shift", shift)
            _checks.finite("reflections", reflections)
        self.patches, self.patch_size = eigenvalues.shape[-2:]
        self.base_variance = float(base_variance)
        self.eigenvalue_floor = float(eigenvalue_floor)
        eigenvalues = eigenvalues.clamp_min(eigenvalue_floor)
        if self.horizon < self.patches * self.patch_size:
            inside = self._inside(eigenvalues.device)
            eigenvalues = torch.where(inside, eigenvalues, 1.0)
            shift = torch.where(inside, shift, 0.0)
            reflections = torch.where(inside.unsqueeze(-2), reflections, 0.0)
        self.eigenvalues = eigenvalues.expand(*batch, -1, -1)
        self.shift = shift.expand(*batch, -1, -1)
        self.reflections = reflections.expand(*batch, -1, -1, -1)
        super().__init__(batch, torch.Size([self.horizon]), validate_args=False)
        self._validate_args = checked

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same law with more batch dimensions; no memory is allocated."""
        new = self._get_checked_instance(Ellipsoid, _instance)  # type: ignore[no-untyped-call]
        batch = torch.Size(batch_shape)
        for name in ("horizon", "patches", "patch_size", "base_variance", "eigenvalue_floor"):
            setattr(new, name, getattr(self, name))
        new.eigenvalues = self.eigenvalues.expand(*batch, -1, -1)
        new.shift = self.shift.expand(*batch, -1, -1)
        new.reflections = self.reflections.expand(*batch, -1, -1, -1)
        super(Ellipsoid, new).__init__(batch, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new  # type: ignore[no-any-return]

    # --- the map -------------------------------------------------------------------------------------------

    def push(self, y0: Tensor) -> Tensor:  # (..., H) -> (..., *batch, H)
        """y = Uᵀ Λ U (y0 + t), the transport map itself."""
        self._check_event("y0", y0)
        return self._to_horizon(self._push(self._to_patches(y0) + self.shift))

    def inverse(self, y: Tensor) -> Tensor:  # (..., H) -> (..., *batch, H)
        """y0 = Uᵀ Λ⁻¹ U y - t, so that ``inverse(push(y0))`` is y0."""
        self._check_event("y", y)
        return self._to_horizon(self._source(y))

    def rsample(
        self, sample_shape: Any = NO_SAMPLE_SHAPE, *, generator: torch.Generator | None = None
    ) -> Tensor:  # (*sample, *batch, H)
        """Draws of y, differentiable in the parameters; the generator alone decides them."""
        shape = self._extended_shape(torch.Size(sample_shape))
        noise = torch.randn(shape, generator=generator, dtype=self.shift.dtype, device=self.shift.device)
        return self._to_horizon(self._push(self._to_patches(noise * math.sqrt(self.base_variance)) + self.shift))

    def sample(
        self, sample_shape: Any = NO_SAMPLE_SHAPE, *, generator: torch.Generator | None = None
    ) -> Tensor:  # (*sample, *batch, H)
        """Draws of y without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator=generator)

    # --- the law -------------------------------------------------------------------------------------------

    @property
    def mean(self) -> Tensor:  # (*batch, H)
        """A t: the map at y0 = 0. (The mode and the median as well.)"""
        return self._to_horizon(self._push(self.shift))

    @property
    def mode(self) -> Tensor:  # (*batch, H)
        """The mean."""
        return self.mean

    @property
    def variance(self) -> Tensor:  # (*batch, H)
        """The diagonal of a Uᵀ Λ² U, exact, in O(R²·n) time and O(R·n) memory (compact WY form of U)."""
        return self._to_horizon(self.base_variance * spd_square_diagonal(self.reflections, self.eigenvalues))

    @property
    def stddev(self) -> Tensor:  # (*batch, H)
        """The square root of `variance`."""
        return self.variance.sqrt()

    def log_prob(self, value: Tensor) -> Tensor:  # (..., H) -> (..., *batch)
        """log N(value; At, aA²) = -½ |inverse(value)|² / a - ½ H log(2πa) - log det A."""
        self._check_event("value", value)
        squared = self._source(value).square().sum((-2, -1)) / self.base_variance
        return -0.5 * (squared + self.horizon * math.log(2 * math.pi * self.base_variance)) - self._log_det()

    def mahalanobis(self, value: Tensor) -> Tensor:  # (..., H) -> (..., *batch)
        """The distance sqrt((y - m)ᵀ Σ⁻¹ (y - m)) of each value from the law."""
        self._check_event("value", value)
        length: Tensor = torch.linalg.vector_norm(self._source(value), dim=(-2, -1))
        return length / math.sqrt(self.base_variance)

    def entropy(self) -> Tensor:  # (*batch)
        """½ H log(2πea) + log det A, in nats."""
        return 0.5 * self.horizon * math.log(2 * math.pi * math.e * self.base_variance) + self._log_det()

    def cdf(self, value: Tensor) -> Tensor:  # broadcasts with (*batch, H)
        """P(y_k <= value_k) of each step k on its own (the marginals, not the joint law)."""
        self._check_pointwise("value", value)
        probability: Tensor = torch.special.ndtr((value - self.mean) / self.stddev)
        return probability

    def icdf(self, value: Tensor) -> Tensor:  # broadcasts with (*batch, H)
        """The quantiles of each step on its own at probabilities ``value``."""
        self._check_pointwise("value", value)
        if self._validate_args and value.numel() and not 0 <= value.min().item() <= value.max().item() <= 1:
            raise FernError(f"value: probabilities from {value.min().item():g} to {value.max().item():g}, needs 0 to 1")
        standard: Tensor = torch.special.ndtri(value)
        return self.mean + self.stddev * standard

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

    def _to_patches(self, value: Tensor) -> Tensor:  # (..., H) -> (..., g, p)
        missing = self.patches * self.patch_size - self.horizon
        value = pad(value, (0, missing)) if missing else value
        return value.reshape(*value.shape[:-1], self.patches, self.patch_size)

    def _to_horizon(self, value: Tensor) -> Tensor:  # (..., g, p) -> (..., H)
        return value.flatten(-2)[..., : self.horizon]

    def _push(self, x: Tensor) -> Tensor:  # (..., g, p)
        return spd_push(self.reflections, self.eigenvalues, x)

    def _source(self, y: Tensor) -> Tensor:  # (..., H) -> (..., g, p)
        return spd_push(self.reflections, self.eigenvalues.reciprocal(), self._to_patches(y)) - self.shift

    def _log_det(self) -> Tensor:  # (*batch)
        return self.log_det.sum(-1)

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

    def _check_event(self, name: str, value: Tensor) -> None:
        _checks.event(name, value, self.batch_shape, self.horizon)
        if self._validate_args:
            _checks.finite(name, value)

    def _check_pointwise(self, name: str, value: Tensor) -> None:
        _checks.pointwise(name, value, self.batch_shape, self.horizon)
        if self._validate_args:
            _checks.finite(name, value)

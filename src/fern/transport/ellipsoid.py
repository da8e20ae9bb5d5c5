"""The forecast distribution of Fern: independent patches, each a Gaussian ellipsoid in factored form."""

import math
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.nn.functional import pad

from fern.caching import cached_njit
from fern.errors import FernError
from fern.transport import _checks
from fern.transport.householder import reflect, spd_push


def wide_dtype(device: torch.device) -> torch.dtype:
    """float64, or float32 on the one device type (mps) that has nothing wider."""
    return torch.float32 if device.type == "mps" else torch.float64


FEW_SETS = 64
"""Up to so many sets, without gradients, one compiled call is quicker than torch's twenty small operations."""


def spd_square_diagonal(vectors: Tensor, eigenvalues: Tensor) -> Tensor:  # (..., R, p), (..., p) -> (..., p)
    """diag(Uᵀ Λ² U) in O(R²·p) time and O(R·p) memory a set.

    Compact WY form: U = I - Vᵀ Q with Q = L⁻¹ V and L the lower triangle of V Vᵀ with halved diagonal (from
    c_i vᵢᵀvᵢ/2 + Σ_{j<i} vᵢᵀvⱼ c_j = vᵢᵀx, the coefficients of the reflections one after another). Then
    (Uᵀ D U)_kk = D_k (1 - 2 Σ_a V_ak Q_ak) + Q_kᵀ (V D Vᵀ) Q_k.

    The terms cancel where an eigenvalue is small beside the largest, so the sum is taken in float64, and held
    to the bounds min Λ² <= diagonal <= max Λ²: the error of the square root of the diagonal is then below
    1e-7 of the largest eigenvalue.
    """
    if _fits_kernel(vectors, eigenvalues):
        return _run_kernel(vectors, eigenvalues)
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


def _fits_kernel(vectors: Tensor, eigenvalues: Tensor) -> bool:
    """Whether compiled code may do it: few sets with reflections, on the CPU, and nobody records or traces."""
    return (
        not torch.is_grad_enabled()
        and type(vectors) is Tensor
        and vectors.device.type == "cpu"
        and vectors.dtype in (torch.float32, torch.float64)
        and eigenvalues.dtype == vectors.dtype
        and vectors.shape[:-2] == eigenvalues.shape[:-1]
        and vectors.numel() > 0
        and math.prod(eigenvalues.shape[:-1]) <= FEW_SETS
        and torch._C._get_tracing_state() is None
        and not torch.compiler.is_compiling()
    )


def _run_kernel(vectors: Tensor, eigenvalues: Tensor) -> Tensor:
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


# With eigenvalues of order 1 to 10 the condition number stays below 1/eps of float32, so that `inverse` and
# `log_prob` keep their meaning in the precision models run in.
EIGENVALUE_FLOOR = 1e-4

NO_SAMPLE_SHAPE = torch.Size()


class Ellipsoid(Distribution):
    r"""The distribution of y = Uᵀ Λ U (y0 + t) + o with y0 ~ N(0, aI), independently for each of g patches of length p.

    In each patch U is a product of R Householder reflections (`fern.transport.reflect`), so the distribution is
    N(At + o, aA²) with the symmetric Jacobian A = Uᵀ Λ U, the optimal transport map from N(0, aI) plus shift
    (paper, "Methods", Alg. 1, where o = 0). Nothing is stored but Λ, t, o and the R vectors; no method builds a
    dense matrix except `jacobian`, `patch_jacobians` and `covariance_matrix`. Nothing is cached: keep what is
    used twice.

    Arguments:
        eigenvalues: (\*batch, g, p), the diagonal of Λ, not negative.
        shift: (\*batch, g, p), t; None for none, which saves the work of A·0.
        reflections: (\*batch, g, R, p), R >= 0; of any length, a zero vector is the identity.
        base_variance: a, the variance of y0.
        horizon: H with (g-1)p < H <= gp; the last patch then has H - (g-1)p steps: its vectors are cut to
            their first entries, which decouples the rest exactly, and the rest is dropped.
        eigenvalue_floor: eigenvalues below it are raised to it, in every method alike: one distribution, whose samples
            have the density `log_prob` and whose `push` has the inverse `inverse`. (The gradient of a raised
            eigenvalue is zero.) Without a floor a zero eigenvalue has no density. A number, or a tensor that
            broadcasts with the eigenvalues: a floor is in the units of y, and `affine` scales it with them.
        offset: (\*batch, g, p), o; None for none. It places the distribution without A: a mean that is given as At
            needs t = A⁻¹ mean, which is large where A is small.
        validate_args: shapes are always checked; values (finite, not negative) where True, or where None and
            torch's `Distribution.set_default_validate_args` is on, as it is unless Python runs with -O or
            `torch.compile` was used in the process, which turns it off.

    The batch shape is ``batch``, the event shape (H,). ``eigenvalues``, ``shift``, ``reflections`` and ``offset``
    are kept broadcast, floored and cut; entries beyond the horizon read 1, 0, 0 and 0. A missing ``shift`` reads as
    zeros, a missing ``offset`` stays None.

    Example:
        >>> distribution = Ellipsoid(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.5]]), torch.zeros(1, 0, 2))
        >>> distribution.mean, distribution.variance
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
        shift: Tensor | None,  # (*batch, g, p)
        reflections: Tensor,  # (*batch, g, R, p)
        *,
        offset: Tensor | None = None,  # (*batch, g, p)
        base_variance: float = 0.1,
        horizon: int | None = None,
        eigenvalue_floor: float | Tensor = EIGENVALUE_FLOOR,  # or one that broadcasts with (*batch, g, p)
        validate_args: bool | None = None,
    ) -> None:
        self.horizon = _checks.require_shapes(eigenvalues, reflections, horizon, shift=shift, offset=offset)
        _checks.require_positive_number("base_variance", base_variance)
        _checks.require_floor("eigenvalue_floor", eigenvalue_floor, eigenvalues)
        batch = _checks.find_batch_shape(eigenvalues, reflections, shift=shift, offset=offset)
        checked = Distribution._validate_args if validate_args is None else validate_args
        if checked:
            _checks.require_finite("eigenvalues", eigenvalues)
            _checks.require_not_negative("eigenvalues", eigenvalues)
            _checks.require_finite("reflections", reflections)
            for name, placed in (("shift", shift), ("offset", offset)):
                if placed is not None:
                    _checks.require_finite(name, placed)
        self.patches, self.patch_size = eigenvalues.shape[-2:]
        self.base_variance = float(base_variance)
        self.eigenvalue_floor = eigenvalue_floor
        eigenvalues = eigenvalues.clamp_min(eigenvalue_floor)
        if self.horizon < self.patches * self.patch_size:
            inside = self._inside(eigenvalues.device)
            eigenvalues = torch.where(inside, eigenvalues, 1.0)
            shift = shift if shift is None else torch.where(inside, shift, 0.0)
            offset = offset if offset is None else torch.where(inside, offset, 0.0)
            reflections = torch.where(inside.unsqueeze(-2), reflections, 0.0)
        self._keep(batch, eigenvalues, shift, reflections, offset, checked=checked)

    def _keep(
        self,
        batch: torch.Size,
        eigenvalues: Tensor,
        shift: Tensor | None,
        reflections: Tensor,
        offset: Tensor | None,
        *,
        checked: bool,
    ) -> None:
        """The parameters in the batch shape; no memory is allocated."""
        self._shifted = shift is not None
        shift = eigenvalues.new_zeros(()).expand(eigenvalues.shape) if shift is None else shift
        self.eigenvalues = eigenvalues.expand(*batch, -1, -1)
        self.shift = shift.expand(*batch, -1, -1)
        self.offset = None if offset is None else offset.expand(*batch, -1, -1)
        self.reflections = reflections.expand(*batch, -1, -1, -1)
        super().__init__(batch, torch.Size([self.horizon]), validate_args=False)
        self._validate_args = checked

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same distribution with more batch dimensions; no memory is allocated."""
        new = self._like(_instance)
        shift = self.shift if self._shifted else None
        parts = (self.eigenvalues, shift, self.reflections, self.offset)
        new._keep(torch.Size(batch_shape), *parts, checked=self._validate_args)
        return new

    def affine(
        self,
        scale: float | Tensor,  # > 0, broadcasts with (*batch) or (*batch, 1)
        shift: float | Tensor = 0.0,  # broadcasts with (*batch), (*batch, 1) or (*batch, H)
    ) -> Self:
        """The distribution of scale·y + shift, exactly: eigenvalues and their floor are scaled, the offset is scaled
        and moved.

        Both arguments are read by their number of dimensions: one more than the batch has makes the last one that of
        the steps. So the eigen-summaries of a distribution of scaled data become those in the units of the data.

        Example:
            >>> distribution = Ellipsoid(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.5]]), torch.zeros(1, 0, 2))
            >>> moved = distribution.affine(10.0, 5.0)
            >>> moved.mean, moved.spectral_radius
            (tensor([35., 15.]), tensor([20.]))
        """
        by, to = (self._steps_of(name, value) for name, value in (("scale", scale), ("shift", shift)))
        if by.shape[-1] != 1:
            expected = "one number for each distribution, not for each step"
            raise FernError(f"got shape {tuple(by.shape)}", argument="scale", expected=expected)
        if self._validate_args:
            _checks.require_finite("scale", by)
            _checks.require_finite("shift", to)
            _checks.require_positive("scale", by)
        new = self._like(None)
        by = by.unsqueeze(-1)  # (..., 1, 1)
        eigenvalues = self.eigenvalues * by
        moved = to.unsqueeze(-1) if to.shape[-1] == 1 else self._to_patches(to)
        offset = moved.expand(self.eigenvalues.shape) if self.offset is None else torch.addcmul(moved, self.offset, by)
        if self.horizon < self.patches * self.patch_size:
            inside = self._inside(eigenvalues.device)
            eigenvalues, offset = torch.where(inside, eigenvalues, 1.0), torch.where(inside, offset, 0.0)
        new.eigenvalue_floor = by * self.eigenvalue_floor
        shifted = self.shift if self._shifted else None
        new._keep(self.batch_shape, eigenvalues, shifted, self.reflections, offset, checked=self._validate_args)
        return new

    def _like(self, instance: Any) -> Self:
        """A new distribution with the plain settings of this one."""
        new: Self = self._get_checked_instance(Ellipsoid, instance)  # type: ignore[no-untyped-call]
        for name in ("horizon", "patches", "patch_size", "base_variance", "eigenvalue_floor"):
            setattr(new, name, getattr(self, name))
        return new

    def _steps_of(self, name: str, value: float | Tensor) -> Tensor:  # (..., 1) or (..., H)
        """An argument of `affine` with the steps as its last dimension."""
        value = torch.as_tensor(value, dtype=self.eigenvalues.dtype, device=self.eigenvalues.device)
        if value.ndim <= len(self.batch_shape):
            value = value.unsqueeze(-1)
        if value.shape[-1] not in (1, self.horizon):
            raise FernError(f"got {value.shape[-1]} steps", argument=name, expected=f"1 or {self.horizon}")
        _checks.require_broadcast(torch.Size([*self.batch_shape, value.shape[-1]]), value.shape, name)
        return value

    # --- the map -------------------------------------------------------------------------------------------

    def push(self, y0: Tensor) -> Tensor:  # (..., H) -> (..., *batch, H)
        """y = Uᵀ Λ U (y0 + t) + o, the transport map itself."""
        self._check_event("y0", y0)
        return self._to_horizon(self._map(self._to_patches(y0)))

    def inverse(self, y: Tensor) -> Tensor:  # (..., H) -> (..., *batch, H)
        """y0 = Uᵀ Λ⁻¹ U (y - o) - t, so that ``inverse(push(y0))`` is y0."""
        self._check_event("y", y)
        return self._to_horizon(self._source(y))

    def rsample(
        self, sample_shape: Any = NO_SAMPLE_SHAPE, *, generator: torch.Generator | None = None
    ) -> Tensor:  # (*sample, *batch, H)
        """Draws of y, differentiable in the parameters; the generator alone decides them."""
        shape = self._extended_shape(torch.Size(sample_shape))
        noise = torch.randn(shape, generator=generator, dtype=self.shift.dtype, device=self.shift.device)
        return self._to_horizon(self._map(self._to_patches(noise * math.sqrt(self.base_variance))))

    def sample(
        self, sample_shape: Any = NO_SAMPLE_SHAPE, *, generator: torch.Generator | None = None
    ) -> Tensor:  # (*sample, *batch, H)
        """Draws of y without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator=generator)

    # --- the distribution -------------------------------------------------------------------------------------------

    @property
    def mean(self) -> Tensor:  # (*batch, H)
        """A t + o: the map at y0 = 0. (The mode and the median as well.)"""
        if self._shifted:
            return self._to_horizon(self._add_offset(self._push(self.shift)))
        return self._to_horizon(self.shift if self.offset is None else self.offset)

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
        """log N(value; At + o, aA²) = -½ |inverse(value)|² / a - ½ H log(2πa) - log det A."""
        self._check_event("value", value)
        squared = self._source(value).square().sum((-2, -1)) / self.base_variance
        return -0.5 * (squared + self.horizon * math.log(2 * math.pi * self.base_variance)) - self.log_det.sum(-1)

    def axis_coordinates(self, value: Tensor) -> Tensor:  # (..., H) -> (..., *batch, H)
        """U (value - mean), along the distribution's own axes: independent under the distribution, of deviations
        `axis_stddev`.
        """
        self._check_event("value", value)
        deviation = self._to_patches(value)
        deviation = deviation if self.offset is None else deviation - self.offset
        deviation = deviation - self._push(self.shift) if self._shifted else deviation
        return self._to_horizon(reflect(self.reflections, deviation))

    @property
    def axis_stddev(self) -> Tensor:  # (*batch, H)
        """√a Λ, the deviations along the distribution's own axes."""
        return self._to_horizon(self.eigenvalues) * math.sqrt(self.base_variance)

    def entropy(self) -> Tensor:  # (*batch)
        """½ H log(2πea) + log det A, in nats."""
        return 0.5 * self.horizon * math.log(2 * math.pi * math.e * self.base_variance) + self.log_det.sum(-1)

    def cdf(self, value: Tensor) -> Tensor:  # broadcasts with (*batch, H)
        """P(y_k <= value_k) of each step k on its own (the marginals, not the joint distribution)."""
        self._check_pointwise("value", value)
        probability: Tensor = torch.special.ndtr((value - self.mean) / self.stddev)
        return probability

    def icdf(self, value: Tensor) -> Tensor:  # broadcasts with (*batch, H)
        """The quantiles of each step on its own at probabilities ``value``."""
        self._check_pointwise("value", value)
        if self._validate_args and value.numel() and not 0 <= value.min().item() <= value.max().item() <= 1:
            problem = f"probabilities from {value.min().item():g} to {value.max().item():g}"
            raise FernError(problem, argument="value", expected="0 to 1")
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

    # --- inside --------------------------------------------------------------------------------------------

    def _to_patches(self, value: Tensor) -> Tensor:  # (..., H) -> (..., g, p)
        missing = self.patches * self.patch_size - self.horizon
        value = pad(value, (0, missing)) if missing else value
        return value.reshape(*value.shape[:-1], self.patches, self.patch_size)

    def _to_horizon(self, value: Tensor) -> Tensor:  # (..., g, p) -> (..., H)
        return value.flatten(-2)[..., : self.horizon]

    def _push(self, x: Tensor) -> Tensor:  # (..., g, p)
        return spd_push(self.reflections, self.eigenvalues, x)

    def _map(self, y0: Tensor) -> Tensor:  # (..., g, p)
        return self._add_offset(self._push(y0 + self.shift if self._shifted else y0))

    def _add_offset(self, y: Tensor) -> Tensor:  # (..., g, p)
        return y if self.offset is None else y + self.offset

    def _source(self, y: Tensor) -> Tensor:  # (..., H) -> (..., g, p)
        y = self._to_patches(y)
        y = y if self.offset is None else y - self.offset
        source = spd_push(self.reflections, self.eigenvalues.reciprocal(), y)
        return source - self.shift if self._shifted else source

    def _check_event(self, name: str, value: Tensor) -> None:
        _checks.require_event(name, value, self.batch_shape, self.horizon)
        if self._validate_args:
            _checks.require_finite(name, value)

    def _check_pointwise(self, name: str, value: Tensor) -> None:
        _checks.require_pointwise(name, value, self.batch_shape, self.horizon)
        if self._validate_args:
            _checks.require_finite(name, value)

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

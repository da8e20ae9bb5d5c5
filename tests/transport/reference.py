"""What the transport tests compare with: dense matrices built entry by entry, in float64, and random input."""

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal

from fern.transport import Ellipsoid

DTYPES = (torch.float32, torch.float64)
BATCHES = ((), (1,), (3,), (2, 3))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dense_rotation(vectors: Tensor) -> Tensor:  # (R, p) -> (p, p)
    """U = H_R ... H_1, by multiplying the reflections."""
    wide = vectors.double()
    product = torch.eye(wide.shape[-1], dtype=torch.float64)
    for v in wide:
        if v.norm() > 0:
            product = product - 2.0 * torch.outer(v, v @ product) / (v @ v)
    return product


def dense_push(vectors: Tensor, eigenvalues: Tensor, x: Tensor) -> Tensor:
    """Uᵀ diag(Λ) U x for one set."""
    rotation = dense_rotation(vectors)
    return rotation.T @ (eigenvalues.double() * (rotation @ x.double()))


def plain_loop(vectors: Tensor, eigenvalues: Tensor, x: Tensor) -> Tensor:
    """The push as one would first write it, for autograd to follow."""
    unit = torch.nn.functional.normalize(vectors, dim=-1, eps=0.0)
    for v in unit.unbind(-2):
        x = x - 2.0 * (v * x).sum(-1, keepdim=True) * v
    x = eigenvalues * x
    for v in reversed(unit.unbind(-2)):
        x = x - 2.0 * (v * x).sum(-1, keepdim=True) * v
    return x


@st.composite
def sets(draw: st.DrawFn, dtype: torch.dtype, *, largest: int = 26) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors (..., R, p), eigenvalues (..., p) and x (..., p) of one batch shape, R from 0 to p."""
    p = draw(st.integers(1, largest))
    reflections = draw(st.integers(0, p))
    batch = draw(st.sampled_from([*BATCHES, (9,), (2, 8)]))
    generator = seeded(draw(st.integers(0, 2**31)))
    vectors = torch.randn(*batch, reflections, p, generator=generator, dtype=dtype)
    length = 10.0 ** torch.empty(*batch, reflections, 1, dtype=dtype).uniform_(-3, 3, generator=generator)
    eigenvalues = torch.empty(*batch, p, dtype=dtype).uniform_(0.0, 5.5, generator=generator)
    return vectors * length, eigenvalues, torch.randn(*batch, p, generator=generator, dtype=dtype)


@st.composite
def distributions(draw: st.DrawFn, dtype: torch.dtype, *, batches: tuple[tuple[int, ...], ...] = BATCHES) -> Ellipsoid:
    """Ellipsoids of any batch shape, patch count and size, horizon and R from 0 to p."""
    patches, p = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    horizon = draw(st.integers((patches - 1) * p + 1, patches * p))
    reflections, batch = draw(st.integers(0, p)), draw(st.sampled_from(batches))
    return random_distribution(
        seeded(draw(st.integers(0, 2**31))),
        (*batch, patches, p),
        reflections,
        dtype=dtype,
        horizon=horizon,
        base_variance=draw(st.sampled_from([0.1, 1.0, 2.5])),
        placed_by=draw(st.sampled_from(["shift", "offset", "both"])),
    )


def random_distribution(
    generator: torch.Generator,
    shape: tuple[int, ...],
    reflections: int,
    *,
    dtype: torch.dtype = torch.float64,
    horizon: int | None = None,
    base_variance: float = 0.1,
    placed_by: str = "shift",
) -> Ellipsoid:
    """Eigenvalues from 0.1 to 3: condition numbers up to 30, so that comparisons lose at most two digits."""
    eigenvalues = torch.empty(shape, dtype=dtype).uniform_(0.1, 3.0, generator=generator)
    shift = torch.randn(shape, generator=generator, dtype=dtype)
    vectors = torch.randn(*shape[:-1], reflections, shape[-1], generator=generator, dtype=dtype)
    offset = None if placed_by == "shift" else torch.randn(shape, generator=generator, dtype=dtype)
    return Ellipsoid(
        eigenvalues,
        None if placed_by == "offset" else shift,
        vectors,
        offset=offset,
        horizon=horizon,
        base_variance=base_variance,
    )


@dataclass(frozen=True)
class DenseDistribution:
    """The same distribution with every patch a dense matrix, in float64."""

    blocks: list[Tensor]  # of each patch (*batch, m, m), m = p but for the last
    jacobian: Tensor  # (*batch, H, H)
    shift: Tensor  # (*batch, H)
    offset: Tensor  # (*batch, H)
    base_variance: float

    @classmethod
    def of(cls, distribution: Ellipsoid) -> "DenseDistribution":
        p, batch = distribution.patch_size, distribution.batch_shape
        blocks = []
        for patch in range(distribution.patches):
            m = min(p, distribution.horizon - patch * p)
            count = math.prod(batch)
            vectors = distribution.reflections[..., patch, :, :m].reshape(count, distribution.reflections.shape[-2], m)
            eigenvalues = distribution.eigenvalues[..., patch, :m].reshape(count, m)
            matrices = [
                (u := dense_rotation(v)).T @ torch.diag(e.double()) @ u
                for v, e in zip(vectors, eigenvalues, strict=True)
            ]
            blocks.append(torch.stack(matrices).reshape(*batch, m, m))
        flat = [block.reshape(-1, *block.shape[-2:]) for block in blocks]
        whole = torch.stack([torch.block_diag(*parts) for parts in zip(*flat, strict=True)])
        size = (*batch, distribution.horizon, distribution.horizon)
        shift = distribution.shift.double().flatten(-2)[..., : distribution.horizon]
        offset = (
            torch.zeros_like(shift)
            if distribution.offset is None
            else distribution.offset.double().flatten(-2)[..., : distribution.horizon]
        )
        return cls(blocks, whole.reshape(size), shift, offset, distribution.base_variance)

    @property
    def mean(self) -> Tensor:
        return self.push(torch.zeros_like(self.shift))

    @property
    def covariance(self) -> Tensor:
        return self.base_variance * self.jacobian @ self.jacobian

    @property
    def normal(self) -> MultivariateNormal:
        return MultivariateNormal(self.mean, self.covariance)

    @property
    def marginals(self) -> Normal:
        return Normal(self.mean, self.covariance.diagonal(dim1=-2, dim2=-1).sqrt())

    def apply(self, x: Tensor) -> Tensor:
        return (self.jacobian @ x.double().unsqueeze(-1)).squeeze(-1)

    def push(self, y0: Tensor) -> Tensor:
        return self.apply(y0 + self.shift) + self.offset

    def inverse(self, y: Tensor) -> Tensor:
        apart = (y.double() - self.offset).unsqueeze(-1)
        return torch.linalg.solve(self.jacobian, apart).squeeze(-1) - self.shift

    def per_patch(self, function) -> Tensor:
        return torch.stack([function(block) for block in self.blocks], -1)


def close(ours: Tensor, truth: Tensor, *, float32: float, float64: float) -> None:
    """Equal shape, and equal to the tolerance of the dtype, relative to the largest entry (at least 1)."""
    assert ours.shape == truth.shape
    if not ours.numel():
        return
    tolerance = float32 if ours.dtype == torch.float32 else float64
    scale = max(1.0, truth.abs().max().item())
    worst = (ours.double() - truth).abs().max().item()
    assert math.isfinite(worst)
    assert worst <= tolerance * scale, f"differs by {worst:g}, largest {scale:g}"

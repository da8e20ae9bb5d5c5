"""What the paper claims of the transport map: U is a rotation, any rotation is within reach, and the map is optimal."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.transport.reference import seeded
from torch import Tensor

from fern.transport import Ellipsoid, reflect

sizes = st.integers(1, 24)
seeds = st.integers(0, 2**31)


def rotation(vectors: Tensor) -> Tensor:  # (R, n) -> (n, n)
    """U, column by column."""
    return reflect(vectors[None], torch.eye(vectors.shape[-1], dtype=vectors.dtype)).mT


def random_orthogonal(size: int, seed: int) -> Tensor:  # (n, n)
    drawn = torch.randn(size, size, generator=seeded(seed), dtype=torch.float64)
    turned, triangle = torch.linalg.qr(drawn)
    return turned * triangle.diagonal().sign()


def reflections_of(orthogonal: Tensor) -> Tensor:  # (n, n) -> (n, n) vectors
    """n vectors whose reflections make up the matrix: each brings a column of its transpose to where it belongs."""
    left, vectors = orthogonal.mT.clone(), []
    for column in range(len(left)):
        vector = left[:, column] - torch.eye(len(left), dtype=left.dtype)[column]
        if vector.norm() < 1e-12:
            vector = torch.zeros_like(vector)  # the identity
        else:
            left = left - 2.0 * torch.outer(vector, vector @ left) / (vector @ vector)
        vectors.append(vector)
    return torch.stack(vectors)


@given(size=sizes, seed=seeds, data=st.data())
def test_an_even_number_of_reflections_is_a_rotation_and_an_odd_one_is_not(
    size: int, seed: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, size))
    vectors = torch.randn(count, size, generator=seeded(seed), dtype=torch.float64)
    assert float(torch.linalg.det(rotation(vectors))) == pytest.approx((-1.0) ** count, abs=1e-10)


@given(size=sizes, seed=seeds)
def test_as_many_reflections_as_steps_reach_every_orthogonal_matrix(size: int, seed: int) -> None:
    wanted = random_orthogonal(size, seed)
    vectors = reflections_of(wanted)
    assert vectors.shape == (size, size)
    assert torch.allclose(rotation(vectors), wanted, atol=1e-10)


def test_one_reflection_fewer_does_not_reach_every_orthogonal_matrix() -> None:
    """-I has no fixed direction, and fewer than n reflections always leave one."""
    vectors = torch.randn(3, 4, generator=seeded(1), dtype=torch.float64)
    assert torch.linalg.matrix_rank(rotation(vectors) - torch.eye(4, dtype=torch.float64), atol=1e-9) == 3
    assert torch.allclose(
        rotation(reflections_of(-torch.eye(4, dtype=torch.float64))), -torch.eye(4, dtype=torch.float64)
    )


@given(size=st.integers(1, 12), seed=seeds, data=st.data())
def test_the_map_carries_the_source_at_the_least_cost_there_is(size: int, seed: int, data: st.DataObject) -> None:
    """E|T(y0) - y0|² is W2² between source and distribution, and no other linear map onto the distribution is cheaper
    (Brenier).
    """
    generator = seeded(seed)
    distribution = Ellipsoid(
        eigenvalues=torch.rand(1, size, generator=generator, dtype=torch.float64) * 3 + 0.01,
        shift=torch.randn(1, size, generator=generator, dtype=torch.float64),
        reflections=torch.randn(1, data.draw(st.integers(0, size)), size, generator=generator, dtype=torch.float64),
        horizon=size,
    )
    source = Ellipsoid(
        eigenvalues=torch.ones(1, size, dtype=torch.float64),
        shift=torch.zeros(1, size, dtype=torch.float64),
        reflections=torch.zeros(1, 0, size, dtype=torch.float64),
        horizon=size,
    )
    variance = float(source.variance[0])
    identity = torch.eye(size, dtype=torch.float64)
    matrix = torch.stack(
        [distribution.push(unit) - distribution.mean for unit in identity], dim=1
    )  # T(y0) = A·y0 + mean

    def cost(linear: Tensor) -> float:
        return float(variance * (linear - identity).square().sum() + distribution.mean.square().sum())

    # Of two Gaussians whose covariances commute: |m₁ - m₂|² + Σ(σ₁ - σ₂)² over the common axes.
    deviations = torch.linalg.eigvalsh(distribution.covariance_matrix).clamp_min(0.0).sqrt()
    least = float((deviations - variance**0.5).square().sum() + distribution.mean.square().sum())
    assert cost(matrix) == pytest.approx(least, rel=1e-8, abs=1e-10)
    other = matrix @ random_orthogonal(size, seed)
    assert torch.allclose(variance * other @ other.mT, distribution.covariance_matrix, atol=1e-8)
    assert cost(other) >= least - 1e-9

"""The closed-form Wasserstein distance of ellipsoids against its textbook formula."""

import numpy as np
import ot
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error
from tests.transport.reference import DTYPES, close, distributions, random_distribution, seeded

from fern.transport import Ellipsoid, bures_wasserstein_squared


def textbook(first: Ellipsoid, second: Ellipsoid) -> float:
    """|m1 - m2|² + tr(Σ1 + Σ2 - 2 (Σ1^½ Σ2 Σ1^½)^½) of two distributions without batch, by scipy's matrix root."""
    (m1, s1), (m2, s2) = (
        (distribution.mean.double().numpy(), distribution.covariance_matrix.double().numpy())
        for distribution in (first, second)
    )
    root = scipy.linalg.sqrtm(s1)
    cross = scipy.linalg.sqrtm(root @ s2 @ root)
    return float(((m1 - m2) ** 2).sum() + np.trace(s1 + s2 - 2 * np.real(cross)))


def another(distribution: Ellipsoid, seed: int, base_variance: float) -> Ellipsoid:
    return random_distribution(
        seeded(seed),
        tuple(distribution.eigenvalues.shape),
        distribution.reflections.shape[-2],
        dtype=distribution.shift.dtype,
        horizon=distribution.horizon,
        base_variance=base_variance,
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(data=st.data())
def test_it_equals_the_textbook_formula(dtype, data):
    first = data.draw(distributions(dtype, batches=((),)))
    second = another(first, data.draw(st.integers(0, 1000)), data.draw(st.sampled_from([0.1, 0.7])))
    truth = torch.tensor(textbook(first, second), dtype=torch.float64)
    close(bures_wasserstein_squared(first, second), truth, float32=1e-5, float64=1e-9)


def test_it_equals_pot():
    first = random_distribution(seeded(1), (1, 6), 4)
    second = another(first, 2, 0.3)
    distance = ot.gaussian.bures_wasserstein_distance(
        first.mean.numpy(), second.mean.numpy(), first.covariance_matrix.numpy(), second.covariance_matrix.numpy()
    )
    assert bures_wasserstein_squared(first, second).item() == pytest.approx(float(distance) ** 2, rel=1e-9)


@given(distributions(torch.float64), st.integers(0, 1000))
def test_it_is_a_distance(distribution, seed):
    other = another(distribution, seed, 0.4)
    torch.testing.assert_close(
        bures_wasserstein_squared(distribution, other),
        bures_wasserstein_squared(other, distribution),
        rtol=1e-9,
        atol=1e-9,
    )
    assert (bures_wasserstein_squared(distribution, other) >= 0).all()
    torch.testing.assert_close(
        bures_wasserstein_squared(distribution, distribution),
        torch.zeros(distribution.batch_shape, dtype=torch.float64),
    )


def test_distributions_of_one_frame_differ_by_their_deviations():
    generator = seeded(3)
    vectors = torch.randn(2, 2, 3, 4, generator=generator, dtype=torch.float64)
    e1, e2 = (torch.rand(2, 2, 4, generator=generator, dtype=torch.float64) + 0.1 for _ in range(2))
    nothing = torch.zeros(2, 2, 4, dtype=torch.float64)
    found = bures_wasserstein_squared(Ellipsoid(e1, nothing, vectors), Ellipsoid(e2, nothing, vectors))
    torch.testing.assert_close(found, 0.1 * (e1 - e2).square().sum((-2, -1)))


def test_batches_broadcast():
    one, many = (
        random_distribution(seeded(1), (2, 3), 2, horizon=5),
        random_distribution(seeded(2), (4, 1, 2, 3), 3, horizon=5),
    )
    found = bures_wasserstein_squared(one, many)
    assert found.shape == (4, 1)
    single = Ellipsoid(many.eigenvalues[2, 0], many.shift[2, 0], many.reflections[2, 0], horizon=5)
    torch.testing.assert_close(found[2, 0], bures_wasserstein_squared(one, single))


def test_collapsed_directions_have_finite_values_and_gradients():
    generator = seeded(4)
    eigenvalues = torch.tensor([[0.0, 0.0, 1.0, 5.0]]).requires_grad_()
    vectors = torch.randn(2, 1, 3, 4, generator=generator).requires_grad_()
    first = Ellipsoid(eigenvalues, torch.zeros(1, 4), vectors[0], eigenvalue_floor=1e-8)
    second = Ellipsoid(eigenvalues.flip(-1), torch.zeros(1, 4), vectors[1], eigenvalue_floor=1e-8)
    distance = bures_wasserstein_squared(first, second)
    # tr (Σ1^½ Σ2 Σ1^½)^½ is the sum of the singular values of Σ2^½ Σ1^½, which needs no root of a singular matrix.
    a, b = first.jacobian.detach().double(), second.jacobian.detach().double()
    truth = 0.1 * (a.square().sum() + b.square().sum() - 2 * torch.linalg.svdvals(b @ a).sum())
    assert distance.item() == pytest.approx(truth.item(), rel=1e-6)
    for g in torch.autograd.grad(distance, (eigenvalues, vectors)):
        assert g.isfinite().all()


@pytest.mark.parametrize("horizon", [6, 5])
def test_gradients_equal_finite_differences(horizon):
    generator = seeded(5)
    eigenvalues = torch.empty(2, 2, 3, dtype=torch.float64).uniform_(0.5, 2.0, generator=generator)
    shift = torch.randn(2, 2, 3, generator=generator, dtype=torch.float64)
    vectors = torch.randn(2, 2, 2, 3, generator=generator, dtype=torch.float64)
    other = random_distribution(generator, (2, 2, 3), 3, horizon=horizon)
    arguments = [t.requires_grad_() for t in (eigenvalues, shift, vectors)]
    assert torch.autograd.gradcheck(
        lambda *p: bures_wasserstein_squared(Ellipsoid(*p, horizon=horizon), other), arguments
    )
    assert torch.autograd.gradcheck(
        lambda *p: bures_wasserstein_squared(other, Ellipsoid(*p, horizon=horizon)), arguments
    )


def test_distributions_that_do_not_match_are_refused():
    distribution = random_distribution(seeded(1), (2, 2, 4), 2)
    with raises_error("second"):
        bures_wasserstein_squared(distribution, random_distribution(seeded(1), (2, 2, 4), 2, horizon=7))
    with raises_error("second"):
        bures_wasserstein_squared(distribution, random_distribution(seeded(1), (2, 1, 8), 2))
    with raises_error("second"):
        bures_wasserstein_squared(distribution, random_distribution(seeded(1), (3, 2, 4), 2))

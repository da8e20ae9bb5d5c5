"""Every method of `Ellipsoid` against the same distribution with dense matrices, and what a distribution promises."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error
from tests.transport.reference import DTYPES, DenseDistribution, close, distributions, random_distribution, seeded
from torch import Tensor
from torch.distributions import Distribution, Independent, constraints

from fern.errors import FernError
from fern.transport import Ellipsoid
from fern.transport import ellipsoid as module
from fern.transport.ellipsoid import EIGENVALUE_FLOOR, FEW_SETS, spd_square_diagonal

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)

# name: (of the ellipsoid, of the dense distribution); y is a value, q a probability, both (2, *batch, H)
METHODS = {
    "mean": (lambda distribution, y, q: distribution.mean, lambda dense, y, q: dense.normal.mean),
    "mode": (lambda distribution, y, q: distribution.mode, lambda dense, y, q: dense.normal.mode),
    "variance": (lambda distribution, y, q: distribution.variance, lambda dense, y, q: dense.normal.variance),
    "stddev": (lambda distribution, y, q: distribution.stddev, lambda dense, y, q: dense.normal.stddev),
    "push": (lambda distribution, y, q: distribution.push(y), lambda dense, y, q: dense.push(y)),
    "inverse": (lambda distribution, y, q: distribution.inverse(y), lambda dense, y, q: dense.inverse(y)),
    "log_prob": (
        lambda distribution, y, q: distribution.log_prob(y),
        lambda dense, y, q: dense.normal.log_prob(y.double()),
    ),
    "entropy": (lambda distribution, y, q: distribution.entropy(), lambda dense, y, q: dense.normal.entropy()),
    "cdf": (lambda distribution, y, q: distribution.cdf(y), lambda dense, y, q: dense.marginals.cdf(y.double())),
    "icdf": (lambda distribution, y, q: distribution.icdf(q), lambda dense, y, q: dense.marginals.icdf(q.double())),
    "jacobian": (lambda distribution, y, q: distribution.jacobian, lambda dense, y, q: dense.jacobian),
    "covariance_matrix": (
        lambda distribution, y, q: distribution.covariance_matrix,
        lambda dense, y, q: dense.covariance,
    ),
    "spectral_radius": (
        lambda distribution, y, q: distribution.spectral_radius,
        lambda dense, y, q: dense.per_patch(lambda block: torch.linalg.matrix_norm(block, 2)),
    ),
    "trace": (
        lambda distribution, y, q: distribution.trace,
        lambda dense, y, q: dense.per_patch(lambda block: block.diagonal(dim1=-2, dim2=-1).sum(-1)),
    ),
    "log_det": (lambda distribution, y, q: distribution.log_det, lambda dense, y, q: dense.per_patch(torch.logdet)),
}


def around(distribution: Ellipsoid, seed: int) -> tuple[Tensor, Tensor]:
    """Values near the distribution and probabilities, (2, *batch, H)."""
    generator = seeded(seed)
    y = distribution.sample((2,), generator=generator)
    return y, torch.empty_like(y).uniform_(0.01, 0.99, generator=generator)


# --- the contract: each method is its dense equivalent ------------------------------------------------------


@dtypes
@pytest.mark.parametrize("name", METHODS)
@given(data=st.data())
def test_each_method_equals_its_dense_equivalent(name, dtype, data):
    distribution = data.draw(distributions(dtype))
    y, q = around(distribution, data.draw(st.integers(0, 1000)))
    ours, truth = METHODS[name]
    found = ours(distribution, y, q)
    assert found.dtype == dtype
    # Condition numbers reach 30, squared 900 in Σ⁻¹: rounding of 6e-8 and 1e-16 grows by up to that, times p.
    close(found, truth(DenseDistribution.of(distribution), y, q), float32=5e-4, float64=1e-11)


@dtypes
@given(data=st.data())
def test_the_jacobian_is_symmetric_with_exactly_the_eigenvalues(dtype, data):
    distribution = data.draw(distributions(dtype))
    jacobian = distribution.jacobian
    assert torch.equal(jacobian, jacobian.mT)
    inside = distribution.eigenvalues.flatten(-2)[..., : distribution.horizon].double().sort(-1).values
    close(torch.linalg.eigvalsh(jacobian.double()).to(dtype), inside, float32=3e-6, float64=1e-13)


@dtypes
@given(data=st.data())
def test_inverse_undoes_push(dtype, data):
    distribution = data.draw(distributions(dtype))
    y0 = torch.randn(3, *distribution.batch_shape, distribution.horizon, generator=seeded(0), dtype=dtype)
    close(distribution.inverse(distribution.push(y0)), y0.double(), float32=3e-5, float64=1e-13)
    close(distribution.push(distribution.inverse(y0)), y0.double(), float32=3e-5, float64=1e-13)


@given(distributions(torch.float64))
def test_a_sample_is_the_push_of_the_noise_and_the_push_of_nothing_is_the_mean(distribution):
    sample = distribution.sample((4,), generator=seeded(1))
    noise = torch.randn(4, *distribution.batch_shape, distribution.horizon, generator=seeded(1), dtype=torch.float64)
    torch.testing.assert_close(sample, distribution.push(noise * math.sqrt(distribution.base_variance)), rtol=0, atol=0)
    torch.testing.assert_close(
        distribution.mean, distribution.push(torch.zeros(distribution.horizon, dtype=torch.float64)), rtol=0, atol=0
    )


def test_the_diagonal_is_exact_with_a_large_horizon_and_hard_spectrum():
    # λ from the floor to 5.5 in float32: a difference of float32 terms would lose all of the small ones.
    generator = seeded(3)
    eigenvalues = 10.0 ** torch.empty(4, 2, 60).uniform_(-4, 0.74, generator=generator)
    vectors = torch.randn(4, 2, 60, 60, generator=generator)
    distribution = Ellipsoid(eigenvalues, torch.zeros(4, 2, 60), vectors, base_variance=1.0)
    truth = DenseDistribution.of(distribution).covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    assert ((distribution.stddev.double() - truth).abs() / truth).max() < 1e-6


def test_equal_eigenvalues_make_a_ball_whatever_the_rotation():
    vectors = torch.randn(5, 3, 4, 6, generator=seeded(0), dtype=torch.float64)
    distribution = Ellipsoid(torch.full((5, 3, 6), 2.0, dtype=torch.float64), torch.zeros(5, 3, 6).double(), vectors)
    torch.testing.assert_close(distribution.variance, torch.full((5, 18), 0.4, dtype=torch.float64))
    torch.testing.assert_close(distribution.mean, torch.zeros(5, 18, dtype=torch.float64))


def test_cdf_and_icdf_agree_with_scipy():
    distribution = random_distribution(seeded(8), (2, 3, 5), 4)
    y, q = around(distribution, 9)
    mean, deviation = distribution.mean.numpy(), distribution.stddev.numpy()
    np.testing.assert_allclose(distribution.cdf(y), scipy.stats.norm.cdf(y.numpy(), mean, deviation), rtol=1e-12)
    np.testing.assert_allclose(distribution.icdf(q), scipy.stats.norm.ppf(q.numpy(), mean, deviation), rtol=1e-12)
    torch.testing.assert_close(distribution.cdf(distribution.icdf(q)), q, rtol=1e-12, atol=0)


def test_log_prob_and_entropy_agree_with_scipy():
    distribution = random_distribution(seeded(8), (3, 4), 2, horizon=10)
    y, _ = around(distribution, 9)
    reference = scipy.stats.multivariate_normal(distribution.mean.numpy(), distribution.covariance_matrix.numpy())
    np.testing.assert_allclose(distribution.log_prob(y), reference.logpdf(y.numpy()), rtol=1e-10)
    np.testing.assert_allclose(distribution.entropy(), reference.entropy(), rtol=1e-12)


# --- the short last patch -----------------------------------------------------------------------------------


def test_a_short_last_patch_is_the_distribution_of_the_cut_vectors():
    generator = seeded(2)
    eigenvalues = torch.rand(2, 5, generator=generator, dtype=torch.float64) + 0.5
    shift = torch.randn(2, 5, generator=generator, dtype=torch.float64)
    vectors = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64)
    distribution = Ellipsoid(eigenvalues, shift, vectors, horizon=8)
    last = Ellipsoid(eigenvalues[1:, :3], shift[1:, :3], vectors[1:, :, :3])
    assert distribution.event_shape == (8,)
    torch.testing.assert_close(distribution.mean[5:], last.mean)
    torch.testing.assert_close(distribution.variance[5:], last.variance)
    torch.testing.assert_close(distribution.covariance_matrix[5:, 5:], last.covariance_matrix)
    for name in ("spectral_radius", "trace", "log_det"):
        torch.testing.assert_close(getattr(distribution, name)[1:], getattr(last, name))


def test_what_lies_beyond_the_horizon_has_no_effect_and_no_gradient():
    generator = seeded(2)
    arguments = [
        (torch.rand(2, 5, generator=generator) + 0.5).requires_grad_(),
        torch.randn(2, 5, generator=generator).requires_grad_(),
        torch.randn(2, 3, 5, generator=generator).requires_grad_(),
    ]
    distribution = Ellipsoid(*arguments, horizon=8)
    y = torch.randn(8, generator=generator)
    total = (
        distribution.log_prob(y)
        + distribution.entropy()
        + distribution.variance.sum()
        + distribution.push(y).sum()
        + distribution.spectral_radius.sum()
    )
    for g in torch.autograd.grad(total, arguments):
        assert torch.equal(g[1, ..., 3:], torch.zeros_like(g[1, ..., 3:]))
        assert g[1, ..., :3].abs().min() > 0
    assert distribution.eigenvalues[1, 3:].tolist() == [1.0, 1.0]
    assert distribution.shift[1, 3:].tolist() == [0.0, 0.0]


# --- the floor ----------------------------------------------------------------------------------------------


def test_the_floor_gives_one_distribution_to_every_method():
    eigenvalues = torch.tensor([[0.0, 1e-9, 1.0]], dtype=torch.float64)
    vectors = torch.randn(1, 2, 3, generator=seeded(0), dtype=torch.float64)
    distribution = Ellipsoid(eigenvalues, torch.ones(1, 3).double(), vectors)
    raised = Ellipsoid(eigenvalues.clamp_min(EIGENVALUE_FLOOR), torch.ones(1, 3).double(), vectors)
    y0 = torch.randn(3, generator=seeded(1), dtype=torch.float64)
    torch.testing.assert_close(distribution.inverse(distribution.push(y0)), y0, rtol=1e-9, atol=1e-9)
    assert torch.equal(distribution.push(y0), raised.push(y0))
    assert torch.equal(distribution.log_prob(distribution.push(y0)), raised.log_prob(distribution.push(y0)))
    assert distribution.log_prob(y0).isfinite()
    assert distribution.entropy().isfinite()


def test_numpy_numbers_are_numbers():
    distribution = Ellipsoid(**GOOD, horizon=np.int64(7), base_variance=np.float32(0.5))
    assert distribution.event_shape == (7,)
    assert distribution.variance[0, 0].item() == 0.5


def test_another_floor_may_be_set():
    distribution = Ellipsoid(torch.zeros(1, 3), torch.zeros(1, 3), torch.zeros(1, 0, 3), eigenvalue_floor=0.5)
    assert distribution.eigenvalues.tolist() == [[0.5] * 3]
    assert distribution.stddev.tolist() == pytest.approx([0.5 * math.sqrt(0.1)] * 3)


def test_a_floor_may_differ_from_distribution_to_distribution():
    floors = torch.tensor([0.5, 2.0]).reshape(2, 1, 1)
    distribution = Ellipsoid(torch.ones(2, 1, 3), None, torch.zeros(2, 1, 0, 3), eigenvalue_floor=floors)
    assert distribution.eigenvalues.tolist() == [[[1.0] * 3], [[2.0] * 3]]


# --- another unit -------------------------------------------------------------------------------------------


@dtypes
@given(data=st.data())
def test_affine_is_the_distribution_of_the_scaled_and_moved_values(dtype, data):
    distribution = data.draw(distributions(dtype))
    generator = seeded(data.draw(st.integers(0, 1000)))
    batch = distribution.batch_shape
    steps = data.draw(st.sampled_from([(), (1,), (distribution.horizon,)]))
    scale = 10.0 ** torch.empty(batch, dtype=dtype).uniform_(-2, 2, generator=generator)
    shift = torch.randn((*batch, *steps), generator=generator, dtype=dtype)
    moved = distribution.affine(scale, shift)
    y, q = around(distribution, 1)
    by, to = scale.unsqueeze(-1), shift if steps else shift.unsqueeze(-1)
    image = by * y + to
    # One rounding of an image that may be 100 times its distribution's spread away from zero, in a distance of
    # condition 30.
    both = {"float32": 2e-2, "float64": 1e-9} if dtype == torch.float32 else {"float32": 0, "float64": 1e-9}
    exact = {"float32": 1e-5, "float64": 1e-13}
    close(moved.mean, (by * distribution.mean + to).double(), **exact)
    close(moved.stddev / by, distribution.stddev.double(), **exact)
    close(moved.push(y), (by * distribution.push(y) + to).double(), **exact)
    close(
        moved.sample((2,), generator=seeded(3)),
        (by * distribution.sample((2,), generator=seeded(3)) + to).double(),
        **exact,
    )
    close(moved.icdf(q), (by * distribution.icdf(q) + to).double(), **exact)
    close(moved.spectral_radius / by, distribution.spectral_radius.double(), **exact)
    close(moved.log_prob(image) + distribution.horizon * scale.log(), distribution.log_prob(y).double(), **both)
    close(moved.cdf(image), distribution.cdf(y).double(), **both)


def test_affine_keeps_a_distribution_exact_below_the_floor_of_the_old_unit():
    distribution = Ellipsoid(torch.full((1, 2), 1e-5), None, torch.zeros(1, 0, 2), base_variance=1.0)
    moved = distribution.affine(1e-6)
    assert moved.stddev.tolist() == pytest.approx([1e-10, 1e-10])
    again = Ellipsoid(
        moved.eigenvalues, None, moved.reflections, base_variance=1.0, eigenvalue_floor=moved.eigenvalue_floor
    )
    assert torch.equal(again.stddev, moved.stddev)


def test_affine_and_expand_may_follow_each_other():
    distribution = random_distribution(seeded(5), (3, 2, 4), 2, horizon=7, placed_by="both")
    scale, shift = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64), torch.arange(3.0, dtype=torch.float64)
    first, second = distribution.affine(scale, shift).expand((2, 3)), distribution.expand((2, 3)).affine(scale, shift)
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(first.stddev, second.stddev)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"scale": 0.0}, "scale"),
        ({"scale": torch.tensor([1.0, -2.0, 1.0])}, "scale"),
        ({"scale": math.nan}, "scale"),
        ({"scale": torch.ones(3, 7)}, "scale"),
        ({"scale": torch.ones(4)}, "scale"),
        ({"scale": 1.0, "shift": torch.ones(3, 5)}, "shift"),
        ({"scale": 1.0, "shift": math.inf}, "shift"),
    ],
)
def test_a_wrong_affine_map_is_named(arguments, argument):
    distribution = random_distribution(seeded(5), (3, 2, 4), 2, horizon=7)
    with raises_error(argument):
        distribution.affine(**arguments)


@given(distributions(torch.float64))
def test_along_its_axes_a_distribution_is_independent_with_the_axis_deviations(distribution):
    y, _ = around(distribution, 4)
    found = distribution.axis_coordinates(y)
    distance = (found / distribution.axis_stddev).square().sum(-1)
    whitened = distribution.inverse(y).square().sum(-1) / distribution.base_variance
    close(distance, whitened, float32=0, float64=1e-11)
    close(found.square().sum(-1), (y - distribution.mean).square().sum(-1), float32=0, float64=1e-11)


# --- sampling -----------------------------------------------------------------------------------------------


def test_mean_and_covariance_of_samples_converge():
    distribution = random_distribution(seeded(5), (2, 2, 4), 3, horizon=7)
    errors = []
    for count in (1_000, 100_000):
        sample = distribution.sample((count,), generator=seeded(6))
        mean, covariance = distribution.mean, distribution.covariance_matrix
        apart = sample - mean
        found = torch.einsum("sbi,sbj->bij", apart, apart) / count
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        # Wick: var of a product of two Gaussians; five standard errors each.
        spread = (diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2) + covariance.square()).div(count).sqrt()
        assert ((found - covariance).abs() <= 5 * spread).all()
        assert ((sample.mean(0) - mean).abs() <= 5 * (diagonal / count).sqrt()).all()
        errors.append((found - covariance).abs().mean())
    assert errors[1] < errors[0] / 5  # ten times fewer in the mean


def test_samples_are_decided_by_the_generator_alone():
    distribution = random_distribution(seeded(5), (2, 3, 4), 2, horizon=11)
    first = distribution.rsample((3,), generator=seeded(1))
    torch.manual_seed(99)
    assert torch.equal(first, distribution.rsample((3,), generator=seeded(1)))
    assert not torch.equal(first, distribution.rsample((3,), generator=seeded(2)))
    state = torch.get_rng_state()
    distribution.sample((3,), generator=seeded(1))
    assert torch.equal(state, torch.get_rng_state())


def test_without_a_generator_samples_follow_torch_s_own():
    distribution = random_distribution(seeded(5), (2, 3, 4), 2)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = distribution.sample((2,))
        torch.manual_seed(3)
        assert torch.equal(first, distribution.sample((2,)))
    assert first.shape == (2, 2, 12)
    assert distribution.sample().shape == (2, 12)


def test_rsample_carries_gradients_and_sample_does_not():
    eigenvalues = torch.ones(2, 3, requires_grad=True)
    distribution = Ellipsoid(eigenvalues, torch.zeros(2, 3), torch.zeros(2, 0, 3))
    assert distribution.rsample((4,), generator=seeded(0)).requires_grad
    assert not distribution.sample((4,), generator=seeded(0)).requires_grad


# --- gradients ----------------------------------------------------------------------------------------------


def parameters() -> tuple[Tensor, Tensor, Tensor]:
    generator = seeded(7)
    eigenvalues = torch.empty(2, 2, 3, dtype=torch.float64).uniform_(0.5, 2.0, generator=generator)
    shift = torch.randn(2, 2, 3, generator=generator, dtype=torch.float64)
    vectors = torch.randn(2, 2, 2, 3, generator=generator, dtype=torch.float64)
    return eigenvalues.requires_grad_(), shift.requires_grad_(), vectors.requires_grad_()


@pytest.mark.parametrize("horizon", [6, 5])
@pytest.mark.parametrize("name", [*METHODS, "rsample"])
def test_gradients_equal_finite_differences(name, horizon):
    y = torch.randn(2, horizon, generator=seeded(3), dtype=torch.float64, requires_grad=True)
    q = torch.full((2, horizon), 0.3, dtype=torch.float64, requires_grad=True)
    ours = (
        METHODS[name][0]
        if name in METHODS
        else lambda distribution, y, q: distribution.rsample((2,), generator=seeded(0))
    )

    def function(eigenvalues: Tensor, shift: Tensor, vectors: Tensor, y: Tensor, q: Tensor) -> Tensor:
        return ours(Ellipsoid(eigenvalues, shift, vectors, horizon=horizon), y, q)

    assert torch.autograd.gradcheck(function, (*parameters(), y, q))


def test_the_variance_has_its_gradient_where_all_eigenvalues_are_equal():
    _, shift, vectors = parameters()
    equal = torch.ones(2, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda e, v: Ellipsoid(e, shift.detach(), v).variance, (equal, vectors))


# --- a torch distribution -----------------------------------------------------------------------------------


def test_it_is_a_torch_distribution_over_the_horizon():
    distribution = random_distribution(seeded(1), (2, 3, 2, 4), 2, horizon=7)
    assert isinstance(distribution, Distribution)
    assert distribution.has_rsample
    assert distribution.batch_shape == (2, 3)
    assert distribution.event_shape == (7,)
    assert distribution.support is constraints.real_vector
    assert distribution.support.check(distribution.sample((5,))).shape == (5, 2, 3)
    for name, constraint in distribution.arg_constraints.items():
        assert constraint.check(getattr(distribution, name)).all(), name
    assert "eigenvalues: torch.Size([2, 3, 2, 4])" in repr(distribution)
    joint = Independent(distribution, 1)
    y = distribution.sample((5,), generator=seeded(0))
    torch.testing.assert_close(joint.log_prob(y), distribution.log_prob(y).sum(-1))


@given(distributions(torch.float64))
def test_an_expanded_distribution_is_the_same_distribution_without_new_memory(distribution):
    wide = distribution.expand((4, *distribution.batch_shape))
    assert wide.batch_shape == (4, *distribution.batch_shape)
    assert wide.eigenvalues.data_ptr() == distribution.eigenvalues.data_ptr()
    y = distribution.sample((4,), generator=seeded(0))
    q = torch.full_like(y, 0.2)
    for name, (ours, _) in METHODS.items():
        narrow = ours(distribution, y, q)
        torch.testing.assert_close(ours(wide, y, q), narrow.expand(ours(wide, y, q).shape), msg=name)
    assert wide.rsample((2,), generator=seeded(0)).shape == (2, 4, *distribution.batch_shape, distribution.horizon)


def test_parameters_of_different_batch_shapes_broadcast():
    generator = seeded(0)
    eigenvalues = torch.rand(2, 4, generator=generator) + 0.5
    shift, vectors = torch.randn(5, 1, 2, 4, generator=generator), torch.randn(3, 2, 1, 4, generator=generator)
    distribution = Ellipsoid(eigenvalues, shift, vectors)
    assert distribution.batch_shape == (5, 3)
    one = Ellipsoid(eigenvalues, shift[4, 0], vectors[2])
    for name, (ours, _) in METHODS.items():
        y = distribution.sample(generator=seeded(0))
        q = torch.full_like(y, 0.4)
        torch.testing.assert_close(ours(distribution, y, q)[4, 2], ours(one, y[4, 2], q[4, 2]), msg=name)


# --- bad input ----------------------------------------------------------------------------------------------

GOOD = {"eigenvalues": torch.ones(3, 2, 4), "shift": torch.zeros(3, 2, 4), "reflections": torch.ones(3, 2, 1, 4)}


def with_entry(name: str, value: float) -> Tensor:
    changed = GOOD[name].clone()
    changed.view(-1)[5] = value
    return changed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eigenvalues": torch.ones(4)}, "eigenvalues: "),
        ({"eigenvalues": torch.ones(2, 4).long()}, "eigenvalues: "),
        ({"eigenvalues": torch.ones(3, 0, 4)}, "eigenvalues: "),
        ({"eigenvalues": with_entry("eigenvalues", -0.5)}, "eigenvalues: "),
        ({"eigenvalues": with_entry("eigenvalues", torch.nan)}, "eigenvalues: "),
        ({"shift": torch.zeros(3, 2, 5)}, "shift: "),
        ({"shift": torch.zeros(4)}, "shift: "),
        ({"shift": with_entry("shift", torch.inf)}, "shift: "),
        ({"shift": [0.0]}, "shift: "),
        ({"reflections": torch.ones(3, 2, 4)}, "reflections: "),
        ({"reflections": torch.ones(3, 2, 1, 5)}, "reflections: "),
        ({"reflections": with_entry("reflections", -torch.inf)}, "reflections: "),
        ({"shift": torch.zeros(7, 2, 4)}, r"batch shapes of eigenvalues \(3,\), shift \(7,\), reflections \(3,\)"),
        ({"horizon": 9}, "horizon: "),
        ({"horizon": 4}, "horizon: "),
        ({"horizon": 7.0}, "horizon: "),
        ({"base_variance": 0.0}, "base_variance: "),
        ({"base_variance": math.nan}, "base_variance: "),
        ({"base_variance": "a"}, "base_variance: "),
        ({"eigenvalue_floor": 0.0}, "eigenvalue_floor: "),
    ],
)
def test_wrong_parameters_are_named(changes, message):
    with pytest.raises(FernError, match=message):
        Ellipsoid(**{**GOOD, **changes})


def test_shapes_are_checked_even_where_values_are_not():
    with pytest.raises(FernError, match="shift"):
        Ellipsoid(**{**GOOD, "shift": torch.zeros(3, 2, 5)}, validate_args=False)
    distribution = Ellipsoid(**{**GOOD, "shift": with_entry("shift", torch.nan)}, validate_args=False)
    assert distribution.mean.isnan().any()
    with raises_error("y0"):
        distribution.push(torch.zeros(7))


def test_validation_follows_torch_s_default():
    bad = {**GOOD, "shift": with_entry("shift", torch.nan)}
    Distribution.set_default_validate_args(False)
    try:
        Ellipsoid(**bad)
    finally:
        Distribution.set_default_validate_args(True)
    with pytest.raises(FernError, match="shift"):
        Ellipsoid(**bad)


@pytest.mark.parametrize("method", ["push", "inverse", "log_prob"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.zeros(7), r"got shape \(7,\), needs \(..., 8\)"),
        (torch.zeros(()), r"got shape \(\), needs \(..., 8\)"),
        (torch.zeros(4, 8), r"got shape \(4, 8\), needs one that broadcasts with \(3, 8\)"),
        (torch.zeros(8).long(), "floating"),
        (torch.full((8,), torch.nan), "8 of 8 values are NaN or infinite"),
    ],
)
def test_wrong_values_are_named(method, value, message):
    with pytest.raises(FernError, match=message):
        getattr(Ellipsoid(**GOOD), method)(value)


def test_wrong_probabilities_and_marginal_values_are_named():
    distribution = Ellipsoid(**GOOD)
    with raises_error("value"):
        distribution.icdf(torch.tensor([0.5] * 7 + [1.5]))
    with raises_error("value"):
        distribution.cdf(torch.zeros(5))
    with raises_error("value"):
        distribution.icdf(torch.tensor(torch.nan))
    assert distribution.icdf(torch.tensor(0.9)).shape == (3, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("sets", "reflections", "size"), [((1, 1, 4), 8, 24), ((3, 2), 2, 1), ((FEW_SETS,), 5, 7)])
def test_few_sets_without_gradients_have_the_diagonal_of_many_with(
    sets: tuple[int, ...], reflections: int, size: int, dtype: torch.dtype
) -> None:
    rng = torch.Generator().manual_seed(0)
    vectors = torch.randn(*sets, reflections, size, generator=rng, dtype=dtype)
    vectors[..., 0, :] = 0.0  # reflects nothing
    eigenvalues = torch.logspace(-3, 3, size, dtype=dtype) * torch.rand(*sets, size, generator=rng, dtype=dtype)
    recorded = spd_square_diagonal(vectors, eigenvalues.clone().requires_grad_())
    with torch.no_grad():
        assert module._fits_kernel(vectors, eigenvalues)
        compiled = spd_square_diagonal(vectors, eigenvalues)
    assert recorded.requires_grad
    tolerance = 4 * torch.finfo(dtype).eps * float(recorded.detach().max())
    torch.testing.assert_close(compiled, recorded.detach(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("place", ["vectors", "eigenvalues"])
def test_a_value_that_is_none_is_not_lost_on_the_way(place: str) -> None:
    given = {"vectors": torch.ones(2, 3, 4), "eigenvalues": torch.ones(2, 4)}
    given[place].view(2, -1)[0, 1] = torch.nan
    with torch.no_grad():
        found = spd_square_diagonal(**given)
    assert found[0].isnan().all()
    assert found[1].isfinite().all()

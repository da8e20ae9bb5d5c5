"""The clamp that bends: identity inside, bounded, smooth. The one that leaks: rising everywhere."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fern.models.fern_parts.clamps import (
    LEAKY_RESIDUAL,
    LEAKY_ROTATION,
    LEAKY_SHIFT,
    ROTATION,
    SCALE,
    SHIFT,
    LeakyBounds,
    SoftBounds,
    leaky_clamp,
    plain_leaky_clamp,
    soft_clamp,
)

BOUNDS = pytest.mark.parametrize("bounds", [SCALE, ROTATION, SHIFT])


def grid(bounds: SoftBounds) -> Tensor:
    reach = 5 * (bounds.high - bounds.low)
    return torch.linspace(bounds.low - reach, bounds.high + reach, 20_001, dtype=torch.float64)


@BOUNDS
def test_identity_exactly_on_the_linear_part(bounds: SoftBounds) -> None:
    x = torch.linspace(bounds.linear_low, bounds.linear_high, 501)
    assert torch.equal(soft_clamp(x, bounds), x)
    assert bounds.linear_high - bounds.linear_low == pytest.approx(0.8 * (bounds.high - bounds.low))


def test_a_raw_scale_of_one_is_one_and_a_raw_shift_of_zero_is_zero() -> None:
    for bounds, value in ((SCALE, 1.0), (ROTATION, 1.0), (ROTATION, 0.0), (SHIFT, 0.0)):
        assert float(soft_clamp(torch.tensor(value), bounds)) == value


@BOUNDS
@given(x=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_no_finite_number_leaves_the_bounds(bounds: SoftBounds, x: float) -> None:
    y = float(soft_clamp(torch.tensor(x), bounds))
    assert bounds.low <= y <= bounds.high


@BOUNDS
def test_increasing_and_saturating(bounds: SoftBounds) -> None:
    y = soft_clamp(grid(bounds), bounds)
    assert (y.diff() > 0).all()
    far = soft_clamp(torch.tensor([-1e30, 1e30]), bounds)
    assert far.tolist() == pytest.approx([bounds.low, bounds.high])


@BOUNDS
def test_gradient_is_the_cube_of_r_continuous_and_slow_to_vanish(bounds: SoftBounds) -> None:
    x = grid(bounds).requires_grad_()
    (slope,) = torch.autograd.grad(soft_clamp(x, bounds).sum(), x)
    w = (x - x.clamp(bounds.linear_low, bounds.linear_high)) / bounds.knee
    assert torch.allclose(slope, (1 + w.square()) ** -1.5, rtol=1e-9, atol=0)  # autograd cancels a few digits
    # Between neighbours on the grid the slope cannot jump: its own slope is below 0.9 / knee everywhere.
    step = float((x[1] - x[0]).detach())
    assert slope.diff().abs().max() < 0.9 / bounds.knee * step
    assert slope.min() > 1e-6  # five ranges outside


@BOUNDS
def test_gradient_equals_finite_differences(bounds: SoftBounds) -> None:
    x = torch.linspace(bounds.low - 3, bounds.high + 3, 97, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda raw: soft_clamp(raw, bounds), (x,))


@BOUNDS
def test_nan_stays_nan(bounds: SoftBounds) -> None:
    assert soft_clamp(torch.tensor(torch.nan), bounds).isnan()


@pytest.mark.parametrize("bounds", [LEAKY_RESIDUAL, LEAKY_ROTATION, LEAKY_SHIFT])
def test_the_leaky_clamp_rises_everywhere_and_leaks_a_tenth_outside(bounds: LeakyBounds) -> None:
    x = torch.linspace(-100, 100, 4001, dtype=torch.float64)
    y = leaky_clamp(x, bounds)
    slope = y.diff() / x.diff()
    assert (slope > 0.099).all()
    assert (slope < 1.001).all()
    assert torch.allclose(slope[:100], torch.full((100,), 0.1, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(slope[-100:], torch.full((100,), 0.1, dtype=torch.float64), atol=1e-6)


@pytest.mark.parametrize("size", [1, 8, 37])
@pytest.mark.parametrize("bounds", [LEAKY_RESIDUAL, LEAKY_ROTATION, LEAKY_SHIFT])
def test_the_kernels_are_as_exact_as_float32(bounds: LeakyBounds, size: int) -> None:
    x = torch.cat((torch.linspace(-60, 60, size), torch.tensor([1e4, -1e4, 0.0]))).requires_grad_()
    y = leaky_clamp(x, bounds)
    (slope,) = torch.autograd.grad(y.sum(), x)
    exact = x.detach().double().requires_grad_()
    wanted = plain_leaky_clamp(exact, bounds)
    (wanted_slope,) = torch.autograd.grad(wanted.sum(), exact)
    assert ((y - wanted).abs() <= 3e-7 * exact.abs().clamp_min(bounds.high - bounds.low)).all()
    assert (slope - wanted_slope).abs().max() < 3e-7
    assert leaky_clamp(torch.tensor([torch.nan]), bounds).isnan().all()


@pytest.mark.parametrize("width", [8, 16, 7])
def test_half_of_a_wider_array_is_clamped_as_a_copy_of_it_is(width: int) -> None:
    whole = torch.randn(5, 2 * width, generator=torch.Generator().manual_seed(1))
    for half in whole.chunk(2, dim=-1):
        assert torch.equal(leaky_clamp(half, LEAKY_SHIFT), leaky_clamp(half.clone(), LEAKY_SHIFT))
        expected = plain_leaky_clamp(half.double(), LEAKY_SHIFT)
        assert torch.allclose(leaky_clamp(half, LEAKY_SHIFT).double(), expected, rtol=1e-6, atol=1e-6)
    assert leaky_clamp(torch.empty(0, 8), LEAKY_SHIFT).shape == (0, 8)

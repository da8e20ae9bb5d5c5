"""The soft clamp: identity inside, bounded, smooth."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fern.models.fern_parts.softclamp import ROTATION, SCALE, SHIFT, SoftBounds, soft_clamp

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

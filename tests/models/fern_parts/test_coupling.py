"""The fused updates against the plain operations that define them, and both clamps."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from fern.models.fern_parts import coupling
from fern.models.fern_parts.coupling import (
    LEAKY_RESIDUAL,
    LEAKY_ROTATION,
    LEAKY_SCALE,
    LEAKY_SHIFT,
    ROTATION,
    SCALE,
    SHIFT,
    LeakyBounds,
    SoftBounds,
    affine_update,
    clamp_pair,
    leaky_clamp,
    leaky_update,
    plain_leaky_clamp,
    rotating_update,
    soft_clamp,
)

UPDATES = pytest.mark.parametrize("update", [affine_update, rotating_update])


def raw_and_state(rows: int, size: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Raw values on both sides of every bound."""
    generator = Generator().manual_seed(seed)
    raw = 12 * torch.randn(rows, 2 * size, generator=generator, dtype=dtype)
    return raw, 5 * torch.randn(rows, size, generator=generator, dtype=dtype)


def stated(update: Callable[..., Tensor], raw: Tensor, state: Tensor) -> Tensor:
    """The update as the paper words it, element by element."""
    size = state.shape[1]
    rotating = update is rotating_update
    scale = soft_clamp(raw[:, :size], ROTATION if rotating else SCALE)
    shift = soft_clamp(raw[:, size:], SHIFT)
    columns = []
    for j in range(size):
        if not rotating or (j % 2 == 0 and j == size - 1):
            columns.append(scale[:, j] * state[:, j] + shift[:, j])
        elif j % 2 == 0:
            columns.append(scale[:, j] * state[:, j] - scale[:, j + 1] * state[:, j + 1] + shift[:, j])
        else:
            columns.append(scale[:, j] * state[:, j - 1] + scale[:, j - 1] * state[:, j] + shift[:, j])
    return torch.stack(columns, dim=1)


@UPDATES
@given(rows=st.integers(1, 5), size=st.integers(1, 19), seed=st.integers(0, 1000))
def test_update_is_what_the_paper_states_with_its_gradients(
    update: Callable[..., Tensor], rows: int, size: int, seed: int
) -> None:
    inputs = [tensor.requires_grad_() for tensor in raw_and_state(rows, size, seed)]
    ours, theirs = update(*inputs), stated(update, *inputs)
    assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    weight = torch.randn(ours.shape, generator=Generator().manual_seed(seed + 1), dtype=ours.dtype)
    for mine, expected in zip(
        torch.autograd.grad((ours * weight).sum(), inputs),
        torch.autograd.grad((theirs * weight).sum(), inputs),
        strict=True,
    ):
        assert torch.allclose(mine, expected, rtol=1e-10, atol=1e-12)


@UPDATES
def test_plain_operations_of_other_devices_give_the_same_update(update: Callable[..., Tensor]) -> None:
    for size in (6, 7):
        raw, state = raw_and_state(4, size, seed=size)
        plain = coupling._plain_update(raw, state, rotating=update is rotating_update)
        assert torch.allclose(update(raw, state), plain, rtol=1e-12, atol=1e-12)


@UPDATES
def test_derivatives_equal_finite_differences(update: Callable[..., Tensor]) -> None:
    inputs = tuple(tensor.requires_grad_() for tensor in raw_and_state(2, 5, seed=4))
    assert torch.autograd.gradcheck(update, inputs)


def test_clamped_pair_and_its_derivatives() -> None:
    raw, _ = raw_and_state(3, 5, seed=2)
    scale, shift = clamp_pair(raw)
    assert torch.allclose(scale, soft_clamp(raw[:, :5], SCALE), rtol=1e-12, atol=1e-12)
    assert torch.allclose(shift, soft_clamp(raw[:, 5:], SHIFT), rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(clamp_pair, (raw.requires_grad_(),))


def test_single_precision_agrees_with_double() -> None:
    raw, state = raw_and_state(4, 33, seed=5)
    for update in (affine_update, rotating_update):
        assert torch.allclose(update(raw.float(), state.float()).double(), update(raw, state), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("place", [0, 3, 6, 11])
def test_nan_goes_through_and_never_becomes_a_number(dtype: torch.dtype, place: int) -> None:
    raw, state = raw_and_state(1, 6, seed=1, dtype=dtype)
    raw[0, place] = torch.nan
    scale, shift = clamp_pair(raw)
    assert torch.cat((scale, shift), dim=1).isnan().sum() == 1
    assert affine_update(raw, state)[0, place % 6].isnan()
    assert rotating_update(raw, state)[0, place % 6].isnan()


def test_extreme_raw_values_reach_the_bounds_and_stay_finite() -> None:
    raw = torch.tensor([[3e38, -3e38, 3e38, -3e38]])
    scale, shift = clamp_pair(raw)
    assert scale.tolist() == [[5.5, 0.0]]
    assert shift.tolist() == [[15.0, -15.0]]


def test_strided_arguments_and_gradients_are_accepted() -> None:
    raw, state = raw_and_state(8, 4, seed=6)
    wide = torch.stack((raw, raw), dim=-1).requires_grad_()
    out = affine_update(wide[..., 0], state)
    out.t().sum(0).sum().backward()
    assert torch.equal(out.detach(), affine_update(raw, state))
    assert wide.grad is not None
    assert wide.grad[..., 0].abs().sum() > 0


def test_other_dtypes_take_the_plain_operations() -> None:
    raw, state = raw_and_state(2, 4, seed=3, dtype=torch.bfloat16)
    assert affine_update(raw, state).dtype == torch.bfloat16


class _Heap:
    """Memory handed out piece by piece without a gap, as an allocator may do: the worst neighbourhood there is."""

    def __init__(self) -> None:
        self.memory, self.taken = torch.zeros(1 << 14), 0

    def take(self, size: int) -> Tensor:
        self.taken += size
        return self.memory[self.taken - size : self.taken]

    def place(self, values: Tensor) -> Tensor:
        placed = self.take(values.numel()).view(values.shape)
        placed.copy_(values)
        return placed


@UPDATES
@pytest.mark.parametrize("inputs_first", [True, False])
def test_the_last_bit_does_not_depend_on_what_lies_beside_an_array(
    update: Callable[..., Tensor], inputs_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A float32 loop that the compiler believes to overlap rounds otherwise than the one beside it."""
    values = raw_and_state(6, 96, seed=3, dtype=torch.float32)
    weight = torch.randn(6, 96, generator=Generator().manual_seed(4))

    def updated(raw: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        inputs = [raw.requires_grad_(), state.requires_grad_()]
        out = update(*inputs)
        return out.detach().clone(), *torch.autograd.grad(out, inputs, weight)

    expected = updated(*(part.clone() for part in values))
    heap = _Heap()
    if not inputs_first:
        heap.take(1 << 12)
    placed = [heap.place(part).detach() for part in (values if inputs_first else values[::-1])]
    if not inputs_first:
        placed, heap.taken = placed[::-1], 0
    monkeypatch.setattr(Tensor, "new_empty", lambda self, size: heap.take(size))
    for mine, theirs in zip(updated(*placed), expected, strict=True):
        assert torch.equal(mine, theirs)


# --- the update that leaks ------------------------------------------------------------


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return 4 * torch.randn(shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("width", [6, 7])
@pytest.mark.parametrize("rotating", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_the_update_and_its_gradients_are_those_of_plain_operations(residual: bool, rotating: bool, width: int) -> None:
    inputs = [drawn(5, width, seed=seed).requires_grad_() for seed in (1, 2, 3)]
    made = leaky_update(*inputs, residual=residual, rotating=rotating)
    bounds = LEAKY_ROTATION if rotating else LEAKY_RESIDUAL if residual else LEAKY_SCALE
    plain = coupling._plain_leaky_update(*inputs, bounds, residual, rotating)
    torch.testing.assert_close(made, plain)
    weights = drawn(5, width, seed=4)
    for ours, theirs in zip(
        torch.autograd.grad((made * weights).sum(), inputs),
        torch.autograd.grad((plain * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


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

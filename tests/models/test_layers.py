"""Layers that models share."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error
from torch import Generator, Tensor, nn
from torch.nn.functional import conv1d, pad

from fern.models.layers import (
    Dropout,
    RevIN,
    cut_patches,
    decompose,
    draw_from,
    moving_average,
    predict_in_blocks,
    require_kernel,
    weights_on_average,
)


def test_dropout_keeps_the_mean_and_zeroes_at_its_rate() -> None:
    layer = Dropout(0.3)
    with draw_from(layer, Generator().manual_seed(1)):
        out = layer(torch.ones(100_000))
    # 100,000 draws: the share zeroed is known to 0.0015.
    assert float((out == 0).float().mean()) == pytest.approx(0.3, abs=0.007)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dropout_of_neighbours_is_independent(dtype: torch.dtype) -> None:
    layer = Dropout(0.3)
    with draw_from(layer, Generator().manual_seed(1)):
        seen = [layer(torch.ones(100_000, dtype=dtype)) for _ in range(2)]
    shifted = [seen[0].roll(lag) for lag in (1, 2, 4, 8, 64, 1024)]
    # 100,000 draws: a correlation of 0 is known to 0.003.
    assert float(torch.corrcoef(torch.stack((*seen, *shifted)))[0, 1:].abs().max()) < 0.015


def test_dropout_drops_the_same_numbers_in_the_gradient_and_in_the_gradients_gradient() -> None:
    layer = Dropout(0.3)
    x, towards = torch.ones(4, 6).t().requires_grad_(), torch.ones(6, 4, requires_grad=True)
    with draw_from(layer, Generator().manual_seed(1)):
        out = layer(x)
    (first,) = torch.autograd.grad(out, x, towards, create_graph=True)
    (second,) = torch.autograd.grad(first, towards, torch.ones(6, 4))
    assert torch.equal(first, out)
    assert torch.equal(second, out)


def test_dropout_draws_from_the_generator_it_is_handed_and_from_no_other() -> None:
    model = nn.Sequential(nn.Identity(), nn.Sequential(Dropout(0.5)))
    x, before = torch.ones(64), torch.get_rng_state()
    drawn = []
    for seed in (1, 1, 2):
        with draw_from(model, Generator().manual_seed(seed)):
            drawn.append(model(x))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(torch.get_rng_state(), before)
    assert model[1][0].generator is None


def test_dropout_is_the_identity_in_evaluation_and_at_rate_zero() -> None:
    x = torch.ones(64)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_rate_outside_its_range_is_refused(rate: float) -> None:
    with raises_error("dropout"):
        Dropout(rate)


def noise(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(size, generator=Generator().manual_seed(seed), dtype=torch.float64)


def averaged_by_convolution(x: Tensor, kernel: int) -> Tensor:  # (B, C, T)
    """The moving average as a convolution with equal weights over a series whose ends are repeated."""
    weights = torch.full((1, 1, kernel), 1.0 / kernel, dtype=x.dtype)
    rows = pad(x.reshape(-1, 1, x.shape[-1]), (kernel // 2, kernel // 2), mode="replicate")
    return conv1d(rows, weights).view(x.shape)


@given(st.integers(0, 20).map(lambda half: 2 * half + 1), st.integers(1, 60), st.integers(0, 1000))
def test_moving_average_is_the_convolution_with_repeated_ends(kernel: int, length: int, seed: int) -> None:
    x = noise(2, 3, length, seed=seed)
    assert torch.allclose(moving_average(x, kernel), averaged_by_convolution(x, kernel), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("kernel", "length"), [(1, 4), (3, 2), (5, 9), (25, 7)])
def test_moving_average_has_the_gradient_of_the_convolution(kernel: int, length: int) -> None:
    x = noise(2, 1, length).requires_grad_()
    towards = noise(2, 1, length, seed=1)
    (ours,) = torch.autograd.grad(moving_average(x, kernel), x, towards)
    (plain,) = torch.autograd.grad(averaged_by_convolution(x, kernel), x, towards)
    assert torch.allclose(ours, plain, rtol=0, atol=1e-13)
    assert torch.autograd.gradgradcheck(lambda values: moving_average(values, kernel), x)


@given(st.integers(0, 20).map(lambda half: 2 * half + 1), st.integers(1, 60), st.integers(0, 1000))
def test_weights_on_the_average_do_to_a_series_what_the_weights_do_to_its_average(
    kernel: int, length: int, seed: int
) -> None:
    x, weight = noise(2, 3, length, seed=seed), noise(4, length, seed=seed + 1).requires_grad_()
    ours, plain = x @ weights_on_average(weight, kernel).T, averaged_by_convolution(x, kernel) @ weight.T
    assert torch.allclose(ours, plain, rtol=0, atol=1e-12)
    towards = noise(2, 3, 4, seed=seed + 2)
    gradients = [torch.autograd.grad(out, weight, towards)[0] for out in (ours, plain)]
    assert torch.allclose(*gradients, rtol=0, atol=1e-12)


def test_moving_average_in_single_precision_stays_within_its_rounding() -> None:
    x = 1000.0 + noise(4, 336)
    # A mean of 25 numbers near 1000 is known to about one unit in the last place of 1000, which is 6e-5.
    assert torch.allclose(moving_average(x.float(), 25).double(), moving_average(x.float().double(), 25), atol=1.3e-4)


def test_decomposition_splits_a_series_into_trend_and_the_rest() -> None:
    x = noise(2, 3, 40)
    seasonal, trend = decompose(x, 25)
    assert torch.allclose(trend, averaged_by_convolution(x, 25), rtol=0, atol=1e-13)
    assert torch.allclose(seasonal + trend, x, rtol=0, atol=1e-14)


def test_a_straight_line_is_all_trend_away_from_its_ends() -> None:
    seasonal, _ = decompose(torch.arange(40.0, dtype=torch.float64), 5)
    assert seasonal[2:-2].abs().max() < 1e-12
    assert seasonal[0] != 0


@pytest.mark.parametrize("kernel", [0, -1, 24, 2.5, True, "3"])
def test_a_kernel_without_a_middle_is_refused_by_name(kernel: object) -> None:
    with raises_error("smoothing"):
        require_kernel("smoothing", kernel)


@pytest.mark.parametrize("affine", [False, True])
@given(level=st.floats(-1e3, 1e3), spread=st.floats(1e-3, 1e3), seed=st.integers(0, 1000))
def test_revin_gives_back_exactly_what_it_took(affine: bool, level: float, spread: float, seed: int) -> None:
    layer = RevIN(3, affine=affine).double()
    if affine:
        with torch.no_grad():
            layer.weight.uniform_(0.5, 2.0, generator=Generator().manual_seed(seed))
            layer.bias.normal_(generator=Generator().manual_seed(seed + 1))
    x = level + spread * noise(2, 3, 30, seed=seed)
    restored = layer.restore(*layer.normalise(x))
    # The affine form divides by w + 1e-10 after multiplying by w, as published: relative 2e-10 of the spread.
    assert torch.allclose(restored, x, rtol=1e-13, atol=1e-12 * spread + (1e-9 * spread if affine else 0.0))


def test_revin_makes_every_series_of_mean_zero_and_variance_one() -> None:
    z, statistics = RevIN(3).normalise(5.0 + 2.0 * noise(4, 3, 50))
    assert z.mean(dim=-1).abs().max() < 1e-13
    assert torch.allclose(z.var(dim=-1, correction=0), torch.ones(4, 3, dtype=torch.float64), rtol=1e-4)
    assert statistics.mean.shape == statistics.stddev.shape == (4, 3, 1)


def test_revin_keeps_a_constant_series_finite_and_restores_it() -> None:
    layer, x = RevIN(1), torch.full((1, 1, 5), 7.0)
    z, statistics = layer.normalise(x)
    assert torch.equal(z, torch.zeros_like(x))
    assert torch.equal(layer.restore(z, statistics), x)


def test_revin_scales_each_channel_by_its_own_weight_and_passes_no_gradient_through_the_statistics() -> None:
    layer = RevIN(2, affine=True).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([2.0, 3.0]))
        layer.bias.copy_(torch.tensor([0.5, -1.0]))
    x = noise(1, 2, 6).requires_grad_()
    z, statistics = layer.normalise(x)
    plain = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    weight, bias = torch.tensor([[2.0], [3.0]]), torch.tensor([[0.5], [-1.0]])
    assert torch.allclose(z, weight * plain + bias, rtol=0, atol=1e-13)
    (gradient,) = torch.autograd.grad(z.sum(), x)
    assert torch.allclose(gradient, (weight / statistics.stddev).expand_as(x), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("length", "size", "stride"), [(50, 16, 8), (16, 16, 8), (336, 16, 8), (7, 3, 2), (9, 2, 5)])
def test_patches_cover_the_series_and_its_repeated_last_value(length: int, size: int, stride: int) -> None:
    x = noise(2, length)
    padded = torch.cat([x] + [x[:, -1:]] * stride, dim=1)
    expected = [padded[:, start : start + size] for start in range(0, length + stride - size + 1, stride)]
    patches = cut_patches(x, size=size, stride=stride)
    assert torch.equal(patches, torch.stack(expected, dim=1))
    assert patches.shape[1] == (length - size) // stride + 2


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 60))
def test_blocks_cover_every_window_once_and_in_order(batch: int, channels: int, rows: int) -> None:
    past, sizes = noise(batch, 2, channels), []

    def predict(part: Tensor) -> Tensor:
        sizes.append(len(part))
        return 2.0 * part

    assert torch.equal(predict_in_blocks(predict, past, rows=rows), 2.0 * past)
    assert sum(sizes) == batch
    assert max(sizes) <= max(1, rows // channels)

"""The blocked feed-forward part against the plain operations."""

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import gelu, linear

from fern.models.layers import Dropout, added_feedforward, feedforward
from fern.models.layers.feedforward import BLOCK, NARROW


def dropping(rate: float, seed: int = 1) -> Dropout:
    layer = Dropout(rate)
    layer.generator = Generator().manual_seed(seed)
    return layer


def inputs(rows: int, width: int, inner: int, outputs: int) -> list[Tensor]:
    """x, then weight and bias of both maps."""
    generator = Generator().manual_seed(3)
    sizes = [(rows, width), (inner, width), (inner,), (outputs, inner), (outputs,)]
    return [torch.randn(size, generator=generator).requires_grad_() for size in sizes]


def graded(out: Tensor, given: list[Tensor]) -> list[Tensor]:
    towards = torch.randn(out.shape, generator=Generator().manual_seed(4)).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, given, towards)]


def ours(given: list[Tensor], dropout: Dropout) -> list[Tensor]:
    x, w1, b1, w2, b2 = given
    return graded(feedforward(x, (w1, b1), (w2, b2), dropout), given)


def plain(given: list[Tensor], mask: Tensor | float = 1.0) -> list[Tensor]:
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    x, w1, b1, w2, b2 = exact
    return graded(linear(mask * gelu(linear(x, w1, b1)), w2, b2), exact)


def assert_same(mine: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(mine, expected, strict=True):
        # Relative to the largest: entries are sums of up to thousands of numbers, some of which cancel.
        assert float((a.double() - b).abs().max()) <= 1e-5 * float(b.abs().max())


@pytest.mark.parametrize(
    ("rows", "width", "inner", "outputs"),
    [
        (1, 1, 16, 1),
        (37, 5, 48, 3),
        (37, 5, 21, 3),  # no multiple of what the loops take at a time
        (BLOCK // 64 + 3, 4, 64, 2),  # a whole block and a bit
        (37, NARROW, 32, 2),
    ],
)
def test_values_and_gradients_are_those_of_the_plain_operations(
    rows: int, width: int, inner: int, outputs: int
) -> None:
    given = inputs(rows, width, inner, outputs)
    assert_same(ours(given, Dropout(0.0)), plain(given))


def masks(dropout: Dropout, rows: int, inner: int) -> Tensor:  # (rows, inner)
    """The masks themselves: the inner numbers are 32, where gelu is the identity, and the second map is none."""
    first = torch.zeros(inner, 1), torch.full((inner,), 32.0)
    second = torch.eye(inner) / 32.0, torch.zeros(inner)
    return feedforward(torch.zeros(rows, 1), first, second, dropout)


def test_dropout_zeroes_inner_numbers_at_its_rate_independently() -> None:
    seen = masks(dropping(0.3), BLOCK // 64 + 100, 64)
    # 137,000 draws: the share zeroed is known to 0.0012.
    assert float((seen == 0).float().mean()) == pytest.approx(0.3, abs=0.006)
    assert torch.allclose(seen[seen > 0], torch.tensor(1 / 0.7), rtol=1e-4)
    for lag in (1, 8, 16, 64, BLOCK):
        pair = torch.stack((seen.flatten()[lag:], seen.flatten()[:-lag]))
        assert abs(float(torch.corrcoef(pair)[0, 1])) < 5.0 / pair.shape[1] ** 0.5


def test_dropped_numbers_are_dropped_in_the_gradient_too() -> None:
    given = inputs(50, 4, 32, 3)
    mask = masks(dropping(0.4), 50, 32).double()
    assert_same(ours(given, dropping(0.4)), plain(given, mask))


def test_masks_are_a_function_of_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = (masks(dropping(0.5, seed), 9, 16) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_single_vector_and_further_leading_dimensions_keep_their_shape() -> None:
    maps = (torch.ones(16, 2), torch.zeros(16)), (torch.ones(3, 16), torch.zeros(3))
    assert feedforward(torch.zeros(2), *maps, Dropout(0.0)).shape == (3,)
    assert feedforward(torch.zeros(4, 5, 2), *maps, Dropout(0.0)).shape == (4, 5, 3)


@pytest.mark.parametrize(
    ("columns", "width", "inner", "outputs"),
    [(1, 1, 16, 1), (37, 5, 48, 3), (37, 5, 21, 3), (BLOCK // 64 + 3, 4, 64, 2)],
)
def test_the_added_form_has_vectors_as_columns_and_the_same_values_and_gradients(
    columns: int, width: int, inner: int, outputs: int
) -> None:
    x, *maps = inputs(columns, width, inner, outputs)
    base = torch.randn(outputs, columns, generator=Generator().manual_seed(5)).requires_grad_()
    turned = x.detach().T.contiguous().requires_grad_()
    w1, b1, w2, b2 = maps
    mine = graded(added_feedforward(base, turned, (w1, b1), (w2, b2)), [base, turned, *maps])
    exact = [tensor.detach().double().requires_grad_() for tensor in (base, turned, *maps)]
    base, turned, w1, b1, w2, b2 = exact
    assert_same(mine, graded(base + linear(gelu(linear(turned.T, w1, b1)), w2, b2).T, exact))

"""Attention against its formula, and its dropout."""

import pytest
import torch
from torch import Generator, Tensor

from fern.models.layers import Dropout, attend

SHAPES = pytest.mark.parametrize(
    ("rows", "tokens", "width", "heads"), [(1, 1, 1, 1), (5, 3, 6, 2), (8, 7, 8, 2), (19, 42, 15, 3), (16, 10, 32, 2)]
)


def drawn(*size: int, seed: int) -> Tensor:
    return torch.randn(size, generator=Generator().manual_seed(seed))


def dropping(rate: float, seed: int = 1) -> Dropout:
    layer = Dropout(rate)
    layer.generator = Generator().manual_seed(seed)
    return layer


def assert_same(ours: tuple[Tensor, ...], plain: tuple[Tensor, ...]) -> None:
    for mine, expected in zip(ours, plain, strict=True):
        # Single precision over sums of dozens of numbers of about 1.
        assert torch.allclose(mine.double(), expected, rtol=1e-5, atol=1e-5)


@SHAPES
@pytest.mark.parametrize("residual", [False, True])
def test_attention_is_its_formula_with_its_gradient(
    rows: int, tokens: int, width: int, heads: int, residual: bool
) -> None:
    qkv, towards = drawn(rows, tokens, 3 * width, seed=1).requires_grad_(), drawn(rows, tokens, width, seed=2)
    before = drawn(rows * heads, tokens, tokens, seed=3) if residual else None
    exact = qkv.detach().double().requires_grad_()
    ours, passed_on = attend(qkv, before, heads=heads, dropout=Dropout(0.0), residual=residual)
    made = []
    for head in range(heads):
        query, key, value = exact.view(rows, tokens, 3, heads, -1)[:, :, :, head].unbind(2)
        scores = query @ key.mT / query.shape[-1] ** 0.5
        scores = scores if before is None else scores + before.view(rows, heads, tokens, tokens)[:, head]
        made.append(scores.softmax(dim=-1) @ value)
    plain = torch.cat(made, dim=-1)
    assert (passed_on is not None) == residual
    assert_same(
        (ours, *torch.autograd.grad(ours, qkv, towards)),
        (plain, *torch.autograd.grad(plain, exact, towards.double())),
    )


def weights(dropout: Dropout, rows: int, tokens: int) -> Tensor:  # (rows, tokens, tokens)
    """The masks themselves: equal scores, and as values the unit vectors."""
    qkv = torch.zeros(rows, tokens, 3 * tokens)
    qkv[..., 2 * tokens :] = tokens * torch.eye(tokens)
    return attend(qkv, heads=1, dropout=dropout)[0]


def test_dropout_zeroes_weights_at_its_rate_and_keeps_the_mean() -> None:
    seen = weights(dropping(0.3), rows=100, tokens=31)
    # 96,100 draws: the share zeroed is known to 0.0015.
    assert float((seen == 0).float().mean()) == pytest.approx(0.3, abs=0.007)
    assert torch.allclose(seen[seen > 0], torch.tensor(1 / 0.7), rtol=1e-4)
    for dim in range(3):  # neighbours are independent along rows, queries and keys
        size = seen.shape[dim] - 1
        pair = torch.stack((seen.narrow(dim, 0, size).flatten(), seen.narrow(dim, 1, size).flatten()))
        assert abs(float(torch.corrcoef(pair)[0, 1])) < 0.015


def test_dropout_is_a_function_of_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = (weights(dropping(0.5, seed), rows=9, tokens=5) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("residual", [False, True])
def test_dropped_weights_are_dropped_in_the_gradient_too(residual: bool) -> None:
    rows, tokens, width = 11, 7, 5
    mask = weights(dropping(0.4), rows, tokens).double()
    qkv, towards = drawn(rows, tokens, 3 * width, seed=1).requires_grad_(), drawn(rows, tokens, width, seed=2)
    exact = qkv.detach().double().requires_grad_()
    query, key, value = exact.split(width, dim=-1)
    plain = ((query @ key.transpose(1, 2) / width**0.5).softmax(dim=-1) * mask) @ value
    ours, _ = attend(qkv, heads=1, dropout=dropping(0.4), residual=residual)
    assert_same(
        (ours, *torch.autograd.grad(ours, qkv, towards)),
        (plain, *torch.autograd.grad(plain, exact, towards.double())),
    )

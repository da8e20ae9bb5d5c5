"""Compiled attention against the plain operations that define it."""

import pytest
import torch
from torch import Generator, Tensor

from fern.models.layers import Dropout, _attend_plainly, attend

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
def test_layers_that_pass_their_scores_on_are_the_plain_operations_with_their_gradients(
    rows: int, tokens: int, width: int, heads: int
) -> None:
    layers = [drawn(rows, tokens, 3 * width, seed=seed).requires_grad_() for seed in range(3)]
    towards = [drawn(rows, tokens, width, seed=seed) for seed in range(3, 6)]

    def chain(way: object, inputs: list[Tensor]) -> tuple[Tensor, ...]:
        scores, outs = None, []
        for qkv in inputs:
            attended, scores = way(qkv, scores, heads=heads, dropout=Dropout(0.0), residual=True)
            outs.append(attended)
        grads = torch.autograd.grad(outs, inputs, [given.to(outs[0].dtype) for given in towards])
        return (*outs, *grads)

    doubles = [layer.detach().double().requires_grad_() for layer in layers]
    assert_same(chain(attend, layers), chain(_attend_plainly, doubles))


@SHAPES
def test_attention_without_scores_is_the_plain_operation_with_its_gradient(
    rows: int, tokens: int, width: int, heads: int
) -> None:
    qkv, towards = drawn(rows, tokens, 3 * width, seed=1).requires_grad_(), drawn(rows, tokens, width, seed=2)
    exact = qkv.detach().double().requires_grad_()
    ours, none = attend(qkv, heads=heads, dropout=Dropout(0.0))
    plain, _ = _attend_plainly(exact, None, heads=heads, dropout=Dropout(0.0), residual=False)
    assert none is None
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


def test_scores_far_apart_and_not_a_number_come_through_as_in_torch() -> None:
    qkv = 200.0 * drawn(9, 6, 12, seed=1)
    qkv[3, 2, 0] = float("nan")
    ours, _ = attend(qkv, heads=2, dropout=Dropout(0.0))
    plain, _ = _attend_plainly(qkv.double(), None, heads=2, dropout=Dropout(0.0), residual=True)
    assert torch.equal(ours.isnan(), plain.isnan())
    # Scores of about 10⁵ are known to 0.01 in single precision; most weights are 0 or 1.
    close = torch.isclose(ours.double(), plain, rtol=2e-2, atol=1.0, equal_nan=True)
    assert float(close.double().mean()) > 0.95

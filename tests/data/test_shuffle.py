"""The stored-nowhere permutation is a permutation, and a random one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fern.data.windows import ROUNDS, Permutation

keys = st.lists(st.integers(0, 2**32 - 1), min_size=ROUNDS, max_size=ROUNDS)


@given(size=st.integers(1, 5_000), keys=keys)
def test_every_item_comes_exactly_once(size: int, keys: list[int]) -> None:
    order = Permutation(size, keys=keys)(np.arange(size))
    assert np.array_equal(np.sort(order), np.arange(size))


@given(size=st.integers(2, 5_000), keys=keys, cut=st.integers(1, 4_999))
def test_batches_of_the_order_are_slices_of_it(size: int, keys: list[int], cut: int) -> None:
    order = Permutation(size, keys=keys)
    cut = min(cut, size - 1)
    whole = order(np.arange(size))
    assert np.array_equal(whole, np.concatenate([order(np.arange(cut)), order(np.arange(cut, size))]))


@pytest.mark.parametrize("size", [2545, 10_000, 25_000])
def test_the_order_looks_random(size: int) -> None:
    rng = np.random.default_rng(3)
    trials = 200
    first, lag = np.empty(trials), np.empty(trials)
    for trial in range(trials):
        order = Permutation(size, keys=rng.integers(0, 2**32, ROUNDS).tolist())(np.arange(size))
        first[trial] = order[0] / size
        lag[trial] = np.corrcoef(order[:-1], order[1:])[0, 1]
    # Uniform first items: mean 1/2 within 4 standard errors (σ = 1/√12). Neighbours uncorrelated: each
    # correlation has σ = 1/√size, so its mean over the trials is within 4/√(size·trials).
    assert abs(first.mean() - 0.5) < 4 / np.sqrt(12 * trials)
    assert abs(lag.mean()) < 4 / np.sqrt(size * trials)
    assert np.abs(lag).max() < 5 / np.sqrt(size)


def test_different_keys_give_different_orders() -> None:
    positions = np.arange(1000)
    one = Permutation(1000, keys=[1] * ROUNDS)(positions)
    two = Permutation(1000, keys=[2] + [1] * (ROUNDS - 1))(positions)
    assert (one == two).mean() < 0.05

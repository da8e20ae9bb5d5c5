"""The order of the windows and their division over processes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fern.data.windows import Windows
from fern.training.runtime import EpochOrder


def numbered(count: int) -> Windows:
    """Windows whose past is their own number."""
    return Windows(torch.arange(float(count + 1))[:, None], context_length=1, horizon=1)


def numbers(order: EpochOrder, step: int) -> list[int]:
    share = order.share(step)
    return [int(value) for value in share.past[:, 0, 0]] if share.windows else []


@given(st.integers(1, 30), st.integers(2, 20), st.integers(1, 4), st.integers(0, 5))
def test_the_processes_together_see_every_window_of_the_one_process_order_once(
    count: int, batch_size: int, processes: int, seed: int
) -> None:
    windows = numbered(count)
    whole = EpochOrder(windows, batch_size=batch_size, seed=seed, epoch=1)
    parts = [
        EpochOrder(windows, batch_size=batch_size, seed=seed, epoch=1, rank=rank, processes=processes)
        for rank in range(processes)
    ]
    seen: list[int] = []
    for step in range(whole.steps):
        batch = numbers(whole, step)
        assert sorted(n for part in parts for n in numbers(part, step)) == sorted(batch)
        # The mean over processes of the weighted mean losses is the mean over the batch's windows.
        shares = [part.share(step) for part in parts]
        weighted = sum(share.weight * share.past.mean().item() for share in shares) / processes
        assert abs(weighted - sum(batch) / len(batch)) < 1e-4
        assert all(len(share.past) >= 1 for share in shares)
        seen += batch
    assert sorted(seen) == list(range(count))
    assert whole.steps == -(-count // batch_size)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    windows = numbered(100)
    orders = {
        (seed, epoch): tuple(numbers(EpochOrder(windows, batch_size=100, seed=seed, epoch=epoch), 0))
        for seed in (7, 8)
        for epoch in (1, 2)
    }
    assert len(set(orders.values())) == 4


def test_a_step_can_be_asked_for_without_those_before_it() -> None:
    order = EpochOrder(numbered(50), batch_size=8, seed=7, epoch=3)
    forwards = [numbers(order, step) for step in range(order.steps)]
    assert [numbers(order, step) for step in reversed(range(order.steps))] == forwards[::-1]

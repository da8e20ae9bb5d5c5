"""Random state of a run: generators that follow from its seed, and the order of batches in each epoch."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from torch import Generator, Tensor

from fern.data.windows import ROUNDS, Integers, Permutation, Windows

Purpose = Literal["init", "order", "noise", "foreign"]
"""What is drawn: starting weights, the order of the windows, noise within the model (dropout, Fern's z and y0), and
whatever a model of someone else's draws without asking for a generator (``torch.nn.Dropout`` does)."""


def generator_for(
    seed: int,
    purpose: Purpose,
    *,
    rank: int = 0,
    epoch: int = 0,
    device: torch.device | str = "cpu",
) -> Generator:
    """A new generator for one purpose of a run; purposes, ranks and epochs draw independently of each other."""
    digest = hashlib.sha256(f"fern {seed} {purpose} {rank} {epoch}".encode()).digest()
    return Generator(device=device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@contextmanager
def seed_global_generators(seed: int, *, rank: int, device: torch.device) -> Iterator[None]:
    """Within the block torch's global generator has a state that follows from the seed; its own comes back after it."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        set_foreign_state(generator_for(seed, "foreign", rank=rank, device=device).get_state(), device)
        yield


def foreign_state(device: torch.device) -> Tensor:
    """The state of torch's global generator for a device."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_foreign_state(state: Tensor, device: torch.device) -> None:
    """Give torch's global generator for a device this state."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


AHEAD = 8192
"""Places in the order that are looked up together: for one small batch alone that costs more than its windows."""


class Share:
    """What one process takes of a batch.

    Not a dataclass: Fabric would cast the tensors inside one, and for mixed precision that rounds the data itself.

    ``weight`` makes the mean of the processes' weighted losses the mean over the batch's windows, whatever their
    counts: own windows · processes / windows of the batch. A process without a window of its own takes one at
    weight 0, because every process must take part in every step.
    """

    __slots__ = ("future", "past", "weight", "windows")

    def __init__(
        self,
        past: Tensor,  # (n, L, C)
        future: Tensor,  # (n, H, C)
        *,
        windows: int,
        weight: float,
    ) -> None:
        self.past, self.future, self.windows, self.weight = past, future, windows, weight


class EpochOrder:
    """The batches of one epoch in random order, each window once; the last batch may be smaller.

    Nothing is drawn as it goes, so an interrupted epoch continues at any step. With ``most_steps`` an epoch has no more
    batches than that: another random part of the windows each time.

    Example:
        >>> windows = Windows(torch.arange(10.0)[:, None], context_length=3, horizon=2)
        >>> order = EpochOrder(windows, batch_size=4, seed=7, epoch=1)
        >>> [order.share(step).windows for step in range(order.steps)]
        [4, 2]
    """

    def __init__(
        self,
        windows: Windows,
        *,
        batch_size: int,
        seed: int,
        epoch: int,
        most_steps: int | None = None,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self._most_steps = most_steps
        self._windows, self._batch_size = windows, batch_size
        self._rank, self._processes = rank, processes
        keys = torch.randint(2**32, (ROUNDS,), generator=generator_for(seed, "order", epoch=epoch))
        self._order = Permutation(len(windows), keys=keys.tolist())
        self._known = range(0), np.empty(0, np.int64)

    @property
    def steps(self) -> int:
        """Batches in the epoch."""
        all_windows = -(-len(self._windows) // self._batch_size)
        return all_windows if self._most_steps is None else min(all_windows, self._most_steps)

    def windows_until(self, step: int) -> int:
        """Windows in the first ``step`` batches, over all processes."""
        return min(step * self._batch_size, len(self._windows))

    def share(self, step: int) -> Share:
        """This process's part of the batch of step 0, 1, … ``steps`` - 1: every ``processes``-th window of it."""
        first = step * self._batch_size
        total = min(self._batch_size, len(self._windows) - first)
        batch = self._items(first, first + total)
        items = batch[self._rank :: self._processes]
        own = len(items)
        past, future = self._windows.gather(torch.from_numpy(items if own else batch[:1]))
        return Share(past, future, windows=own, weight=own * self._processes / total)

    def _items(self, first: int, stop: int) -> Integers:  # (stop - first,)
        """The windows at these places of the order, found together with those that come next."""
        places, items = self._known
        if not places.start <= first <= stop <= places.stop:
            places = range(first, min(max(stop, first + AHEAD), len(self._windows)))
            items = self._order(np.arange(places.start, places.stop))
            self._known = places, items
        return items[first - places.start : stop - places.start]

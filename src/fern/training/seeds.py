"""Random state of a run: generators that follow from its seed, and torch's own put aside meanwhile."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Generator, Tensor

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
    """A new generator for one purpose of a run; purposes, ranks and epochs draw independently of each other.

    Example: the starting weights that ``train`` gives a model with seed 7.
        >>> from fern.models import build_model
        >>> sizes = {"context_length": 48, "horizon": 24, "channels": 1}
        >>> first = build_model("fern", **sizes, generator=generator_for(7, "init"))
        >>> second = build_model("fern", **sizes, generator=generator_for(7, "init"))
        >>> torch.equal(first.features_x.weight, second.features_x.weight)
        True
    """
    digest = hashlib.sha256(f"fern {seed} {purpose} {rank} {epoch}".encode()).digest()
    return Generator(device=device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@contextmanager
def foreign_draws(seed: int, *, rank: int, device: torch.device) -> Iterator[None]:
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

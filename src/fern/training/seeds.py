"""Random state of a run: generators that follow from its seed, none of them torch's global one."""

import hashlib
from typing import Literal

import torch
from torch import Generator

Purpose = Literal["init", "order", "noise"]
"""What is drawn: starting weights, the order of the windows, noise within the model (dropout, Fern's z and y0)."""


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

"""``compile=True``: torch.compile where it pays, which is found out by timing a step both ways."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from fern.training.machine.hardware import quiet
from fern.training.order import Share

WORTH = 0.9
"""Compiling pays when a step then takes at most this share of the time: less is not worth the seconds it takes."""

REPEATS = 5

Step = Callable[[Share, Generator], Tensor]


@dataclass(frozen=True)
class Choice:
    """Whether the run is compiled, and why."""

    compiled: bool
    reason: str


def choose(loss_of: nn.Module, share: Share, noise: Generator) -> Choice:
    """Whether compiling pays for this model and batch."""
    try:
        eager, compiled = seconds_both_ways(loss_of, share, noise)
    except RuntimeError as error:  # no C++ compiler, or something the compiler cannot take
        return Choice(False, f"not compiled: {str(error).strip().splitlines()[0]}")
    pays = compiled <= WORTH * eager
    figures = f"a forward and backward pass takes {1e3 * compiled:.3g} ms compiled and {1e3 * eager:.3g} ms as it is"
    return Choice(pays, f"{'compiled' if pays else 'not compiled'}: {figures}")


def seconds_both_ways(loss_of: nn.Module, share: Share, noise: Generator) -> tuple[float, float]:
    """The time of a forward and backward pass as it is and compiled; everything stays as it was."""
    before = {name: value.clone() for name, value in loss_of.state_dict().items()}
    drawn, device = noise.get_state(), share.past.device
    try:
        with quiet_compiler(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            return _seconds(loss_of, share, noise), _seconds(torch.compile(loss_of), share, noise)
    finally:
        noise.set_state(drawn)
        loss_of.load_state_dict(before)
        loss_of.zero_grad(set_to_none=True)


def _seconds(step: Step, share: Share, generator: Generator) -> float:
    """The shortest of several forward and backward passes, after those that compile."""
    timings = []
    for _ in range(2 + REPEATS):
        began = time.perf_counter()
        step(share, generator).backward()  # type: ignore[no-untyped-call]
        if share.past.is_cuda:
            torch.cuda.synchronize()
        timings.append(time.perf_counter() - began)
    return min(timings[2:])


@contextmanager
def quiet_compiler() -> Iterator[None]:
    """Within the block the compiler keeps its notes to itself: what a graph break costs is in the timing."""
    with warnings.catch_warnings(), quiet("torch._dynamo", "torch._inductor", "torch._functorch"):
        warnings.filterwarnings("ignore", module=r"torch\b")
        yield

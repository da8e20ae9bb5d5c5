"""The push: against a plain autograd loop and against the dense map with eigh, and how its cost grows.

Memory is what autograd keeps between forward and backward: the bytes of the distinct storages that pass
``torch.autograd.graph.saved_tensors_hooks``. Times are the best of many, forward and backward, in float32. On one
thread they are processor time, which other processes disturb less: a busy machine would slow the slower peer more.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from benchmarks.speed.harness import Effort, Measurement, best_seconds
from fern.training.runtime import threads
from fern.transport import spd_push

PACKAGES = ("torch", "numba")
PATCH, REFLECTIONS = 24, 8
DOUBLINGS = 5  # of the length, from 3,072 to 98,304
COUNTS = [4, 8, 12, 16, 24]  # below 4 the cost beyond R = 0 is within the noise of the clock
Push = Callable[[Tensor, Tensor, Tensor], Tensor]


class Timer(Protocol):
    def __call__(self, function: Callable[[], object], *, repeats: int) -> float: ...


def plain_loop(vectors: Tensor, eigenvalues: Tensor, x: Tensor) -> Tensor:
    """The reflections one after another, as one writes them without thinking of the backward pass."""
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    for v in unit.unbind(-2):
        x = x - 2.0 * (v * x).sum(-1, keepdim=True) * v
    x = eigenvalues * x
    for v in reversed(unit.unbind(-2)):
        x = x - 2.0 * (v * x).sum(-1, keepdim=True) * v
    return x


def dense_with_eigh(matrix: Tensor, x: Tensor) -> Tensor:
    """The map of a symmetric matrix whose eigenvalues are made positive: what a dense parameterisation costs."""
    eigenvalues, frame = torch.linalg.eigh(matrix)
    turned = (frame.mT @ x.unsqueeze(-1)).squeeze(-1)
    mapped: Tensor = (frame @ (eigenvalues.abs() * turned).unsqueeze(-1)).squeeze(-1)
    return mapped


def arguments(*shape: int, reflections: int = REFLECTIONS) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    vectors = torch.randn(*shape[:-1], reflections, shape[-1], generator=generator)
    eigenvalues, x = torch.rand(*shape, generator=generator), torch.randn(*shape, generator=generator)
    return vectors.requires_grad_(), eigenvalues.requires_grad_(), x.requires_grad_()


def gradients(push: Push, given: tuple[Tensor, Tensor, Tensor], weight: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(push(*given), given, weight)


def best_processor_seconds(function: Callable[[], object], *, repeats: int) -> float:
    return best_seconds(function, repeats=repeats, warmups=2, clock=time.process_time)


def both_ways(push: Push, given: tuple[Tensor, Tensor, Tensor]) -> Callable[[], object]:
    """Forward and backward."""
    weight = torch.ones_like(given[2])
    return lambda: gradients(push, given, weight)


def kept_bytes(push: Push, given: tuple[Tensor, Tensor, Tensor]) -> int:
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        push(*given)
    return sum(storages.values())


def exponent(name: str, sizes: list[int], costs: list[float]) -> Measurement:
    """The least-squares slope of log cost over log size; NaN where a cost is below what the clock tells apart."""
    if min(costs) <= 0.0:
        return Measurement(f"exponent of {name}", math.nan, None, "", "", "1 ± 0.15")
    xs, ys = [math.log(s) for s in sizes], [math.log(c) for c in costs]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)
    return Measurement(f"exponent of {name}", slope, None, "", "", "1 ± 0.15")


def lengths_of(effort: Effort) -> list[int]:
    return [effort.size(128, least=2) * PATCH * 2**k for k in range(DOUBLINGS + 1)]


def against_the_loop(effort: Effort) -> list[Measurement]:
    batch = effort.size(285, least=2)
    given = arguments(batch, 14, PATCH)
    name = f"push at batch {batch}, 14 patches of {PATCH}, R = {REFLECTIONS}"
    rows = []
    timers: tuple[tuple[int, Timer, str], ...] = (1, best_processor_seconds, "processor s"), (2, best_seconds, "s")
    for count, timer, unit in timers:
        with threads(count):
            rows.append(
                Measurement(
                    f"{name}, forward + backward, {count} thread{'s' * (count > 1)}",
                    timer(both_ways(spd_push, given), repeats=effort.rounds(200)),
                    timer(both_ways(plain_loop, given), repeats=effort.rounds(100)),
                    unit,
                    "plain autograd loop",
                    "ratio >= 3",
                )
            )
    kept, kept_by_loop = (float(kept_bytes(push, given)) for push in (spd_push, plain_loop))
    rows.append(
        Measurement(f"{name}, kept for backward", kept, kept_by_loop, "bytes", "plain autograd loop", "ratio >= 2")
    )
    weight = torch.randn(batch, 14, PATCH, generator=torch.Generator().manual_seed(8))
    pairs = zip(gradients(spd_push, given, weight), gradients(plain_loop, given, weight), strict=True)
    worst = max((ours - theirs).abs().max().item() for ours, theirs in pairs)
    rows.append(Measurement(f"{name}, largest difference of a gradient", worst, None, "", "", "<= 1e-5"))
    return rows


def growth(effort: Effort) -> list[Measurement]:
    """With n at fixed p and R, and with R at fixed n.

    Eigenvalues and x are read and kept whatever R is, so the growth with R is that of what exceeds R = 0.
    """
    sizes, patches = lengths_of(effort), effort.size(512, least=8)
    by_length = [arguments(8, n // PATCH, PATCH) for n in sizes]
    by_count = [arguments(8, patches, PATCH, reflections=r) for r in (0, *COUNTS)]
    with threads(1):
        lengths = [best_processor_seconds(both_ways(spd_push, given), repeats=effort.rounds(30)) for given in by_length]
        base, *counts = [
            best_processor_seconds(both_ways(spd_push, given), repeats=effort.rounds(60)) for given in by_count
        ]
    kept_base, *kept_counts = [kept_bytes(spd_push, given) for given in by_count]
    over_n = f"n = {sizes[0]:,} to {sizes[-1]:,} (p = {PATCH}, R = {REFLECTIONS}, batch 8)"
    over_r = f"R = {COUNTS[0]} to {COUNTS[-1]} (p = {PATCH}, n = {patches * PATCH:,}, batch 8)"
    return [
        *(
            Measurement(f"push, forward + backward, n = {n:,}, batch 8", cost, None, "processor s", "", "recorded")
            for n, cost in zip(sizes, lengths, strict=True)
        ),
        *(
            Measurement(
                f"push, forward + backward, R = {r}, n = {patches * PATCH:,}", cost, None, "processor s", "", "recorded"
            )
            for r, cost in zip((0, *COUNTS), (base, *counts), strict=True)
        ),
        exponent(f"time, {over_n}", sizes, lengths),
        exponent(f"kept memory, {over_n}", sizes, [float(kept_bytes(spd_push, given)) for given in by_length]),
        exponent(f"time beyond R = 0, {over_r}", COUNTS, [cost - base for cost in counts]),
        exponent(f"kept memory beyond R = 0, {over_r}", COUNTS, [float(k - kept_base) for k in kept_counts]),
    ]


def against_eigh(effort: Effort) -> list[Measurement]:
    """Forward only, which favours the dense map: the gradient of eigh is dearer still. One thread."""
    shapes = [(4, n // PATCH, PATCH) for n in lengths_of(effort)] + [(16, 1, n) for n in (24, 48, 96, 192, 336)]
    rows = []
    with threads(1), torch.no_grad():
        for shape in shapes:
            given = arguments(*shape)
            matrix = torch.randn(*shape, shape[-1], generator=torch.Generator().manual_seed(9))
            matrix, x = matrix + matrix.mT, given[2].detach()
            patches = "one patch" if shape[1] == 1 else f"patches of {PATCH}"
            rows.append(
                Measurement(
                    f"push at n = {shape[1] * shape[2]:,} in {patches}, batch {shape[0]}, forward",
                    best_processor_seconds(partial(spd_push, *given), repeats=effort.rounds(40)),
                    best_processor_seconds(partial(dense_with_eigh, matrix, x), repeats=1),
                    "processor s",
                    "dense map with eigh",
                    "ratio > 1",
                )
            )
    return rows


def measure(effort: Effort) -> list[Measurement]:
    return [*against_the_loop(effort), *growth(effort), *against_eigh(effort)]

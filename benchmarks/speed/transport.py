"""The push: against a plain autograd loop and against the dense map with eigh, and how its cost grows.

Memory is what autograd keeps between forward and backward: the bytes of the distinct storages that pass
``torch.autograd.graph.saved_tensors_hooks``. Times are the best of many, forward and backward, in float32;
where only the growth counts they are processor time of one thread, which other processes disturb less.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from benchmarks.speed.harness import Measurement, best_seconds, record
from fern.transport import spd_push

PATCH, REFLECTIONS = 24, 8
LENGTHS = [3072 * 2**k for k in range(6)]  # 3,072 to 98,304
COUNTS = [1, 2, 4, 8, 16]  # R
Push = Callable[[Tensor, Tensor, Tensor], Tensor]


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
    return (frame @ (eigenvalues.abs() * turned).unsqueeze(-1)).squeeze(-1)


def arguments(*shape: int, reflections: int = REFLECTIONS) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    vectors = torch.randn(*shape[:-1], reflections, shape[-1], generator=generator)
    eigenvalues, x = torch.rand(*shape, generator=generator), torch.randn(*shape, generator=generator)
    return vectors.requires_grad_(), eigenvalues.requires_grad_(), x.requires_grad_()


def gradients(push: Push, given: tuple[Tensor, Tensor, Tensor], weight: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(push(*given), given, weight)


def seconds(push: Push, given: tuple[Tensor, Tensor, Tensor], *, repeats: int) -> float:
    weight = torch.ones_like(given[2])
    return best_seconds(lambda: gradients(push, given, weight), repeats=repeats, warmups=2)


def processor_seconds(given: tuple[Tensor, Tensor, Tensor], *, repeats: int) -> float:
    weight = torch.ones_like(given[2])
    timings = []
    for _ in range(repeats + 2):
        start = time.process_time()
        gradients(spd_push, given, weight)
        timings.append(time.process_time() - start)
    return min(timings)


def kept_bytes(push: Push, given: tuple[Tensor, Tensor, Tensor]) -> int:
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        push(*given)
    return sum(storages.values())


def slope(sizes: list[int], costs: list[float]) -> float:
    """The least-squares slope of log cost over log size."""
    xs, ys = [math.log(s) for s in sizes], [math.log(c) for c in costs]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def against_the_loop() -> list[Measurement]:
    given = arguments(285, 14, PATCH)
    name = f"push at batch 285, 14 patches of {PATCH}, R = {REFLECTIONS}"
    rows = []
    for count in (1, 2):
        with threads(count):
            rows.append(
                Measurement(
                    f"{name}, forward + backward, {count} thread{'s' * (count > 1)}",
                    seconds(spd_push, given, repeats=200),
                    seconds(plain_loop, given, repeats=60),
                    "s",
                    "plain autograd loop",
                    "ratio >= 3",
                )
            )
    kept = [float(kept_bytes(push, given)) for push in (spd_push, plain_loop)]
    rows.append(Measurement(f"{name}, kept for backward", *kept, "bytes", "plain autograd loop", "ratio >= 2"))
    weight = torch.randn(285, 14, PATCH, generator=torch.Generator().manual_seed(8))
    pairs = zip(gradients(spd_push, given, weight), gradients(plain_loop, given, weight), strict=True)
    worst = max((ours - theirs).abs().max().item() for ours, theirs in pairs)
    rows.append(Measurement(f"{name}, largest difference of a gradient", worst, None, "", "", "<= 1e-5"))
    return rows


def growth() -> list[Measurement]:
    """One thread: at two the smallest sizes would measure the waking of a thread."""
    by_length = [arguments(8, n // PATCH, PATCH) for n in LENGTHS]
    by_count = [arguments(8, 512, PATCH, reflections=r) for r in COUNTS]
    with threads(1):
        lengths = [processor_seconds(given, repeats=30) for given in by_length]
        counts = [processor_seconds(given, repeats=60) for given in by_count]
    ranges = f"n = {LENGTHS[0]:,} to {LENGTHS[-1]:,}, p = {PATCH}, R = {REFLECTIONS}", f"R = 1 to {COUNTS[-1]}"
    rows = [
        Measurement(f"time at n = {n:,}, batch 8", cost, None, "processor s", "", "recorded")
        for n, cost in zip(LENGTHS, lengths, strict=True)
    ]
    rows += [
        Measurement(f"time at R = {r}, n = 6,144, batch 8", cost, None, "processor s", "", "recorded")
        for r, cost in zip(COUNTS, counts, strict=True)
    ]
    kept_lengths = [float(kept_bytes(spd_push, given)) for given in by_length]
    kept_counts = [float(kept_bytes(spd_push, given)) for given in by_count]
    # Λ, x and U x are kept whatever R is, and read and written: the growth with R is that of what exceeds R = 0.
    fixed = arguments(8, 512, PATCH, reflections=0)
    with threads(1):
        base = processor_seconds(fixed, repeats=60)
    return [
        *rows,
        Measurement(f"exponent of time, {ranges[0]}", slope(LENGTHS, lengths), None, "", "", "1 ± 0.15"),
        Measurement(f"exponent of kept memory, {ranges[0]}", slope(LENGTHS, kept_lengths), None, "", "", "1 ± 0.15"),
        Measurement(
            f"exponent of time beyond R = 0, {ranges[1]}",
            slope(COUNTS, [cost - base for cost in counts]),
            None,
            "",
            "",
            "1 ± 0.15",
        ),
        Measurement(
            f"exponent of kept memory beyond R = 0, {ranges[1]}",
            slope(COUNTS, [kept - kept_bytes(spd_push, fixed) for kept in kept_counts]),
            None,
            "",
            "",
            "1 ± 0.15",
        ),
    ]


def against_eigh() -> list[Measurement]:
    """Forward only, which favours the dense map: the gradient of eigh is dearer still. One thread."""
    shapes = [(4, n // PATCH, PATCH) for n in LENGTHS] + [(16, 1, n) for n in (24, 48, 96, 192, 336)]
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
                    best_seconds(lambda given=given: spd_push(*given), repeats=40, warmups=2),
                    best_seconds(lambda matrix=matrix, x=x: dense_with_eigh(matrix, x), repeats=2, warmups=1),
                    "s",
                    "dense map with eigh",
                    "ratio > 1",
                )
            )
    return rows


def measure() -> None:
    record("transport", [*against_the_loop(), *growth(), *against_eigh()], packages=("torch", "numba"))

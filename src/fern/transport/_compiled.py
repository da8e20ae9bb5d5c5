"""Torch tensors in and out of the compiled kernels, with the sets split over threads.

``vectors`` (*sets, R, p), ``eigenvalues`` (*sets, p), ``x`` (*sides, *sets, p), as in `fern.transport._steps`.
"""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fern.caching import kernels_enabled
from fern.transport import _kernels
from fern.transport._lanes import LANES

# A thread takes tens of microseconds to wake: about the time of this many entries times reflections.
WORTH_A_THREAD = 150_000


def fits_kernels(tensor: Tensor) -> bool:
    """Whether kernels take it: on the CPU, float32 or float64, unless they are switched off or `torch.compile` traces,
    which cannot look into them.
    """
    plain = not kernels_enabled() or torch.compiler.is_compiling()
    return not plain and tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)


def reflect(vectors: Tensor, x: Tensor, *, back: bool) -> Tensor:
    """U x, or Uᵀ x where ``back``."""
    y = _empty_like(x)
    _over_sets(vectors, x, _kernels.reflect, *_sets(vectors, 2), *_sides(x, vectors), *_flat(y), back)
    return y


def reflect_backward(vectors: Tensor, y: Tensor, grad: Tensor, *, back: bool) -> tuple[Tensor, Tensor]:
    """Gradients of (vectors, x), from y, the result of `reflect`."""
    into, grad_x = _empty_like(vectors), _empty_like(y)
    arrays = (*_sets(vectors, 2), *_sides(y, vectors), *_sides(grad, vectors), back)
    _over_sets(vectors, y, _kernels.reflect_backward, *arrays, *_flat(into, grad_x))
    return into, grad_x


def push(vectors: Tensor, eigenvalues: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(Uᵀ Λ U x, U x)."""
    y, turned = _empty_like(x), _empty_like(x)
    arrays = (*_sets(vectors, 2), *_sets(eigenvalues, 1), *_sides(x, vectors))
    _over_sets(vectors, x, _kernels.push, *arrays, *_flat(y, turned))
    return y, turned


def push_backward(vectors: Tensor, eigenvalues: Tensor, turned: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of (vectors, eigenvalues, x), from ``turned`` = U x."""
    into, slope, grad_x = _empty_like(vectors), _empty_like(eigenvalues), _empty_like(turned)
    arrays = (*_sets(vectors, 2), *_sets(eigenvalues, 1), *_sides(turned, vectors), *_sides(grad, vectors))
    _over_sets(vectors, turned, _kernels.push_backward, *arrays, *_flat(into, slope, grad_x))
    return into, slope, grad_x


def _empty_like(tensor: Tensor) -> Tensor:
    """Contiguous, whatever the strides of the tensor, and on its device, whatever torch's default."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _flat(*tensors: Tensor) -> list[Any]:
    return [tensor.view(-1).numpy() for tensor in tensors]


def _sets(tensor: Tensor, core: int) -> tuple[Any, Any]:
    """(*sets, ...) as rows numbered by one set index."""
    shape = tensor.shape
    return _rows(tensor.detach().reshape(math.prod(shape[:-core]), *shape[-core:]))


def _sides(x: Tensor, vectors: Tensor) -> tuple[Any, Any]:
    """(*sides, *sets, p) as rows numbered by right-hand side and set."""
    return _rows(x.detach().reshape(*_counts(x, vectors), x.shape[-1]))


def _counts(x: Tensor, vectors: Tensor) -> tuple[int, int]:
    """How many right-hand sides, how many sets."""
    split = x.ndim + 1 - vectors.ndim
    return math.prod(x.shape[:split]), math.prod(x.shape[split:-1])


def _rows(tensor: Tensor) -> tuple[Any, Any]:
    """A flat array over the tensor's memory, and the strides of all dimensions but the last."""
    tensor = tensor.resolve_neg()
    if tensor.stride(-1) != 1 or not tensor.numel():
        tensor = tensor.contiguous()
    strides = tensor.stride()[:-1]
    if tensor.is_contiguous():
        flat = tensor.view(-1)
    else:
        span = 1 + sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride(), strict=True))
        flat = tensor.as_strided((span,), (1,))
    return flat.numpy(), strides if len(strides) > 1 else strides[0]


def _over_sets(vectors: Tensor, x: Tensor, kernel: Callable[..., None], *arguments: Any) -> None:
    """Run the kernel over all N sets: this thread takes a share, torch's number of threads the others."""
    repeats, n = _counts(x, vectors)
    r, p = vectors.shape[-2:]
    blocks = -(-n // LANES)
    shares = max(1, min(torch.get_num_threads(), blocks, repeats * n * p * r // WORTH_A_THREAD))
    edges = [min(n, blocks * share // shares * LANES) for share in range(shares + 1)]

    def run(start: int, stop: int) -> None:
        kernel((start, stop, n), (repeats, r, p), *arguments)

    jobs = [
        (_pool(os.getpid(), shares - 1).submit(run, start, stop), start, stop) for start, stop in pairwise(edges[1:])
    ]
    run(edges[0], edges[1])
    for job, start, stop in jobs:
        if job.cancel():  # no thread was free to begin it
            run(start, stop)
        else:
            job.result()


@cache
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """Threads of this process: a fork inherits the cache but not the threads, hence the key."""
    return ThreadPoolExecutor(workers, thread_name_prefix="fern-transport")

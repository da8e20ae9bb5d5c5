"""Dropout from a generator that is passed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from fern.errors import FernError
from fern.models.layers import _elementwise_kernels as kernels

Keys = tuple[np.uint32, np.uint32, np.uint32, np.float32]
"""Two random keys, the last of 2¹⁶ values that is kept, and the scale of what is kept: 1 where nothing is dropped."""

_WHOLE = 1 << 16
NONE_DROPPED: Keys = (np.uint32(0), np.uint32(0), np.uint32(_WHOLE - 1), np.float32(1.0))


def require_rate(name: str, value: float) -> None:
    """Refuse a share of dropped numbers that is not at least 0 and below 1."""
    if not 0.0 <= value < 1.0:
        raise FernError(argument=name, got=value, expected="a rate of at least 0 and below 1")


class Dropout(nn.Module):
    """Dropout that draws from a generator which is passed, not from torch's global one.

    A `Forecaster` hands the generator of its call to every Dropout inside it (`drawing_from`), so a training run is
    a function of the generators it was given.

    In float32 on the CPU a call draws two keys, and number n is kept where a hash of n under the keys is small
    enough: the mask is never stored, and costs less than a pass over memory. Elsewhere the mask is drawn itself.

    Example:
        >>> layer = Dropout(0.5)
        >>> layer.generator = torch.Generator().manual_seed(7)
        >>> sorted(set(layer(torch.ones(100)).tolist()))
        [0.0, 2.0]
        >>> layer.eval()(torch.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        require_rate("dropout", rate)
        self.rate = rate
        self.generator: Generator | None = None

    @property
    def active(self) -> bool:
        """Whether anything is dropped."""
        return self.training and self.rate > 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Zero each number with the given rate and scale the rest up, in training; the identity otherwise."""
        if not self.active:
            return x
        if compiled(x):
            dropped: Tensor = _Masked.apply(x, self.keys())  # type: ignore[no-untyped-call]
            return dropped
        return x * _kept(x, self.rate, self.generator)

    def keys(self) -> Keys:
        """What the masks of one call are computed from; no dropout where the layer is not active.

        The share that is kept is rounded to a multiple of 2⁻¹⁶, and the scale is that of the rounded share: the mean
        stays exact.
        """
        if not self.active:
            return NONE_DROPPED
        keep = _kept_of_whole(self.rate)
        first, second = torch.randint(1 << 32, (2,), generator=self.generator).tolist()
        return np.uint32(first), np.uint32(second), np.uint32(keep - 1), np.float32(_WHOLE / keep)

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"rate={self.rate}"


def compiled(tensor: Tensor) -> bool:
    """Whether the compiled loops of these layers can take the tensor."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32 and not torch.compiler.is_compiling()


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keys: Keys) -> Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        kernels.mask(x.detach().view(-1).numpy(), keys, out.view(-1).numpy())
        ctx.keys = keys
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Masked.apply(grad, ctx.keys), None  # type: ignore[no-untyped-call]


def _kept_of_whole(rate: float) -> int:
    return max(1, round((1.0 - rate) * _WHOLE))


def _kept(x: Tensor, rate: float, generator: Generator | None) -> Tensor:
    """0 for about ``rate`` of the numbers and 1 / (1 - rate) for the rest; four are decided by each 64-bit draw."""
    keep = _kept_of_whole(rate)
    drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)
    drawn.random_(-(1 << 63), None, generator=generator)
    chosen = drawn.view(torch.int16)[: x.numel()] <= keep - 1 - _WHOLE // 2
    return chosen.view(x.shape).to(x.dtype).mul_(_WHOLE / keep)


@contextmanager
def drawing_from(model: nn.Module, generator: Generator | None) -> Iterator[None]:
    """Within the block, every `Dropout` in the model draws from this generator."""
    layers = [part for part in model.modules() if isinstance(part, Dropout)] if model.training else []
    for layer in layers:
        layer.generator = generator
    try:
        yield
    finally:
        for layer in layers:
            layer.generator = None

"""Dropout from a generator that is passed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn

from fern.errors import FernError


def require_rate(name: str, value: float) -> None:
    """Refuse a share of dropped numbers that is not at least 0 and below 1."""
    if not 0.0 <= value < 1.0:
        raise FernError(f"{name}: got {value}, needs a rate of at least 0 and below 1")


class Dropout(nn.Module):
    """Dropout that draws from a generator which is passed, not from torch's global one.

    A `Forecaster` hands the generator of its call to every Dropout inside it (`drawing_from`), so a training run is
    a function of the generators it was given.

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

    def forward(self, x: Tensor) -> Tensor:
        """Zero each number with the given rate and scale the rest up, in training; the identity otherwise."""
        if not self.training or self.rate == 0.0:
            return x
        return x * _kept(x, 1.0 - self.rate, self.generator)

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"rate={self.rate}"


def _kept(x: Tensor, share: float, generator: Generator | None) -> Tensor:
    """1 / share for about that share of the numbers and 0 for the rest.

    Four numbers are decided by each 64-bit draw: on a CPU that is several times faster than
    `torch.Tensor.bernoulli_`. The share is rounded to a multiple of 2⁻¹⁶, and the scale is that of the rounded
    share: the mean stays exact.
    """
    whole = 1 << 16
    keep = max(1, round(share * whole))
    drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)
    drawn.random_(-(1 << 63), None, generator=generator)
    chosen = drawn.view(torch.int16)[: x.numel()] <= keep - 1 - whole // 2
    return chosen.view(x.shape).to(x.dtype).mul_(whole / keep)


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

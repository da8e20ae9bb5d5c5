"""Dropout from a generator that is passed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn

from fern.errors import FernError


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
        if not 0.0 <= rate < 1.0:
            raise FernError(f"dropout: got {rate}, needs a rate of at least 0 and below 1")
        self.rate = rate
        self.generator: Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Zero each number with the given rate and scale the rest up, in training; the identity otherwise."""
        if not self.training or self.rate == 0.0:
            return x
        kept = torch.empty_like(x).bernoulli_(1.0 - self.rate, generator=self.generator)
        return x * kept.div_(1.0 - self.rate)

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"rate={self.rate}"


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

"""Layers that more than one model uses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from fern.errors import FernError, unknown_name

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "tanh": torch.tanh_,
}
"""Activations by name. Each may overwrite its argument, so hand it a fresh tensor."""


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation of this name.

    Example:
        >>> activation("relu")(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
        >>> activation("relo")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: unknown activation 'relo': did you mean 'relu'? Known: gelu, relu, silu, tanh
    """
    if name not in ACTIVATIONS:
        raise unknown_name("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


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


class Statistics(NamedTuple):
    """The level and the spread of each series, as `RevIN` took them off."""

    mean: Tensor  # (B, C, 1)
    stddev: Tensor  # (B, C, 1)


class RevIN(nn.Module):
    """Reversible instance normalisation (Kim 2022): each series of a window loses its mean and standard deviation.

    z = w (x - mean) / stddev + b and back, with stddev = √(variance + 1e-5) over the window's own time steps. No
    gradient passes the statistics. Without ``affine``, w = 1 and b = 0; with it they are learnt for each channel.
    Time is the last dimension here, as in all channel-wise layers.

    Example:
        >>> layer = RevIN(1)
        >>> z, statistics = layer.normalise(torch.tensor([[[1.0, 3.0]]]))
        >>> z
        tensor([[[-1.0000,  1.0000]]])
        >>> layer.restore(z, statistics)
        tensor([[[1., 3.]]])
    """

    EPSILON = 1e-5

    def __init__(self, channels: int, *, affine: bool = False) -> None:
        super().__init__()
        self.affine = affine
        if affine:
            self.weight = nn.Parameter(torch.ones(channels))
            self.bias = nn.Parameter(torch.zeros(channels))

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Start as the plain normalisation; nothing is drawn."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def normalise(
        self,
        x: Tensor,  # (B, C, T)
    ) -> tuple[Tensor, Statistics]:  # (B, C, T)
        """The series without level and spread, and what `restore` needs to give them back."""
        variance, mean = torch.var_mean(x.detach(), dim=-1, correction=0, keepdim=True)
        statistics = Statistics(mean, variance.add_(self.EPSILON).sqrt_())
        z = (x - mean) / statistics.stddev
        if self.affine:
            z = torch.addcmul(self.bias[:, None], z, self.weight[:, None])
        return z, statistics

    def restore(
        self,
        z: Tensor,  # (B, C, any length)
        statistics: Statistics,
    ) -> Tensor:  # (B, C, any length)
        """A forecast of normalised series in the units of the series."""
        if self.affine:
            # The published form keeps a weight of 0 from dividing by 0.
            z = (z - self.bias[:, None]) / (self.weight[:, None] + self.EPSILON**2)
        return torch.addcmul(statistics.mean, z, statistics.stddev)

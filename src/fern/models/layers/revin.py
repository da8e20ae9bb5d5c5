"""Reversible instance normalisation."""

from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn


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

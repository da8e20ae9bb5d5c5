"""Starting values of the parameters, drawn from a generator that is passed."""

from math import sqrt
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm


@runtime_checkable
class StartsItself(Protocol):
    """A part that draws the starting values of its own parameters."""

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Set every parameter that belongs to this part itself (not to its children)."""


def initialise(module: nn.Module, generator: Generator | None) -> None:
    """Draw all parameters of a module anew: the same generator state gives the same bits.

    Linear maps and convolutions start as PyTorch's defaults do: weights and biases uniform within ±1/√(fan in).
    Normalisations start as the identity. Any other part with parameters of its own must have a method
    ``initialise_parameters(generator)``, which takes precedence.

    Example:
        >>> layer = nn.Linear(4, 2)
        >>> initialise(layer, torch.Generator().manual_seed(7))
        >>> first = layer.weight.clone()
        >>> initialise(layer, torch.Generator().manual_seed(7))
        >>> torch.equal(layer.weight, first)
        True
    """
    with torch.no_grad():
        for part in module.modules():
            if next(part.parameters(recurse=False), None) is not None:
                _initialise_part(part, generator)


def _initialise_part(part: nn.Module, generator: Generator | None) -> None:
    if isinstance(part, StartsItself):
        part.initialise_parameters(generator)
    elif isinstance(part, nn.Linear | _ConvNd):
        bound = 1.0 / sqrt(part.weight[0].numel())
        for parameter in part.parameters(recurse=False):
            parameter.uniform_(-bound, bound, generator=generator)
    elif isinstance(part, nn.LayerNorm | nn.GroupNorm | nn.RMSNorm | _BatchNorm | _InstanceNorm):
        part.reset_parameters()  # draws nothing
    elif isinstance(part, nn.Embedding):
        part.weight.normal_(generator=generator)
    else:
        raise TypeError(f"{type(part).__name__} has parameters of its own: give it initialise_parameters(generator)")

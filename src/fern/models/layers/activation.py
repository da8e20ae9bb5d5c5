"""Activations by name."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fern.errors import unknown_name

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

"""Multilayer perceptrons."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from fern.models.layers.activation import activation as named_activation
from fern.models.layers.dropout import Dropout
from fern.models.layers.feedforward import feedforward


class Perceptron(nn.Module):
    """Linear maps between the given widths, with an activation and dropout after each but the last.

    Example:
        >>> import torch
        >>> Perceptron((3, 8, 2), activation="relu")(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """

    def __init__(self, widths: Sequence[int], *, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths))
        self.activate = named_activation(activation)
        self.dropout = Dropout(dropout)

    @property
    def linear_maps(self) -> list[nn.Linear]:
        """The maps in order."""
        return [part for part in self.maps if isinstance(part, nn.Linear)]

    def forward(
        self,
        x: Tensor,  # (..., first width)
    ) -> Tensor:  # (..., last width)
        """The maps in turn."""
        if self.activate is nn.functional.gelu and len(self.maps) == 2:
            first, second = ((part.weight, part.bias) for part in self.linear_maps)
            return feedforward(x, first, second, self.dropout)
        rows = x.reshape(-1, x.shape[-1])  # in place on a view of more dimensions, an activation makes autograd copy
        for linear in self.maps[:-1]:
            rows = self.dropout(self.activate(linear(rows)))
        last: Tensor = self.maps[-1](rows)
        return last.view(*x.shape[:-1], -1)

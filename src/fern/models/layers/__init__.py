"""Layers that more than one model uses, one purpose a file."""

from fern.models.layers.attention import attend
from fern.models.layers.basic import (
    ACTIVATIONS,
    RevIN,
    Statistics,
    activation,
    decompose,
    end_padded_patches,
    in_blocks,
    moving_average,
    require_kernel,
    weights_on_average,
)
from fern.models.layers.dropout import Dropout, compiled, drawing_from, require_rate
from fern.models.layers.feedforward import Perceptron, added_feedforward, feedforward

__all__ = [
    "ACTIVATIONS",
    "Dropout",
    "Perceptron",
    "RevIN",
    "Statistics",
    "activation",
    "added_feedforward",
    "attend",
    "compiled",
    "decompose",
    "drawing_from",
    "end_padded_patches",
    "feedforward",
    "in_blocks",
    "moving_average",
    "require_kernel",
    "require_rate",
    "weights_on_average",
]

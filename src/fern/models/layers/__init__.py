"""Layers that more than one model uses, one purpose a file."""

from fern.models.layers.activation import ACTIVATIONS, activation
from fern.models.layers.attention import attend
from fern.models.layers.blocks import in_blocks
from fern.models.layers.decomposition import decompose, moving_average, require_kernel, weights_on_average
from fern.models.layers.dropout import Dropout, compiled, drawing_from, require_rate
from fern.models.layers.feedforward import added_feedforward, feedforward
from fern.models.layers.patches import end_padded_patches
from fern.models.layers.perceptron import Perceptron
from fern.models.layers.revin import RevIN, Statistics

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

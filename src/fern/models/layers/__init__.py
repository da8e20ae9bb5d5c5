"""Layers that more than one model uses, one purpose a file."""

from fern.models.layers.activation import ACTIVATIONS, activation
from fern.models.layers.attention import attend
from fern.models.layers.blocks import in_blocks
from fern.models.layers.decomposition import decompose, moving_average, require_kernel
from fern.models.layers.dropout import Dropout, drawing_from, require_rate
from fern.models.layers.feedforward import feedforward
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
    "attend",
    "decompose",
    "drawing_from",
    "end_padded_patches",
    "feedforward",
    "in_blocks",
    "moving_average",
    "require_kernel",
    "require_rate",
]

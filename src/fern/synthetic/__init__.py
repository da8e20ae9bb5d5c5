"""Synthetic series for training and testing forecasters: many families, one table of weights, by seed (no torch).

Example:
    >>> from fern.synthetic import generate
    >>> batch = generate(8, length=256, seed=7)
    >>> batch.values.shape
    (8, 256)
"""

from fern.synthetic.dynamics import is_near_paper
from fern.synthetic.mixture import FAMILIES, Batch, Family, generate, stream

__all__ = ["FAMILIES", "Batch", "Family", "generate", "is_near_paper", "stream"]

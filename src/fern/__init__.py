"""Fern: long-horizon forecasting with ellipsoids, and a shock benchmark with known truth.

Subpackages are imported where they are used, so that ``import fern`` and ``import fern.systems`` never load PyTorch.
"""

from fern._version import __version__
from fern.errors import FernError

__all__ = ["FernError", "__version__"]

"""The level and spread of each series, so that series of any scale can be learnt together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Scale:
    """The map to model units, (y - shift) / spread, for each channel of a series."""

    shift: Floats  # (C,)
    spread: Floats  # (C,)

    def apply(self, values: Floats) -> NDArray[np.float32]:  # (..., C)
        """In model units; worked out a stretch at a time, so that a long series is not held in float64 once more."""
        scaled = np.empty(values.shape, np.float32)
        for first in range(0, len(values), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            scaled[rows] = (values[rows] - self.shift) / self.spread
        return scaled

    def invert(self, values: NDArray[np.floating]) -> Floats:  # (..., C)
        """In the units of the data."""
        return np.asarray(values, dtype=np.float64) * self.spread + self.shift


def scale_of(values: Floats) -> Scale:  # (T, C)
    """Mean and standard deviation of the rows given; a constant channel has spread 1 at its own magnitude.

    Example:
        >>> scale_of(np.array([[1.0, 5.0], [3.0, 5.0]])).spread.tolist()
        [1.0, 1.0]
    """
    shift, spread = values.mean(axis=0), values.std(axis=0)
    # A constant column can leave rounding dust instead of 0.
    dust = spread <= 1e-10 * np.maximum(values.max(axis=0), -values.min(axis=0))
    return Scale(shift, np.where(dust, 1.0, spread))

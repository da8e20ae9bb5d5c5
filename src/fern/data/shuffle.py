"""A random order of n items that takes no memory per item."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROUNDS = 6
"""Keys a permutation takes. Four rounds are the textbook minimum; six cost nothing here."""

Integers = NDArray[np.int64]


class Permutation:
    """A keyed pseudo-random permutation of ``0 … size-1``, computed where it is asked for.

    A stored permutation holds 8 bytes for each item; this holds its keys. A balanced Feistel network permutes
    ``0 … 4^k-1 >= size``; a result outside the range is permuted again until it falls inside (cycle walking),
    which keeps it a permutation of the range (Black & Rogaway 2002, "Ciphers with arbitrary finite domains").

    Example:
        >>> order = Permutation(5, keys=[3, 1, 4, 1, 5, 9])
        >>> sorted(order(np.arange(5)).tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, *, keys: Sequence[int]) -> None:
        self.size = size
        self._half_bits = max(1, math.ceil(math.log2(max(size, 2)) / 2))
        self._keys = keys

    def __call__(
        self,
        positions: Integers,  # (n,)
    ) -> Integers:  # (n,)
        """The items at the given positions of the order."""
        items = self._network(positions)
        outside = items >= self.size
        while outside.any():
            items[outside] = self._network(items[outside])
            outside = items >= self.size
        return items

    def _network(self, numbers: Integers) -> Integers:
        """One pass through the Feistel rounds: a permutation of ``0 … 4^half_bits-1``."""
        mask = (1 << self._half_bits) - 1
        left, right = numbers >> self._half_bits, numbers & mask
        for key in self._keys:
            left, right = right, left ^ (_mixed(right, key) & mask)
        return (left << self._half_bits) | right


def _mixed(numbers: Integers, key: int) -> Integers:
    """A 32-bit integer hash (Prospector's ``lowbias32`` shape): every input bit reaches the low output bits."""
    word = (numbers ^ key).astype(np.uint32)
    word ^= word >> np.uint32(16)
    word *= np.uint32(0x7FEB352D)
    word ^= word >> np.uint32(15)
    word *= np.uint32(0x846CA68B)
    word ^= word >> np.uint32(16)
    return word.astype(np.int64)

"""The random numbers that drive a system, one independent stream a column."""

from collections.abc import Sequence

import numpy as np

from fern.systems.base import Array, Noise


def draw_noise(
    kinds: Sequence[Noise],
    *,
    steps: int,
    seed: int | tuple[int, ...],
) -> Array:  # (steps, len(kinds))
    """Standard normal or uniform [0, 1) numbers: a longer draw begins with a shorter one of the same seed.

    Example:
        >>> short = draw_noise(["normal", "uniform"], steps=3, seed=7)
        >>> long = draw_noise(["normal", "uniform"], steps=9, seed=7)
        >>> bool((short == long[:3]).all())
        True
    """
    out = np.empty((steps, len(kinds)))
    for column, (kind, stream) in enumerate(zip(kinds, np.random.SeedSequence(seed).spawn(len(kinds)), strict=True)):
        generator = np.random.Generator(np.random.PCG64(stream))
        out[:, column] = generator.standard_normal(steps) if kind == "normal" else generator.random(steps)
    return out

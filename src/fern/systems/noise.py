"""The random numbers that drive a system or disturb its observation, one independent stream a column."""

from collections.abc import Sequence

import numpy as np

from fern.checks import require_number
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


_OBSERVING = 1  # beside a scenario's seed: a stream of its own, so that a driven system's noise is not read twice


def observed(
    values: Array,  # (steps, channels)
    *,
    share: float,
    seed: int,
) -> Array:  # (steps, channels)
    """The values as an imperfect instrument reads them: with independent normal noise on every row.

    Its deviation is ``share`` of each channel's own over all rows. The draws depend on the seed alone, so two shares
    differ by a factor.

    Example:
        >>> clean = np.stack([np.sin(np.arange(4000.0)), 9 * np.cos(np.arange(4000.0))], axis=1)
        >>> error = observed(clean, share=0.05, seed=7) - clean
        >>> (error.std(axis=0) / clean.std(axis=0)).round(2)
        array([0.05, 0.05])
    """
    require_number("share", share, "a share of the standard deviation, at least 0", lambda value: value >= 0)
    drawn = draw_noise(["normal"] * values.shape[1], steps=len(values), seed=(seed, _OBSERVING))
    read: Array = values + share * values.std(axis=0) * drawn
    return read

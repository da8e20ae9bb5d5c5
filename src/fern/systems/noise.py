"""The random numbers that drive a system or disturb its observation, one independent stream a column; and the mean of
a system's future by simulation, with its standard error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError, require_number
from fern.systems.base import Array, Noise, System


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
    noise = draw_noise(["normal"] * values.shape[1], steps=len(values), seed=(seed, _OBSERVING))
    read: Array = values + share * values.std(axis=0) * noise
    return read


@dataclass(frozen=True)
class MonteCarloMean:
    """A mean over simulated paths and the standard error of that mean, both (n, horizon, channels)."""

    mean: Array
    standard_error: Array


def monte_carlo_mean(
    system: System,
    states: Array,  # (n, d)
    params: Mapping[str, float],
    *,
    dt: float,
    first_steps: NDArray[np.int64],  # (n,)
    horizon: int,
    paths: int = 1000,
    seed: int = 0,
) -> MonteCarloMean:
    """Simulate ``paths`` futures of each state and average them; the standard error falls as paths^-1/2.

    Example:
        >>> from fern.systems import get_system
        >>> ou = get_system("ornstein_uhlenbeck")
        >>> found = monte_carlo_mean(
        ...     ou, np.array([[1.0]]), ou.params, dt=0.5, first_steps=np.array([0]), horizon=4, paths=4000
        ... )
        >>> bool(abs(found.mean[0, 0, 0] - 0.9) < 4 * found.standard_error[0, 0, 0])
        True
    """
    if paths < 2:
        raise FernError(argument="paths", got=paths, expected="at least 2 for a standard error")
    channels = len(system.channel_names_of(params))
    mean = np.empty((len(states), horizon, channels))
    error = np.empty_like(mean)
    for i, state in enumerate(states):
        noise = draw_noise(system.noise, steps=paths * horizon, seed=(seed, i))
        noise = noise.reshape(paths, horizon, len(system.noise))
        starts = np.broadcast_to(state, (paths, len(state)))
        futures = system.advance(starts, params, dt=dt, first_step=int(first_steps[i]), noise=noise)
        mean[i] = futures[..., :channels].mean(axis=0)
        error[i] = futures[..., :channels].std(axis=0, ddof=1) / np.sqrt(paths)
    return MonteCarloMean(mean, error)

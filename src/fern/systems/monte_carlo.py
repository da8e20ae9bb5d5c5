"""The mean of a system's future by simulation, with its standard error."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.systems.base import Array, System
from fern.systems.noise import draw_noise


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

"""The best possible forecast, under the true process."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.systems.base import Array
from fern.systems.noise import MonteCarloMean, monte_carlo_mean
from fern.systems.trajectory import Trajectory

Starts = Iterable[int] | NDArray[np.int64]


def oracle(
    trajectory: Trajectory,
    starts: Starts,  # (n,) the first row to predict, each
    horizon: int,
) -> Array:  # (n, horizon, channels)
    """E[rows start … start + horizon - 1 | true state and parameters at each start], float64.

    Its error is the floor that no forecaster can beat. A shock that lies ahead is not foreseen: the parameters are
    those that make the first predicted row.

    Example:
        >>> from fern.systems import simulate
        >>> t = simulate("LORENZ_BASE")
        >>> best = oracle(t, [30_000], 336)
        >>> bool(np.abs(best[0] - t.values[30_000:30_336]).max() < 1e-4)
        True
    """
    rows, system = _valid_starts(trajectory, starts, horizon), trajectory.scenario.source
    out = np.empty((len(rows), horizon, len(trajectory.channel_names)))
    for where, states, params in _by_segment(trajectory, rows):
        out[where] = system.conditional_mean(states, params, dt=trajectory.dt, first_steps=rows[where], horizon=horizon)
    return out


def monte_carlo_oracle(
    trajectory: Trajectory,
    starts: Starts,  # (n,)
    horizon: int,
    *,
    paths: int = 1000,
    seed: int = 0,
) -> MonteCarloMean:
    """The oracle by simulation, with its standard error: a check on closed forms, and what systems without one use.

    Example:
        >>> from fern.systems import simulate
        >>> estimate = monte_carlo_oracle(simulate("DOUBLEWELL_BASE"), [100], 12, paths=500)
        >>> estimate.mean.shape, bool(estimate.standard_error.max() < 0.05)
        ((1, 12, 1), True)
    """
    rows, system = _valid_starts(trajectory, starts, horizon), trajectory.scenario.source
    mean = np.empty((len(rows), horizon, len(trajectory.channel_names)))
    error = np.empty_like(mean)
    for where, states, params in _by_segment(trajectory, rows):
        first = rows[where]
        estimate = monte_carlo_mean(
            system, states, params, dt=trajectory.dt, first_steps=first, horizon=horizon, paths=paths, seed=seed
        )
        mean[where], error[where] = estimate.mean, estimate.standard_error
    return MonteCarloMean(mean, error)


def _by_segment(
    trajectory: Trajectory, rows: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Array, Mapping[str, float]]]:
    """The places of the starts that share a segment, the state before each (n, d), and the parameters in force."""
    firsts = np.array([segment.first_row for segment in trajectory.segments])
    owner = np.searchsorted(firsts, rows, side="right") - 1
    for i, segment in enumerate(trajectory.segments):
        where = np.flatnonzero(owner == i)
        if where.size:
            states = trajectory.states[rows[where] - 1]
            states[rows[where] == segment.first_row] = segment.entry_state
            yield where, states, segment.params


def _valid_starts(trajectory: Trajectory, starts: Starts, horizon: int) -> NDArray[np.int64]:
    if horizon < 1:
        raise FernError(argument="horizon", got=horizon, expected="at least 1")
    rows = np.atleast_1d(np.asarray(list(starts) if not isinstance(starts, np.ndarray) else starts))
    if rows.ndim != 1 or (rows.size and not np.issubdtype(rows.dtype, np.integer)):
        raise FernError(f"got {rows.dtype} of shape {rows.shape}", argument="starts", expected="a list of row numbers")
    rows = rows.astype(np.int64)
    steps = len(trajectory.values)
    outside = rows[(rows < 0) | (rows > steps)]
    if outside.size:
        raise FernError(f"row {outside[0]} is outside the trajectory", argument="starts", expected=f"0 to {steps}")
    return rows

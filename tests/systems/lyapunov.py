"""The largest Lyapunov exponent: how fast nearby trajectories part."""

from collections.abc import Mapping

import numpy as np

from fern.systems.base import System

_SEPARATION = 1e-8


def largest_lyapunov_exponent(
    system: System,
    *,
    dt: float,
    steps: int,
    params: Mapping[str, float] | None = None,
    discard: int = 10_000,
    renormalise_every: int = 20,
) -> float:
    """λ = lim 1/T ln(|δ(T)|/|δ(0)|) of a deterministic system, per unit of time (Benettin et al. 1980).

    Two trajectories start 1e-8 apart and are brought back to that distance every few steps; the growth is averaged.
    """
    full = system.complete(params or {})

    def flow(states: np.ndarray, count: int) -> np.ndarray:
        quiet = np.empty((len(states), count, 0))
        return system.advance(states, full, dt=dt, first_step=0, noise=quiet)[:, -1]

    state = flow(system.initial_state_of(full)[None], discard)[0]
    pair = np.stack([state, state + _SEPARATION / np.sqrt(state.size)])
    growth = 0.0
    rounds = steps // renormalise_every
    for _ in range(rounds):
        pair = flow(pair, renormalise_every)
        gap = pair[1] - pair[0]
        distance = float(np.linalg.norm(gap))
        growth += np.log(distance / _SEPARATION)
        pair[1] = pair[0] + gap * (_SEPARATION / distance)
    return growth / (rounds * renormalise_every * dt)

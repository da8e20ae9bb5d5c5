"""SLDS: two linear-Gaussian regimes and a Markov chain that switches between them.

x_{t+1} = A_s x_t + η, η ~ N(0, Q_s); the regime then stays with probability p_ss. The state is (x, regime), where the
regime (0 or 1) is the one that drives the next step.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fern.systems.base import Array
from fern.systems.families import Recursion


def _step(state: Array, params: Array, step: int, noise: Array, out: Array) -> None:
    second = state[1] > 0.5
    a = params[2] if second else params[0]
    q = params[3] if second else params[1]
    stay = params[5] if second else params[4]
    out[0] = a * state[0] + np.sqrt(q) * noise[0]
    out[1] = state[1] if noise[1] < stay else 1.0 - state[1]


def _mean(
    states: Array, params: Mapping[str, float], *, dt: float, first_steps: NDArray[np.int64], horizon: int
) -> Array:
    """The exact two-state recursion on m_i = E[x 1{regime = i}]: m_j ← Σ_i p_ij A_i m_i."""
    second = states[:, 1] > 0.5
    m = np.stack([np.where(second, 0.0, states[:, 0]), np.where(second, states[:, 0], 0.0)])
    p11, p22 = params["p11"], params["p22"]
    transfer = np.array([[p11, 1.0 - p22], [1.0 - p11, p22]]) * np.array([params["A1"], params["A2"]])
    out = np.empty((len(states), horizon, 1))
    for h in range(horizon):
        m = transfer @ m
        out[:, h, 0] = m.sum(axis=0)
    return out


SLDS = Recursion(
    name="slds",
    step=_step,
    noise_kinds=("normal", "uniform"),
    mean=_mean,
    params={"A1": 0.9, "Q1": 0.05, "A2": 0.98, "Q2": 0.35, "p11": 0.94, "p22": 0.95},
    limits={"Q1": (0.0, float("inf")), "Q2": (0.0, float("inf")), "p11": (0.0, 1.0), "p22": (0.0, 1.0)},
    channel_names=("x",),
    initial_state=(0.0, 0.0),
    citation="Ghahramani, Z. & Hinton, G. E. (2000). Variational learning for switching state-space models. "
    "Neural Comput. 12, 831-864.",
)

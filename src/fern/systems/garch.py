"""GARCH(1,1): returns whose variance follows its own past, σ_t² = ω + α x_{t-1}² + β σ_{t-1}².

The state is (x, σ²).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fern.systems.base import Array
from fern.systems.families import Recursion


def _step(state: Array, params: Array, step: int, noise: Array, out: Array) -> None:
    variance = params[0] + params[1] * state[0] ** 2 + params[2] * state[1]
    out[0] = np.sqrt(variance) * noise[0]
    out[1] = variance


def _mean(
    states: Array, params: Mapping[str, float], *, dt: float, first_steps: NDArray[np.int64], horizon: int
) -> Array:
    """Zero: the sign of a return cannot be foretold, only its size."""
    return np.zeros((len(states), horizon, 1))


def _initial_state(params: Mapping[str, float]) -> Array:
    """No return yet, at the long-run variance ω / (1 - α - β) where there is one."""
    persistence = params["alpha"] + params["beta"]
    variance = params["omega"] / (1.0 - persistence) if persistence < 1.0 else params["omega"]
    return np.array([0.0, variance])


GARCH = Recursion(
    name="garch",
    step=_step,
    mean=_mean,
    params={"omega": 0.01, "alpha": 0.06, "beta": 0.90},
    limits={"omega": (0.0, float("inf")), "alpha": (0.0, float("inf")), "beta": (0.0, float("inf"))},
    channel_names=("x",),
    initial_state=_initial_state,
    citation="Bollerslev, T. (1986). Generalized autoregressive conditional heteroskedasticity. "
    "J. Econometrics 31, 307-327.",
)

"""Seasonal AR: a drifting seasonal wave on top of an AR(1), x_t = a_t cos(2πt/S) + φ x_{t-1} + σ ε_t."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fern.systems.base import Array
from fern.systems.families import Recursion


def _step(state: Array, params: Array, step: int, noise: Array, out: Array) -> None:
    period, phi, sigma, amplitude, drift = params[0], params[1], params[2], params[3], params[4]
    season = (amplitude + step * drift) * np.cos(2.0 * np.pi * step / period)
    out[0] = season + phi * state[0] + sigma * noise[0]


def _mean(
    states: Array, params: Mapping[str, float], *, dt: float, first_steps: NDArray[np.int64], horizon: int
) -> Array:
    """The process is linear in its past, so its mean is the recursion without noise."""
    out = np.empty((len(states), horizon, 1))
    mean = states[:, 0]
    for h in range(horizon):
        t = first_steps + h
        amplitude = params["a0"] + t * params["amp_drift_per_step"]
        mean = amplitude * np.cos(2.0 * np.pi * t / params["S"]) + params["phi"] * mean
        out[:, h, 0] = mean
    return out


SEASONAL_AR = Recursion(
    name="seasonal_ar",
    step=_step,
    mean=_mean,
    params={"S": 24, "phi": 0.5, "sigma": 0.2, "a0": 1.0, "amp_drift_per_step": 0.0},
    limits={"S": (1e-9, float("inf")), "sigma": (0.0, float("inf"))},
    channel_names=("x",),
    initial_state=(0.0,),
    citation="Box, G. E. P. & Jenkins, G. M. (1970). Time Series Analysis: Forecasting and Control. Holden-Day.",
)

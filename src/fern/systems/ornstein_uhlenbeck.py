"""Ornstein-Uhlenbeck: a mean-reverting diffusion, dX = θ(μ - X) dt + σ dW."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fern.systems.base import Array
from fern.systems.families import Diffusion


def _drift(state: Array, params: Array, out: Array) -> None:
    out[0] = params[0] * (params[1] - state[0])


def _noise_scale(state: Array, params: Array, out: Array) -> None:
    out[0] = params[2]


def _mean(
    states: Array, params: Mapping[str, float], *, dt: float, first_steps: NDArray[np.int64], horizon: int
) -> Array:
    """μ + (x - μ)(1 - θ dt)^h: exact for the Euler-Maruyama chain that makes the data."""
    decay = (1.0 - params["theta"] * dt) ** np.arange(1, horizon + 1)
    return params["mu"] + (states[:, None, :] - params["mu"]) * decay[:, None]


ORNSTEIN_UHLENBECK = Diffusion(
    name="ornstein_uhlenbeck",
    drift=_drift,
    noise_scale=_noise_scale,
    mean=_mean,
    params={"theta": 0.2, "mu": 0.0, "sigma": 0.3},
    limits={"sigma": (0.0, float("inf"))},
    channel_names=("x",),
    initial_state=(0.0,),
    citation="Uhlenbeck, G. E. & Ornstein, L. S. (1930). On the theory of the Brownian motion. Phys. Rev. 36, 823-841.",
)

"""Double well: a bistable diffusion, dX = (aX - X³) dt + σ dW, that hops between wells near ±√a."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fern.systems.base import Array
from fern.systems.families import Diffusion
from fern.systems.noise import monte_carlo_mean

_FINEST_GRID = 4096


def _drift(state: Array, params: Array, out: Array) -> None:
    out[0] = params[0] * state[0] - state[0] ** 3


def _noise_scale(state: Array, params: Array, out: Array) -> None:
    out[0] = params[1]


def _mean(
    states: Array, params: Mapping[str, float], *, dt: float, first_steps: NDArray[np.int64], horizon: int
) -> Array:
    """The backward Kolmogorov recursion of the Euler-Maruyama chain, by quadrature.

    m_0(x) = x and m_h(x) = ∫ m_{h-1}(y) N(y; x + (ax - x³) dt, σ²dt) dy. The integrand is smooth and vanishes at both
    ends, so the trapezoidal rule converges faster than any power of the grid's step: at a quarter of the noise's width
    it is exact to rounding, where Monte Carlo of the same cost is good to two digits. Noise too weak for such a grid
    (under a thousandth of the range) falls back to Monte Carlo, standard error at most σ(h)/√1000.
    """
    width = params["sigma"] * np.sqrt(dt)
    reach = max(float(np.abs(states).max(initial=0.0)), 2.0 * np.sqrt(max(params["a"], 0.0)), 1.0) + 8.0 * width
    if width * _FINEST_GRID < 8.0 * reach:
        return monte_carlo_mean(DOUBLE_WELL, states, params, dt=dt, first_steps=first_steps, horizon=horizon).mean
    grid, spacing = np.linspace(-reach, reach, int(np.ceil(8.0 * reach / width)) + 1, retstep=True)

    def transition(x: Array) -> Array:  # (n,) -> (n, grid)
        # Overshooting targets are held inside the grid: the chain gets there with negligible probability.
        centre = np.clip(x + (params["a"] * x - x**3) * dt, -reach + 7.0 * width, reach - 7.0 * width)
        distance = (grid - centre[:, None]) / width
        density: Array = np.exp(-0.5 * distance**2) * (spacing / (width * np.sqrt(2.0 * np.pi)))
        return density

    between, from_states = transition(grid), transition(states[:, 0])
    mean = grid
    out = np.empty((len(states), horizon, 1))
    for h in range(horizon):
        out[:, h, 0] = from_states @ mean
        mean = between @ mean
    return out


DOUBLE_WELL = Diffusion(
    name="double_well",
    drift=_drift,
    noise_scale=_noise_scale,
    mean=_mean,
    params={"a": 1.5, "sigma": 0.25},
    limits={"sigma": (0.0, float("inf"))},
    channel_names=("x",),
    initial_state=(0.0,),
    citation="Kramers, H. A. (1940). Brownian motion in a field of force. Physica 7, 284-304.",
)

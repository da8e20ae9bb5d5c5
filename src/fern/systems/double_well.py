"""Double well: a bistable diffusion, dX = (aX - X³) dt + σ dW, that hops between wells near ±√a."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fern.systems.base import Array
from fern.systems.families import Diffusion

_GRID_POINTS = 801
_QUADRATURE_NODES = 24


def _drift(state: Array, params: Array, out: Array) -> None:
    out[0] = params[0] * state[0] - state[0] ** 3


def _noise_scale(state: Array, params: Array, out: Array) -> None:
    out[0] = params[1]


def _mean(
    states: Array, params: Mapping[str, float], *, dt: float, first_steps: NDArray[np.int64], horizon: int
) -> Array:
    """The backward Kolmogorov recursion of the Euler-Maruyama chain, by quadrature on a grid.

    m_0(x) = x and m_h(x) = E[m_{h-1}(x + (ax - x³) dt + σ√dt ξ)], the expectation by Gauss-Hermite nodes and m_{h-1}
    between grid points by linear interpolation. Its error is below 1e-3 for the premade parameters: a test compares
    it with Monte Carlo within that estimate's standard error. A Monte Carlo of the same cost has a hundred times that.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_QUADRATURE_NODES)
    weights = weights / weights.sum()
    reach = max(1.1 * float(np.abs(states).max()), 2.0 * np.sqrt(max(params["a"], 0.0)), 1.0)
    grid = np.linspace(-reach, reach, _GRID_POINTS)
    centre = grid + (params["a"] * grid - grid**3) * dt
    # Beyond the grid the mean is held at the edge value: the chain gets there with negligible probability.
    targets = np.clip(centre[:, None] + params["sigma"] * np.sqrt(dt) * nodes, -reach, reach)
    mean = grid
    out = np.empty((len(states), horizon, 1))
    for h in range(horizon):
        mean = np.interp(targets, grid, mean) @ weights
        out[:, h, 0] = np.interp(states[:, 0], grid, mean)
    return out


DOUBLE_WELL = Diffusion(
    name="double_well",
    drift=_drift,
    noise_scale=_noise_scale,
    mean=_mean,
    params={"a": 1.5, "sigma": 0.25},
    limits={"sigma": (0.0, float("inf"))},
    channels=("x",),
    initial_state=(0.0,),
    citation="Kramers, H. A. (1940). Brownian motion in a field of force. Physica 7, 284-304.",
)

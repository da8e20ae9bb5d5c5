"""The random systems that a few lines of equations define: two diffusions and three recursions."""

from math import inf

import numpy as np
from numpy.typing import NDArray

from fern.systems.base import Array
from fern.systems.families import Diffusion, Params, Recursion
from fern.systems.noise import monte_carlo_mean

Steps = NDArray[np.int64]

# --- Ornstein-Uhlenbeck: mean-reverting, dX = θ(μ - X) dt + σ dW --------------------------------------------------


def _ou_drift(state: Array, params: Array, out: Array) -> None:
    out[0] = params[0] * (params[1] - state[0])


def _ou_noise(state: Array, params: Array, out: Array) -> None:
    out[0] = params[2]


def _ou_mean(states: Array, params: Params, *, dt: float, first_steps: Steps, horizon: int) -> Array:
    """μ + (x - μ)(1 - θ dt)^h: exact for the Euler-Maruyama chain that makes the data."""
    decay = (1.0 - params["theta"] * dt) ** np.arange(1, horizon + 1)
    return params["mu"] + (states[:, None, :] - params["mu"]) * decay[:, None]


ORNSTEIN_UHLENBECK = Diffusion(
    name="ornstein_uhlenbeck",
    drift=_ou_drift,
    noise_scale=_ou_noise,
    mean=_ou_mean,
    params={"theta": 0.2, "mu": 0.0, "sigma": 0.3},
    limits={"sigma": (0.0, inf)},
    channel_names=("x",),
    initial_state=(0.0,),
    citation="Uhlenbeck, G. E. & Ornstein, L. S. (1930). On the theory of the Brownian motion. Phys. Rev. 36, 823-841.",
)

# --- Double well: bistable, dX = (aX - X³) dt + σ dW, hops between wells near ±√a ---------------------------------

_FINEST_GRID = 4096


def _well_drift(state: Array, params: Array, out: Array) -> None:
    out[0] = params[0] * state[0] - state[0] ** 3


def _well_noise(state: Array, params: Array, out: Array) -> None:
    out[0] = params[1]


def _well_mean(states: Array, params: Params, *, dt: float, first_steps: Steps, horizon: int) -> Array:
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
    drift=_well_drift,
    noise_scale=_well_noise,
    mean=_well_mean,
    params={"a": 1.5, "sigma": 0.25},
    limits={"sigma": (0.0, inf)},
    channel_names=("x",),
    initial_state=(0.0,),
    citation="Kramers, H. A. (1940). Brownian motion in a field of force. Physica 7, 284-304.",
)

# --- SLDS: two linear-Gaussian regimes and a Markov chain that switches between them ------------------------------
# x_{t+1} = A_s x_t + η, η ~ N(0, Q_s); the regime then stays with probability p_ss. The state is (x, regime), where
# the regime (0 or 1) is the one that drives the next step.


def _slds_step(state: Array, params: Array, step: int, noise: Array, out: Array) -> None:
    second = state[1] > 0.5
    a = params[2] if second else params[0]
    q = params[3] if second else params[1]
    stay = params[5] if second else params[4]
    out[0] = a * state[0] + np.sqrt(q) * noise[0]
    out[1] = state[1] if noise[1] < stay else 1.0 - state[1]


def _slds_mean(states: Array, params: Params, *, dt: float, first_steps: Steps, horizon: int) -> Array:
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
    step=_slds_step,
    noise_kinds=("normal", "uniform"),
    mean=_slds_mean,
    params={"A1": 0.9, "Q1": 0.05, "A2": 0.98, "Q2": 0.35, "p11": 0.94, "p22": 0.95},
    limits={"Q1": (0.0, inf), "Q2": (0.0, inf), "p11": (0.0, 1.0), "p22": (0.0, 1.0)},
    channel_names=("x",),
    initial_state=(0.0, 0.0),
    citation="Ghahramani, Z. & Hinton, G. E. (2000). Variational learning for switching state-space models. "
    "Neural Comput. 12, 831-864.",
)

# --- Seasonal AR: a drifting wave on top of an AR(1), x_t = a_t cos(2πt/S) + φ x_{t-1} + σ ε_t ---------------------


def _seasonal_step(state: Array, params: Array, step: int, noise: Array, out: Array) -> None:
    period, phi, sigma, amplitude, drift = params[0], params[1], params[2], params[3], params[4]
    season = (amplitude + step * drift) * np.cos(2.0 * np.pi * step / period)
    out[0] = season + phi * state[0] + sigma * noise[0]


def _seasonal_mean(states: Array, params: Params, *, dt: float, first_steps: Steps, horizon: int) -> Array:
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
    step=_seasonal_step,
    mean=_seasonal_mean,
    params={"S": 24, "phi": 0.5, "sigma": 0.2, "a0": 1.0, "amp_drift_per_step": 0.0},
    limits={"S": (1e-9, inf), "sigma": (0.0, inf)},
    channel_names=("x",),
    initial_state=(0.0,),
    citation="Box, G. E. P. & Jenkins, G. M. (1970). Time Series Analysis: Forecasting and Control. Holden-Day.",
)

# --- GARCH(1,1): returns whose variance follows its own past, σ_t² = ω + α x_{t-1}² + β σ_{t-1}²; state (x, σ²) ----


def _garch_step(state: Array, params: Array, step: int, noise: Array, out: Array) -> None:
    variance = params[0] + params[1] * state[0] ** 2 + params[2] * state[1]
    out[0] = np.sqrt(variance) * noise[0]
    out[1] = variance


def _garch_mean(states: Array, params: Params, *, dt: float, first_steps: Steps, horizon: int) -> Array:
    """Zero: the sign of a return cannot be foretold, only its size."""
    return np.zeros((len(states), horizon, 1))


def _garch_state(params: Params) -> Array:
    """No return yet, at the long-run variance ω / (1 - α - β) where there is one."""
    persistence = params["alpha"] + params["beta"]
    variance = params["omega"] / (1.0 - persistence) if persistence < 1.0 else params["omega"]
    return np.array([0.0, variance])


GARCH = Recursion(
    name="garch",
    step=_garch_step,
    mean=_garch_mean,
    params={"omega": 0.01, "alpha": 0.06, "beta": 0.90},
    limits=dict.fromkeys(("omega", "alpha", "beta"), (0.0, inf)),
    channel_names=("x",),
    initial_state=_garch_state,
    citation="Bollerslev, T. (1986). Generalized autoregressive conditional heteroskedasticity. "
    "J. Econometrics 31, 307-327.",
)

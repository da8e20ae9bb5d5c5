"""The kinds of system that a few lines of equations define: flows, diffusions and recursions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from fern.systems.base import Array, Noise, System
from fern.systems.integrate import euler_maruyama, recursion, rk4
from fern.systems.noise import monte_carlo_mean

Params = Mapping[str, float]
Equations = Callable[..., None]


class ConditionalMean(Protocol):
    """E[x_{t+1..t+horizon} | state_t] in closed form, for states (n, d): (n, horizon, channels)."""

    def __call__(  # noqa: D102 - the class says it
        self, states: Array, params: Params, *, dt: float, first_steps: NDArray[np.int64], horizon: int
    ) -> Array: ...


@dataclass(frozen=True, kw_only=True)
class _Family(System):
    """What the families share: channels and initial state, given plainly or as functions of the parameters."""

    channel_names: tuple[str, ...] | Callable[[Params], tuple[str, ...]]
    initial_state: tuple[float, ...] | Callable[[Params], Array]

    @override
    def channel_names_of(self, params: Params) -> tuple[str, ...]:
        return self.channel_names(params) if callable(self.channel_names) else self.channel_names

    @override
    def initial_state_of(self, params: Params) -> Array:
        state = self.initial_state(params) if callable(self.initial_state) else self.initial_state
        return np.array(state, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Flow(_Family):
    """dx/dt = f(x), integrated by Runge-Kutta 4; its oracle integrates the true flow from the true state."""

    equations: Equations  # f(state, params, out)

    @property
    @override
    def noise(self) -> tuple[Noise, ...]:
        return ()

    @override
    def advance(self, states: Array, params: Params, *, dt: float, first_step: int, noise: Array) -> Array:
        return rk4(self.equations, states, self.vector(params), dt=dt, steps=noise.shape[1])

    @override
    def conditional_mean(
        self, states: Array, params: Params, *, dt: float, first_steps: NDArray[np.int64], horizon: int
    ) -> Array:
        return rk4(self.equations, states, self.vector(params), dt=dt, steps=horizon)


@dataclass(frozen=True, kw_only=True)
class _Stochastic(_Family):
    """What driven systems share: the oracle is ``mean`` in closed form or, without one, Monte Carlo."""

    mean: ConditionalMean | None = None

    @override
    def conditional_mean(
        self, states: Array, params: Params, *, dt: float, first_steps: NDArray[np.int64], horizon: int
    ) -> Array:
        if self.mean is None:
            return monte_carlo_mean(self, states, params, dt=dt, first_steps=first_steps, horizon=horizon).mean
        return self.mean(states, params, dt=dt, first_steps=first_steps, horizon=horizon)


@dataclass(frozen=True, kw_only=True)
class Diffusion(_Stochastic):
    """dx = f(x) dt + g(x) dW, integrated by Euler-Maruyama."""

    drift: Equations  # f(state, params, out)
    noise_scale: Equations  # g(state, params, out), diagonal

    @property
    @override
    def noise(self) -> tuple[Noise, ...]:
        return tuple("normal" for _ in self.initial_state_of(self.params))

    @override
    def advance(self, states: Array, params: Params, *, dt: float, first_step: int, noise: Array) -> Array:
        return euler_maruyama(self.drift, self.noise_scale, states, self.vector(params), noise, dt=dt)


@dataclass(frozen=True, kw_only=True)
class Recursion(_Stochastic):
    """x_t = f(x_{t-1}, t, noise_t) in discrete time."""

    step: Equations  # f(state, params, step, noise, out)
    noise_kinds: tuple[Noise, ...] = ("normal",)

    @property
    @override
    def noise(self) -> tuple[Noise, ...]:
        return self.noise_kinds

    @override
    def advance(self, states: Array, params: Params, *, dt: float, first_step: int, noise: Array) -> Array:
        return recursion(self.step, states, self.vector(params), noise, first_step=first_step)

"""Series observed from the ten dynamical systems, with random parameters, time steps, observables and shocks.

The scenarios of the paper are kept out: no parameters near those of any of their regimes are drawn (`is_near_paper`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fern.synthetic.families import draw_periods, log_uniform
from fern.systems.base import System
from fern.systems.registry import PREMADE
from fern.systems.scenarios import SCENARIOS
from fern.systems.shocks import StateShock

Array = NDArray[np.float64]
Params = dict[str, float]

NEAR = 0.02
"""A drawn parameter counts as one of the paper's when it differs by less than this share of it."""

NOT_DYNAMICS = frozenset({"nx"})
"""Parameters that only set the resolution."""

SERIES_EACH = 6
"""At most so many series are observed from one trajectory, by other observables."""

BURN = 300
"""Steps before the first row that is observed."""

LARGEST = 1e4
"""A trajectory that leaves this range has diverged and is drawn anew."""


@dataclass(frozen=True)
class DrawnSettings:
    """Settings of one trajectory: ``stride`` steps of ``dt`` lie between two rows."""

    system: System
    params: Params
    dt: float
    stride: int
    changed: Params | None  # parameters after a shock; None without one
    displaced: float  # by how much of its spread the state moves at the shock


def _regimes_of_the_paper() -> dict[str, list[Params]]:
    """The parameters of every regime of every built-in scenario, by system."""
    regimes: dict[str, list[Params]] = {name: [] for name in PREMADE}
    for plan in SCENARIOS.values():
        params = plan.source.complete(plan.params)
        regimes[plan.system].append(params)
        for shock in plan.shocks:
            if not isinstance(shock, StateShock):
                params = params | dict(shock.params)
                regimes[plan.system].append(params)
    return regimes


PAPER = _regimes_of_the_paper()


def is_near_paper(system: str, params: Mapping[str, float]) -> bool:
    """Whether every parameter lies within `NEAR` of that of one regime of the paper's scenarios.

    Example:
        >>> [is_near_paper("rossler", {"a": a, "b": 0.2, "c": 5.71}) for a in (0.2, 0.3)]
        [True, False]
    """
    return any(
        all(
            abs(params[name] - value) <= NEAR * abs(value) for name, value in regime.items() if name not in NOT_DYNAMICS
        )
        for regime in PAPER[system]
    )


Draw = Callable[[Generator, int], Params]


def _uniform(**ranges: tuple[float, float]) -> Draw:
    """Each parameter from its range, in their order."""
    return lambda rng, length: {name: rng.uniform(low, high) for name, (low, high) in ranges.items()}


def _chua(rng: Generator, length: int) -> Params:
    alpha = rng.uniform(9.0, 17.0)
    return {
        "alpha": alpha,
        "beta": alpha * rng.uniform(1.5, 2.0),
        "m0": -8 / 7 * rng.uniform(0.95, 1.05),
        "m1": -5 / 7 * rng.uniform(0.95, 1.05),
    }


def _lorenz96(rng: Generator, length: int) -> Params:
    return {"dim": float(rng.integers(4, 11)), "forcing": rng.uniform(4.0, 14.0)}


def _kuramoto_sivashinsky(rng: Generator, length: int) -> Params:
    return {"nx": 24.0, "Lx": rng.uniform(13.0, 32.0), "nu": rng.uniform(0.7, 1.4)}


def _ornstein_uhlenbeck(rng: Generator, length: int) -> Params:
    theta = float(log_uniform(rng, 0.005, 0.8, 1)[0])
    return {"theta": theta, "mu": rng.normal(0, 1), "sigma": float(log_uniform(rng, 0.1, 1.0, 1)[0])}


def _slds(rng: Generator, length: int) -> Params:
    calm, wild = log_uniform(rng, 0.01, 0.6, 2)
    return {
        "A1": rng.uniform(0.5, 0.99),
        "Q1": float(calm),
        "A2": rng.uniform(0.7, 0.998),
        "Q2": float(wild),
        "p11": rng.uniform(0.85, 0.998),
        "p22": rng.uniform(0.85, 0.998),
    }


def _seasonal_ar(rng: Generator, length: int) -> Params:
    short, _ = draw_periods(rng, 1, length)
    return {
        "S": float(short[0]),
        "phi": rng.uniform(-0.3, 0.95),
        "sigma": float(log_uniform(rng, 0.02, 0.6, 1)[0]),
        "a0": rng.uniform(0.3, 2.0),
        "amp_drift_per_step": rng.normal(0, 0.5) / length,
    }


def _garch(rng: Generator, length: int) -> Params:
    alpha = rng.uniform(0.02, 0.35)
    return {
        "omega": float(log_uniform(rng, 0.001, 0.1, 1)[0]),
        "alpha": alpha,
        "beta": rng.uniform(0.4, 0.99) * (0.998 - alpha),
    }


# Parameters; the time between rows, from and to; the largest step of the integrator; the share of trajectories.
SYSTEMS: Mapping[str, tuple[Draw, tuple[float, float], float, float]] = {
    "lorenz63": (_uniform(sigma=(6, 16), rho=(24.5, 60), beta=(1.5, 4.0)), (0.008, 0.15), 0.012, 0.17),
    "rossler": (_uniform(a=(0.1, 0.3), b=(0.1, 0.4), c=(3.5, 9.0)), (0.02, 0.8), 0.05, 0.13),
    "chua": (_chua, (0.01, 0.25), 0.02, 0.12),
    "lorenz96": (_lorenz96, (0.01, 0.12), 0.02, 0.13),
    "kuramoto_sivashinsky": (_kuramoto_sivashinsky, (0.1, 0.6), 0.1, 0.02),
    "ornstein_uhlenbeck": (_ornstein_uhlenbeck, (0.1, 1.0), 1.0, 0.09),
    "double_well": (_uniform(a=(0.5, 3.0), sigma=(0.15, 0.8)), (0.05, 0.6), 0.15, 0.09),
    "slds": (_slds, (1.0, 1.0), 1.0, 0.09),
    "seasonal_ar": (_seasonal_ar, (1.0, 1.0), 1.0, 0.08),
    "garch": (_garch, (1.0, 1.0), 1.0, 0.08),
}


def draw_settings(rng: Generator, length: int) -> DrawnSettings:
    """A system and its settings, far from those of the paper's scenarios.

    Example:
        >>> drawn = draw_settings(np.random.default_rng(1), 512)
        >>> drawn.system.name in PREMADE, is_near_paper(drawn.system.name, drawn.params)
        (True, False)
    """
    weights = np.array([weight for *_, weight in SYSTEMS.values()])
    name = list(SYSTEMS)[rng.choice(len(SYSTEMS), p=weights / weights.sum())]
    make, (low, high), largest, _ = SYSTEMS[name]
    apart = float(log_uniform(rng, low, high, 1)[0])
    stride = max(1, int(np.ceil(apart / largest - 1e-9)))
    first, second = (_far_from_paper(rng, name, make, length) for _ in range(2))
    changed, displaced = None, 0.0
    kind = rng.random()
    if kind < 0.1:
        share = rng.uniform(0.1, 0.6)
        fixed = ("dim", "nx", "S")
        changed = {key: first[key] if key in fixed else (1 - share) * first[key] + share * second[key] for key in first}
        changed = None if is_near_paper(name, changed) else changed
    elif kind < 0.2:
        displaced = rng.uniform(0.1, 1.0)
    return DrawnSettings(PREMADE[name], first, apart / stride, stride, changed, displaced)


def _far_from_paper(rng: Generator, name: str, make: Draw, length: int) -> Params:
    while True:
        params = {key: float(value) for key, value in make(rng, length).items()}
        if not is_near_paper(name, params):
            return params


def play(rng: Generator, setup: DrawnSettings, length: int) -> Array | None:  # (length, channels)
    """The channels of a trajectory, or None where it diverges or stands still."""
    system, params = setup.system, setup.system.complete(setup.params)
    state = system.initial_state_of(params) + 0.1 * rng.standard_normal(len(system.initial_state_of(params)))
    if system.name in ("slds", "garch"):
        state = system.initial_state_of(params)
    shocked = setup.changed is not None or setup.displaced > 0
    cut = int(length * rng.uniform(0.2, 0.95)) if shocked else length
    parts: list[Array] = []
    for rows, burn, in_force in ((cut, BURN, params), (length - cut, 0, setup.changed or params)):
        if rows == 0:
            continue
        steps = rows * setup.stride + burn
        kinds = system.noise
        noise = rng.standard_normal((1, steps, len(kinds)))
        for k, kind in enumerate(kinds):
            if kind == "uniform":
                noise[0, :, k] = rng.random(steps)
        first = sum(len(part) for part in parts)
        states = system.advance(state[None], system.complete(in_force), dt=setup.dt, first_step=first, noise=noise)[0]
        parts.append(states[burn :: setup.stride][:rows])
        state = states[-1].copy()
        if not np.abs(states[-1]).max() < LARGEST:
            return None
        if setup.displaced:
            channels = len(system.channel_names_of(params))
            state[:channels] += setup.displaced * states[:, :channels].std(0) * rng.standard_normal(channels)
    values = np.concatenate(parts)[:, : len(system.channel_names_of(params))]
    if not np.abs(values).max() < LARGEST or values.std(0).min() < 1e-3 * (1e-3 + np.abs(values).max()):
        return None
    return values


def observe(rng: Generator, channels: Array, count: int, *, is_return: bool) -> Array:  # (count, length)
    """Observables of one trajectory: a channel, a mixture, a bent one, or of returns the price they add up to."""
    centred = (channels - channels.mean(0)) / channels.std(0)
    rows = []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.55:
            row = centred[:, rng.integers(centred.shape[1])]
        else:
            row = centred @ rng.standard_normal(centred.shape[1])
        if is_return and kind < 0.6:
            row = np.cumsum(row)
        elif kind > 0.9:
            row = np.tanh(row) if kind > 0.95 else row**2
        if rng.random() < 0.4:
            row = row + float(log_uniform(rng, 0.003, 0.3, 1)[0]) * row.std() * rng.standard_normal(len(row))
        rows.append(row * rng.choice([-1.0, 1.0]))
    return np.stack(rows)


def dynamics(rng: Generator, count: int, length: int) -> Array:  # (count, length)
    """The family: trajectories until there are enough series."""
    out: list[Array] = []
    missing = count
    while missing:
        setup = draw_settings(rng, length)
        channels = play(rng, setup, length)
        if channels is None:
            continue
        series = min(missing, SERIES_EACH, 1 + 2 * channels.shape[1])
        out.append(observe(rng, channels, series, is_return=setup.system.name == "garch"))
        missing -= series
    return np.concatenate(out)

"""Trajectories: a scenario played out, with its truth kept in float64."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fern.checks import require_memory, shown
from fern.errors import FernError
from fern.fingerprints import fingerprint_of
from fern.systems.base import Array
from fern.systems.noise import draw_noise
from fern.systems.scenarios import Scenario, open_scenario
from fern.systems.shocks import Regime, starting_state

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Segment:
    """A stretch of a trajectory under one regime: its first row, the parameters, and the state it starts from."""

    first_row: int
    params: Mapping[str, float]
    entry_state: Array  # (d,)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The values that a scenario produces, row 0 being one step from the initial state.

    ``states`` is the whole float64 state after each step, which may hold more than the channels (a regime, a variance).
    """

    scenario: Scenario
    channel_names: tuple[str, ...]
    values: NDArray[np.float32] | Array  # (steps, channels)
    states: Array  # (steps, d)
    segments: tuple[Segment, ...]

    @property
    def dt(self) -> float:
        """The time between rows."""
        return self.scenario.dt

    @property
    def shock_index(self) -> int | None:
        """The first row after the first shock, or None without one."""
        rows = self.scenario.shock_rows
        return rows[0] if rows else None

    @cached_property
    def fingerprint(self) -> str:
        """Of the values, see `fern.fingerprints.fingerprint_of`."""
        return fingerprint_of(self.values)


def simulate(source: str | Path | Scenario, *, dtype: Literal["float32", "float64"] = "float32") -> Trajectory:
    """Play a scenario out: the id of a premade one, a TOML file that defines one, or a ``Scenario``.

    Example:
        >>> t = simulate("LORENZ_PARAM")
        >>> t.values.shape, t.values.dtype.name, t.channel_names, t.shock_index
        ((35999, 3), 'float32', ('x', 'y', 'z'), 12599)
    """
    plan = open_scenario(source)
    if dtype not in ("float32", "float64"):
        raise FernError(f"dtype: got {dtype!r}, needs 'float32' or 'float64'")
    system = plan.source
    params = system.complete(plan.params)
    regime = Regime(params, starting_state(system, params, plan.initial_state))
    # The states twice, while a segment is put in its place, the noise, and the values.
    width = 2 * len(regime.state) + len(system.noise) + len(system.channel_names_of(params))
    require_memory(f"steps: {shown(plan.steps)} steps of {system.name}", 8.0 * width * min(plan.steps, 10**30))
    noise = draw_noise(system.noise, steps=plan.steps, seed=plan.seed)[None]
    states = np.empty((plan.steps, len(regime.state)))
    segments = []
    borders = (0, *plan.shock_rows, plan.steps)
    for i, (first, end) in enumerate(itertools.pairwise(borders)):
        if i > 0:
            regime = plan.shocks[i - 1].apply(system, regime)
        segments.append(Segment(first, regime.params, regime.state))
        states[first:end] = system.advance(
            regime.state[None], regime.params, dt=plan.dt, first_step=first, noise=noise[:, first:end]
        )[0]
        _refuse_blow_up(states[first:end], plan, segments[-1])
        regime = replace(regime, state=states[end - 1].copy())
    names = system.channel_names_of(params)
    values = states[:, : len(names)].astype(dtype)
    return Trajectory(plan, names, values, states, tuple(segments))


def twin(trajectory: Trajectory) -> Trajectory:
    """The counterfactual: the same system, seed and noise without the shocks.

    Example:
        >>> shocked = simulate("OU_PARAM")
        >>> calm = twin(shocked)
        >>> bool((calm.values[: shocked.shock_index] == shocked.values[: shocked.shock_index]).all())
        True
    """
    dtype: Literal["float32", "float64"] = "float64" if trajectory.values.dtype == np.float64 else "float32"
    return simulate(replace(trajectory.scenario, shocks=()), dtype=dtype)


def _refuse_blow_up(states: Array, plan: Scenario, segment: Segment) -> None:
    """An error that says where the states leave the range of float32; NaN counts as leaving."""
    within = (np.abs(states) <= _LARGEST).all(axis=1)
    if not within.all():
        row = segment.first_row + int(np.argmin(within))
        settings = ", ".join(f"{name}={value:g}" for name, value in segment.params.items())
        raise FernError(
            f"{plan.system} blows up at step {row} (time {(row + 1) * plan.dt:g}): "
            f"these settings are unstable: {settings}, dt={plan.dt:g}"
        )

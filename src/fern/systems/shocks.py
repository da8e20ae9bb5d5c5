"""Shocks: what changes in a running system, and when.

``at`` is a row: the first one made after the shock. A float is a fraction of the trajectory, ``int(at * steps)``; an
int is the row itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fern.errors import FernError, is_number, require_number
from fern.settings import STRICT
from fern.systems.base import Array, System


@dataclass(frozen=True)
class Regime:
    """Parameters in force, and the state they act on."""

    params: Mapping[str, float]
    state: Array  # (d,)


@dataclass(frozen=True)
class _Timed:
    """When a shock comes."""

    __pydantic_config__ = STRICT

    at: int | float

    def index(self, steps: int) -> int:
        """The first row after the shock."""
        require_number("at", self.at, "a row number or a fraction of the trajectory", lambda _: True)
        index = int(self.at * steps) if isinstance(self.at, float) else self.at
        if not 0 < index < steps:
            raise FernError(
                f"a shock at {self.at!r} falls on row {index}, outside the trajectory: needs a row from 1 to "
                f"{steps - 1}, or a fraction between 0.0 and 1.0",
                argument="at",
            )
        return index


@dataclass(frozen=True)
class ParamShock(_Timed):
    """Parameters change; the state goes on.

    Example:
        >>> ParamShock(at=0.35, params={"rho": 28.1}).index(1000)
        350
    """

    params: Mapping[str, float]
    kind: Literal["param"] = "param"

    def apply(self, system: System, before: Regime) -> Regime:
        """The regime after the shock."""
        return Regime(_same_channels(system, before.params, {**before.params, **self.params}), before.state)


@dataclass(frozen=True)
class StateShock(_Timed):
    """The observed state is displaced by ``eps``: one number for all channels, or one each.

    Example:
        >>> StateShock(at=200, eps=0.9).index(1000)
        200
    """

    eps: float | tuple[float, ...]
    kind: Literal["state_eps"] = "state_eps"

    def apply(self, system: System, before: Regime) -> Regime:
        """The regime after the shock."""
        for value in self.eps if isinstance(self.eps, tuple) else (self.eps,):
            require_number("eps", value, "finite numbers", lambda _: True)
        eps = np.asarray(self.eps, dtype=np.float64)
        channels = len(system.channel_names_of(before.params))
        if eps.ndim > 0 and eps.shape != (channels,):
            raise FernError(f"got {eps.size} values, {system.name} has {channels} channels", argument="eps")
        state = before.state.copy()
        state[:channels] += eps
        return Regime(before.params, state)


@dataclass(frozen=True)
class SwitchShock(_Timed):
    """Another trajectory of the system takes over: own parameters and own initial state.

    ``params`` are changes to those in force before; without ``initial_state`` the system's own is taken. The clock
    goes on: a season keeps its place in the calendar.

    Example:
        >>> SwitchShock(at=0.5, params={"forcing": 9.0}).index(100)
        50
    """

    params: Mapping[str, float] = field(default_factory=dict)
    initial_state: tuple[float, ...] | None = None
    kind: Literal["switch"] = "switch"

    def apply(self, system: System, before: Regime) -> Regime:
        """The regime after the shock."""
        params = _same_channels(system, before.params, {**before.params, **self.params})
        return Regime(params, starting_state(system, params, self.initial_state))


Shock = ParamShock | StateShock | SwitchShock


def starting_state(system: System, params: Mapping[str, float], initial: tuple[float, ...] | None) -> Array:
    """The system's own initial state, with its first entries (the channels, or all) replaced by those given."""
    state = system.initial_state_of(params)
    if initial is None:
        return state
    channels = len(system.channel_names_of(params))
    if len(initial) not in (channels, len(state)) or not all(map(is_number, initial)):
        raise FernError(f"got {initial}, {system.name} needs {channels} finite values", argument="initial_state")
    state[: len(initial)] = initial
    return state


def _same_channels(system: System, before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    params = system.complete(after)
    was, now = system.channel_names_of(before), system.channel_names_of(params)
    if was != now:
        counts = f"{len(was)} before, {len(now)} after"
        raise FernError(f"a shock cannot change the number of channels of {system.name} ({counts})", argument="params")
    return params

"""Lorenz-96: a ring of coupled variables, a toy model of the mid-latitude atmosphere."""

from collections.abc import Mapping

import numpy as np

from fern.systems.base import Array
from fern.systems.families import Flow


def _equations(state: Array, params: Array, out: Array) -> None:
    d = state.size
    for j in range(d):
        # Negative indices wrap around the ring by themselves.
        out[j] = (state[(j + 1) % d] - state[j - 2]) * state[j - 1] - state[j] + params[1]


def _channel_names(params: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(f"x{j + 1}" for j in range(int(params["dim"])))


def _initial_state(params: Mapping[str, float]) -> Array:
    """All ones, the first variable moved a little off that unstable symmetric state."""
    state = np.ones(int(params["dim"]))
    state[0] += 0.01
    return state


LORENZ96 = Flow(
    name="lorenz96",
    equations=_equations,
    params={"dim": 6, "forcing": 8.0},
    limits={"dim": (4, 10_000)},
    whole=frozenset({"dim"}),
    channel_names=_channel_names,
    initial_state=_initial_state,
    citation="Lorenz, E. N. (1996). Predictability: a problem partly solved. Proc. ECMWF Seminar, vol. 1.",
    lyapunov_exponent=0.954,  # of six variables under forcing 8; measured
)

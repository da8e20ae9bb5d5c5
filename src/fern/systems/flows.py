"""The chaotic flows that a few lines of equations define: Lorenz-63, Rössler, Chua's circuit and Lorenz-96."""

from collections.abc import Mapping

import numpy as np

from fern.systems.base import Array
from fern.systems.families import Flow


def _lorenz63(state: Array, params: Array, out: Array) -> None:
    x, y, z = state[0], state[1], state[2]
    sigma, rho, beta = params[0], params[1], params[2]
    out[0] = sigma * (y - x)
    out[1] = x * (rho - z) - y
    out[2] = x * y - beta * z


LORENZ63 = Flow(  # convection in the atmosphere, the canonical chaotic flow
    name="lorenz63",
    equations=_lorenz63,
    params={"sigma": 10.0, "rho": 28.0, "beta": 8.0 / 3.0},
    channel_names=("x", "y", "z"),
    initial_state=(1.0, 0.98, 1.1),
    lyapunov_exponent=0.906,
    citation="Lorenz, E. N. (1963). Deterministic nonperiodic flow. J. Atmos. Sci. 20, 130-141.",
)


def _rossler(state: Array, params: Array, out: Array) -> None:
    x, y, z = state[0], state[1], state[2]
    a, b, c = params[0], params[1], params[2]
    out[0] = -y - z
    out[1] = x + a * y
    out[2] = b + z * (x - c)


ROSSLER = Flow(  # a folded band, one of the simplest chaotic flows
    name="rossler",
    equations=_rossler,
    params={"a": 0.2, "b": 0.2, "c": 5.7},
    channel_names=("x", "y", "z"),
    initial_state=(1.0, 1.0, 1.0),
    lyapunov_exponent=0.071,
    citation="Rössler, O. E. (1976). An equation for continuous chaos. Phys. Lett. A 57, 397-398.",
)


def _chua(state: Array, params: Array, out: Array) -> None:
    x, y, z = state[0], state[1], state[2]
    alpha, beta, m0, m1 = params[0], params[1], params[2], params[3]
    h = m1 * x + 0.5 * (m0 - m1) * (abs(x + 1.0) - abs(x - 1.0))
    out[0] = alpha * (y - x - h)
    out[1] = x - y + z
    out[2] = -beta * y


CHUA = Flow(  # a circuit: piecewise linear, with a double-scroll attractor
    name="chua",
    equations=_chua,
    params={"alpha": 15.6, "beta": 28.0, "m0": -8.0 / 7.0, "m1": -5.0 / 7.0},
    channel_names=("x", "y", "z"),
    initial_state=(0.1, 0.0, 0.0),
    citation="Matsumoto, T. (1984). A chaotic attractor from Chua's circuit. IEEE Trans. Circuits Syst. 31, 1055-1058.",
    lyapunov_exponent=0.435,  # measured, as no printed one is for these parameters
)


def _lorenz96(state: Array, params: Array, out: Array) -> None:
    d = state.size
    for j in range(d):
        # Negative indices wrap around the ring by themselves.
        out[j] = (state[(j + 1) % d] - state[j - 2]) * state[j - 1] - state[j] + params[1]


def _lorenz96_names(params: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(f"x{j + 1}" for j in range(int(params["dim"])))


def _lorenz96_state(params: Mapping[str, float]) -> Array:
    """All ones, the first variable moved a little off that unstable symmetric state."""
    state = np.ones(int(params["dim"]))
    state[0] += 0.01
    return state


LORENZ96 = Flow(  # a ring of coupled variables, a toy model of the mid-latitude atmosphere
    name="lorenz96",
    equations=_lorenz96,
    params={"dim": 6, "forcing": 8.0},
    limits={"dim": (4, 10_000)},
    whole=frozenset({"dim"}),
    channel_names=_lorenz96_names,
    initial_state=_lorenz96_state,
    citation="Lorenz, E. N. (1996). Predictability: a problem partly solved. Proc. ECMWF Seminar, vol. 1.",
    lyapunov_exponent=0.954,  # of six variables under forcing 8; measured
)

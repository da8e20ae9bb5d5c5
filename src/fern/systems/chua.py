"""Chua's circuit: a piecewise-linear flow with a double-scroll attractor."""

from fern.systems.base import Array
from fern.systems.families import Flow


def _equations(state: Array, params: Array, out: Array) -> None:
    x, y, z = state[0], state[1], state[2]
    alpha, beta, m0, m1 = params[0], params[1], params[2], params[3]
    h = m1 * x + 0.5 * (m0 - m1) * (abs(x + 1.0) - abs(x - 1.0))
    out[0] = alpha * (y - x - h)
    out[1] = x - y + z
    out[2] = -beta * y


CHUA = Flow(
    name="chua",
    equations=_equations,
    params={"alpha": 15.6, "beta": 28.0, "m0": -8.0 / 7.0, "m1": -5.0 / 7.0},
    channel_names=("x", "y", "z"),
    initial_state=(0.1, 0.0, 0.0),
    citation="Matsumoto, T. (1984). A chaotic attractor from Chua's circuit. IEEE Trans. Circuits Syst. 31, 1055-1058.",
    lyapunov_exponent=0.435,  # measured, as no printed one is for these parameters
)

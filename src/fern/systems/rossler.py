"""Rössler: a folded band, one of the simplest chaotic flows."""

from fern.systems.base import Array
from fern.systems.families import Flow


def _equations(state: Array, params: Array, out: Array) -> None:
    x, y, z = state[0], state[1], state[2]
    a, b, c = params[0], params[1], params[2]
    out[0] = -y - z
    out[1] = x + a * y
    out[2] = b + z * (x - c)


ROSSLER = Flow(
    name="rossler",
    equations=_equations,
    params={"a": 0.2, "b": 0.2, "c": 5.7},
    channel_names=("x", "y", "z"),
    initial_state=(1.0, 1.0, 1.0),
    lyapunov_exponent=0.071,
    citation="Rössler, O. E. (1976). An equation for continuous chaos. Phys. Lett. A 57, 397-398.",
)

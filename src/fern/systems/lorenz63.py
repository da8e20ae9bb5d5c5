"""Lorenz-63: convection in the atmosphere, the canonical chaotic flow."""

from fern.systems.base import Array
from fern.systems.families import Flow


def _equations(state: Array, params: Array, out: Array) -> None:
    x, y, z = state[0], state[1], state[2]
    sigma, rho, beta = params[0], params[1], params[2]
    out[0] = sigma * (y - x)
    out[1] = x * (rho - z) - y
    out[2] = x * y - beta * z


LORENZ63 = Flow(
    name="lorenz63",
    equations=_equations,
    params={"sigma": 10.0, "rho": 28.0, "beta": 8.0 / 3.0},
    channel_names=("x", "y", "z"),
    initial_state=(1.0, 0.98, 1.1),
    lyapunov_exponent=0.906,
    citation="Lorenz, E. N. (1963). Deterministic nonperiodic flow. J. Atmos. Sci. 20, 130-141.",
)

"""Dynamical systems with known equations, shocks, scenarios and oracles (NumPy and Numba, no torch).

Example:
    >>> from fern.systems import oracle, simulate, twin
    >>> t = simulate("LORENZ_PARAM")
    >>> t.values.shape, t.shock_index
    ((35999, 3), 12599)
"""

from fern.systems.base import System
from fern.systems.families import Diffusion, Flow, Recursion
from fern.systems.noise import MonteCarloMean, observed
from fern.systems.oracle import monte_carlo_oracle, oracle
from fern.systems.registry import get_system, register_system
from fern.systems.scenarios import SCENARIOS, Scenario, is_scenario_file, open_scenario, read_scenario, scenario
from fern.systems.shocks import ParamShock, Shock, StateShock, SwitchShock
from fern.systems.trajectory import Segment, Trajectory, simulate, twin

__all__ = [
    "SCENARIOS",
    "Diffusion",
    "Flow",
    "MonteCarloMean",
    "ParamShock",
    "Recursion",
    "Scenario",
    "Segment",
    "Shock",
    "StateShock",
    "SwitchShock",
    "System",
    "Trajectory",
    "get_system",
    "is_scenario_file",
    "monte_carlo_oracle",
    "observed",
    "open_scenario",
    "oracle",
    "read_scenario",
    "register_system",
    "scenario",
    "simulate",
    "twin",
]

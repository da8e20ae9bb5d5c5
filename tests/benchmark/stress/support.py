"""What the stress tests' tests share: a scenario of moments, and forecasters good and bad."""

import numpy as np

from fern.systems import ParamShock, Scenario, oracle, simulate

TINY = Scenario(
    system="ornstein_uhlenbeck", dt=0.5, steps=700, shocks=(ParamShock(at=0.35, params={"mu": 0.5}),), id="TINY"
)
LENGTHS = {"context_length": 24, "horizon": 12, "windows": 8}

TINY_FILE = """
system = "ornstein_uhlenbeck"
steps = 700
dt = 0.5

[[shocks]]
kind = "param"
at = 0.35
params = { mu = 0.5 }
"""


def last_value(context, horizon):
    """A batch (B, L, C) at a time."""
    return np.repeat(context[:, -1:], horizon, axis=1)


def window_mean(context, horizon):
    """A window (L, C) at a time."""
    assert context.ndim == 2
    return np.repeat(context.mean(axis=0, keepdims=True), horizon, axis=0)


def cheat(plan):
    """The oracle, which finds out where in the trajectory it is by looking the context up."""
    trajectory = simulate(plan)

    def best(context, horizon):
        length = len(context)
        places = np.lib.stride_tricks.sliding_window_view(trajectory.values, length, axis=0)  # (n, C, L)
        (found,) = np.flatnonzero((places == context.T).all(axis=(1, 2)))
        return oracle(trajectory, [found + length], horizon)[0]

    return best

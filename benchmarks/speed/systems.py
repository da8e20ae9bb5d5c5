"""Simulation: against the same Runge-Kutta loop in plain NumPy, and the whole catalogue in one process."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.harness import Effort, Measurement, best_seconds
from fern.systems import SCENARIOS, oracle, simulate

PACKAGES = ("numpy", "numba")


def lorenz_in_plain_numpy(steps: int, dt: float) -> NDArray[np.float64]:
    """The same integrator as ours, as one writes it without a compiler."""
    sigma, rho, beta = 10.0, 28.0, 8.0 / 3.0

    def f(s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([sigma * (s[1] - s[0]), s[0] * (rho - s[2]) - s[1], s[0] * s[1] - beta * s[2]])

    x, out = np.array([1.0, 0.98, 1.1]), np.empty((steps, 3))
    for i in range(steps):
        k1 = f(x)
        k2 = f(x + 0.5 * dt * k1)
        k3 = f(x + 0.5 * dt * k2)
        k4 = f(x + dt * k3)
        x = x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        out[i] = x
    return out


def measure(effort: Effort) -> list[Measurement]:
    plans = [replace(plan, steps=effort.size(plan.steps, least=4000)) for plan in SCENARIOS.values()]
    plan = next(plan for plan in plans if plan.id == "LORENZ_BASE")
    ours, plain = simulate(plan, dtype="float64").values, lorenz_in_plain_numpy(plan.steps, plan.dt)
    if np.abs(ours[:500] - plain[:500]).max() > 1e-9:
        raise AssertionError("the two loops do not compute the same trajectory")

    def catalogue() -> None:
        for each in plans:
            simulate(each)

    lorenz = simulate(plan)
    starts = np.arange(int(0.9 * plan.steps), plan.steps - 336 + 1)
    return [
        Measurement(
            name=f"LORENZ_BASE, {plan.steps:,} steps of RK4, compiled",
            ours=best_seconds(lambda: simulate(plan), repeats=effort.rounds(20)),
            peer=best_seconds(lambda: lorenz_in_plain_numpy(plan.steps, plan.dt), repeats=effort.rounds(3)),
            unit="s",
            peer_name="plain NumPy loop",
            target="ratio >= 100",
        ),
        Measurement(
            f"all {len(plans)} scenarios",
            best_seconds(catalogue, repeats=effort.rounds(5)),
            None,
            "s",
            "",
            "recorded",
        ),
        Measurement(
            f"oracle of LORENZ_BASE, {len(starts):,} test windows of 336",
            best_seconds(lambda: oracle(lorenz, starts, 336), repeats=effort.rounds(3)),
            None,
            "s",
            "",
            "recorded",
        ),
    ]

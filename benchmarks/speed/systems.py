"""Simulation: against the same Runge-Kutta loop in plain NumPy, and the whole catalogue in one process."""

import numpy as np

from benchmarks.speed.harness import Measurement, best_seconds, record
from fern.systems import SCENARIOS, oracle, simulate


def lorenz_in_plain_numpy(steps: int, dt: float) -> np.ndarray:
    """The same integrator as ours, as one writes it without a compiler."""
    sigma, rho, beta = 10.0, 28.0, 8.0 / 3.0

    def f(s: np.ndarray) -> np.ndarray:
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


def measure() -> None:
    plan = SCENARIOS["LORENZ_BASE"]
    ours, plain = simulate(plan, dtype="float64").values, lorenz_in_plain_numpy(plan.steps, plan.dt)
    if np.abs(ours[:500] - plain[:500]).max() > 1e-9:
        raise AssertionError("the two loops do not compute the same trajectory")

    def catalogue() -> None:
        for scenario_id in SCENARIOS:
            simulate(scenario_id)

    lorenz = simulate(plan)
    starts = np.arange(int(0.9 * plan.steps), plan.steps - 336 + 1)
    record(
        "systems",
        [
            Measurement(
                name="LORENZ_BASE, 35,999 steps of RK4, compiled",
                ours=best_seconds(lambda: simulate(plan), repeats=20),
                peer=best_seconds(lambda: lorenz_in_plain_numpy(plan.steps, plan.dt), repeats=3),
                unit="s",
                peer_name="plain NumPy loop",
                target="ratio >= 100",
            ),
            Measurement("all 28 scenarios", best_seconds(catalogue, repeats=5), None, "s", "", "recorded"),
            Measurement(
                f"oracle of LORENZ_BASE, {len(starts):,} test windows of 336",
                best_seconds(lambda: oracle(lorenz, starts, 336), repeats=3),
                None,
                "s",
                "",
                "recorded",
            ),
        ],
        packages=("numpy", "numba"),
    )

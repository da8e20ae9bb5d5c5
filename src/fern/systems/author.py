"""The very trajectories of the paper's tables, to the last bit: its author's generators, stepped in their own order.

Chaos makes another trajectory of another order of sums within some thousand steps, so the paper's numbers are of these
rows and no others. What his generators fix (QilinWang/titraion-forecast, ``fr_data_gen.py`` and ``fr_tr_exp.py``):
start, step, length, the shock at 35 % of the steps, Runge-Kutta as x + (k1 + 2·k2 + 2·k3 + k4)·(dt/6), all in float64.
The initial state is the first row. A nudge moves the first channel alone. A switch is two whole runs, the second
taking over where it then is. Chua's runs are 1,000 steps longer and lose them at the start. Random systems draw one
number a step from NumPy's generator of seed 1955. SLDS and GARCH have no seed there: their rows cannot be had again.

A parameter shock overwrites the parameters of the object that describes the run, and the tables' script makes the rows
of each model anew from that one object. So only the first model, DLinear, saw the shock; the rows of all others, Fern's
too, have the parameters after it from their first step on (``again``), but for Chua's (docs/paper_claims.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.caching import cached_njit
from fern.errors import unknown_name

Array = NDArray[np.float64]

_SHOCK = 0.35
_SEED = 1955
_LORENZ, _ROSSLER, _LORENZ96, _CHUA = range(4)
_OU, _DOUBLE_WELL, _SEASONAL = range(3)


@dataclass(frozen=True)
class _Flow:
    """A deterministic run: the equations, their parameters, and what the shock makes of state and parameters."""

    kind: int
    channels: tuple[str, ...]
    start: tuple[float, ...]
    dt: float
    steps: int
    params: tuple[float, ...]
    nudge: float = 0.0
    after: tuple[float, ...] | None = None
    switch: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # start and parameters of the second run
    dropped: int = 0


@dataclass(frozen=True)
class _Noisy:
    """A random run of one channel."""

    kind: int
    start: float
    dt: float
    params: tuple[float, ...]
    after: tuple[float, ...] | None = None
    steps: int = 25_000


def _lorenz(**changes: Any) -> _Flow:
    return _Flow(_LORENZ, ("x", "y", "z"), (1.0, 0.98, 1.1), 0.01, 35_999, (10.0, 28.0, 8.0 / 3), **changes)


def _rossler(**changes: Any) -> _Flow:
    return _Flow(_ROSSLER, ("x", "y", "z"), (1.0, 1.0, 1.0), 0.01, 35_999, (0.2, 0.2, 5.7), **changes)


def _lorenz96(**changes: Any) -> _Flow:
    names = tuple(f"x{place}" for place in range(1, 7))
    return _Flow(_LORENZ96, names, (1.01, 1.0, 1.0, 1.0, 1.0, 1.0), 0.007, 55_000, (8.0,), **changes)


def _chua(**changes: Any) -> _Flow:
    params = (15.6, 28.0, -8.0 / 7.0, -5.0 / 7.0)
    return _Flow(_CHUA, ("x", "y", "z"), (0.1, 0.0, 0.0), 0.005, 36_999, params, dropped=1_000, **changes)


_RUNS: Mapping[str, _Flow | _Noisy] = {
    "LORENZ_BASE": _lorenz(),
    "LORENZ_PARAM": _lorenz(after=(10.1, 28.1, 8.1 / 3)),
    "LORENZ_STATE": _lorenz(nudge=0.9),
    "ROSSLER_BASE": _rossler(),
    "ROSSLER_PARAM": _rossler(after=(0.25, 0.25, 5.75)),
    "LORENZ96_BASE": _lorenz96(),
    "LORENZ96_SWITCH": _lorenz96(switch=((0.99, 1.02, 1.02, 1.03, 1.01, 1.01), (9.0,))),
    "CHUA_BASE": _chua(),
    "CHUA_PARAM": _chua(after=(15.9, 28.5, -8.1 / 7, -5.2 / 7)),
    "CHUA_SWITCH": _chua(switch=((0.11, 0.01, 0.02), (15.6, 28.0, -8.0 / 7.0, -5.0 / 7.0))),
    "OU_BASE": _Noisy(_OU, 0.0, 0.5, (0.2, 0.0, 0.3)),
    "OU_PARAM": _Noisy(_OU, 0.0, 0.5, (0.2, 0.0, 0.3), (0.2, 0.5, 0.3)),
    "DOUBLEWELL_BASE": _Noisy(_DOUBLE_WELL, 0.1, 0.5, (1.5, 0.25)),
    "DOUBLEWELL_PARAM": _Noisy(_DOUBLE_WELL, 0.1, 0.5, (1.5, 0.25), (1.0, 0.35)),
    "SEASONAL_AR_BASE": _Noisy(_SEASONAL, 0.0, 1.0, (0.5, 0.2, 1.0)),
    "SEASONAL_AR_PARAM": _Noisy(_SEASONAL, 0.0, 1.0, (0.5, 0.2, 1.0), (0.8, 0.35, 1.4)),
}


def author_ids() -> list[str]:
    """The scenarios whose rows in the paper's tables can be made again.

    Example:
        >>> len(author_ids()), "SLDS_BASE" in author_ids()
        (16, False)
    """
    return list(_RUNS)


def author_channels(scenario_id: str) -> tuple[str, ...]:
    """The names of the channels of `author_values`."""
    run = _find_run(scenario_id)
    return run.channels if isinstance(run, _Flow) else ("x",)


def author_values(scenario_id: str, *, again: bool = False) -> NDArray[np.float32]:  # (steps + 1, C)
    """The rows of a scenario as the paper's author made them, the initial state first.

    ``again``: as they were made for the second model and every later one, with the parameters after a shock throughout.

    Example:
        >>> author_values("LORENZ_STATE")[0]
        array([1.  , 0.98, 1.1 ], dtype=float32)
    """
    run = _find_run(scenario_id)
    if again and run.after is not None and not (isinstance(run, _Flow) and run.kind == _CHUA):
        run = replace(run, params=run.after)
    values = _simulate_flow(run) if isinstance(run, _Flow) else _simulate_noisy(run)
    return values.astype(np.float32)


def _find_run(scenario_id: str) -> _Flow | _Noisy:
    if scenario_id not in _RUNS:
        raise unknown_name("scenario of the author's", scenario_id, _RUNS)
    return _RUNS[scenario_id]


def _simulate_flow(run: _Flow) -> Array:
    shock = round(_SHOCK * run.steps)
    before, after = np.array(run.params), np.array(run.after or run.params)
    if run.switch is None:
        values: Array = np.empty((run.steps + 1, len(run.start)))
        _integrate(run.kind, np.array(run.start), run.dt, before, after, shock, run.nudge, values)
        return values[run.dropped :]
    first, second = np.empty((2, run.steps + 1, len(run.start)))
    start, params = run.switch
    _integrate(run.kind, np.array(run.start), run.dt, before, before, shock, 0.0, first)
    _integrate(run.kind, np.array(start), run.dt, np.array(params), np.array(params), shock, 0.0, second)
    second[: shock + 1] = first[: shock + 1]
    return second[run.dropped :]


def _simulate_noisy(run: _Noisy) -> Array:
    noise = np.random.default_rng(_SEED).standard_normal(run.steps)
    values = np.empty((run.steps + 1, 1))
    after = np.array(run.after or run.params)
    _step_through(run.kind, run.start, run.dt, np.array(run.params), after, round(_SHOCK * run.steps), noise, values)
    return values


# No fast-math in these: sums must keep their order, and products must not be fused with them.


@cached_njit(error_model="numpy")
def _slope(kind: int, x: Any, p: Any, out: Any) -> None:
    n = x.shape[0]
    if kind == 0:
        out[0] = p[0] * (x[1] - x[0])
        out[1] = x[0] * (p[1] - x[2]) - x[1]
        out[2] = x[0] * x[1] - p[2] * x[2]
    elif kind == 1:
        out[0] = -x[1] - x[2]
        out[1] = x[0] + p[0] * x[1]
        out[2] = p[1] + x[2] * (x[0] - p[2])
    elif kind == 2:
        for i in range(n):
            out[i] = (x[(i + 1) % n] - x[i - 2]) * x[i - 1] - x[i] + p[0]
    else:
        bent = p[3] * x[0] + 0.5 * (p[2] - p[3]) * (abs(x[0] + 1.0) - abs(x[0] - 1.0))
        out[0] = p[0] * (x[1] - x[0] - bent)
        out[1] = x[0] - x[1] + x[2]
        out[2] = -p[1] * x[1]


@cached_njit(error_model="numpy")
def _integrate(kind: int, x: Any, dt: float, before: Any, after: Any, shock: int, nudge: float, values: Any) -> None:
    n, params = x.shape[0], before
    k1, k2, k3, k4, at = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    values[0] = x
    for i in range(1, values.shape[0]):
        if i == shock:
            x[0] += nudge
            params = after
        _slope(kind, x, params, k1)
        for j in range(n):
            at[j] = x[j] + 0.5 * dt * k1[j]
        _slope(kind, at, params, k2)
        for j in range(n):
            at[j] = x[j] + 0.5 * dt * k2[j]
        _slope(kind, at, params, k3)
        for j in range(n):
            at[j] = x[j] + dt * k3[j]
        _slope(kind, at, params, k4)
        for j in range(n):
            x[j] = x[j] + (k1[j] + 2 * k2[j] + 2 * k3[j] + k4[j]) * (dt / 6.0)
        values[i] = x


@cached_njit(error_model="numpy")
def _step_through(kind: int, x: float, dt: float, before: Any, after: Any, shock: int, noise: Any, values: Any) -> None:
    params = before
    values[0, 0] = x
    for i in range(1, values.shape[0]):
        if i == shock:
            params = after
        if kind == 0:
            x = x + params[0] * (params[1] - x) * dt + params[2] * np.sqrt(dt) * noise[i - 1]
        elif kind == 1:
            x = x + (-(x**3) + params[0] * x) * dt + params[1] * np.sqrt(dt) * noise[i - 1]
        else:
            x = params[2] * np.sin(2.0 * np.pi * i / 24) + params[0] * x + params[1] * noise[i - 1]
        values[i, 0] = x

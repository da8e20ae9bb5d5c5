"""Trajectories: a simulated scenario, kept in float64, with its fingerprint and its files (CSV, Parquet, NPZ)."""

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from fern.errors import FernError, require_memory, show_value
from fern.files import require_ending, write_whole
from fern.systems.base import Array
from fern.systems.noise import draw_noise
from fern.systems.scenarios import Scenario, open_scenario
from fern.systems.shocks import Regime, starting_state


def fingerprint_of(values: NDArray[Any]) -> str:
    """SHA-256 of an array's shape, type and bytes: equal fingerprints mean equal data.

    Example:
        >>> fingerprint_of(np.zeros(2, np.float32))[:12], fingerprint_of(np.zeros((2, 1), np.float32))[:12]
        ('ce3977df5313', '648bd599a89c')
    """
    digest = hashlib.sha256(f"{values.shape}{values.dtype.str}".encode())
    digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Segment:
    """A stretch of a trajectory under one regime: its first row, the parameters, and the state it starts from."""

    first_row: int
    params: Mapping[str, float]
    entry_state: Array  # (d,)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The values that a scenario produces, row 0 being one step from the initial state.

    ``states`` is the whole float64 state after each step, which may hold more than the channels (a regime, a variance).
    """

    scenario: Scenario
    channel_names: tuple[str, ...]
    values: NDArray[np.float32] | Array  # (steps, channels)
    states: Array  # (steps, d)
    segments: tuple[Segment, ...]

    @property
    def dt(self) -> float:
        """The time between rows."""
        return self.scenario.dt

    @property
    def shock_index(self) -> int | None:
        """The first row after the first shock, or None without one."""
        rows = self.scenario.shock_rows
        return rows[0] if rows else None

    @cached_property
    def fingerprint(self) -> str:
        """Of the values, see `fern.systems.trajectory.fingerprint_of`."""
        return fingerprint_of(self.values)


def simulate(source: str | Path | Scenario, *, dtype: Literal["float32", "float64"] = "float32") -> Trajectory:
    """Play a scenario out: the id of a built-in one, a TOML file that defines one, or a ``Scenario``.

    Example:
        >>> t = simulate("LORENZ_PARAM")
        >>> t.values.shape, t.values.dtype.name, t.channel_names, t.shock_index
        ((35999, 3), 'float32', ('x', 'y', 'z'), 12599)
    """
    plan = open_scenario(source)
    if dtype not in ("float32", "float64"):
        raise FernError(argument="dtype", got=dtype, expected="'float32' or 'float64'")
    system = plan.source
    params = system.complete(plan.params)
    regime = Regime(params, starting_state(system, params, plan.initial_state))
    # The states twice, while a segment is put in its place, the noise, and the values.
    width = 2 * len(regime.state) + len(system.noise) + len(system.channel_names_of(params))
    require_memory(f"steps: {show_value(plan.steps)} steps of {system.name}", 8.0 * width * min(plan.steps, 10**30))
    noise = draw_noise(system.noise, steps=plan.steps, seed=plan.seed)[None]
    states = np.empty((plan.steps, len(regime.state)))
    segments = []
    borders = (0, *plan.shock_rows, plan.steps)
    for i, (first, end) in enumerate(itertools.pairwise(borders)):
        if i > 0:
            regime = plan.shocks[i - 1].apply(system, regime)
        segments.append(Segment(first, regime.params, regime.state))
        states[first:end] = system.advance(
            regime.state[None], regime.params, dt=plan.dt, first_step=first, noise=noise[:, first:end]
        )[0]
        _refuse_blow_up(states[first:end], plan, segments[-1])
        regime = replace(regime, state=states[end - 1].copy())
    names = system.channel_names_of(params)
    values = states[:, : len(names)].astype(dtype)
    return Trajectory(plan, names, values, states, tuple(segments))


def twin(trajectory: Trajectory) -> Trajectory:
    """The counterfactual: the same system, seed and noise without the shocks.

    Example:
        >>> shocked = simulate("OU_PARAM")
        >>> calm = twin(shocked)
        >>> bool((calm.values[: shocked.shock_index] == shocked.values[: shocked.shock_index]).all())
        True
    """
    dtype: Literal["float32", "float64"] = "float64" if trajectory.values.dtype == np.float64 else "float32"
    return simulate(replace(trajectory.scenario, shocks=()), dtype=dtype)


def _refuse_blow_up(states: Array, plan: Scenario, segment: Segment) -> None:
    """An error that says where the states leave the range of float32; NaN counts as leaving."""
    within = (np.abs(states) <= _LARGEST).all(axis=1)
    if not within.all():
        row = segment.first_row + int(np.argmin(within))
        settings = ", ".join(f"{name}={value:g}" for name, value in segment.params.items())
        raise FernError(
            f"{plan.system} blows up at step {row} (time {(row + 1) * plan.dt:g}): "
            f"these settings are unstable: {settings}, dt={plan.dt:g}"
        )


FORMATS = (".csv", ".parquet", ".npz")


def export_format(path: Path) -> str:
    """The format that a file name asks for, one of ``FORMATS``.

    Example:
        >>> export_format(Path("lorenz.parquet"))
        '.parquet'
    """
    return require_ending(path, FORMATS, what="a trajectory")


def save_trajectory(trajectory: Trajectory, path: Path | str) -> None:
    """Write the values with their time to ``path``; the ending chooses the format.

    CSV and Parquet hold a ``time`` column and one for each channel. Parquet's schema and NPZ also carry the scenario,
    the shock rows and the fingerprint as JSON, under ``fern``.

    Example:
        >>> from fern.systems import simulate
        >>> save_trajectory(simulate("OU_BASE"), "ou.npz")
        >>> sorted(np.load("ou.npz").files)
        ['channels', 'fern', 'time', 'values']
    """
    path = Path(path)
    suffix = export_format(path)
    time = trajectory.dt * np.arange(1, len(trajectory.values) + 1)
    about = json.dumps(describe(trajectory))
    columns = {"time": time, **dict(zip(trajectory.channel_names, trajectory.values.T, strict=True))}
    with write_whole(path) as temporary, temporary.open("wb") as file:
        if suffix == ".npz":
            np.savez(file, values=trajectory.values, time=time, channels=np.array(trajectory.channel_names), fern=about)
            return
        table = pa.table({name: _column(values) for name, values in columns.items()})
        if suffix == ".parquet":
            pa.parquet.write_table(table.replace_schema_metadata({"fern": about}), file)
            file.flush()
        else:
            pa.csv.write_csv(table, file)


def _column(values: NDArray[np.float64]) -> pa.Array:
    """``pa.array(values)``, which loads pandas to look at them: a third of the time of ``fern simulate``."""
    whole = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(whole.dtype), len(whole), [None, pa.py_buffer(whole)])


def describe(trajectory: Trajectory) -> dict[str, object]:
    """The scenario and what it led to, as plain values."""
    return {
        "scenario": asdict(trajectory.scenario),
        "channels": list(trajectory.channel_names),
        "shock_rows": list(trajectory.scenario.shock_rows),
        "fingerprint": trajectory.fingerprint,
    }

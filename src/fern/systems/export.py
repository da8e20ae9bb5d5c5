"""Trajectories as files: CSV, Parquet and NPZ."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from fern.files import ending_of, written_whole
from fern.systems.trajectory import Trajectory

FORMATS = (".csv", ".parquet", ".npz")


def export_format(path: Path) -> str:
    """The format that a file name asks for, one of ``FORMATS``.

    Example:
        >>> export_format(Path("lorenz.parquet"))
        '.parquet'
    """
    return ending_of(path, FORMATS, what="a trajectory")


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
    with written_whole(path) as temporary, temporary.open("wb") as file:
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

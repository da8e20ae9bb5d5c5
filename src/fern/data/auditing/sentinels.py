"""Values that stand where a measurement is missing: codes, and one value for too long."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fern.data.auditing.scan.runs import RunScan, runs_of

SentinelKind = Literal["code", "stuck"]


@dataclass(frozen=True)
class Sentinel:
    """A run of one value that is no measurement."""

    kind: SentinelKind
    first: int
    length: int
    value: float

    @property
    def reason(self) -> str:
        """Why it is none."""
        return "missing-value code" if self.kind == "code" else f"stuck for {self.length:,} rows"


def sentinels(
    values: NDArray[np.float64],  # (T,), missing ones NaN
    *,
    stuck_after: float,
) -> list[Sentinel]:
    """Runs of missing-value codes, and of one value other than zero for more than ``stuck_after`` rows.

    Example:
        >>> values = np.concatenate([np.arange(1.0, 50.0), [-9999.0, 7.0, 7.0, 7.0, 7.0]])
        >>> [(found.kind, found.first, found.length) for found in sentinels(values, stuck_after=3)]
        [('code', 49, 1), ('stuck', 50, 4)]
    """
    scan = RunScan()
    scan.add(values)
    scan.close()
    codes = np.array([code for code, _, _ in scan.codes()], dtype=np.float32)
    runs = runs_of(values)
    coded = np.isin(runs.values.astype(np.float32), codes)
    stuck = np.isfinite(runs.values) & (runs.values != 0) & (runs.lengths > stuck_after)
    return [
        Sentinel("code" if np.float32(value) in codes else "stuck", first, length, value)
        for first, length, value in runs.where(coded | stuck)
    ]

"""What becomes of values and rows that are missing from a series."""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.frequency import Frequency, next_stamps
from fern.data.timestamps import as_integers
from fern.errors import FernError, unknown_name

Missing = Literal["error", "interpolate", "ffill", "drop"]
"""``error`` refuses missing values; ``interpolate`` and ``ffill`` fill them, and the rows that the time grid lacks;
``drop`` removes rows with a missing value, which leaves gaps."""

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def require_missing(rule: str) -> None:
    """Refuse a rule that is not known."""
    if rule not in get_args(Missing):
        raise unknown_name("missing", rule, get_args(Missing))


def on_whole_grid(
    stamps: pa.Array, values: Floats, *, frequency: Frequency, missing_rows: int
) -> tuple[pa.Array, Floats]:  # (T + missing_rows,), (T + missing_rows, C)
    """The series with a row of NaN for each stamp that its time grid lacks.

    Example:
        >>> stamps, values = on_whole_grid(
        ...     pa.array([0, 1, 3]), np.array([[5.0], [6.0], [8.0]]), frequency=Frequency("integer", 1), missing_rows=1
        ... )
        >>> stamps.to_pylist(), values[:, 0].tolist()
        ([0, 1, 2, 3], [5.0, 6.0, nan, 8.0])
    """
    if not missing_rows:
        return stamps, values
    rest = next_stamps(stamps[0], frequency, len(stamps) + missing_rows - 1)
    whole = pa.concat_arrays([stamps[:1], rest])
    places = np.searchsorted(as_integers(whole), as_integers(stamps))
    filled = np.full((len(whole), values.shape[1]), np.nan)
    filled[places] = values
    return whole, filled


def interpolated(values: Floats) -> Floats:  # (T, C)
    """Missing values on the straight line between their neighbours; at either end, the nearest value.

    Example:
        >>> interpolated(np.array([[np.nan], [1.0], [np.nan], [3.0]]))[:, 0].tolist()
        [1.0, 1.0, 2.0, 3.0]
    """
    return _by_column(values, lambda rows, known, column: np.interp(rows, known, column[known]))


def filled_forward(values: Floats) -> Floats:  # (T, C)
    """Missing values take the last value before them; before the first value, the first.

    Example:
        >>> filled_forward(np.array([[np.nan], [1.0], [np.nan], [3.0]]))[:, 0].tolist()
        [1.0, 1.0, 1.0, 3.0]
    """

    def fill(rows: Rows, known: Rows, column: Floats) -> Floats:
        return column[known[np.maximum(np.searchsorted(known, rows, side="right") - 1, 0)]]

    return _by_column(values, fill)


def _by_column(values: Floats, fill: Callable[[Rows, Rows, Floats], Floats]) -> Floats:
    result = values.copy()
    rows = np.arange(len(values))
    for c in range(values.shape[1]):
        known = np.flatnonzero(np.isfinite(values[:, c]))
        if 0 < len(known) < len(values):
            result[:, c] = fill(rows, known, values[:, c])
    return result


def first_missing(values: Floats) -> tuple[int, int, int] | None:
    """How many values of which column are missing or infinite, and in which row first: the worst column's."""
    absent = ~np.isfinite(values)
    if not absent.any():
        return None
    counts = absent.sum(axis=0)
    column = int(np.argmax(counts))
    return int(counts[column]), column, int(np.flatnonzero(absent[:, column])[0])


def refuse_missing(values: Floats, names: tuple[str, ...], *, where: str) -> None:
    """An error that says how many values are missing, where first, and what to do."""
    found = first_missing(values)
    if found is None:
        return
    count, column, row = found
    if count == len(values):
        raise FernError(f"column {names[column]!r} has no values; ignore it", where=where)
    what = "value" if count == 1 else "values"
    raise FernError(
        f"column {names[column]!r} has {count:,} missing or infinite {what} (first in data row {row + 1:,})",
        argument="missing",
        expected="'interpolate', 'ffill' or 'drop' (or clean the table first)",
        where=where,
    )

"""Other libraries' series as the forecaster's tables: rows are counted and series named, their stamps kept outside."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.frames import Series, read_frame
from fern.data.frequency import ROWS, Frequency
from fern.data.missing import interpolated
from fern.data.native import Native
from fern.errors import FernError
from fern.forecaster.inputs import Form, Table

Floats = NDArray[np.float64]

_FORM = Form(
    kind="pyarrow",
    long=True,
    time=None,
    identifier="series",
    time_type=None,
    identifier_type=None,
    value_type=pa.float64(),
    native=Native("pyarrow"),
)


def table_of(
    series: Iterable[tuple[str, Floats]],  # names, and values (T_i, C)
    *,
    frequency: Frequency = ROWS,
) -> Table:
    """Series as a table; missing values lie on the line between their neighbours, a series without any is zero.

    Example:
        >>> table_of([("a", np.array([[1.0], [np.nan], [3.0]]))]).series[0].values[:, 0].tolist()
        [1.0, 2.0, 3.0]
    """
    read = []
    for name, values in series:
        rows = np.ascontiguousarray(np.nan_to_num(interpolated(values)))
        channels = tuple(map(str, range(rows.shape[1])))
        read.append(Series(name, None, rows, channels, frequency))
    return Table(tuple(read), _FORM)


def step_of(stamps: Any) -> Frequency:  # (T,) datetime64
    """The step of stamps, from which the usual season follows; rows where they are no grid.

    Example:
        >>> str(step_of(np.arange("2020-01-01", "2020-01-05", dtype="datetime64[D]"))), step_of(np.arange(5)).unit
        ('1 day', 'row')
    """
    values = np.asarray(stamps)
    if values.dtype.kind != "M":
        return ROWS
    try:
        return read_frame(pa.table({"ds": values.astype("datetime64[ns]"), "y": np.zeros(len(values))})).frequency
    except FernError:  # too few, or irregular
        return ROWS

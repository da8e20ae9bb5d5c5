"""Other libraries' series as a `SeriesTable`: rows are counted and series named, their stamps kept outside."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.covariates import Encoding
from fern.data.frequency import ROWS, Frequency
from fern.data.series_table import Series, SeriesTable, interpolate, read_frame
from fern.errors import FernError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Columns:
    """Covariates of some series as numbers, by the series' names; stamps where the calendar is to be one of them."""

    encoding: Encoding
    dynamic: Mapping[str, Floats] = field(default_factory=dict)  # (T_i, K), known columns first
    static: Mapping[str, Floats] = field(default_factory=dict)  # (Q,)
    stamps: Mapping[str, pa.Array] = field(default_factory=dict)  # (T_i,)


def make_table(
    series: Iterable[tuple[str, Floats]],  # names, and values (T_i, C)
    *,
    frequency: Frequency = ROWS,
    columns: Columns | None = None,
) -> SeriesTable:
    """Series as a table; missing values are interpolated, a series without any value is zero.

    Example:
        >>> make_table([("a", np.array([[1.0], [np.nan], [3.0]]))]).series[0].values[:, 0].tolist()
        [1.0, 2.0, 3.0]
    """
    members = []
    for name, values in series:
        rows = np.ascontiguousarray(np.nan_to_num(interpolate(values)))
        channels = tuple(map(str, range(rows.shape[1])))
        member = Series(name, None, rows, channels, frequency)
        if columns is not None:
            dynamic, stamps = columns.dynamic.get(name), columns.stamps.get(name)
            filled = None if dynamic is None else np.ascontiguousarray(np.nan_to_num(interpolate(dynamic)))
            member = replace(member, covariates=filled, static=columns.static.get(name), stamps=stamps)
        members.append(member)
    dated = columns is not None and bool(columns.stamps)
    return SeriesTable(
        tuple(members),
        members[0].channel_names,
        frequency,
        time_col="time" if dated else None,
        time_type=pa.timestamp("ns") if dated else None,
        id_col="series",
        encoding=None if columns is None else columns.encoding,
    )


def find_frequency(stamps: Any) -> Frequency:  # (T,) datetime64
    """The step of stamps, from which the usual season follows; rows where they are no grid.

    Example:
        >>> days = np.arange("2020-01-01", "2020-01-05", dtype="datetime64[D]")
        >>> str(find_frequency(days)), find_frequency(np.arange(5)).unit
        ('1 day', 'row')
    """
    values = np.asarray(stamps)
    if values.dtype.kind != "M":
        return ROWS
    try:
        return read_frame(pa.table({"ds": values.astype("datetime64[ns]"), "y": np.zeros(len(values))})).frequency
    except FernError:  # too few, or irregular
        return ROWS

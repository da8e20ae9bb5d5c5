"""Series from data frames, wide or long, checked; and frames from series, of the kind that came in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fern.data.frequency import ROWS, Frequency, frequency_of, next_stamps
from fern.data.missing import Missing, filled_forward, interpolated, on_whole_grid, refuse_missing, require_missing
from fern.data.native import Native, unwrap
from fern.data.reading import Reading, Source, open_source, table_source
from fern.data.time_grid import GridScan, TimeGrid, grid_without_time
from fern.data.timestamps import as_integers, in_type, one_chunk
from fern.errors import FernError

BY_ROWS = "treat them as equally spaced: grid='rows', --rows"
"""What to do about a time column that is no grid."""


@dataclass(frozen=True)
class Series:
    """One series: values in the order of time, and where its time grid breaks.

    ``breaks`` are the rows that follow a gap; hand them to `Windows` so that no window crosses one.
    """

    name: str
    stamps: pa.Array | None  # timestamp[ns], timestamp[ns, zone] or int64
    values: NDArray[np.float64]  # (T, C)
    channel_names: tuple[str, ...]
    frequency: Frequency
    breaks: tuple[int, ...] = ()

    def future(self, count: int) -> pa.Array | None:
        """The next ``count`` stamps after the last row (None without a time column)."""
        if self.stamps is None:
            return None
        return next_stamps(self.stamps[len(self.stamps) - 1], self.frequency, count)


@dataclass(frozen=True)
class Panel:
    """The series of one frame, and what is needed to give answers in the same shape.

    Example:
        >>> panel = read_frame(pa.table({"ds": ["2020-01-01", "2020-01-02"], "a": [1.0, 2.0]}))
        >>> panel.series[0].values.tolist(), str(panel.series[0].frequency)
        ([[1.0], [2.0]], '1 day')
    """

    series: tuple[Series, ...]
    long: bool
    time: str | None
    identifier: str | None
    time_type: pa.DataType | None
    identifier_type: pa.DataType | None
    native: Native

    @property
    def frequency(self) -> Frequency:
        """The step that all series share."""
        return self.series[0].frequency

    def frame(
        self,
        stamps: Sequence[pa.Array | None],  # for each series (n_i,)
        columns: Sequence[Mapping[str, NDArray[Any]]],  # for each series: name -> (n_i,)
    ) -> Any:
        """A frame of the kind that came in: long ones with the series' names, all with the time column.

        Example:
            >>> panel = read_frame(pa.table({"ds": ["2020-01-01", "2020-01-02"], "a": [1.0, 2.0]}))
            >>> answer = panel.frame([panel.series[0].future(1)], [{"a": np.array([3.0])}])
            >>> str(answer["ds"][0])[:10], answer["a"][0].as_py()
            ('2020-01-03', 3.0)
        """
        tables = []
        for one, when, what in zip(self.series, stamps, columns, strict=True):
            length = len(next(iter(what.values())))
            table: dict[str, Any] = {}
            if self.identifier is not None:
                table[self.identifier] = restored_names(pa.array([one.name] * length), self.identifier_type)
            if self.time is not None and when is not None:
                table[self.time] = restored(when, self.time_type)
            tables.append(pa.table({**table, **{name: pa.array(data) for name, data in what.items()}}))
        return self.native.wrap(pa.concat_tables(tables))


_SCANNED_AT_ONCE = 1 << 18


def read_frame(
    frame: Any,
    *,
    time: str | None = None,
    series: str | None = None,
    ignore: Sequence[str] = (),
    grid: Literal["time", "rows"] = "time",
    step: timedelta | None = None,
    missing: Missing = "error",
    native: Native | None = None,
) -> Panel:
    """The series of a data frame (pandas, polars, pyarrow) or of a CSV or Parquet file.

    Wide: a time column and one column a channel. Long: ``unique_id``, ``ds``, ``y``: one series an id.
    The time column runs forwards on a grid (gaps are allowed and noted as breaks); with ``grid="rows"`` its
    stamps are not looked at and rows count as equally spaced. ``step`` says how long a step lasts where the time
    column does not. Missing values are refused, filled or dropped as ``missing`` says (`fern.data.missing.Missing`).
    An Arrow table that was made of another library's frame has that library as ``native``.
    """
    require_missing(missing)
    if grid not in ("time", "rows"):
        raise FernError(argument="grid", got=grid, expected="'time' or 'rows'")
    reading = Reading(time=time, series=series, ignore=tuple(ignore))
    if isinstance(frame, str | Path):
        source, kind = open_source(frame, reading), Native("pyarrow")
        types: dict[str | None, pa.DataType] = {}
    else:
        table, kind = unwrap(frame)
        source = table_source(table, name="frame", reading=reading)
        types = dict(zip(table.column_names, table.schema.types, strict=True))
    found = tuple(
        _series(name, rows, source, by_rows=grid == "rows", step=step, missing=missing)
        for name, rows in by_series(source)
    )
    _check_one_frequency(found)
    return Panel(
        series=found,
        long=source.roles.series is not None,
        time=source.roles.time,
        identifier=source.roles.series,
        time_type=types.get(source.roles.time, source.time_type),
        identifier_type=types.get(source.roles.series),
        native=native or kind,
    )


def by_series(source: Source) -> list[tuple[str, pa.Table]]:
    """The rows of each series, in their order; series in the order of their first row."""
    table, column = source.table(), source.roles.series
    if column is None:
        return [("", table)]
    names = pc.dictionary_encode(one_chunk(table[column]))
    if names.null_count:
        raise FernError(f"column {column!r} has {names.null_count:,} empty series names", argument=source.name)
    codes = np.asarray(names.indices)
    labels = names.dictionary.to_pylist()
    if len(labels) == 1:
        return [(labels[0], table)]
    changes = np.flatnonzero(np.diff(codes)) + 1
    edges = [0, *changes.tolist(), len(codes)]
    if len(edges) == len(labels) + 1:  # one series after the other: nothing is copied
        return [(labels[k], table.slice(edges[k], edges[k + 1] - edges[k])) for k in range(len(labels))]
    order = np.argsort(codes, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return [(labels[int(codes[rows[0]])], table.take(pa.array(rows))) for rows in pieces]


def _series(
    name: str, table: pa.Table, source: Source, *, by_rows: bool, step: timedelta | None, missing: Missing
) -> Series:
    where = f"{source.name}, series {name!r}" if name else source.name
    stamps = None if source.roles.time is None else one_chunk(table[source.roles.time])
    grid = grid_without_time(table.num_rows)
    on_grid = stamps is not None and not by_rows
    if stamps is not None:
        grid = _scanned(stamps)
        if on_grid:
            check_grid(grid, where=where, stamps=stamps)
    names = source.roles.values
    values = _values(table, names)
    if missing == "error":
        refuse_missing(values, names, where=where)
    elif missing == "drop":
        kept = np.isfinite(values).all(axis=1)
        if not kept.any():
            raise FernError("every row has a missing value; nothing is left to forecast from", where=where)
        if not kept.all():
            values = values[kept]
            stamps = None if stamps is None else stamps.filter(pa.array(kept))
    else:
        if on_grid and grid.gaps and grid.frequency is not None:
            stamps, values = on_whole_grid(stamps, values, frequency=grid.frequency, missing_rows=grid.missing_rows)
        values = interpolated(values) if missing == "interpolate" else filled_forward(values)
        refuse_missing(values, names, where=where)  # a column without any value
    breaks: tuple[int, ...] = ()
    if on_grid and len(values) < table.num_rows + grid.missing_rows:  # rows are missing, or were dropped
        breaks = _breaks(stamps, grid.frequency)
    return Series(name, stamps, values, names, step_of(grid, step, where=where), breaks)


def _values(table: pa.Table, names: Sequence[str]) -> NDArray[np.float64]:  # (T, C)
    """The columns side by side; copied chunk by chunk, once."""
    values = np.empty((table.num_rows, len(names)))
    for c, name in enumerate(names):
        row = 0
        for chunk in table[name].chunks:
            values[row : row + len(chunk), c] = chunk.to_numpy(zero_copy_only=False)
            row += len(chunk)
    return values


def _scanned(stamps: pa.Array) -> TimeGrid:
    scan = GridScan()
    for first in range(0, len(stamps), _SCANNED_AT_ONCE):  # what it works out takes several times the column's memory
        scan.add(stamps.slice(first, _SCANNED_AT_ONCE))
    return scan.result()


def step_of(grid: TimeGrid, step: timedelta | None, *, where: str) -> Frequency:
    """The frequency of the grid, or the step given where the time column has none of its own."""
    frequency = grid.frequency or ROWS
    if step is None:
        return frequency
    if frequency.nanoseconds is not None and frequency != frequency_of(step):
        raise FernError(
            f"got {frequency_of(step)}, but the time column of {where} steps by {frequency}", argument="step"
        )
    return frequency_of(step) if frequency.nanoseconds is None else frequency


def check_grid(grid: TimeGrid, *, where: str, stamps: pa.Array | None = None) -> None:
    """Refuse time stamps that do not run forwards in equal steps; gaps are allowed."""
    problems = grid.problems()
    if problems:
        first = grid.first_problem_row
        if first is None and stamps is not None and grid.frequency is not None:
            first = next(iter(_breaks(stamps, grid.frequency, gaps=False)), None)
        row = "" if first is None else f" (first in data row {first + 1:,})"
        raise FernError(
            (
                f"{'; '.join(problems)}{row}; a series needs increasing, equally spaced timestamps "
                f"(correct the rows, or {BY_ROWS})"
            ),
            where=where,
        )
    if grid.frequency is None:
        raise FernError(f"{grid.rows} row, a series needs at least 2", where=where)


def _breaks(stamps: pa.Array, frequency: Frequency | None, *, gaps: bool = True) -> tuple[int, ...]:
    """The rows that do not follow the one before by a step; without ``gaps``, not by whole steps either."""
    if frequency is None:
        return ()
    if frequency.unit in ("nanosecond", "integer"):
        steps = np.diff(as_integers(stamps))
        wrong = steps != frequency.count if gaps else steps % frequency.count != 0
        return tuple((np.flatnonzero(wrong) + 1).tolist())
    # On a calendar: the rows whose stamp is not the one that follows the row before.
    expected = [next_stamps(stamps[i], frequency, 1)[0] for i in range(len(stamps) - 1)]
    return tuple(i + 1 for i, stamp in enumerate(expected) if stamp != stamps[i + 1])


def _check_one_frequency(series: Sequence[Series]) -> None:
    first = series[0]
    for other in series[1:]:
        if other.frequency != first.frequency:
            raise FernError(
                f"mixed frequencies: series {first.name!r} steps by {first.frequency}, "
                f"series {other.name!r} by {other.frequency}; forecast them separately"
            )


def restored(stamps: pa.Array, type_: pa.DataType | None) -> pa.Array:
    """Stamps in the type of the time column that came in (text comes back as time stamps)."""
    if type_ is None or pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return stamps
    if pa.types.is_dictionary(type_) or pa.types.is_string_view(type_):
        return stamps
    if pa.types.is_integer(type_) and not pa.types.is_integer(stamps.type):
        return stamps
    return in_type(stamps, type_, safe=False)


def restored_names(names: pa.Array | pa.ChunkedArray, type_: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    """Series' names in the type of the column that came in."""
    if type_ is None or pa.types.is_dictionary(type_):
        return names if type_ is None else names.dictionary_encode()
    return in_type(names, type_)

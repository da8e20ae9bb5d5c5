"""SeriesTable: the series of a wide or long table, checked, and frames of the same kind as answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fern.data.columns import Reading, Roles
from fern.data.covariates import Encoding
from fern.data.frequency import (
    DAY,
    ROWS,
    Frequency,
    GridScan,
    TimeGrid,
    count_units,
    grid_by,
    local_times,
    next_stamps,
    to_frequency,
)
from fern.data.reading import Native, Source, readable, restore_names, to_source
from fern.data.timestamps import as_integers, as_text, combine_chunks, in_type, is_text
from fern.errors import FernError, require_memory, unknown_name

Missing = Literal["error", "interpolate", "ffill", "drop"]
"""``error`` refuses missing values; ``interpolate`` and ``ffill`` fill them, and the rows that the time grid lacks;
``drop`` removes rows with a missing value, which leaves gaps."""

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


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
    covariates: NDArray[np.float64] | None = None  # (T, K), known and past columns as numbers
    static: NDArray[np.float64] | None = None  # (Q,)
    sorted: bool = False  # the rows came in another order
    bridged: tuple[int, int] = (0, 0)  # the longest run of values that were filled in: its rows, and the first of them

    def future(self, count: int) -> pa.Array | None:
        """The next ``count`` stamps after the last row (None without a time column)."""
        if self.stamps is None:
            return None
        return next_stamps(self.stamps[len(self.stamps) - 1], self.frequency, count)


@dataclass(frozen=True)
class SeriesTable:
    """The series of a table, the roles of its columns, and what is needed to answer with a frame of the same kind.

    Attributes:
        series: the series, in the order of their first rows.
        channel_names: the columns of values.
        frequency: the step that all series share.
        time_col: the time column; None where rows count.
        id_col: the column that names the series of a long table; None for a wide one.
        time_format: the format in which a CSV file writes its times; None where that is not simple.
        encoding: how its covariates became numbers; None without any.
        ignored: columns that are left out.
        notes: what was done to the rows that a reader would not take for granted.

    Example:
        >>> table = read_frame(pa.table({"ds": ["2020-01-01", "2020-01-02"], "a": [1.0, 2.0]}))
        >>> table.series[0].values.tolist(), table.time_col, str(table.frequency)
        ([[1.0], [2.0]], 'ds', '1 day')
        >>> answer = table.frame([""], [table.series[0].future(1)], {"a": np.array([3.0])})
        >>> str(answer["ds"][0])[:10], answer["a"][0].as_py()
        ('2020-01-03', 3.0)
    """

    series: tuple[Series, ...]
    channel_names: tuple[str, ...]
    frequency: Frequency
    time_col: str | None = None
    id_col: str | None = None
    time_type: pa.DataType | None = None
    id_type: pa.DataType | None = None
    value_type: pa.DataType = field(default_factory=pa.float64)
    time_format: str | None = None
    native: Native = field(default_factory=lambda: Native("pyarrow"))
    encoding: Encoding | None = None
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def describe_roles(self) -> str:
        """The columns' roles, in a line."""
        parts = [f"time: {self.time_col}" if self.time_col is not None else "no time column: rows count"]
        if self.id_col is not None:
            parts.append(f"series: {self.id_col} ({len(self.series):,})")
        names = {"targets" if len(self.channel_names) > 1 else "target": self.channel_names}
        names |= {} if self.encoding is None else {"covariates": self.encoding.names.names}
        names |= {"left out": self.ignored}
        parts += [f"{role}: {', '.join(c[:8])}{', …' * (len(c) > 8)}" for role, c in names.items() if c]
        lengths = sorted({len(series.values) for series in self.series})
        rows = f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"
        return f"{'; '.join(parts)}; {rows} rows, step {self.frequency}"

    @property
    def roles(self) -> Roles:
        """The roles of the columns, for tables that are read like this one."""
        return Roles(self.channel_names, self.time_col, series=self.id_col)

    @property
    def long(self) -> bool:
        """Whether the rows are of many series, which a column names."""
        return self.id_col is not None

    def without_rows(self) -> "SeriesTable":
        """The same columns without any series: enough to answer with frames."""
        return replace(self, series=())

    def frame(
        self,
        names: Sequence[str],  # the series, one name for each
        stamps: Sequence[pa.Array | None],  # for each series (n_i,)
        columns: Mapping[str, Any],  # (Σ n_i,) values in the order of the series
        *,
        integers: Sequence[str] = (),
    ) -> Any:
        """A frame of the kind that came in: identifier (long tables), time, then the columns."""
        lengths = [0 if when is None else len(when) for when in stamps]
        table: dict[str, Any] = {}
        if self.id_col is not None:
            table[self.id_col] = self.identifiers(names, lengths)
        if self.time_col is not None:
            whole = pa.concat_arrays([when for when in stamps if when is not None])
            table[self.time_col] = restore_stamps(whole, self.time_type)
        for name, values in columns.items():
            if isinstance(values, pa.Array | pa.ChunkedArray):
                table[name] = values
            else:
                table[name] = pa.array(values, pa.int64() if name in integers else self.value_type)
        return self.native.wrap(pa.table(table))

    def identifiers(self, names: Sequence[str], lengths: Sequence[int]) -> Any:
        """The identifier column: each name so many times, in the type it came in."""
        codes = pa.array(np.repeat(np.arange(len(names), dtype=np.int32), lengths))
        return restore_names(pa.array(names, pa.string()).take(codes), self.id_type)

    def accept_closed_days(self) -> "SeriesTable":
        """The table with short, rare gaps in a calendar of open days taken as holidays: no rows are missing there."""
        if self.frequency.unit != "business day":
            return self
        days, first, accepted = 0, None, []
        for series in self.series:
            if series.stamps is None or not series.breaks:
                accepted.append(series)
                continue
            steps = count_open_days(series.stamps, self.frequency)
            missing = [int(steps[row - 1]) // self.frequency.count - 1 for row in series.breaks]
            if max(missing) > LONGEST_CLOSED or sum(missing) > CLOSED_SHARE * len(series.values):
                accepted.append(series)
                continue
            days += sum(missing)
            first = first or as_text(next_stamps(series.stamps[series.breaks[0] - 1], self.frequency, 1)[0])
            accepted.append(replace(series, breaks=()))
        if not days:
            return self
        day = str(first).removesuffix(" 00:00:00")
        note = f"{days:,} days without a row are taken as holidays, the first {day} (the step is {self.frequency})"
        return replace(self, series=tuple(accepted), notes=(*self.notes, note))

    def require_no_gaps(self, *, where: str = "frame") -> None:
        """Refuse series whose time grid lacks rows."""
        gapped = [series for series in self.series if series.breaks]
        if not gapped:
            return
        first = gapped[0]
        row, places = first.breaks[0], sum(len(series.breaks) for series in gapped)
        before, after = (
            (first.stamps[i].as_py() for i in (row - 1, row)) if first.stamps is not None else (row - 1, row)
        )
        raise FernError(
            f"rows are missing in {places:,} place{'s' * (places > 1)}, first between {before} and {after} (the step "
            f"is {first.frequency})",
            argument="missing",
            expected="'interpolate' or 'ffill' to fill them, or 'drop' to start anew there",
            where=f"{where}, series {first.name!r}" if first.name else where,
        )


_SCANNED_AT_ONCE = 1 << 18

LONGEST_CLOSED, CLOSED_SHARE = 7, 0.1
"""Open days in a row that may be holidays, and their share of the rows at most."""

LONG_GAP = 7
"""Rows in a row that are filled in without a note, at most."""

UNKNOWN_TIME, UNKNOWN_STEP = Frequency("nanosecond", DAY), Frequency("integer", 1)
"""The step of a single row that has no longer series beside it."""


def read_frame(
    frame: Any,
    *,
    id_col: str | Sequence[str] | None = None,
    time_col: str | None = None,
    target_col: str | Sequence[str] | None = None,
    ignore_columns: bool = False,
    grid: Literal["time", "rows"] = "time",
    step: timedelta | None = None,
    missing: Missing = "error",
) -> SeriesTable:
    """The series of a data frame (pandas, polars, pyarrow) or of a CSV or Parquet file.

    Wide: a time column and one column a channel. Long: ``unique_id``, ``ds``, ``y``: one series an identifier. Columns
    that are neither identifier, time nor target are an error, or left out with ``ignore_columns``. Rows are sorted by
    time, which runs on a grid (gaps are allowed and noted as breaks); with ``grid="rows"`` stamps are not looked at and
    rows count as equally spaced. ``step`` says how long a step lasts where the time column does not. Missing values are
    refused, filled or dropped as ``missing`` says (`fern.data.series_table.Missing`).
    """
    targets, naming = column_names("target_col", target_col), column_names("id_col", id_col)
    reading = Reading(time_col, naming, target_col=targets, forecast=True, ignore_columns=ignore_columns)
    source, native = to_source(frame, reading)
    return read_series(source, grid=grid, step=step, missing=missing, native=native)


def read_series(
    source: Source,
    *,
    grid: Literal["time", "rows"] = "time",
    step: timedelta | None = None,
    missing: Missing = "error",
    native: Native | None = None,
    lone: bool = False,
    like: Frequency | None = None,
) -> SeriesTable:
    """The series of an opened table; see `read_frame`. Answers are frames of the kind of ``native``.

    A series of a few rows has the step of the longest one, or of the table before (``like``). With ``lone`` a table of
    nothing but single rows is read, too: as days, or steps of 1.
    """
    if missing not in get_args(Missing):
        raise unknown_name("missing", missing, get_args(Missing), argument="missing")
    if grid not in ("time", "rows"):
        raise FernError(argument="grid", got=grid, expected="'time' or 'rows'")
    roles, types = source.roles, source.types
    with readable(source.name):
        parts = split_by_series(source)
    for name in roles.identifiers:
        try:  # text cannot be turned into durations again, say
            restore_names(pa.nulls(1, pa.string()), types.get(name))
        except pa.ArrowNotImplementedError:
            problem, expected = f"{name!r} holds {types.get(name)}", "text, numbers or dates"
            raise FernError(problem, argument="id_col", expected=expected, where=source.name) from None
    empty = [name for name, rows in parts if len(parts) > 1 and _is_empty(rows, roles.values)]
    if len(empty) < len(parts):
        parts = [(name, rows) for name, rows in parts if name not in {*empty}]
    longest = max((rows.num_rows for _, rows in parts), default=0)
    # The longest series first: others take its step where their stamps fit it.
    place = next(i for i, (_, rows) in enumerate(parts) if rows.num_rows == longest)
    make = partial(_series, source=source, by_rows=grid == "rows", step=step, missing=missing, lone=lone or longest > 1)
    first = make(*parts[place], shared=like)
    shared = None if roles.time is None or grid == "rows" else first.frequency
    series = tuple(first if i == place else make(*part, shared=shared) for i, part in enumerate(parts))
    for member in series:
        if member.frequency != first.frequency:
            raise FernError(
                f"mixed frequencies: series {first.name!r} steps by {first.frequency}, series {member.name!r} by "
                f"{member.frequency}; forecast them separately"
            )
    native = native or Native("pyarrow")
    if roles.named_by:  # answers have these columns in the types they came in
        native = replace(native, named_by={name: types.get(name) for name in roles.named_by})
    single = types and all(types[name] in (pa.float32(), pa.float16()) for name in roles.values)
    return SeriesTable(
        series=series,
        channel_names=roles.values,
        frequency=series[0].frequency,
        time_col=roles.time,
        id_col=roles.series,
        time_type=None if roles.time is None else types.get(roles.time, source.time_type),
        id_type=None if roles.series is None else types.get(roles.series),
        value_type=pa.float32() if single else pa.float64(),
        time_format=source.time_format,
        native=native,
        ignored=roles.ignored,
        notes=(*roles.notes, *_describe_changes(series, empty, missing)),
    )


def _is_empty(rows: pa.Table, columns: Sequence[str]) -> bool:
    return any(rows[name].null_count == len(rows[name]) for name in columns) or not all(
        np.isfinite(column).any() for column in _values(rows, columns).T
    )


def _describe_changes(series: Sequence[Series], empty: Sequence[str], missing: Missing) -> list[str]:
    """What was done to the rows, each in a sentence."""
    notes = []
    unsorted = [member.name for member in series if member.sorted]
    if unsorted:
        where = f" in {len(unsorted):,} of {len(series):,} series" if len(series) > 1 else ""
        notes.append(f"the rows were not in the order of time{where}; they were sorted")
    if empty:
        shown = ", ".join(repr(name) for name in empty[:3]) + (", …" if empty[3:] else "")
        notes.append(f"{len(empty):,} series without any value {'is' if len(empty) == 1 else 'are'} left out ({shown})")
    long = [member for member in series if member.bridged[0] > LONG_GAP]
    if long:
        worst = max(long, key=lambda member: member.bridged[0])
        count, row = worst.bridged
        begin, end = (
            f"row {i + 1:,}" if worst.stamps is None else str(as_text(worst.stamps[i])).removesuffix(" 00:00:00")
            for i in (row, row + count - 1)
        )
        where = f" of series {worst.name!r}" if worst.name else ""
        more = f"; {len(long) - 1:,} other series have long gaps, too" if long[1:] else ""
        notes.append(f"missing={missing!r} filled {count:,} rows in a row{where}, from {begin} to {end}{more}")
    return notes


def column_names(argument: str, names: object) -> tuple[str, ...] | None:
    """One column's name or several, as a tuple.

    Example:
        >>> column_names("target_col", ["a", "b"]), column_names("target_col", "y")
        (('a', 'b'), ('y',))
    """
    if names is None or isinstance(names, str):
        return None if names is None else (names,)
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise FernError(argument=argument, got=names, expected="a column's name, or a list of them")
    if len(set(names)) < len(names):
        raise FernError(f"{list(names)} contains duplicates", argument=argument)
    return tuple(names)


def split_by_series(source: Source) -> list[tuple[str, pa.Table]]:
    """The rows of each series, in their order; series in the order of their first row."""
    table, column = source.table(), source.roles.series
    if column is None:
        return [("", table)]
    names = pc.dictionary_encode(combine_chunks(table[column]))
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
    name: str,
    table: pa.Table,
    source: Source,
    *,
    by_rows: bool,
    step: timedelta | None,
    missing: Missing,
    lone: bool,
    shared: Frequency | None,
) -> Series:
    where = f"{source.name}, series {name!r}" if name else source.name
    stamps = None if source.roles.time is None else combine_chunks(table[source.roles.time])
    grid = TimeGrid(ROWS, table.num_rows)
    on_grid = stamps is not None and not by_rows
    order: Rows | None = None
    if stamps is not None:
        grid = scan_grid(stamps)
        if on_grid and grid.unordered and not grid.empty:
            order = np.argsort(as_integers(stamps), kind="stable")
            table, stamps = table.take(pa.array(order)), stamps.take(pa.array(order))
            grid = scan_grid(stamps)
            if grid.first_problem_row is not None:  # as the rows came
                grid = replace(grid, first_problem_row=int(order[grid.first_problem_row]))
        if on_grid and lone and len(stamps) == 1 and grid.frequency is None and not grid.problems():
            grid = replace(grid, frequency=UNKNOWN_STEP if pa.types.is_integer(stamps.type) else UNKNOWN_TIME)
        if on_grid and shared is not None and grid.frequency != shared:
            grid = grid_by(stamps, shared) or grid
        if on_grid:
            check_grid(grid, where=where, stamps=stamps)
    names = (*source.roles.values, *source.roles.covariates)
    values = _values(table, names)
    bridged = (0, 0)
    if missing == "error":
        refuse_missing(values, names, where=where)
    elif missing == "drop":
        is_complete = np.isfinite(values).all(axis=1)
        if not is_complete.any():
            raise FernError("every row has a missing value; nothing is left to forecast from", where=where)
        if not is_complete.all():
            values = values[is_complete]
            stamps = None if stamps is None else stamps.filter(pa.array(is_complete))
    else:
        if on_grid and grid.gaps and grid.frequency is not None:
            stamps, values = complete_grid(stamps, values, frequency=grid.frequency, missing_rows=grid.missing_rows)
        bridged = _longest_gap(values)
        values = interpolate(values) if missing == "interpolate" else fill_forward(values)
        refuse_missing(values, names, where=where)  # a column without any value
    breaks: tuple[int, ...] = ()
    if on_grid and len(values) < table.num_rows + grid.missing_rows:  # rows are missing, or were dropped
        breaks = _breaks(stamps, grid.frequency)
    frequency, targets = resolve_frequency(grid, step, where=where), source.roles.values
    covariates = None
    if source.roles.covariates:
        values, covariates = (np.ascontiguousarray(part) for part in np.split(values, [len(targets)], axis=1))
    return Series(
        name, stamps, values, targets, frequency, breaks, covariates, sorted=order is not None, bridged=bridged
    )


def _longest_gap(values: Floats) -> tuple[int, int]:
    """The longest run of rows in which a column has no value: its length and its first row."""
    longest = (0, 0)
    for absent in (~np.isfinite(values)).T:
        edges = np.flatnonzero(np.diff(absent, prepend=False, append=False)).reshape(-1, 2)
        if len(edges):
            lengths = edges[:, 1] - edges[:, 0]
            longest = max(longest, (int(lengths.max()), int(edges[np.argmax(lengths), 0])))
    return longest


def count_open_days(stamps: pa.Array, frequency: Frequency) -> NDArray[np.int64]:  # (T - 1,)
    """Open days from each stamp to the next."""
    return np.diff(count_units(local_times(stamps), "business day", frequency.weekmask))


def _values(table: pa.Table, names: Sequence[str]) -> NDArray[np.float64]:  # (T, C)
    """The columns side by side; copied chunk by chunk, once."""
    values = np.empty((table.num_rows, len(names)))
    for c, name in enumerate(names):
        row = 0
        for chunk in table[name].chunks:
            values[row : row + len(chunk), c] = chunk.to_numpy(zero_copy_only=False)
            row += len(chunk)
    return values


def scan_grid(stamps: pa.Array) -> TimeGrid:
    """The grid of a whole time column."""
    scan = GridScan()
    for first in range(0, len(stamps), _SCANNED_AT_ONCE):  # what it works out takes several times the column's memory
        scan.add(stamps.slice(first, _SCANNED_AT_ONCE))
    return scan.result()


def resolve_frequency(grid: TimeGrid, step: timedelta | None, *, where: str) -> Frequency:
    """The frequency of the grid, or the step given where the time column has none of its own."""
    frequency = grid.frequency or ROWS
    if step is None:
        return frequency
    if frequency.nanoseconds is not None and frequency != to_frequency(step):
        raise FernError(
            f"got {to_frequency(step)}, but the time column of {where} steps by {frequency}", argument="step"
        )
    return to_frequency(step) if frequency.nanoseconds is None else frequency


def check_grid(
    grid: TimeGrid,
    *,
    where: str,
    stamps: pa.Array | None = None,
    advice: str = "leave the time column out to count rows",
) -> None:
    """Refuse time stamps that do not run forwards in equal steps; gaps are allowed."""
    problems = grid.problems()
    if problems:
        first = grid.first_problem_row
        if first is None and stamps is not None and grid.frequency is not None:
            first = next(iter(_breaks(stamps, grid.frequency, gaps=False)), None)
        row = "" if first is None else f" (first in data row {first + 1:,})"
        expected = f"increasing, equally spaced timestamps (correct the rows, or {advice})"
        raise FernError(f"{'; '.join(problems)}{row}", expected=expected, where=where)
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


def restore_stamps(stamps: pa.Array, type_: pa.DataType | None) -> pa.Array:
    """Stamps in the type of the time column that came in (text comes back as time stamps)."""
    if type_ is None or is_text(type_) or pa.types.is_dictionary(type_):
        return stamps
    if pa.types.is_integer(type_) and not pa.types.is_integer(stamps.type):
        return stamps
    return in_type(stamps, type_, safe=False)


# --- missing values and rows --------------------------------------------------------------------------------


def complete_grid(
    stamps: pa.Array, values: Floats, *, frequency: Frequency, missing_rows: int
) -> tuple[pa.Array, Floats]:  # (T + missing_rows,), (T + missing_rows, C)
    """The series with a row of NaN for each stamp that its time grid lacks.

    Example:
        >>> stamps, values = complete_grid(
        ...     pa.array([0, 1, 3]), np.array([[5.0], [6.0], [8.0]]), frequency=Frequency("integer", 1), missing_rows=1
        ... )
        >>> stamps.to_pylist(), values[:, 0].tolist()
        ([0, 1, 2, 3], [5.0, 6.0, nan, 8.0])
    """
    if not missing_rows:
        return stamps, values
    memory = 8.0 * (2 + values.shape[1]) * (len(stamps) + missing_rows)
    require_memory(f"missing: a series with its {missing_rows:,} missing rows", memory)
    rest = next_stamps(stamps[0], frequency, len(stamps) + missing_rows - 1)
    whole = pa.concat_arrays([stamps[:1], rest])
    places = np.searchsorted(as_integers(whole), as_integers(stamps))
    filled = np.full((len(whole), values.shape[1]), np.nan)
    filled[places] = values
    return whole, filled


def interpolate(values: Floats) -> Floats:  # (T, C)
    """Missing values on the straight line between their neighbours; at either end, the nearest value.

    Example:
        >>> interpolate(np.array([[np.nan], [1.0], [np.nan], [3.0]]))[:, 0].tolist()
        [1.0, 1.0, 2.0, 3.0]
    """
    filled, rows = values.copy(), np.arange(len(values))
    for column in filled.T:
        known = np.flatnonzero(np.isfinite(column))
        if 0 < len(known) < len(column):
            column[:] = np.interp(rows, known, column[known])
    return filled


def fill_forward(values: Floats) -> Floats:  # (T, C)
    """Missing values take the last value before them; before the first value, the first.

    Example:
        >>> fill_forward(np.array([[np.nan], [1.0], [np.nan], [3.0]]))[:, 0].tolist()
        [1.0, 1.0, 1.0, 3.0]
    """
    known = np.isfinite(values)
    last = np.maximum.accumulate(np.where(known, np.arange(len(values))[:, None], -1), axis=0)
    return np.take_along_axis(values, np.where(last < 0, known.argmax(axis=0), last), axis=0)


def refuse_missing(values: Floats, names: tuple[str, ...], *, where: str) -> None:
    """An error that says how many values of the worst column are missing, where first, and what to do."""
    absent = ~np.isfinite(values)
    if not absent.any():
        return
    column = int(np.argmax(absent.sum(axis=0)))
    count, row = int(absent[:, column].sum()), int(np.argmax(absent[:, column]))
    if count == len(values):
        raise FernError(f"column {names[column]!r} has no values; ignore it", where=where)
    raise FernError(
        f"column {names[column]!r} has {count:,} missing or infinite value{'s' * (count > 1)} (first in data row "
        f"{row + 1:,})",
        argument="missing",
        expected="'interpolate', 'ffill' or 'drop' (or clean the table first)",
        where=where,
    )

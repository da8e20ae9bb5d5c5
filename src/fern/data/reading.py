"""Tables as Arrow has them: frames of pandas, polars and pyarrow, CSV and Parquet files; and back into frames."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fern.data.columns import GUESSED, JOINT, Reading, Roles, find_roles, join_names, require_distinct
from fern.data.csv_files import CsvFile, Opened, first_line, open_for_arrow
from fern.data.number_marks import parse_numbers
from fern.data.timestamps import in_type, is_text, is_time, replace_views, to_stamps
from fern.data.writing import detect_time_format
from fern.errors import FernError, require_path, unknown_name

FrameKind = Literal["pyarrow", "pandas", "polars"]

_WORTH_THREADS = 1 << 20


@dataclass(frozen=True)
class Native:
    """The library a frame came from, and what Arrow does not keep of it: pandas' index and labels.

    Example:
        >>> table, native = unwrap(pa.table({"a": [1.0]}))
        >>> native.wrap(table).equals(table)
        True
    """

    kind: FrameKind
    index: str | None = None  # the column that was pandas' index
    index_name: Hashable = None
    labels: Mapping[str, Hashable] = field(default_factory=dict)  # pandas labels that are not text
    named_by: Mapping[str, pa.DataType | None] = field(default_factory=dict)  # columns that name a series together
    periods: Mapping[str, str] = field(default_factory=dict)  # pandas columns of periods, and their frequency

    def wrap(self, table: pa.Table) -> Any:
        """The table as a frame of this kind."""
        if self.kind not in get_args(FrameKind):
            raise unknown_name("kind of frame", self.kind, get_args(FrameKind))
        table = self._part_names(table)
        if self.kind == "pyarrow":
            return table
        try:
            if self.kind == "polars":
                return nw.from_arrow(table, backend="polars").to_native()
            # Threads cost a small table more than they save it.
            frame = table.to_pandas(use_threads=table.nbytes > _WORTH_THREADS)
        except ImportError:
            raise FernError(f"{self.kind} is not installed", argument="kind") from None
        for name, freq in self.periods.items():
            if name in frame.columns:
                frame[name] = frame[name].dt.to_period(freq)
        if self.index is not None and self.index in frame.columns:
            frame = frame.set_index(self.index)
            frame.index.name = self.index_name
        return frame.rename(columns=dict(self.labels)) if self.labels else frame

    def _part_names(self, table: pa.Table) -> pa.Table:
        """The table with the columns that name a series together in place of their names joined."""
        joined = JOINT.join(self.named_by)
        if len(self.named_by) < 2 or joined not in table.column_names:
            return table
        place = table.column_names.index(joined)
        parts = pc.split_pattern(pc.cast(table[joined], pa.string()), JOINT)
        table = table.remove_column(place)
        for number, (name, type_) in enumerate(self.named_by.items()):
            values = restore_names(pc.list_element(parts, number), type_)
            table = table.add_column(place + number, name, values)
        return table


def restore_names(names: pa.Array | pa.ChunkedArray, type_: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    """Series' names in the type of the column that came in."""
    if type_ is None or pa.types.is_dictionary(type_):
        return names if type_ is None else names.dictionary_encode()
    return in_type(names, type_)


def unwrap(frame: Any) -> tuple[pa.Table, Native]:
    """The frame as an Arrow table. A pandas index other than row numbers becomes the first column.

    Example:
        >>> import pandas
        >>> frame = pandas.DataFrame({"a": [1.0, 2.0]}, index=pandas.date_range("2020", periods=2, name="ds"))
        >>> unwrap(frame)[0].column_names
        ['ds', 'a']
    """
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        require_distinct(frame.column_names, name="frame")
        return replace_views(frame), Native("pyarrow")
    if nw.dependencies.is_pandas_dataframe(frame):
        return _from_pandas(frame)
    try:
        known = nw.from_native(frame)
    except TypeError:
        raise FernError(argument="frame", got=type(frame), expected="a pandas, polars or pyarrow data frame") from None
    kind = known.implementation.name.lower()
    if kind not in get_args(FrameKind):
        raise FernError(f"got a {kind} frame", argument="frame", expected="a pandas, polars or pyarrow one")
    if isinstance(known, nw.LazyFrame):
        raise FernError("got a lazy frame", argument="frame", expected="a collected one (.collect())")
    if not isinstance(known, nw.DataFrame):
        raise FernError(argument="frame", got=type(frame), expected="a data frame")
    with readable("frame"):
        return known.to_arrow(), Native("polars")


def _from_pandas(frame: Any) -> tuple[pa.Table, Native]:
    index, index_name, periods = None, frame.index.name, dict[str, str]()
    if type(frame.index).__name__ == "PeriodIndex":
        periods[str(index_name) if index_name is not None else "index"] = _span(frame.index.dtype)
        frame = frame.set_axis(frame.index.to_timestamp(), axis=0)
    if frame.index.nlevels > 1:
        raise FernError("has a MultiIndex; turn its levels into columns (reset_index)", argument="frame")
    if frame.columns.nlevels > 1:
        raise FernError(f"its columns have {frame.columns.nlevels} levels; give each one name", argument="frame")
    labels = list(frame.columns)
    names = [str(label) for label in labels]
    if type(frame.index).__name__ != "RangeIndex" and (frame.index.dtype.kind in "M" or index_name is not None):
        index = str(index_name) if index_name is not None else "index"
        if index in names:
            raise FernError(f"its index and a column are both called {index!r}", argument="frame")
        require_distinct(names, name="frame")
        frame = frame.set_axis(names, axis=1).rename_axis(index).reset_index()
        names = [index, *names]
    require_distinct(names, name="frame")
    frame = frame if names == list(frame.columns) else frame.set_axis(names, axis=1)
    columns = dict(frame.items())
    sparse = [name for name, column in columns.items() if type(column.dtype).__name__ == "SparseDtype"]
    if sparse:
        dense = {name: columns[name].astype(columns[name].dtype.subtype) for name in sparse}
        frame, columns = frame.assign(**dense), {**columns, **dense}
    spans = {name: column for name, column in columns.items() if type(column.dtype).__name__ == "PeriodDtype"}
    if spans:
        starts = {name: column.dt.to_timestamp() for name, column in spans.items()}
        periods |= {name: _span(column.dtype) for name, column in spans.items()}
        frame, columns = frame.assign(**starts), {**columns, **starts}
    for name, column in columns.items():
        _check_zones(name, column)
    odd_labels = {str(label): label for label in labels if not isinstance(label, str)}
    return _to_arrow(frame, columns), Native("pandas", index, index_name, odd_labels, periods=periods)


def _span(period: Any) -> str:
    """The span of a type of pandas: ``M`` of ``period[M]``."""
    return str(period).removeprefix("period[").removesuffix("]")


def _to_arrow(frame: Any, columns: Mapping[str, Any]) -> pa.Table:
    """A small frame column by column; a large one, or one with an odd column, by Arrow's own way, which has threads."""
    is_large = 8 * frame.size > _WORTH_THREADS
    if not is_large:
        with suppress(pa.ArrowException, OverflowError, UnicodeError):  # Arrow's own way tells which column, and why
            return pa.table({name: pa.array(column, from_pandas=True) for name, column in columns.items()})
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False, nthreads=None if is_large else 1)
        return table.replace_schema_metadata(None)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise FernError(f"a column has values of mixed types ({error})", argument="frame") from None
    except OverflowError:
        raise FernError("a column has whole numbers beyond 64 bits", argument="frame") from None
    except UnicodeError as error:
        raise FernError(f"a column has text that is no Unicode ({error})", argument="frame") from None
    except pa.ArrowException as error:  # complex numbers, say
        raise FernError(f"a column cannot be read ({'; '.join(map(str, error.args))})", argument="frame") from None


def _check_zones(name: str, column: Any) -> None:
    """Refuse a column in which some stamps have a time zone and some not: Arrow would take the latter for UTC."""
    if column.dtype.kind == "O" and isinstance(column.iloc[0] if len(column) else None, datetime):
        zoned = {value.tzinfo is not None for value in column if isinstance(value, datetime) and value == value}
        if len(zoned) > 1:
            raise FernError(
                f"column {name!r} has stamps with a time zone and stamps without; use one of them", argument="frame"
            )


@contextmanager
def readable(name: str) -> Iterator[None]:
    """What Arrow cannot make sense of within the block is a `FernError`."""
    try:
        yield
    except pa.ArrowException as error:
        reason = " ".join(str(error.args[0] if error.args else error).split())[:300]
        raise FernError(f"cannot be read ({reason.rstrip('.')})", where=name) from None
    except UnicodeDecodeError as error:
        raise FernError(f"holds text that is not UTF-8 ({error.reason})", where=name) from None


# --- files ----------------------------------------------------------------------------------------------------

BATCH_ROWS = 1 << 16
_HEAD_BYTES = 1 << 20
_MOST_HEAD = 1 << 26  # for lines of many thousands of columns
_PARQUET = b"PAR1"
_OTHER_FORMATS = {
    b"PK\x03\x04": "an Excel or zip file",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"%PDF-": "a PDF document",
}


@dataclass(frozen=True)
class Source:
    """A table as a stream: time stamps in nanoseconds or integers, series names as text, values as float64.

    Example:
        >>> source = table_source(pa.table({"t": [1, 2], "a": [0.5, None]}), name="example")
        >>> source.roles.time, [batch.num_rows for batch in source.batches()]
        ('t', [2])
    """

    name: str
    roles: Roles
    time_type: pa.DataType | None
    stream: Callable[[], Iterator[pa.RecordBatch]]
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The types that the columns came in; text files have none."""
    time_format: str | None = None
    """The format in which a text file writes its times, to the letter; None where that is not simple."""
    held: pa.Table | None = None
    """The rows, where all of them are in memory already."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of the columns time, series, values (those there are), in the order of the rows."""
        rows = 0
        for batch in self.stream():
            rows += batch.num_rows
            if batch.num_rows:
                with readable(self.name):
                    canonical = pa.RecordBatch.from_pydict(_canonical(batch, self.roles, where=self.name))
                yield canonical
        if rows == 0:
            raise FernError("has a header but no rows", argument=self.name)

    def table(self) -> pa.Table:
        """All rows as one table; columns that are in memory in the type they are to have are not copied."""
        if self.held is None or self.held.num_rows == 0:
            return pa.Table.from_batches(self.batches())
        with readable(self.name):
            return pa.table(_canonical(self.held, self.roles, where=self.name))


def to_source(frame: Any, reading: Reading) -> tuple[Source, Native]:
    """A frame, or the file of a path, as a source; and the kind of frame to answer with."""
    if isinstance(frame, str | Path):
        return open_source(frame, reading), Native("pyarrow")
    table, native = unwrap(frame)
    return table_source(table, name="frame", reading=reading), native


def open_source(path: str | Path, reading: Reading = GUESSED, *, name: str | None = None) -> Source:
    """Open a CSV or Parquet file; its first rows decide the dialect and the roles of the columns.

    ``name`` is what messages call it, if not by its path.
    """
    opened, called = Opened(require_path(path)), Path(path if name is None else name)
    with readable(str(called)):
        start, complete = _read_start(opened.path, name=called)
        if start.startswith(_PARQUET):
            return _parquet_source(opened, called, reading)
        return _csv_source(opened, called, start, complete, reading)


def read_columns(path: str | Path, reading: Reading) -> pa.Table:
    """The columns of a file that have a role, in their types: time as it is written, covariates as they are."""
    source = open_source(path, replace(reading, ignore_columns=True))
    with readable(source.name):
        return pa.Table.from_batches(list(source.stream()))


def table_source(table: pa.Table, *, name: str, reading: Reading = GUESSED) -> Source:
    """A table in memory as a source."""
    with readable(name):
        roles = find_roles(table, reading, name=name)
        time_type = _time_type(table, roles)
    types = dict(zip(table.column_names, table.schema.types, strict=True))
    return Source(name, roles, time_type, lambda: iter(table.to_batches(max_chunksize=BATCH_ROWS)), types, held=table)


def _read_start(path: Path, *, name: Path) -> tuple[bytes, bool]:
    """The first bytes of a file, with two lines at least, and whether they are all; an error for other formats."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            while head.count(b"\n") < 3 and len(head) < _MOST_HEAD and (more := file.read(_HEAD_BYTES)):
                head += more
            complete = not file.read(1)
    except FileNotFoundError:
        raise FernError("no such file", where=name) from None
    except IsADirectoryError:
        raise FernError("is a directory", expected="a CSV or Parquet file", where=name) from None
    except PermissionError:
        raise FernError("no permission to read it", where=name) from None
    except OSError as error:
        raise FernError(f"cannot be read ({error.strerror or error})", where=name) from None
    if not head:
        raise FernError("is empty (0 bytes)", expected="a header line and rows of values", where=name)
    for magic, kind in _OTHER_FORMATS.items():
        if head.startswith(magic):
            raise FernError(f"is {kind}", expected="CSV or Parquet", where=name)
    if name.suffix.lower() in (".parquet", ".pq") and not head.startswith(_PARQUET):
        raise FernError(f"is not a Parquet file despite its name (its first bytes are {head[:4]!r})", where=name)
    return head, complete


def _csv_source(opened: Opened, name: Path, start: bytes, complete: bool, reading: Reading) -> Source:
    file = CsvFile.open(opened.path, start, reading, name=name, complete=complete)
    head = file.head
    roles = find_roles(head, reading, name=str(name), partial=not complete)
    types = {column: _csv_type(head, column) for column in roles.values}
    for column in roles.covariates:  # a category stays text
        if column in head.column_names:
            types[column] = pa.string() if is_text(head[column].type) else _csv_type(head, column)
    types |= dict.fromkeys(roles.identifiers, pa.string())
    if roles.time is not None:  # nanoseconds from the first row on: later stamps may have fractions of a second
        type_ = head[roles.time].type
        whole = pa.float64() if pa.types.is_floating(type_) else pa.int64()
        types[roles.time] = _in_nanoseconds(type_) if is_time(type_) else pa.string() if roles.time_format else whole

    def stream(held: Opened = opened) -> Iterator[pa.RecordBatch]:  # a copy of a pipe lasts as long as this function
        yield from file.batches(types)

    time_format = None
    if roles.time is not None:
        first = next(file.batches({roles.time: pa.string()}), None)
        time_format = None if first is None else detect_time_format(first[0], read_as=roles.time_format)
    return Source(str(name), roles, _time_type(head, roles), stream, time_format=time_format)


def _csv_type(head: pa.Table, column: str) -> pa.DataType:
    """Numbers are float64 from the first row on: the first rows may look like integers and the rest not."""
    return pa.bool_() if pa.types.is_boolean(head[column].type) else pa.float64()


def _parquet_source(data: Opened, path: Path, reading: Reading) -> Source:
    @contextmanager
    def open_parquet() -> Iterator[pq.ParquetFile]:
        # Neither mapped nor read ahead: a row group of any size is read through a small buffer, piece by piece.
        with (
            open_for_arrow(data.path) as source,
            pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False) as file,
        ):
            yield file

    with refuse_damage(path), open_parquet() as file:
        schema = file.schema_arrow
        require_distinct(schema.names, name=str(path))
        first, rows = next(file.iter_batches(batch_size=10_000), None), file.metadata.num_rows
    if first is None or first.num_rows == 0:
        raise FernError("has columns but no rows", where=path)
    head = pa.Table.from_batches([first], schema)
    roles = find_roles(head, reading, name=str(path), partial=rows > head.num_rows)
    used = (roles.time, *roles.identifiers, *roles.values, *roles.covariates)
    columns = [name for name in used if name in schema.names]

    def stream() -> Iterator[pa.RecordBatch]:
        with refuse_damage(path), open_parquet() as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)

    types = dict(zip(schema.names, replace_views(head).schema.types, strict=True))
    time_format = None if roles.time is None else detect_time_format(head[roles.time], read_as=roles.time_format)
    return Source(str(path), roles, _time_type(head, roles), stream, types, time_format)


@contextmanager
def refuse_damage(path: Path) -> Iterator[None]:
    """What Arrow cannot read of a Parquet file within the block is a mistake in the file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FernError(f"is not a readable Parquet file ({first_line(error)})", where=path) from None


def _time_type(head: pa.Table, roles: Roles) -> pa.DataType | None:
    if roles.time is None:
        return None
    column = head[roles.time]
    if is_time(column.type):
        return _in_nanoseconds(column.type)
    return to_stamps(column, name=roles.time, form=roles.time_format).type


def _in_nanoseconds(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp("ns", tz=type_.tz if pa.types.is_timestamp(type_) else None)


def _canonical(rows: pa.RecordBatch | pa.Table, roles: Roles, *, where: str) -> dict[str, pa.Array | pa.ChunkedArray]:
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    if roles.time is not None:
        columns[roles.time] = to_stamps(rows[roles.time], name=roles.time, form=roles.time_format)
    if roles.named_by and roles.series is not None:
        columns[roles.series] = join_names(rows, roles.named_by, name=where)
    elif roles.series is not None:
        columns[roles.series] = in_type(rows[roles.series], pa.string())
    for name in (*roles.values, *roles.covariates):
        column = rows[name]
        if is_text(column.type):
            column = parse_numbers(column, name=name, where=where)
        if pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.int8())
        columns[name] = in_type(column, pa.float64(), safe=False)
    return columns

"""Tables from CSV and Parquet files, batch by batch or as one Arrow table."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fern.data.columns import Roles, find_roles, join_names, require_distinct
from fern.data.csv_files import CsvFile, Opened, first_line, open_for_arrow
from fern.data.native import readable
from fern.data.number_marks import parse_numbers
from fern.data.timestamps import in_type, is_text, is_time, replace_views, to_stamps
from fern.data.writing import detect_time_format
from fern.errors import FernError
from fern.files import require_path

BATCH_ROWS = 1 << 16
_HEAD_BYTES = 1 << 20
_MOST_HEAD = 1 << 26  # for lines of many thousands of columns
_OTHER_FORMATS = {
    b"PK\x03\x04": "an Excel or zip file",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"%PDF-": "a PDF document",
}


@dataclass(frozen=True)
class Reading:
    """What the reader need not guess: the columns' roles and how the text is written; see `find_roles`."""

    time_col: str | None = None
    id_col: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    target_col: tuple[str, ...] | None = None
    forecast: bool = False
    ignore_columns: bool = False
    guess_id: bool = False
    like: Roles | None = None
    covariates: tuple[str, ...] = ()

    def roles(self, table: pa.Table, *, name: str, partial: bool = False) -> Roles:
        """The roles of the columns of a table, or of its first rows."""
        return find_roles(
            table,
            name=name,
            id_col=self.id_col,
            time_col=self.time_col,
            target_col=self.target_col,
            ignore=self.ignore,
            forecast=self.forecast,
            ignore_columns=self.ignore_columns,
            guess_id=self.guess_id,
            like=self.like,
            covariates=self.covariates,
            partial=partial,
        )


GUESSED = Reading()
"""Everything is the reader's guess."""


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
                    made = pa.RecordBatch.from_pydict(_canonical(batch, self.roles, where=self.name))
                yield made
        if rows == 0:
            raise FernError("has a header but no rows", argument=self.name)

    def table(self) -> pa.Table:
        """All rows as one table; columns that are in memory in the type they are to have are not copied."""
        if self.held is None or self.held.num_rows == 0:
            return pa.Table.from_batches(self.batches())
        with readable(self.name):
            return pa.table(_canonical(self.held, self.roles, where=self.name))


def open_source(path: str | Path, reading: Reading = GUESSED, *, name: str | None = None) -> Source:
    """Open a CSV or Parquet file; its first rows decide the dialect and the roles of the columns.

    ``name`` is what messages call it, if not by its path.
    """
    opened, called = Opened(require_path(path)), Path(path if name is None else name)
    with readable(str(called)):
        start, complete = read_start(opened.path, name=called)
        if is_parquet(start):
            return _parquet_source(opened, called, reading)
        return _csv_source(opened, called, start, complete, reading)


def read_columns(source: Source) -> pa.Table:
    """All rows of an opened file, in the types of its columns: time as it is written, covariates as they are."""
    with readable(source.name):
        return pa.Table.from_batches(list(source.stream()))


def is_parquet(start: bytes) -> bool:
    """Whether these are the first bytes of a Parquet file."""
    return start.startswith(b"PAR1")


def open_csv(path: Path, start: bytes, complete: bool, reading: Reading, *, name: Path) -> CsvFile:
    """The CSV file with these first bytes, called by its ``name`` in messages."""
    return CsvFile.open(
        path,
        start,
        name=name,
        complete=complete,
        encoding=reading.encoding,
        separator=reading.separator,
        decimal=reading.decimal,
    )


def table_source(table: pa.Table, *, name: str, reading: Reading = GUESSED) -> Source:
    """A table in memory as a source."""
    with readable(name):
        roles = reading.roles(table, name=name)
        time_type = _time_type(table, roles)
    types = dict(zip(table.column_names, table.schema.types, strict=True))
    return Source(name, roles, time_type, lambda: iter(table.to_batches(max_chunksize=BATCH_ROWS)), types, held=table)


def read_start(path: Path, *, name: Path) -> tuple[bytes, bool]:
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
    if name.suffix.lower() in (".parquet", ".pq") and not is_parquet(head):
        raise FernError(f"is not a Parquet file despite its name (its first bytes are {head[:4]!r})", where=name)
    return head, complete


def _csv_source(opened: Opened, name: Path, start: bytes, complete: bool, reading: Reading) -> Source:
    file = open_csv(opened.path, start, complete, reading, name=name)
    head = file.head
    roles = reading.roles(head, name=str(name), partial=not complete)
    types = {column: _csv_type(head, column) for column in roles.values}
    types |= {column: _covariate_type(head, column) for column in roles.covariates if column in head.column_names}
    types |= dict.fromkeys(roles.identifiers, pa.string())
    if roles.time is not None:
        types[roles.time] = _csv_time_type(head, roles.time, roles.time_format)

    def stream(held: Opened = opened) -> Iterator[pa.RecordBatch]:  # a copy of a pipe lasts as long as this function
        yield from file.batches(types)

    written = None
    if roles.time is not None:
        first = next(file.batches({roles.time: pa.string()}), None)
        written = None if first is None else detect_time_format(first[0], read_as=roles.time_format)
    return Source(str(name), roles, _time_type(head, roles), stream, time_format=written)


def _csv_type(head: pa.Table, column: str) -> pa.DataType:
    """Numbers are float64 from the first row on: the first rows may look like integers and the rest not."""
    return pa.bool_() if pa.types.is_boolean(head.schema.field(column).type) else pa.float64()


def _covariate_type(head: pa.Table, column: str) -> pa.DataType:
    """Numbers and booleans as values are; a category stays text."""
    return pa.string() if is_text(head.schema.field(column).type) else _csv_type(head, column)


def _csv_time_type(head: pa.Table, column: str, form: str | None) -> pa.DataType:
    """Nanoseconds from the first row on: later stamps may have fractions of a second."""
    type_ = head.schema.field(column).type
    whole = pa.float64() if pa.types.is_floating(type_) else pa.int64()
    return _in_nanoseconds(type_) if is_time(type_) else pa.string() if form else whole


def _parquet_source(held: Opened, path: Path, reading: Reading) -> Source:
    @contextmanager
    def opened() -> Iterator[pq.ParquetFile]:
        # Neither mapped nor read ahead: a row group of any size is read through a small buffer, piece by piece.
        with open_for_arrow(held.path) as source, pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False) as file:
            yield file

    with _refuse_damage(path), opened() as file:
        schema = file.schema_arrow
        require_distinct(schema.names, name=str(path))
        first, rows = next(file.iter_batches(batch_size=10_000), None), file.metadata.num_rows
    if first is None or first.num_rows == 0:
        raise FernError("has columns but no rows", where=path)
    head = pa.Table.from_batches([first], schema)
    roles = reading.roles(head, name=str(path), partial=rows > head.num_rows)
    asked = (roles.time, *roles.identifiers, *roles.values, *roles.covariates)
    wanted = [name for name in asked if name in schema.names]

    def stream() -> Iterator[pa.RecordBatch]:
        with _refuse_damage(path), opened() as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=wanted)

    types = dict(zip(schema.names, replace_views(head).schema.types, strict=True))
    written = None if roles.time is None else detect_time_format(head[roles.time], read_as=roles.time_format)
    return Source(str(path), roles, _time_type(head, roles), stream, types, written)


@contextmanager
def _refuse_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FernError(f"damaged or truncated Parquet file ({first_line(error)})", where=path) from None


def _time_type(head: pa.Table, roles: Roles) -> pa.DataType | None:
    if roles.time is None:
        return None
    type_ = head.schema.field(roles.time).type
    if is_time(type_):
        return _in_nanoseconds(type_)
    return to_stamps(head[roles.time], name=roles.time, form=roles.time_format).type


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

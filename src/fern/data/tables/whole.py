"""A file as one Arrow table with its own columns: what a data frame of the same rows would be."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fern.data.tables.csvfile import CsvFile, one_line
from fern.data.tables.opening import Opened, for_arrow, readable
from fern.data.tables.readers import GUESSED, Reading, file_start, is_parquet, open_csv
from fern.data.tables.roles import ID, find_time, require_distinct
from fern.data.tables.stamps import without_views
from fern.errors import FernError, unknown_name


def read_table(path: str | Path, reading: Reading = GUESSED) -> pa.Table:
    """All columns of a CSV or Parquet file, whatever their role.

    In a CSV file numbers are float64 (integers where they are the time), and dates and series' names stay text as it is
    written: ``007`` is a name, and what goes out may be written as what came in.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "load.csv"
        >>> _ = path.write_text("Tag;Last\\n31.01.2020;1,5\\n01.02.2020;2,25\\n")
        >>> read_table(path).to_pydict()
        {'Tag': ['31.01.2020', '01.02.2020'], 'Last': [1.5, 2.25]}
    """
    path = Path(path)
    opened = Opened(path)
    with readable(str(path)):
        start, complete = file_start(opened.path, name=path)
        if is_parquet(start):
            return _parquet(opened.path, name=path)
        file = open_csv(opened.path, start, complete, reading, name=path)
        _require_columns(file.head, (reading.time, reading.series), name=str(path))
        table = pa.Table.from_batches(file.batches(_types(file, reading)))
    if table.num_rows == 0:
        raise FernError(f"{path}: has a header but no rows")
    return table


def _require_columns(head: pa.Table, asked: tuple[str | None, ...], *, name: str) -> None:
    for column in asked:
        if column is not None and column not in head.column_names:
            raise FernError(f"{name}: {unknown_name('column', column, head.column_names)}")


def _types(file: CsvFile, reading: Reading) -> dict[str, pa.DataType]:
    head = file.head
    identifier = reading.series or ID
    others = [column for column in head.column_names if column != identifier]
    time, _ = find_time(head, others, name=str(file.name), asked=reading.time)
    return {
        column: pa.string() if column == identifier else _type(head.schema.field(column).type, is_time=column == time)
        for column in head.column_names
    }


def _type(found: pa.DataType, *, is_time: bool) -> pa.DataType:
    """Numbers are float64 from the first row on: the first rows may look like integers and the rest not."""
    if pa.types.is_integer(found):
        return pa.int64() if is_time else pa.float64()
    if pa.types.is_floating(found) or pa.types.is_null(found):
        return pa.float64()
    return found if pa.types.is_boolean(found) else pa.string()


def _parquet(path: Path, *, name: Path) -> pa.Table:
    try:
        with for_arrow(path) as source, pq.ParquetFile(source) as file:
            require_distinct(file.schema_arrow.names, name=str(name))
            table = file.read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FernError(f"{name}: damaged or truncated Parquet file ({one_line(error)})") from None
    if table.num_rows == 0:
        raise FernError(f"{name}: has columns but no rows")
    return without_views(table.replace_schema_metadata(None))

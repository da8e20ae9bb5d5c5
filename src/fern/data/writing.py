"""Tables into files: CSV (commas, decimal points) or Parquet, with time as people write it."""

import csv
import io
from contextlib import suppress
from typing import BinaryIO, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from fern.data.timestamps import FORMATS, ISO, format_text, is_text, parse_text

_SAMPLE = 100


def write_table(table: pa.Table, file: BinaryIO, *, format: Literal["csv", "parquet"]) -> None:  # noqa: A002
    """Write all rows.

    Example:
        >>> file = io.BytesIO()
        >>> write_table(pa.table({"a": [1.5], "b": ["x"]}), file, format="csv")
        >>> file.getvalue()
        b'a,b\\n1.5,x\\n'
    """
    if format == "parquet":
        pq.write_table(table, file)
        file.flush()  # pyarrow may close the file without a word about what could not be written
        return
    header = io.StringIO()  # pyarrow would put every name of the header in quotes
    csv.writer(header, lineterminator="\n").writerow(table.column_names)
    file.write(header.getvalue().encode())
    # "needed" puts all text in quotes; "none" refuses text that needs them.
    quoting = "needed" if any(_needs_quotes(column) for column in table.columns) else "none"
    pcsv.write_csv(table, file, pcsv.WriteOptions(include_header=False, quoting_style=quoting))


def _needs_quotes(column: pa.ChunkedArray) -> bool:
    if not is_text(column.type):
        return False
    text = column.unique().cast(pa.string())
    return bool(pc.any(pc.match_substring_regex(text, '[",\r\n]|^$')).as_py())


def to_seconds(table: pa.Table, column: str) -> pa.Table:
    """The table with that time column in whole seconds, which are written without nanoseconds; as it is otherwise."""
    type_ = table.schema.field(column).type
    if not pa.types.is_timestamp(type_):
        return table
    with suppress(pa.ArrowInvalid):  # there are fractions of a second
        return _replace_column(table, column, table[column].cast(pa.timestamp("s", type_.tz)))
    return table


def detect_time_format(column: pa.Array | pa.ChunkedArray, *, read_as: str | None = None) -> str | None:
    """The format in which a column of text writes its times, to the letter; None where that is not simple.

    ``read_as`` is the format in which the column is read: no other is then tried.

    Example:
        >>> detect_time_format(pa.array(["31.12.2019", "01.01.2020"])), detect_time_format(pa.array(["yesterday"]))
        ('%d.%m.%Y', None)
        >>> detect_time_format(pa.array(["2020-01-01 00:00", "2020-01-01 00:10"]))
        '%Y-%m-%d %H:%M'
    """
    if not is_text(column.type):
        return None
    text = pc.drop_null(pc.cast(column, pa.string()))
    # Rows from the whole length: the first alone may not tell day from month.
    chosen = text.take(pa.array([i * (len(text) - 1) // _SAMPLE for i in range(_SAMPLE + 1)])) if len(text) else text
    forms = FORMATS if read_as in (None, ISO) else (read_as,)
    return next((form for form in forms if len(text) and _writes(chosen, form) and _writes(text, form)), None)


def format_times(table: pa.Table, column: str, form: str | None) -> pa.Table:
    """The table with that column of time stamps as text in this format; whole seconds where there is none."""
    if form is None or not pa.types.is_timestamp(table.schema.field(column).type):
        return to_seconds(table, column)
    seconds = table[column].cast(pa.timestamp("s"))
    return _replace_column(table, column, format_text(seconds, form))


def _writes(text: pa.Array | pa.ChunkedArray, form: str) -> bool:
    parsed = parse_text(text, form)
    return parsed.null_count == 0 and bool(
        pc.all(pc.equal(text, format_text(parsed.cast(pa.timestamp("s")), form))).as_py()
    )


def _replace_column(table: pa.Table, column: str, values: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, values)

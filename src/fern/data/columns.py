"""Which column of a table is time, which names the series and which hold values."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from fern.data.csv_files import is_number
from fern.data.timestamps import is_day_number, is_text, is_time, time_format
from fern.errors import FernError, unknown_name

ID = "unique_id"
TIME = "ds"
TIME_NAMES = frozenset({"ds", "date", "datetime", "time", "timestamp", "t", "step", "index"})


@dataclass(frozen=True)
class Roles:
    """The columns of a table: wide (time + one column a channel) or, with ``series``, long (rows of many series)."""

    values: tuple[str, ...]
    time: str | None = None
    time_format: str | None = None
    series: str | None = None
    ignored: tuple[str, ...] = ()


def find_roles(
    table: pa.Table,
    *,
    name: str,
    time: str | None = None,
    series: str | None = None,
    ignore: Sequence[str] = (),
) -> Roles:
    """Find the roles from the names and types of a table (or of its first rows); what is given is not guessed.

    Time: ``ds``, else the first column of dates or timestamps (text that reads as such included), else a
    column of integers with a usual name (``t``, ``time``, …). Series: ``unique_id``. All others are values
    and must be numbers.

    Example:
        >>> find_roles(pa.table({"date": ["2020-01-01"], "load": [1.5]}), name="f.csv").time
        'date'
    """
    names = table.column_names
    require_distinct(names, name=name)
    for asked in (time, series, *ignore):
        if asked is not None and asked not in names:
            raise FernError(f"{unknown_name('column', asked, names)}", where=name)
    series = series or (ID if ID in names and ID not in ignore else None)
    left = [column for column in names if column not in (series, *ignore)]
    time, form = find_time(table, left, name=name, asked=time)
    # The row numbers that some programs write in front of the columns are no values.
    numbers = [column for column in left if column != time and is_row_number(table, column)]
    values = tuple(column for column in left if column != time and column not in numbers)
    if not values:
        raise FernError("has no value column besides the time column", expected="at least one", where=name)
    for column in values:
        check_values(table, column, name=name)
    return Roles(values, time, form, series, (*ignore, *numbers))


def require_distinct(names: Sequence[str], *, name: str) -> None:
    """Refuse two columns of one name, and names that are no text."""
    doubled, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise FernError(f"column {doubled!r} appears {times} times", where=name)


def find_time(
    table: pa.Table, columns: Sequence[str], *, name: str, asked: str | None = None
) -> tuple[str | None, str | None]:
    """Which of these columns is time and, for text and day numbers, its format; None where none is."""
    for column in [asked] if asked else sorted(columns, key=lambda column: column != TIME):
        data = table[column]
        if is_time(data.type):
            return column, None
        if is_text(data.type):
            form = time_format(data, name=column)
            if form is not None or asked:
                return column, form
        if is_day_number(data):
            return column, "%Y%m%d"
    for column in columns:
        usual = column.strip().casefold() in TIME_NAMES or is_row_number(table, column)
        if (column == asked or (asked is None and usual)) and pa.types.is_integer(table.schema.field(column).type):
            return column, None
    if asked:
        raise FernError(
            f"time column {asked!r} holds {table.schema.field(asked).type}",
            expected="dates, timestamps or integers",
            where=name,
        )
    return None, None


def find_identifier(table: pa.Table, time: str | None) -> str | None:
    """The column that names the series: ``unique_id``, else the only column of text, if what it holds looks like it.

    That is: one name in all rows, or time stamps that repeat, but never under the same name.

    Example:
        >>> shops = pa.table({"day": [1, 2, 1, 2], "shop": ["a", "a", "b", "b"], "sold": [3, 1, 4, 1]})
        >>> find_identifier(shops, "day"), find_identifier(shops.slice(0, 2), "day")
        ('shop', 'shop')
        >>> find_identifier(pa.table({"day": [1, 2], "weather": ["rain", "sun"], "sold": [3, 1]}), "day") is None
        True
    """
    if ID in table.column_names:
        return ID
    texts: list[str] = [name for name in table.column_names if name != time and is_text(table.schema.field(name).type)]
    if len(texts) != 1 or table[texts[0]].null_count:
        return None
    names = len(table[texts[0]].unique())
    if names == 1:
        return texts[0]
    if time is None or len(table[time].unique()) == table.num_rows:
        return None
    pairs = table.select([time, texts[0]]).group_by([time, texts[0]]).aggregate([]).num_rows
    return texts[0] if pairs == table.num_rows else None


def is_row_number(table: pa.Table, column: str) -> bool:
    """Whether a column holds nothing but the rows' numbers, as pandas writes them into files."""
    if column.startswith("__index_level_"):  # pandas' row labels in a Parquet file
        return bool(pa.types.is_integer(table.schema.field(column).type))
    if column != table.field(0).name or not (column == "" or column.startswith("Unnamed: ")):
        return False
    data = table[column]
    return bool(pa.types.is_integer(data.type) and data[:2].to_pylist() in ([0], [1], [0, 1], [1, 2]))


def check_values(table: pa.Table, column: str, *, name: str) -> None:
    """An error where a column does not hold numbers."""
    type_ = table.schema.field(column).type
    if pa.types.is_null(type_) or is_numeric(type_):
        return
    if is_time(type_):
        raise FernError(
            f"column {column!r} is a second time column ({type_}); ignore it, or say which one to use", where=name
        )
    if is_text(type_):
        texts = table[column].to_pylist()
        row, text = next(
            ((i, v) for i, v in enumerate(texts) if v is not None and not is_number(v)), (0, texts[0] if texts else "")
        )
        raise FernError(
            f"column {column!r} holds text ({text!r} in data row {row + 1:,})",
            expected="numbers; correct it, or ignore the column",
            where=name,
        )
    raise FernError(f"column {column!r} holds {type_}", expected="numbers", where=name)


def is_numeric(type_: pa.DataType) -> bool:
    """Whether a column type holds numbers (yes/no counts as 0 and 1)."""
    return bool(
        pa.types.is_floating(type_)
        or pa.types.is_integer(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_boolean(type_)
    )

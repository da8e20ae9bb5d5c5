"""Which column of a table is time, which names the series and which hold values."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fern.data.csv_files import is_number
from fern.data.timestamps import is_day_number, is_text, is_time, time_format
from fern.errors import FernError, unknown_name

ID = "unique_id"
TIME = "ds"
TARGET = "y"
TIME_NAMES = frozenset({"ds", "date", "datetime", "time", "timestamp", "t", "step", "index"})


@dataclass(frozen=True)
class Roles:
    """The columns of a table: wide (time + one column a channel) or, with ``series``, long (rows of many series)."""

    values: tuple[str, ...]
    time: str | None = None
    time_format: str | None = None
    series: str | None = None
    ignored: tuple[str, ...] = ()
    covariates: tuple[str, ...] = ()


def find_roles(
    table: pa.Table,
    *,
    name: str,
    id_col: str | None = None,
    time_col: str | None = None,
    target_col: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    forecast: bool = False,
    ignore_columns: bool = False,
    guess_id: bool = False,
    like: Roles | None = None,
    covariates: Sequence[str] = (),
) -> Roles:
    """Decide which column is what, from the names and types of a table or of its first rows.

    Time is ``ds``, else the first column of dates or timestamps (text that reads as such included), else a column of
    integers with a usual name (``t``, ``time``, …). The series are named by ``unique_id``. All others are values and
    must be numbers. With ``forecast`` only targets are values: ``target_col``, else ``y`` of a long table, else every
    column of numbers; other columns are an error, or left out with ``ignore_columns``. With ``guess_id`` the only
    column of text may name the series, too; see `find_identifier`. Columns of the same name and role as in the table
    ``like`` come before all guesses.

    Example:
        >>> find_roles(pa.table({"date": ["2020-01-01"], "load": [1.5]}), name="f.csv").time
        'date'
    """
    names = table.column_names
    if not names:
        raise FernError("has no columns", where=name)
    require_distinct(names, name=name)
    known = like or Roles(())
    usual = [column for column in (known.series, ID) if column in names and column not in ignore]
    series = id_col or (usual[0] if usual else None)
    time_col = time_col or (known.time if known.time in names else None)
    wanted = target_col or (known.values if series is None and known.series is None else ())
    asked = {"time_col": [time_col], "id_col": [id_col], "target_col": wanted, "ignore": ignore}
    for argument, columns in asked.items():
        for column in columns:
            if column is not None and column not in names:
                raise unknown_name("column", column, names, argument=argument, where=name)
    left = [column for column in names if column not in (series, *ignore, *covariates)]
    time, form = find_time(table, [column for column in left if column not in wanted], name=name, asked=time_col)
    if series is None and guess_id:
        series = find_identifier(table.select(left), time)
        left = [column for column in left if column != series]
    targets = None
    if forecast:
        if series is not None and not wanted and set(known.values) <= set(names):
            wanted = known.values
        targets = _targets(names, wanted, series=series, time=time_col, where=name)
    # The row numbers that some programs write in front of the columns are no values.
    numbers = [column for column in left if column != time and is_row_number(table, column)]
    others = [column for column in left if column != time and column not in numbers]
    values, extra = others, list[str]()
    if forecast:
        if time is None and targets is None:
            _refuse_fractions_of_time(table, where=name)
        values = list(targets or [column for column in others if _holds_values(table, column)])
        extra = [column for column in others if column not in values]
        if extra and not ignore_columns:
            _refuse_columns(table, extra, where=name)
    if not values and not covariates:
        raise FernError("has no value column besides the time column", expected="at least one", where=name)
    for column in values:
        check_values(table, column, name=name)
    if forecast and series is not None and len(values) > 1:
        raise FernError(
            f"the columns {', '.join(values)} could all be the target",
            argument="target_col",
            expected="one of them",
            where=name,
        )
    return Roles(tuple(values), time, form, series, (*ignore, *numbers, *extra), tuple(covariates))


def _targets(
    names: Sequence[str], target_col: Sequence[str], *, series: str | None, time: str | None, where: str
) -> tuple[str, ...] | None:
    """The columns to forecast; None where every column of numbers is one."""
    if not target_col:
        return (TARGET,) if series is not None and TARGET in names else None
    for column in target_col:
        if column in (series, time):
            role = "identifier" if column == series else "time"
            raise FernError(f"{column!r} is the {role} column", argument="target_col", where=where)
    if series is not None and len(target_col) > 1:
        raise FernError(
            f"got {list(target_col)}; a long table has one target, a wide one may have many",
            argument="target_col",
            where=where,
        )
    return tuple(target_col)


def _refuse_columns(table: pa.Table, columns: Sequence[str], *, where: str) -> None:
    """Refuse columns that are neither identifier, time nor target."""
    for column in columns:
        if _is_mostly_numbers(table, column):
            check_values(table, column, name=where)
    more = f" and {len(columns) - 5} more" if columns[5:] else ""
    listed = ", ".join(repr(column) for column in columns[:5]) + more
    raise FernError(
        f"{listed} {'is' if len(columns) == 1 else 'are'} neither identifier, time nor target; covariates are not "
        "supported yet",
        argument="ignore_columns",
        expected="to be set to leave such columns out",
        where=where,
    )


def _holds_values(table: pa.Table, column: str) -> bool:
    type_ = table.schema.field(column).type
    return is_numeric(type_) or pa.types.is_null(type_)


def _is_mostly_numbers(table: pa.Table, column: str) -> bool:
    """Whether a column of text would hold numbers, but for a few rows."""
    if not is_text(table.schema.field(column).type):
        return False
    texts = [text for text in table[column].slice(0, 1000).to_pylist() if text is not None]
    return sum(map(is_number, texts)) > len(texts) / 2


def _refuse_fractions_of_time(table: pa.Table, *, where: str) -> None:
    """Refuse a column that is time by its name and its order, but would be forecast like any other."""
    for column in table.column_names:
        if column.strip().casefold() in TIME_NAMES and pa.types.is_floating(table.schema.field(column).type):
            values = table[column].to_numpy()
            if len(values) > 1 and (np.diff(values) > 0).all():
                raise FernError(
                    f"column {column!r} looks like time but holds fractions",
                    argument="time_col",
                    expected="dates or integers; a target is named by target_col",
                    where=where,
                )


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

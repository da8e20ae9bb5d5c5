"""Which column of a table is time, which name the series and which hold values."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fern.data.number_marks import find_marks, is_number, parse_numbers
from fern.data.timestamps import (
    FORMATS,
    LOOSE_FORMATS,
    as_text,
    is_text,
    is_time,
    is_whole,
    number_format,
    parse_text,
    time_format,
)
from fern.errors import FernError, unknown_name

ID = "unique_id"
TIME = "ds"
TARGET = "y"

TIME_NAMES = frozenset({"ds", "date", "datetime", "time", "timestamp", "t", "step", "index"})
"""Whole numbers under these names are time."""

_PARTS = {"year": 9999, "quarter": 4, "month": 12, "week": 53, "day": 31, "hour": 24, "minute": 60, "weekday": 7}
"""Parts of a date, and the largest number of each."""

_DATES = frozenset({"date", "datetime", "timestamp", "period", "yr", "qtr", *_PARTS})
_OF_A_YEAR = frozenset({"dow", "dayofweek", "dayofyear", "weekofyear", "weeknumber", "weekno", "yearmonth", "yearweek"})
_YEARS = frozenset({"fiscal", "financial", "calendar", "iso", "epi", "report", "reporting", "business", "trading"})
_NOUNS = frozenset({"sku", "store", "item", "series", "shop", "product", "customer", "dept", "department", "family"})
_KEYS = frozenset({"id", "ids", "sku", "nbr", "key", "uuid", "code"})
_COVARIATES = frozenset({"price", "promo", "promotion", "promotions", "onpromotion", "discount", "holiday", "holidays"})

JOINT = " / "
"""Between the columns that name a series together, and between their values."""

_MOST_NAMING = 4  # columns that name a series together


def says_time(name: str) -> bool:
    """Whether a column's name says that it is time, or a part of it.

    Example:
        >>> [says_time(name) for name in ("Order Date", "yearMonth", "fiscal_week", "load_day", "price")]
        [True, True, True, False, False]
    """
    words = _words(name)
    if "".join(words) in _DATES | _OF_A_YEAR:
        return True
    return len(words) == 2 and (
        words[1] in ("date", "datetime", "timestamp") or (words[0] in _YEARS and words[1] in _DATES)
    )


def says_id(name: str) -> bool:
    """Whether a column's name says that it names things: shops, items, series.

    Example:
        >>> [says_id(name) for name in ("store_nbr", "ItemID", "SKU", "store sales", "paid", "customers")]
        [True, True, True, False, False, False]
    """
    words = _words(name)
    return bool(words) and (words[-1] in _KEYS or (len(words) == 1 and words[0] in _NOUNS))


def _may_be_time(name: str) -> bool:
    return says_time(name) or name.strip().casefold() in TIME_NAMES


def _says_covariate(name: str) -> bool:
    words = _words(name)
    return bool(words) and (words[0] in ("is", "has") or any(word in _COVARIATES for word in words))


def _words(name: str) -> list[str]:
    return [word.casefold() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", name)]


@dataclass(frozen=True)
class Roles:
    """The columns of a table: wide (time + one column a channel) or, with ``series``, long (rows of many series).

    Where several columns name a series together they are ``named_by``, and ``series`` is their names joined.
    """

    values: tuple[str, ...]
    time: str | None = None
    time_format: str | None = None
    series: str | None = None
    ignored: tuple[str, ...] = ()
    covariates: tuple[str, ...] = ()
    named_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def identifiers(self) -> tuple[str, ...]:
        """The columns that name the series."""
        return self.named_by or ((self.series,) if self.series is not None else ())


def join_names(rows: pa.Table | pa.RecordBatch, columns: Sequence[str], *, name: str) -> pa.Array | pa.ChunkedArray:
    """The names of series that several columns name together.

    Example:
        >>> join_names(pa.table({"region": ["N", "S"], "shop": [1, 2]}), ["region", "shop"], name="frame").to_pylist()
        ['N / 1', 'S / 2']
    """
    parts = [pc.cast(rows[column], pa.string()) for column in columns]
    for column, part in zip(columns, parts, strict=True):
        if pc.any(pc.match_substring(part, JOINT)).as_py():
            raise FernError(f"column {column!r} has names with {JOINT!r} in them", argument="id_col", where=name)
    return pc.binary_join_element_wise(*parts, JOINT)


def join_columns(table: pa.Table, joined: str | None, *, name: str) -> pa.Table:
    """The table with one column of names in place of those that ``joined`` names, if it has them.

    Example:
        >>> join_columns(pa.table({"a": ["x"], "b": [1], "y": [0.5]}), "a / b", name="frame").column_names
        ['a / b', 'y']
    """
    parts = [] if joined is None or joined in table.column_names else joined.split(JOINT)
    if len(parts) < 2 or not set(parts) <= set(table.column_names):
        return table
    names = join_names(table, parts, name=name)
    return table.drop_columns(parts).add_column(0, str(joined), names)


@dataclass(frozen=True)
class Reading:
    """What a reader need not guess.

    Arguments:
        time_col: the time column; ``id_col`` the columns that name the series.
        ignore: columns to leave out.
        encoding: how a CSV file is written; so too ``separator`` and ``decimal``.
        target_col: the columns to forecast.
        forecast: only targets are values.
        ignore_columns: leave out columns that have no role.
        guess_id: the only column of text may name the series.
        like: a table whose columns have the same names and roles; they come before all guesses.
        covariates: columns that are no targets.
    """

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


GUESSED = Reading()
"""Everything is the reader's guess."""


def find_roles(table: pa.Table, reading: Reading = GUESSED, *, name: str, partial: bool = False) -> Roles:
    """Decide which column is what, from the names and types of a table or of its first rows (``partial``).

    Time is ``ds``, else the first column of dates or timestamps (text that reads as such included), else a column of
    integers whose name says time (``t``, ``year``, …). The series are named by ``unique_id``, or by the columns in
    ``id_col``. All others are values and must be numbers. With ``forecast`` only targets are values: ``target_col``,
    else ``y`` of a long table, else every column of numbers whose name does not say time or identifier; columns that
    are none of these are an error, or left out with ``ignore_columns``. Series are then also named by columns whose
    names say so (`says_id`), and with ``guess_id`` by the only column of text; see `find_identifiers`.

    Example:
        >>> find_roles(pa.table({"date": ["2020-01-01"], "load": [1.5]}), name="f.csv").time
        'date'
    """
    id_col, ignore, forecast, covariates = reading.id_col, reading.ignore, reading.forecast, reading.covariates
    names = table.column_names
    if not names:
        raise FernError("has no columns", where=name)
    require_distinct(names, name=name)
    known = reading.like or Roles(())
    naming = _resolve_identifiers(names, id_col, known, ignore)
    time_col = reading.time_col
    if time_col is None and known.time in names:
        time_col = known.time
    target_col = reading.target_col or (known.values if not naming and known.series is None else ())
    asked = {"time_col": [time_col], "id_col": id_col or (), "target_col": target_col, "ignore": ignore}
    for argument, columns in asked.items():
        for column in columns:
            if column is not None and column not in names:
                raise unknown_name("column", column, names, argument=argument, where=name)
    left = [column for column in names if column not in (*naming, *ignore, *covariates)]
    free = [column for column in left if column not in target_col]
    time, form = find_time(table, free, name=name, time_col=time_col)
    if time is None and id_col and forecast and find_time(table, id_col, name=name)[0] is not None:
        raise FernError("it is the only column of times", argument="id_col", got=id_col, where=name)
    if not naming and forecast and (reading.like is None or known.series is not None):
        candidates = table.select([column for column in left if column in free or column == time])
        naming = find_identifiers(candidates, time, text=reading.guess_id, name=name, partial=partial)
        left = [column for column in left if column not in naming]
    series = JOINT.join(naming) if naming else None
    targets = None
    if forecast:
        if series is not None and not target_col and known.values and set(known.values) <= set(names):
            target_col = known.values
        targets = _targets(names, target_col, series=naming, time=time_col, where=name)
    # The row numbers that some programs write in front of the columns are no values.
    aside = [column for column in left if column != time and is_row_number(table, column)]
    remaining = [column for column in left if column != time and column not in aside]
    values = remaining
    if forecast:
        long, ignored = bool(naming), reading.ignore_columns
        values, extra = _choose_values(table, remaining, targets, time=time, long=long, ignored=ignored, where=name)
        aside += extra
    if not values and not covariates:
        raise FernError("has no value column besides the time column", expected="at least one", where=name)
    for column in values:
        check_values(table, column, name=name)
    if forecast and series is not None and len(values) > 1:
        problem = f"the columns {', '.join(values)} could all be the target"
        raise FernError(problem, argument="target_col", expected="one of them", where=name)
    joint = tuple(naming) if len(naming) > 1 else ()
    notes = _describe_reading(table, time, form)
    return Roles(tuple(values), time, form, series, (*ignore, *aside), covariates, joint, notes)


def _resolve_identifiers(
    names: Sequence[str], id_col: Sequence[str] | None, known: Roles, ignore: Sequence[str]
) -> tuple[str, ...]:
    """The columns that name the series by what is said, by the table before or by the usual name."""
    if id_col:
        return tuple(id_col)
    if known.series is not None and known.series not in names:
        parts = tuple(known.series.split(JOINT))
        if set(parts) <= set(names):
            return parts
    usual = [column for column in (known.series, ID) if column is not None and column in names and column not in ignore]
    return tuple(usual[:1])


def _choose_values(
    table: pa.Table,
    columns: Sequence[str],
    targets: Sequence[str] | None,
    *,
    time: str | None,
    long: bool,
    ignored: bool,
    where: str,
) -> tuple[list[str], list[str]]:
    """The columns to forecast, and those to leave out; what could be either is asked."""
    named = [column for column in columns if says_time(column) or says_id(column)]
    if time is None and targets is None:
        _refuse_parts_of_time(table, columns, where=where)
    values = targets or [column for column in columns if column not in named and _holds_values(table, column)]
    extra = [column for column in columns if column not in values]
    unnamed = [column for column in extra if column not in named]
    if unnamed and not ignored:
        for column in unnamed:
            if _is_mostly_numbers(table, column):
                check_values(table, column, name=where)
        problem = f"{_list_columns(unnamed)} {'is' if len(unnamed) == 1 else 'are'} neither identifier, time nor target"
        expected = "to be set to leave such columns out; covariates are named as known, past or static"
        raise FernError(problem, argument="ignore_columns", expected=expected, where=where)
    if targets is not None:
        return list(targets), extra
    covariates = [column for column in values if _says_covariate(column)]
    if not long and 0 < len(covariates) < len(values):
        rest = [column for column in values if column not in covariates]
        problem = f"{_list_columns(covariates)} may be covariates of {_list_columns(rest)}, or to be forecast as well"
        expected = "the columns' roles: targets, known ahead, or known up to the last row"
        raise FernError(problem, argument="target_col, futr_exog_list, hist_exog_list", expected=expected, where=where)
    for column in named:
        # One value in all rows, or another one in nearly every row, tells no series apart.
        if says_id(column) and 1 < len(table[column].unique()) <= table.num_rows / 2:
            problem = f"{column!r} may name the series, but {_explain_no_series(table, time)}"
            raise FernError(problem, argument="id_col, ignore_columns", expected="one of them", where=where)
    if not values and named:
        problem = (
            f"{_list_columns(named)} would be all there is to forecast, "
            "and a name that says time or identifier is no target"
        )
        raise FernError(problem, argument="target_col", expected="the column to forecast", where=where)
    return list(values), extra


def _explain_no_series(table: pa.Table, time: str | None) -> str:
    if time is None:
        return "there is no time column"
    once = len(table[time].unique()) == table.num_rows
    return "no time stamp comes twice" if once else "a time stamp comes twice under one name"


def _targets(
    names: Sequence[str], target_col: Sequence[str], *, series: Sequence[str], time: str | None, where: str
) -> tuple[str, ...] | None:
    """The columns to forecast; None where every column of numbers is one."""
    if not target_col:
        return (TARGET,) if series and TARGET in names else None
    for column in target_col:
        if column == time or column in series:
            role = "identifier" if column in series else "time"
            raise FernError(f"{column!r} is the {role} column", argument="target_col", where=where)
    if series and len(target_col) > 1:
        problem = f"got {list(target_col)}; a long table has one target, a wide one may have many"
        raise FernError(problem, argument="target_col", where=where)
    return tuple(target_col)


def _list_columns(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - 5} more" if columns[5:] else ""
    return ", ".join(repr(column) for column in columns[:5]) + more


def _holds_values(table: pa.Table, column: str) -> bool:
    type_ = table[column].type
    numbers = is_numeric(type_) or pa.types.is_null(type_)
    return numbers or find_marks(table[column], where=f"column {column!r}") is not None


def _is_mostly_numbers(table: pa.Table, column: str) -> bool:
    """Whether a column of text would hold numbers, but for a few rows."""
    if not is_text(table.schema.field(column).type):
        return False
    texts = [text for text in table[column].slice(0, 1000).to_pylist() if text is not None]
    return sum(map(is_number, texts)) > len(texts) / 2


def _refuse_parts_of_time(table: pa.Table, columns: Sequence[str], *, where: str) -> None:
    """Refuse a table whose time stands in several columns, or in numbers that are no stamps."""
    parts = [column for column in columns if "".join(_words(column)) in _PARTS]
    if len(parts) > 1:
        raise FernError(
            f"time is spread over the columns {_list_columns(parts)}",
            argument="time_col",
            expected="one column of dates such as 2020-12-31; in pandas: df['ds'] = pd.to_datetime(df[['year', "
            "'month', 'day']])",
            where=where,
        )
    for column in columns:
        if _may_be_time(column) and pa.types.is_floating(table.schema.field(column).type):
            values = table[column].to_numpy()
            if len(values) > 1 and (np.diff(values) > 0).all():
                problem = f"column {column!r} looks like time but holds fractions"
                expected = "dates or integers; a target is named by target_col"
                raise FernError(problem, argument="time_col", expected=expected, where=where)


def require_distinct(names: Sequence[str], *, name: str) -> None:
    """Refuse two columns of one name, and names that are no text."""
    doubled, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise FernError(f"column {doubled!r} appears {times} times", where=name)


def find_time(
    table: pa.Table, columns: Sequence[str], *, name: str, time_col: str | None = None
) -> tuple[str | None, str | None]:
    """Which of these columns is time and, for text and numbers that are dates, its format; None where none is."""
    unread = []
    for column in [time_col] if time_col else sorted(columns, key=lambda column: column != TIME):
        data, named = table[column], column == time_col or _may_be_time(column)
        if is_time(data.type):
            return column, None
        if is_text(data.type):
            form = time_format(data, name=column, named=named)
            if form is not None:
                return column, form
            if named and data.null_count < len(data):
                unread.append(column)
        number = number_format(data, name=column, named=named)
        if number is not None:
            return column, number
    whole = [column for column in columns if _counts_time(table, column, time_col)]
    parts = [column for column in columns if time_col is None and "".join(_words(column)) in _PARTS]
    if len(parts) > 1 and set(whole) <= set(parts):
        return None, None  # a year and a month: neither is time by itself
    if whole:
        return whole[0], None
    if unread:
        raise _explain_time(table[unread[0]], unread[0], where=name)
    if time_col:
        problem = f"time column {time_col!r} holds {table[time_col].type}"
        raise FernError(problem, expected="dates, timestamps or integers", where=name)
    return None, None


def _counts_time(table: pa.Table, column: str, time_col: str | None) -> bool:
    """Whether a column of whole numbers is time: by what is asked, by its name, or as the rows' number."""
    data = table[column]
    if not pa.types.is_integer(data.type) and not (is_whole(data) and (column == time_col or says_time(column))):
        return False
    if time_col is not None:
        return column == time_col
    if is_row_number(table, column) or column.strip().casefold() in TIME_NAMES:
        return True
    if not says_time(column) or data.null_count == len(data):
        return False
    # The month or weekday alone, again and again, is no time.
    most = next((most for part, most in _PARTS.items() if part in _words(column)), None)
    steps = np.diff(np.asarray(pc.drop_null(data).to_numpy()))
    turns = int((steps < 0).sum())
    return most is None or most == _PARTS["year"] or turns == 0 or bool(pc.max(data).as_py() > most)


def _explain_time(column: pa.ChunkedArray, name: str, *, where: str) -> FernError:
    """Why a column that should be time cannot be read: which row is not written as the others are."""
    text = pc.cast(column, pa.string())
    head = text.slice(0, 2_000)
    forms = (*FORMATS, *LOOSE_FORMATS)
    best = max(forms, key=lambda form: len(head) - parse_text(head, form).null_count)
    bad = pc.and_(pc.is_null(parse_text(text, best)), pc.is_valid(text))
    rows = np.flatnonzero(np.asarray(bad))
    row = int(rows[0]) if len(rows) else 0
    most = len(head) - parse_text(head, best).null_count
    first = next(value for value in text.to_pylist() if value is not None) if not most else ""
    problem = f"time column {name!r}: cannot read {text[row].as_py()!r} in data row {row + 1:,}"
    if most:
        example = next(i for i in range(len(head)) if text[i].is_valid and not bad[i].as_py())
        problem += f"; other rows are written as {text[example].as_py()!r}"
    else:
        sample = pa.array([f"{first.strip().rstrip('.')} 2000"])
        if any(parse_text(sample, form).null_count == 0 for form in ("%b %Y", "%B %Y")):
            problem += ", which has no year"
    return FernError(
        problem, argument="time_col", expected="dates in one format, such as 2020-12-31, 2020-12 or 2020Q4", where=where
    )


def _describe_reading(table: pa.Table, time: str | None, form: str | None) -> tuple[str, ...]:
    """What a reader would not take for granted: how dates with a short year were read."""
    if time is None or form not in LOOSE_FORMATS or form == "%Y":
        return ()
    text = pc.cast(pc.drop_null(table[time]), pa.string())
    stamp = str(as_text(parse_text(text.slice(0, 1), str(form))[0])).removesuffix(" 00:00:00")
    return (f"{text[0].as_py()!r} of column {time!r} is read as {stamp}",)


def find_identifiers(
    table: pa.Table, time: str | None, *, text: bool = True, name: str = "frame", partial: bool = False
) -> tuple[str, ...]:
    """The columns that name the series: ``unique_id``, else columns whose names say so, else the only column of text.

    What they hold must look like it: one name in all rows, or time stamps that repeat, but never under the same name.
    Where columns of text would do so together, that is asked. ``partial``: more rows follow, in which columns that have
    one name so far may have others.

    Example:
        >>> shops = pa.table({"day": [1, 2, 1, 2], "shop": ["a", "a", "b", "b"], "sold": [3, 1, 4, 1]})
        >>> find_identifiers(shops, "day"), find_identifiers(shops.slice(0, 2), "day")
        (('shop',), ('shop',))
        >>> find_identifiers(pa.table({"day": [1, 2], "weather": ["rain", "sun"], "sold": [3, 1]}), "day")
        ()
    """
    if ID in table.column_names:
        return (ID,)
    candidates = [column for column in table.column_names if column != time and not table[column].null_count]
    texts = [column for column in candidates if is_text(table.schema.field(column).type)]
    id_columns = [column for column in candidates if says_id(column) and (column in texts or _is_whole(table, column))]
    counts = {column: len(table[column].unique()) for column in {*texts, *id_columns}}
    constant = [column for column in id_columns if counts[column] == 1]
    if time is None or len(table[time].unique()) == table.num_rows:
        lone = texts if text and len(texts) == 1 and counts[texts[0]] == 1 else []
        return tuple(constant[:_MOST_NAMING] or lone)
    # A column with another value in nearly every row numbers the rows.
    key = _find_key(table, time, [column for column in id_columns if counts[column] <= table.num_rows / 2], name=name)
    if key:
        more = [column for column in constant if partial and column not in key]
        return tuple(column for column in id_columns if column in (*key, *more))
    if len(texts) == 1:
        return tuple(texts) if text and _is_key(table, [time, *texts]) else ()
    mixed = [column for column in candidates if column in counts and counts[column] <= table.num_rows / 2]
    key = _find_key(table, time, mixed[: 2 * _MOST_NAMING], name=name)
    if key:
        problem = f"{_list_columns(key)} {'together name' if len(key) > 1 else 'may name'} the series"
        raise FernError(problem, argument="id_col", expected=f"to be {','.join(key)}, if that is right", where=name)
    return ()


def _find_key(table: pa.Table, time: str, columns: Sequence[str], *, name: str) -> tuple[str, ...]:
    """The fewest of these columns under which no time stamp comes twice; two ways to name the series are asked."""
    if not columns or not _is_key(table, [time, *columns]):
        return ()
    for count in range(1, min(len(columns), _MOST_NAMING) + 1):
        keys = [chosen for chosen in combinations(columns, count) if _is_key(table, [time, *chosen])]
        if not keys:
            continue
        groups = {_count_groups(table, chosen) for chosen in keys}
        if len(groups | {_count_groups(table, sorted({c for chosen in keys for c in chosen}))}) > 1:
            ways = " or ".join(_list_columns(chosen) for chosen in keys[:3])
            raise FernError(f"{ways} may name the series", argument="id_col", expected="one of them", where=name)
        return keys[0]
    return ()


def _is_key(table: pa.Table, columns: Sequence[str]) -> bool:
    return bool(_count_groups(table, columns) == table.num_rows)


def _count_groups(table: pa.Table, columns: Sequence[str]) -> int:
    return int(table.select(list(columns)).group_by(list(columns)).aggregate([]).num_rows)


def _is_whole(table: pa.Table, column: str) -> bool:
    type_ = table.schema.field(column).type
    return bool(pa.types.is_integer(type_.value_type if pa.types.is_dictionary(type_) else type_))


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
        parse_numbers(table[column], name=column, where=name)
        return
    raise FernError(f"column {column!r} holds {type_}", expected="numbers", where=name)


def is_numeric(type_: pa.DataType) -> bool:
    """Whether a column type holds numbers (yes/no counts as 0 and 1)."""
    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal, pa.types.is_boolean)
    return any(is_kind(type_) for is_kind in kinds)

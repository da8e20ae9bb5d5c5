"""Covariates: columns beside the target, as numbers.

*Known* columns have values for the steps ahead (a price plan, a weather forecast, the calendar), *past* ones end where
the target ends, *static* ones belong to a series. Numbers and booleans stay one column each; a category becomes one
column for each of its levels, and a level that was not there while fitting belongs to none of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fern.data.columns import is_numeric
from fern.data.frequency import DAY, WEEKDAYS, Frequency, local_times
from fern.data.timestamps import as_integers, as_text, is_text, is_time
from fern.errors import FernError, unknown_name
from fern.extras import import_optional

Floats = NDArray[np.float64]
Kind = Literal["known", "past", "static"]

MOST_LEVELS = 24
"""Levels of a category that get a column; rarer ones share none."""

ARGUMENTS: Mapping[Kind, str] = {"known": "futr_exog_list", "past": "hist_exog_list", "static": "stat_exog_list"}
KINDS: tuple[Kind, ...] = ("known", "past", "static")
_SHOWN = 3  # stamps, series or columns that a message names


@dataclass(frozen=True)
class Covariates:
    """Which columns are covariates, and of which kind.

    Example:
        >>> Covariates.of(known=["price"], past=None, static="region").names
        ('price', 'region')
    """

    known: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    static: tuple[str, ...] = ()

    @classmethod
    def of(cls, *, known: object, past: object, static: object) -> "Covariates":
        """The arguments of `FernForecaster`, checked."""
        columns = {"known": known, "past": past, "static": static}
        lists = {kind: _names(argument, columns[kind]) for kind, argument in ARGUMENTS.items()}
        counts = Counter(name for names in lists.values() for name in names)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise FernError(f"{twice[0]!r} is listed twice", argument=", ".join(ARGUMENTS.values()))
        return cls(**lists)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns: known, past, static."""
        return (*self.known, *self.past, *self.static)

    def __bool__(self) -> bool:
        return bool(self.names)

    def require_in(self, columns: Sequence[str], *, roles: Mapping[str, str | None], where: str) -> None:
        """Refuse covariates that a table does not have, or that are its target, time or identifier."""
        for kind, argument in ARGUMENTS.items():
            for name in getattr(self, kind):
                role = next((role for role, column in roles.items() if column == name), None)
                if role is not None:
                    raise FernError(f"{name!r} is the {role} column", argument=argument, where=where)
                if name not in columns and kind != "static":
                    raise unknown_name("column", name, columns, argument=argument, where=where)


def _names(argument: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise FernError(argument=argument, got=value, expected="a list of column names")
    return tuple(names)


@dataclass(frozen=True)
class EncodedColumn:
    """A column as numbers: itself, or one column for each of its ``levels``."""

    name: str
    levels: tuple[str, ...] | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its columns."""
        return (self.name,) if self.levels is None else tuple(f"{self.name}={level}" for level in self.levels)

    def encode(self, values: pa.Array | pa.ChunkedArray, *, argument: str, where: str) -> Floats:  # (T, outputs)
        """Its numbers; missing values are NaN."""
        if self.levels is None:
            return _numbers(values, self.name, argument=argument, where=where)[:, None]
        codes = pc.index_in(pc.cast(values, pa.string()), pa.array(self.levels, pa.string()))
        places = codes.fill_null(-1).to_numpy(zero_copy_only=False)
        hot: Floats = (places[:, None] == np.arange(len(self.levels))).astype(np.float64)
        hot[np.asarray(pc.is_null(values).to_numpy(zero_copy_only=False), dtype=bool)] = np.nan
        return hot


def learn_encoding(table: pa.Table, names: Sequence[str], *, argument: str, where: str) -> tuple[EncodedColumn, ...]:
    """How each column becomes numbers: by its type, and for a category by the levels it has.

    Example:
        >>> table = pa.table({"promo": [True, False], "shop": ["a", "b"]})
        >>> [column.outputs for column in learn_encoding(table, ["promo", "shop"], argument="x", where="frame")]
        [('promo',), ('shop=a', 'shop=b')]
    """
    encoded = []
    for name in names:
        if name not in table.column_names:
            raise unknown_name("column", name, table.column_names, argument=argument, where=where)
        column = table[name]
        if is_time(column.type):
            raise _type_error(column.type, name, argument=argument, where=where)
        if not (is_text(column.type) or pa.types.is_dictionary(column.type)):
            _numbers(column, name, argument=argument, where=where)
            encoded.append(EncodedColumn(name))
            continue
        counts = pc.value_counts(pc.cast(column, pa.string()).drop_null())
        order = sorted(
            zip(counts.field("counts").to_pylist(), counts.field("values").to_pylist(), strict=True),
            key=lambda pair: (-pair[0], pair[1]),
        )
        if not order:
            raise FernError(f"{name!r} has no values", argument=argument, where=where)
        if len(order) > max(MOST_LEVELS, table.num_rows // 4):
            problem = f"{name!r} is text with {len(order):,} different values"
            expected = f"numbers, or a category of few levels (at most {MOST_LEVELS} are told apart)"
            raise FernError(problem, argument=argument, expected=expected, where=where)
        encoded.append(EncodedColumn(name, tuple(sorted(level for _, level in order[:MOST_LEVELS]))))
    return tuple(encoded)


def _numbers(values: pa.Array | pa.ChunkedArray, name: str, *, argument: str, where: str) -> Floats:  # (T,)
    type_ = values.type
    if not is_numeric(type_) and not pa.types.is_null(type_):
        raise _type_error(type_, name, argument=argument, where=where)
    numbers = np.asarray(pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        problem = f"{name!r} is {numbers[row]} in data row {row + 1:,}"
        raise FernError(problem, argument=argument, expected="finite numbers", where=where)
    return numbers


def _type_error(type_: pa.DataType, name: str, *, argument: str, where: str) -> FernError:
    expected = "numbers, booleans or categories"
    return FernError(f"{name!r} holds {type_}", argument=argument, expected=expected, where=where)


def encode_columns(
    table: pa.Table, encoding: Iterable[EncodedColumn], *, argument: str, where: str
) -> dict[str, Floats]:
    """The columns of a table as numbers, by their new names; each (T,)."""
    out: dict[str, Floats] = {}
    for column in encoding:
        if column.name not in table.column_names:
            raise unknown_name("column", column.name, table.column_names, argument=argument, where=where)
        out |= zip(column.outputs, column.encode(table[column.name], argument=argument, where=where).T, strict=True)
    return out


@dataclass(frozen=True)
class Encoding:
    """The covariates of a forecaster: which columns, how they become numbers, and the calendar."""

    names: Covariates = field(default_factory=Covariates)
    known: tuple[EncodedColumn, ...] = ()
    past: tuple[EncodedColumn, ...] = ()
    static: tuple[EncodedColumn, ...] = ()
    calendar: bool = False
    country: str | None = None
    year: bool = True

    @property
    def known_outputs(self) -> tuple[str, ...]:
        """The names of the known columns as numbers."""
        return tuple(name for column in self.known for name in column.outputs)

    @property
    def dynamic_outputs(self) -> tuple[str, ...]:
        """The names of the known and past columns as numbers, in the order of `Series.covariates`."""
        return (*self.known_outputs, *(name for column in self.past for name in column.outputs))

    def __bool__(self) -> bool:
        return bool(self.names)

    def encode(self, table: pa.Table, *, where: str) -> pa.Table:
        """The table with known and past columns as numbers in place of what they were, and without static ones."""
        numbers: dict[str, Floats] = {}
        for kind in ("known", "past"):
            numbers |= encode_columns(table, getattr(self, kind), argument=ARGUMENTS[kind], where=where)
        encoded = table.drop_columns([name for name in self.names.names if name in table.column_names])
        for name, values in numbers.items():
            if name in encoded.column_names:
                raise FernError(f"there are two columns {name!r}", argument=ARGUMENTS["known"], where=where)
            encoded = encoded.append_column(name, pa.array(values, pa.float64(), from_pandas=True))
        return encoded

    def to_mapping(self) -> dict[str, Any]:
        """What JSON holds: all but the names, which the columns have."""
        return {name: value for name, value in asdict(self).items() if name != "names"}

    @classmethod
    def from_mapping(cls, plain: Mapping[str, Any]) -> "Encoding":
        """What `to_mapping` made."""
        columns: dict[str, Any] = {
            kind: tuple(
                EncodedColumn(entry["name"], entry["levels"] and tuple(entry["levels"])) for entry in plain[kind]
            )
            for kind in KINDS
        }
        names = Covariates(**{kind: tuple(column.name for column in columns[kind]) for kind in KINDS})
        return cls(names, **{**plain, **columns})


def learn_columns(
    table: pa.Table,
    names: Covariates,
    *,
    statics: pa.Table | None,
    calendar: bool,
    country: str | None,
    where: str,
) -> Encoding:
    """How the covariates of a table become numbers; static ones may be in a table of their own."""
    if country is not None:
        _open_holidays(country)  # an unknown one must not cost a training
    encoded: dict[str, Any] = {}
    for kind, argument in ARGUMENTS.items():
        source, place = (table, where) if kind != "static" or statics is None else (statics, "static_df")
        encoded[kind] = learn_encoding(source, getattr(names, kind), argument=argument, where=place)
    return Encoding(names, **encoded, calendar=calendar, country=country)


def read_statics(
    table: pa.Table, encoding: Encoding, *, id_col: str | None, where: str
) -> dict[str, Floats]:  # series -> (Q,)
    """The static numbers of each series; a column that changes within a series is refused."""
    if not encoding.static:
        return {}
    if id_col is None:
        raise FernError(
            "a wide table has one series", argument=ARGUMENTS["static"], expected="a long table", where=where
        )
    numbers = encode_columns(table, encoding.static, argument=ARGUMENTS["static"], where=where)
    matrix = np.stack(list(numbers.values()), axis=1)
    names = table[id_col].cast(pa.string()).combine_chunks().dictionary_encode()
    codes, labels = np.asarray(names.indices), names.dictionary.to_pylist()
    _, first = np.unique(codes, return_index=True)
    first_values = matrix[first]
    wrong = np.argwhere(~((matrix == first_values[codes]) | (np.isnan(matrix) & np.isnan(first_values[codes]))))
    if len(wrong):
        row, column = wrong[0]
        problem = f"{list(numbers)[column]!r} changes within series {labels[codes[row]]!r} (data row {row + 1:,})"
        raise FernError(problem, argument=ARGUMENTS["static"], expected="one value for each series", where=where)
    lacking = np.argwhere(~np.isfinite(first_values))
    if len(lacking):
        place, column = lacking[0]
        problem = f"{list(numbers)[column]!r} has no value for series {labels[place]!r}"
        raise FernError(problem, argument=ARGUMENTS["static"], where=where)
    return dict(zip(labels, first_values, strict=True))


def calendar_features(
    stamps: pa.Array, frequency: Frequency, *, country: str | None = None, year: bool = True
) -> tuple[tuple[str, ...], Floats]:  # names, (T, Q)
    """Hour, weekday, month and season of the year as smooth features, where the frequency has them; and holidays.

    A step of less than a day has the hour (two harmonics); of a day or less the weekday (one column each); of less than
    a year the time of the year (two harmonics), unless ``year`` is False. ``country`` (an ISO code) adds holidays, the
    day before and the day after, from the package ``holidays``.

    Example:
        >>> days = pa.array(np.arange("2024-01-01", "2024-01-04", dtype="datetime64[D]").astype("datetime64[ns]"))
        >>> names, values = calendar_features(days, Frequency("day", 1))
        >>> names[0], values[:, 0].tolist()
        ('Monday', [1.0, 0.0, 0.0])
    """
    names: list[str] = []
    columns: list[Floats] = []
    if not pa.types.is_timestamp(stamps.type):
        if country is not None:
            raise FernError(argument="holidays", got=country, expected="a time column of dates")
        return (), np.empty((len(stamps), 0))
    local = local_times(stamps)
    step = frequency.nanoseconds or DAY
    day = local.astype("datetime64[ns]").astype("datetime64[D]")

    def wave(name: str, phase: Floats, harmonics: int) -> None:
        for k in range(1, harmonics + 1):
            names.extend((f"{name} sin {k}", f"{name} cos {k}"))
            columns.extend((np.sin(2 * np.pi * k * phase), np.cos(2 * np.pi * k * phase)))

    if step < DAY:
        wave("hour", (local % DAY) / DAY, 2)
    if step <= DAY:
        weekday = (day.astype(np.int64) + 3) % 7  # the epoch was a Thursday
        names += WEEKDAYS
        columns += list((weekday == np.arange(7)[:, None]).astype(np.float64))
    if year and step < 200 * DAY:
        first = day.astype("datetime64[Y]")
        wave("year", (day - first).astype(np.int64) / 365.25, 2)
    if country is not None:
        names += ["holiday", "day before a holiday", "day after a holiday"]
        columns += list(_holidays(day, country).T)
    return tuple(names), np.stack(columns, axis=1) if columns else np.empty((len(stamps), 0))


def _holidays(day: NDArray[Any], country: str) -> Floats:  # (T, 3)
    years = np.unique(day.astype("datetime64[Y]").astype(np.int64)) + 1970
    holiday_dates = _open_holidays(country, range(int(years.min()) - 1, int(years.max()) + 2))
    dates = np.array(sorted(holiday_dates), dtype="datetime64[D]")
    shifts = np.array([0, 1, -1], "timedelta64[D]")
    return np.isin(day[:, None] + shifts, dates).astype(np.float64)


def _open_holidays(country: str, years: range | None = None) -> Any:
    """The holidays of a country: of these years, or of none yet."""
    library = import_optional("holidays", extra="holidays")
    try:
        return library.country_holidays(country, years=years)
    except (NotImplementedError, TypeError, AttributeError, ValueError):
        known = sorted(library.list_supported_countries())
        raise unknown_name("country", country, known, argument="holidays") from None


def align_future(
    rows: Mapping[str, tuple[pa.Array, Floats]],  # series -> stamps (n,), values (n, K)
    future_stamps: Mapping[str, pa.Array],  # series -> the stamps to forecast (H,)
    *,
    columns: Sequence[str],
) -> dict[str, Floats]:  # series -> (H, K)
    """The known values of every step to forecast, in order; an error names what is missing.

    Rows of other stamps or series are left out.
    """
    missing: list[tuple[str, str]] = []
    without = [name for name in future_stamps if name not in rows]
    if without:
        more = f" and {len(without) - _SHOWN:,} more" if len(without) > _SHOWN else ""
        shown = ", ".join(repr(name) for name in without[:_SHOWN])
        raise FernError(f"has no rows of series {shown}{more}" if any(without) else "has no rows", argument="futr_df")
    aligned: dict[str, Floats] = {}
    for name, stamps in future_stamps.items():
        when, values = rows[name]
        keys = as_integers(when)
        order = np.argsort(keys, kind="stable")
        if len(keys) > 1 and (np.diff(keys[order]) == 0).any():
            row = int(order[np.flatnonzero(np.diff(keys[order]) == 0)[0]])
            raise FernError(f"has the stamp {as_text(when[row])} twice", argument="futr_df", where=_series(name))
        future_keys = as_integers(stamps)
        place = np.searchsorted(keys[order], future_keys)
        is_known = (place < len(keys)) & (keys[order][np.minimum(place, len(keys) - 1)] == future_keys)
        missing += [(name, str(as_text(stamps[int(step)]))) for step in np.flatnonzero(~is_known)]
        if is_known.all():
            chosen = values[order[place]]
            bad = np.argwhere(~np.isfinite(chosen))
            if len(bad):
                step, column = bad[0]
                problem = f"column {columns[column]!r} has no value at {as_text(stamps[int(step)])}"
                raise FernError(problem, argument="futr_df", where=_series(name))
            aligned[name] = chosen
    if missing:
        first = ", ".join(f"{stamp} of {name!r}" if name else stamp for name, stamp in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
        raise FernError(f"has no row for {first}{more}", argument="futr_df", expected="a row for each step to forecast")
    return aligned


def _series(name: str) -> str:
    return f"series {name!r}" if name else ""

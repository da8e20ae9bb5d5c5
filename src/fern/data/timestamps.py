"""Time columns: from whatever a table holds to timestamps in nanoseconds or integers, or a clear refusal."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fern.errors import FernError

_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y%m%d")
_CLOCKS = ("", " %H:%M:%S", " %H:%M", "T%H:%M:%S", "T%H:%M", " %I:%M:%S %p", " %I:%M %p", " %H")
FORMATS = (
    *("".join(pair) for pair in product(_DAYS, _CLOCKS)),
    *("%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%b-%Y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y"),
    *("%B %Y", "%B-%Y", "%b%Y", "%Y %b", "%Y-%b", "%Y %B", "%d %B %Y", "%d-%B-%Y", "%B %d, %Y", "%B %d %Y", "%b %d %Y"),
    *("%YM%m", "%Y-M%m", "%Y:%m", "%m-%Y", "%m.%Y"),
    *("%YQ%q", "%Y-Q%q", "%Y Q%q", "%Y:Q%q", "%Y/Q%q", "Q%q %Y", "Q%q-%Y", "Q%q/%Y"),
    *("%G-W%V", "%GW%V", "%G W%V", "W%V %G", "W%V-%G"),
)
"""Ways to write time with a year of four digits; ``%q`` is the quarter, ``%G`` and ``%V`` year and week by ISO 8601."""

_MONTHS_ALONE = ("%b-%y", "%b %y", "%b%y", "%y-%b", "%y-%m", "%m/%y", "%m-%y", "%B-%y", "%B %y")
LOOSE_FORMATS = (
    *_MONTHS_ALONE,
    *(day + clock for day in ("%m/%d/%y", "%d/%m/%y", "%d.%m.%y", "%d-%m-%y", "%m-%d-%y") for clock in _CLOCKS[:3]),
    *("%d-%b-%y", "%d %b %y", "%Y", "%Y%m", "%G%V", "%G-%V"),
)
"""Ways that other columns than time are written in, too: they are tried where a column's name says time."""

ISO = "ISO 8601"
_SAMPLE = 2_000
_FIRST_YEAR, _LAST_YEAR = 1678, 2261
_NANOSECONDS = 1_000_000_000


def is_time(type_: pa.DataType) -> bool:
    """Whether the column type is a date or a timestamp."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def is_text(type_: pa.DataType) -> bool:
    """Whether the column type is text, dictionary-encoded text included."""
    if pa.types.is_dictionary(type_):
        return is_text(type_.value_type)
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def replace_views(table: pa.Table) -> pa.Table:
    """Views of text as text: Arrow can neither group nor take rows of a view yet.

    Example:
        >>> replace_views(pa.table({"id": pa.array(["a"], pa.string_view())})).schema.types
        [DataType(large_string)]
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_string_view(field.type):
            table = table.set_column(place, field.name, pc.cast(table.column(place), pa.large_string()))
    return table


def time_format(column: pa.Array | pa.ChunkedArray, *, name: str, named: bool = False) -> str | None:
    """The one format in which the first rows of a text column are time; None where there is none.

    ``03/04/2020`` reads as two different days: where only one reading makes time run forwards, or in equal steps, that
    one is taken; where both do, the column is refused. With ``named`` the column's name says that it is time: then
    `LOOSE_FORMATS` are tried as well.

    Example:
        >>> time_format(pa.array(["31.12.2019 23:50", "01.01.2020 00:00"]), name="ds")
        '%d.%m.%Y %H:%M'
        >>> time_format(pa.array(["Nov-13", "Dec-13", "Jan-14"]), name="month", named=True)
        '%b-%y'
    """
    text = pc.drop_null(pc.cast(column, pa.string()))
    fits: dict[str, pa.Array | pa.ChunkedArray] = {}
    for sample in (text.slice(0, _SAMPLE), text):
        if len(sample) == 0:
            return None
        if _iso(sample) is not None:
            return ISO
        fits = _readings(sample, (*FORMATS, *(_loose(name) if named else ())))
        if not fits:
            return None
        if len(fits) > 1:
            right = [form for form in fits if _runs_forwards(fits[form])]
            right = right if len(right) == 1 else [form for form in fits if _is_regular(fits[form])]
            fits = {right[0]: fits[right[0]]} if len(right) == 1 else fits
        if len(fits) == 1:
            (form,) = fits
            if form in _MONTHS_ALONE and not _is_regular(fits[form]):
                break
            return form
    first = next(iter(fits.values()))
    row = next((i for i in range(len(first)) if len({stamps[i].value for stamps in fits.values()}) > 1), 0)
    readings = " or ".join(str(as_text(stamps[row])).removesuffix(" 00:00:00") for stamps in fits.values())
    days = "day first or month first" if len(fits) > 1 else "a day without a year"
    problem = f"time column {name!r}: {text[row].as_py()!r} could be {days} ({readings})"
    raise FernError(problem, argument="time_col", expected="dates such as 2020-12-31")


def _loose(name: str) -> tuple[str, ...]:
    """The loose formats of a column of that name: a year and two digits are a week only where it says so."""
    weeks = ("%G%V", "%G-%V")
    if "week" in name.casefold() or "wk" in name.casefold():
        return tuple(form for form in LOOSE_FORMATS if form != "%Y%m")
    return tuple(form for form in LOOSE_FORMATS if form not in weeks)


def _readings(text: pa.Array | pa.ChunkedArray, forms: tuple[str, ...]) -> dict[str, pa.Array | pa.ChunkedArray]:
    """The formats in which all of the text is time, and the stamps; of formats with the same stamps the first."""
    fits: dict[str, pa.Array | pa.ChunkedArray] = {}
    few = text.slice(0, 3)  # most formats fail on the first rows
    for form in forms:
        if parse_text(few, form).null_count:
            continue
        stamps = parse_text(text, form)
        if stamps.null_count == 0 and not any(stamps.equals(known) for known in fits.values()):
            fits[form] = stamps
    return fits


def number_format(column: pa.Array | pa.ChunkedArray, *, name: str, named: bool = False) -> str | None:
    """The format of whole numbers that are dates: days, or where the ``name`` says time months or weeks.

    Example:
        >>> number_format(pa.array([20200131, 20200201]), name="x"), number_format(pa.array([201912, 202001]), name="x")
        ('%Y%m%d', None)
        >>> number_format(pa.array([201912, 202001]), name="month", named=True)
        '%Y%m'
    """
    if not pa.types.is_integer(column.type) or len(column) == column.null_count:
        return None
    low, high = pc.min(column).as_py(), pc.max(column).as_py()
    days, weeks = 1800_01_01 <= low <= high <= 2200_12_31, named and 1800_01 <= low <= high <= 2200_53
    if not days and not weeks:
        return None
    text = pc.cast(pc.drop_null(column), pa.string())
    if days:
        return None if parse_text(text, "%Y%m%d").null_count else "%Y%m%d"
    return next((form for form in ("%Y%m", "%G%V") if form in _loose(name) and _readings(text, (form,))), None)


def to_stamps(
    column: pa.Array | pa.ChunkedArray,
    *,
    name: str,
    form: str | None = None,
) -> pa.Array | pa.ChunkedArray:  # timestamp[ns], timestamp[ns, zone] or int64
    """The column as timestamps in nanoseconds, or as integers where it holds integers.

    Example:
        >>> to_stamps(pa.array(["2020-01-01 00:10"]), name="ds", form="%Y-%m-%d %H:%M").type
        TimestampType(timestamp[ns])
    """
    if pa.types.is_floating(column.type) and is_whole(column):
        column = pc.cast(column, pa.int64())
    if pa.types.is_integer(column.type) and form is None:
        try:
            return in_type(column, pa.int64())
        except pa.ArrowInvalid:
            raise FernError(f"time column {name!r}: has numbers beyond 2^63", expected="smaller ones") from None
    if pa.types.is_integer(column.type):
        column = pc.cast(column, pa.string())
    if is_time(column.type):
        zone = column.type.tz if pa.types.is_timestamp(column.type) else None
        return _in_nanoseconds(column, zone, name=name)
    if not is_text(column.type):
        raise FernError(f"time column {name!r}: holds {column.type}", expected="dates, timestamps or integers")
    text = pc.cast(column, pa.string())
    form = form or time_format(text, name=name, named=True)
    parsed = None if form is None else (_iso(text) if form == ISO else parse_text(text, form))
    if parsed is None or parsed.null_count > text.null_count:
        bad = text if parsed is None else text.filter(pc.and_(pc.is_null(parsed), pc.is_valid(text)))
        expected = f"the format {form} as in the rows before" if form else "dates, timestamps or integers"
        value = pc.drop_null(bad)[0].as_py() if len(bad) > bad.null_count else None
        raise FernError(f"time column {name!r}: cannot read {value!r}", expected=expected)
    return parsed


def to_numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """A column of numbers as an array, of one piece without copying it; missing values as NaN.

    Arrow's own ``to_numpy`` loads pandas to ask whether it is there: a third of the time of ``fern audit``.

    Example:
        >>> to_numbers(pa.array([1.0, None])).tolist(), to_numbers(pa.array([3, 4])).tolist()
        ([1.0, nan], [3, 4])
    """
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy())
    whole = column.null_count == 0 and len(column) > 0
    return np.from_dlpack(column) if whole else np.asarray(column.to_numpy(zero_copy_only=False))


def as_integers(stamps: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Stamps without missing ones as integers: nanoseconds since 1970 (UTC where there is a zone), or themselves."""
    if isinstance(stamps, pa.Array) and pa.types.is_timestamp(stamps.type):
        stamps = stamps.view(pa.int64())  # the same memory
    return np.asarray(to_numbers(in_type(stamps, pa.int64())), dtype=np.int64)


def in_type(values: pa.Array | pa.ChunkedArray, type_: pa.DataType, *, safe: bool = True) -> Any:
    """The values in a type; as they are where that is theirs: a cast to it costs more than a short array is worth."""
    return values if values.type == type_ else pc.cast(values, type_, safe=safe)


def combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; itself where it is one already (Arrow would copy it)."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def as_text(stamp: pa.Scalar | None) -> str | None:
    """A stamp as a reader writes it, without empty fractions of a second.

    Example:
        >>> as_text(pa.scalar(0, pa.timestamp("ns")))
        '1970-01-01 00:00:00'
    """
    if stamp is None or not stamp.is_valid:
        return None
    if pa.types.is_integer(stamp.type):
        return str(stamp.as_py())
    if stamp.type.tz:
        text = str(pc.strftime(stamp, format="%Y-%m-%d %H:%M:%S%z"))
    else:
        text = str(np.datetime64(stamp.value, stamp.type.unit)).replace("T", " ")
    whole, _, rest = text.partition(".")
    fraction, zone = rest[:9].rstrip("0"), rest[9:]
    return f"{whole}.{fraction}{zone}" if fraction else whole + zone


def _in_nanoseconds(column: pa.Array | pa.ChunkedArray, zone: str | None, *, name: str) -> pa.Array:
    try:
        return in_type(column, pa.timestamp("ns", tz=zone))
    except pa.ArrowInvalid as error:
        if "timezone" in str(error).lower() or "time zone" in str(error).lower():
            raise FernError(f"time column {name!r}: unknown time zone {zone!r}") from None
        raise FernError(f"time column {name!r}: has years outside 1678 to 2262") from None


def _iso(text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
    """ISO 8601 text as timestamps (UTC where it has offsets), or None where it is not."""
    for type_ in (pa.timestamp("ns"), pa.timestamp("ns", tz="UTC")):
        try:
            return pc.cast(text, type_)
        except pa.ArrowInvalid:
            continue
    return None


def parse_text(text: pa.Array | pa.ChunkedArray, form: str) -> pa.Array | pa.ChunkedArray:
    """The text in this format as timestamps; null where it is not in this format or no such day exists.

    Example:
        >>> [as_text(stamp) for stamp in parse_text(pa.array(["2020Q3", "2020Q5"]), "%YQ%q")]
        ['2020-07-01 00:00:00', None]
    """
    if "%q" in form or "%V" in form:
        return _parse_period(text, form)
    # Seconds hold any year that has four digits; the range is checked when they become nanoseconds.
    parsed = pc.strptime(text, format=form, unit="s", error_is_null=True)
    if not _fits(parsed):
        return pa.nulls(len(text), pa.timestamp("ns"))
    # strptime takes 30 February for 1 March: what does not read back as it was written is no such day.
    same = pc.equal(_strip_padding(text), _strip_padding(pc.strftime(parsed, format=form, locale="C")))
    parsed = pc.if_else(same, parsed, pa.scalar(None, parsed.type))
    if "%y" in form:
        parsed = _shift_century(parsed)
    return _in_nanoseconds(parsed, None, name=form)


def format_text(stamps: pa.Array | pa.ChunkedArray, form: str) -> pa.Array | pa.ChunkedArray:
    """Timestamps as text in this format.

    Example:
        >>> format_text(pa.array([0], pa.timestamp("s")), "%Y-Q%q").to_pylist()
        ['1970-Q1']
    """
    if "%q" not in form:
        return pc.strftime(stamps, format=form, locale="C")
    quarter = pc.cast(pc.quarter(stamps), pa.string())
    before, after = (pc.strftime(stamps, format=part, locale="C") if part else "" for part in form.split("%q"))
    return pc.binary_join_element_wise(before, quarter, after, "")


def _parse_period(text: pa.Array | pa.ChunkedArray, form: str) -> pa.Array | pa.ChunkedArray:
    """The first days of quarters and weeks."""
    pattern = form.replace("%Y", r"(?P<year>\d{4})").replace("%G", r"(?P<year>\d{4})")
    pattern = pattern.replace("%q", r"(?P<part>[1-4])").replace("%V", r"(?P<part>\d{1,2})")
    whole = combine_chunks(text) if isinstance(text, pa.ChunkedArray) else text
    matches = pc.extract_regex(pc.utf8_trim_whitespace(whole), pattern=f"(?i)^{pattern}$")
    year, part = (
        pc.cast(pc.struct_field(matches, name), pa.int64()).fill_null(0).to_numpy() for name in ("year", "part")
    )
    wrong = (year < _FIRST_YEAR) | (year > _LAST_YEAR)
    if "%q" in form:
        days = ((year - 1970) * 12 + 3 * (part - 1)).astype("datetime64[M]").astype("datetime64[D]")
    else:
        fourth = (year - 1970).astype("datetime64[Y]").astype("datetime64[D]") + 3  # always in the first week
        days = fourth - (fourth.astype(np.int64) + 3) % 7 + 7 * (part - 1)
        wrong |= (part < 1) | (days + 3 >= (year - 1969).astype("datetime64[Y]").astype("datetime64[D]"))
    stamps = pa.array(days.astype("datetime64[s]"), pa.timestamp("s"), mask=wrong).cast(pa.timestamp("ns"))
    return pa.chunked_array([stamps]) if isinstance(text, pa.ChunkedArray) else stamps


def _shift_century(seconds: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Stamps whose year had two digits, a century earlier where rows of a table cannot be from so far ahead."""
    year, newest = pc.year(seconds), datetime.now(UTC).year + 1
    if (pc.max(year).as_py() or 0) <= newest:
        return seconds
    ahead = pc.greater(year, newest)
    stamps = np.asarray(seconds.to_numpy(zero_copy_only=False) if isinstance(seconds, pa.Array) else seconds.to_numpy())
    months = stamps.astype("datetime64[M]")
    earlier = (months - 1200).astype("datetime64[s]") + (stamps - months.astype("datetime64[s]"))
    return pc.if_else(ahead, pa.array(earlier.astype("datetime64[s]")), seconds)


def _strip_padding(text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The text without leading zeros and capitals, in which ways to write the same time differ."""
    # The seconds' fraction that strftime may add is empty here.
    plain = pc.replace_substring_regex(pc.utf8_lower(text), r"\b0+(\d)", r"\1")
    return pc.utf8_trim_whitespace(plain)


def _fits(seconds: pa.Array | pa.ChunkedArray) -> bool:
    limits = pc.min_max(pc.cast(seconds, pa.int64()))
    low, high = limits["min"].as_py(), limits["max"].as_py()
    return low is None or max(abs(low), abs(high)) < 2**63 // _NANOSECONDS


def _is_regular(stamps: pa.Array | pa.ChunkedArray) -> bool:
    """Whether the stamps, each once, have equal steps, and time turns back no more often than stamps repeat."""
    numbers = as_integers(stamps)
    unique = np.unique(numbers)
    if len(unique) < 3 or (np.diff(numbers) < 0).sum() > len(numbers) - len(unique):
        return False
    if np.ptp(np.diff(unique)) == 0:
        return True
    days = unique.astype("datetime64[ns]").astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    return bool(np.ptp((days - months).astype(np.int64)) == 0 and np.ptp(np.diff(months.astype(np.int64))) == 0)


def is_whole(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column of numbers with a fraction has none, and nothing is missing.

    Example:
        >>> is_whole(pa.array([1885.0, 1886.0])), is_whole(pa.array([0.5]))
        (True, False)
    """
    if not pa.types.is_floating(column.type) or column.null_count or len(column) == 0:
        return False
    values = np.asarray(column.to_numpy())
    return bool(np.isfinite(values).all() and (values == np.round(values)).all() and (np.abs(values) < 2**53).all())


def _runs_forwards(stamps: pa.Array | pa.ChunkedArray) -> bool:
    numbers = as_integers(stamps)
    return bool(len(numbers) > 1 and (np.diff(numbers) > 0).all())

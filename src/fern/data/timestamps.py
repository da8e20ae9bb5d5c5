"""Time columns: from whatever a table holds to timestamps in nanoseconds or integers, or a clear refusal."""

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
)

ISO = "ISO 8601"
_SAMPLE = 2_000
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


def is_day_number(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether integers are days written as YYYYMMDD.

    Example:
        >>> is_day_number(pa.array([20200131, 20200201])), is_day_number(pa.array([1, 2]))
        (True, False)
    """
    if not pa.types.is_integer(column.type) or len(column) == 0 or column.null_count == len(column):
        return False
    low, high = pc.min(column).as_py(), pc.max(column).as_py()
    if not 1800_01_01 <= low <= high <= 2200_12_31:
        return False
    return bool(_parsed(pc.cast(column, pa.string()), "%Y%m%d").null_count == column.null_count)


def time_format(column: pa.Array | pa.ChunkedArray, *, name: str) -> str | None:
    """The one format in which the first rows of a text column are time; None where there is none.

    ``03/04/2020`` reads as two different days: where only one reading makes time run forwards, that one is
    taken; where both do, the column is refused.

    Example:
        >>> time_format(pa.array(["31.12.2019 23:50", "01.01.2020 00:00"]), name="ds")
        '%d.%m.%Y %H:%M'
    """
    text = pc.drop_null(pc.cast(column, pa.string()))
    for sample in (text.slice(0, _SAMPLE), text):
        if len(sample) == 0:
            return None
        if _iso(sample) is not None:
            return ISO
        fits = [form for form in FORMATS if _parsed(sample, form).null_count == 0]
        if len(fits) <= 1:
            return fits[0] if fits else None
        forwards = [form for form in fits if _runs_forwards(_parsed(sample, form))]
        if len(forwards) == 1:
            return forwards[0]
    raise FernError(
        f"time column {name!r}: {text[0].as_py()!r} could be day first or month first; write dates as 2020-12-31"
    )


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
    form = form or time_format(text, name=name)
    parsed = None if form is None else (_iso(text) if form == ISO else _parsed(text, form))
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


def _parsed(text: pa.Array | pa.ChunkedArray, form: str) -> pa.Array | pa.ChunkedArray:
    """The text in this format as timestamps; null where it is not in this format or no such day exists."""
    # Seconds hold any year that has four digits; the range is checked when they become nanoseconds.
    parsed = pc.strptime(text, format=form, unit="s", error_is_null=True)
    if not _fits(parsed):
        return pa.nulls(len(text), pa.timestamp("ns"))
    # strptime takes 30 February for 1 March: what does not read back as it was written is no such day.
    same = pc.equal(_unpadded(text), _unpadded(pc.strftime(parsed, format=form, locale="C")))
    return _in_nanoseconds(pc.if_else(same, parsed, pa.scalar(None, parsed.type)), None, name=form)


def _unpadded(text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The text without leading zeros and capitals, in which ways to write the same time differ."""
    # The seconds' fraction that strftime may add is empty here.
    plain = pc.replace_substring_regex(pc.utf8_lower(text), r"\b0+(\d)", r"\1")
    return pc.utf8_trim_whitespace(plain)


def _fits(seconds: pa.Array | pa.ChunkedArray) -> bool:
    limits = pc.min_max(pc.cast(seconds, pa.int64()))
    low, high = limits["min"].as_py(), limits["max"].as_py()
    return low is None or max(abs(low), abs(high)) < 2**63 // _NANOSECONDS


def _runs_forwards(stamps: pa.Array | pa.ChunkedArray) -> bool:
    numbers = as_integers(stamps)
    return bool(len(numbers) > 1 and (np.diff(numbers) > 0).all())

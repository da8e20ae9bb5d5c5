"""Arrow's types as text and back, from a closed set: what a saved forecaster says of its columns."""

import re

import pyarrow as pa

from fern.errors import FernError

_PLAIN = {
    str(type_): type_
    for type_ in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.date32(), pa.date64()),
        *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    )
}
# A zone is a name such as Europe/Berlin or an offset such as +02:00: no dots, so no path out of the zones' folder.
_STAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([A-Za-z0-9_+\-][A-Za-z0-9_+\-/:]{0,63}))?\]")
_DICTIONARY = re.compile(r"dictionary<values=([a-z0-9_]+), indices=(u?int(?:8|16|32|64)), ordered=([01])>")


def type_text(type_: pa.DataType | None, *, column: str) -> str | None:
    """The type as text that `parsed_type` reads back; a type outside the set is an error that names the column.

    Example:
        >>> type_text(pa.timestamp("ns", "Europe/Berlin"), column="ds")
        'timestamp[ns, tz=Europe/Berlin]'
        >>> type_text(pa.list_(pa.int8()), column="ds")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: column 'ds': its type list<item: int8> cannot be saved
    """
    if type_ is None:
        return None
    text = str(type_)
    try:
        found = parsed_type(text)
    except FernError:
        found = None
    if found != type_:
        raise FernError(f"column {column!r}: its type {text} cannot be saved")
    return text


def parsed_type(text: object) -> pa.DataType | None:
    """The type of a text that `type_text` gave.

    Example:
        >>> parsed_type("timestamp[ms, tz=../../etc/passwd]")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: column type 'timestamp[ms, tz=../../etc/passwd]' is not known
    """
    if text is None:
        return None
    if isinstance(text, str):
        if text in _PLAIN:
            return _PLAIN[text]
        stamp = _STAMP.fullmatch(text)
        if stamp is not None:
            return pa.timestamp(stamp[1], stamp[2])
        coded = _DICTIONARY.fullmatch(text)
        if coded is not None and coded[1] in _PLAIN:
            return pa.dictionary(_PLAIN[coded[2]], _PLAIN[coded[1]], ordered=coded[3] == "1")
    raise FernError(f"column type {str(text)[:80]!r} is not known")

"""How a text table is written: its encoding, its separator and its decimal mark, detected or refused."""

import codecs
import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fern.errors import FernError

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space"}
_LINES = 500
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

_NOT_FOR_FILES = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined", "mbcs", "oem")

_EXPONENT = r"(?:[eE][+-]?\d+)?"
_DOT = re.compile(rf"[+-]?(?:\d+\.\d*|\.\d+){_EXPONENT}")
_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){_EXPONENT}")
_WHOLE = re.compile(rf"[+-]?\d+{_EXPONENT}")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_BOTH = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d+|[+-]?\d{1,3}(?:,\d{3})+\.\d+")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")


@dataclass(frozen=True)
class Dialect:
    """Separator and decimal mark of a text table."""

    separator: str
    decimal: str


def decode(head: bytes, *, name: str, complete: bool, encoding: str | None = None) -> tuple[str, str]:
    """The encoding and the text of a file's first bytes (``complete``: they are all there are).

    UTF-8, UTF-16 with its mark, or Latin-1 (Windows-1252) without control characters; else refused.

    Example:
        >>> decode("T (°C)".encode("latin-1"), name="f.csv", complete=True)
        ('cp1252', 'T (°C)')
    """
    if encoding is not None:
        _require_text_codec(encoding, name=name)
        try:
            return encoding, codecs.getincrementaldecoder(encoding)().decode(head, final=complete)
        except LookupError:
            raise FernError(f"{name}: unknown encoding {encoding!r}; try utf-8, latin-1, utf-16") from None
        except UnicodeDecodeError as error:
            raise FernError(f"{name}: is not {encoding} (byte {error.start:,}: {error.reason})") from None
    candidates = [known for mark, known in _BOMS if head.startswith(mark)] or ["utf-8", "cp1252"]
    for candidate in candidates:
        try:
            text = codecs.getincrementaldecoder(candidate)().decode(head, final=complete)
        except UnicodeDecodeError:
            continue
        if not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text):
            return candidate, text
    raise FernError(
        f"{name}: unreadable encoding: neither UTF-8, UTF-16 nor Latin-1 text; is it a CSV or Parquet file? "
        "(save it as UTF-8, or give its encoding)"
    )


def _require_text_codec(encoding: str, *, name: str) -> None:
    """Refuse codecs that do not turn bytes into text, such as rot13 or hex."""
    wrong = FernError(f"{name}: unknown encoding {encoding[:40]!r}; try utf-8, latin-1, utf-16")
    try:
        known = codecs.lookup(encoding)
        "".encode(encoding)  # refuses what is no text encoding
    except (LookupError, ValueError):
        raise wrong from None
    if known.incrementaldecoder is None or known.name in _NOT_FOR_FILES:
        raise wrong


def sniff(
    text: str,
    *,
    name: str,
    separator: str | None = None,
    decimal: str | None = None,
) -> Dialect:
    """Find the dialect from the first whole lines of a file; what is given is not guessed.

    Anything that could be read in two ways is refused with a `FernError` that says how to settle it.

    Example:
        >>> sniff("ds;a;b\\n2020-01-01;1,5;2,25\\n", name="f.csv")
        Dialect(separator=';', decimal=',')
    """
    if decimal not in (None, ".", ","):
        raise FernError(f"decimal: got {decimal!r}, needs '.' or ','")
    if separator is not None and len(separator) != 1:
        raise FernError(f"separator: got {separator!r}, needs one character")
    lines = [line for line in text.splitlines()[:_LINES] if line.strip()]
    if not lines:
        raise FernError(f"{name}: contains only whitespace, needs a header line and rows of values")
    if separator is None:
        separator = _separator(lines, name=name)
    rows = _fields(lines, separator)
    _check_header(rows[0], name=name)
    if decimal is None:
        decimal = _decimal(rows[1:], name=name)
    return Dialect(separator, decimal)


def is_number(text: str) -> bool:
    """Whether the text is a number with a decimal point or a decimal comma.

    Example:
        >>> is_number("-1,5e3"), is_number("1.2.3")
        (True, False)
    """
    text = text.strip()
    return any(pattern.fullmatch(text) for pattern in (_WHOLE, _DOT, _COMMA))


def _fields(lines: list[str], separator: str) -> list[list[str]]:
    skip = separator == " "
    with _wide_fields():
        return [
            [field.strip() for field in row]
            for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=separator, skipinitialspace=skip)
        ]


@contextmanager
def _wide_fields() -> Iterator[None]:
    """Within the block a field may be as long as the text; Python's own limit is 131,072 characters."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _separator(lines: list[str], *, name: str) -> str:
    """The separator under which every line has as many fields as the header and most fields are numbers."""
    fits: list[tuple[float, int, str]] = []
    for separator in SEPARATORS:
        rows = _fields(lines, separator)
        width = len(rows[0])
        if width > 1 and all(len(row) == width for row in rows):
            fields = [field for row in rows[1:] for field in row[1:] if field]
            numbers = sum(map(is_number, fields)) / len(fields) if fields else 0.0
            fits.append((numbers, width, separator))
    if fits:
        return max(fits)[2]
    present = [separator for separator in SEPARATORS if separator != " " and separator in lines[0]]
    if not present:
        if any(sep in line for line in lines[1:] for sep in ",;\t|"):
            raise FernError(
                f"{name}: the header {lines[0]!r} has one field, the lines below have more: which is the separator?"
            )
        return ","  # a single column
    separator = max(present, key=lines[0].count)
    rows = _fields(lines, separator)
    number, row = next((i, row) for i, row in enumerate(rows, start=1) if len(row) != len(rows[0]))
    hint = ""
    if separator == "," and len(row) > len(rows[0]):
        hint = "; if its decimals are commas, save it with another separator or decimal points"
    raise FernError(
        f"{name}: line {number} has {len(row)} fields, the header has {len(rows[0])} "
        f"(separated by {SEPARATORS[separator]}){hint}"
    )


def _check_header(header: list[str], *, name: str) -> None:
    """A header names columns: values in its place would silently lose a row, doubles a column."""
    named = [field for field in header if field]
    if named and all(is_number(field) or _DATE.fullmatch(field) for field in named):
        raise FernError(f"{name}: the first line contains values ({', '.join(named[:3])}, …), needs column names")
    nameless = next((i for i, field in enumerate(header) if i and not field), None)
    if nameless is not None:
        raise FernError(f"{name}: column {nameless + 1} has no name (one separator too many in the header?)")
    counted = Counter(named)
    doubled = sorted(field for field, times in counted.items() if times > 1)
    if doubled:
        raise FernError(f"{name}: column {doubled[0]!r} appears {counted[doubled[0]]} times in the header")


def _decimal(rows: list[list[str]], *, name: str) -> str:
    """The decimal mark; numbers that could mean two things are refused."""
    fields = [field for row in rows for field in row if field]
    both = next((field for field in fields if _BOTH.fullmatch(field)), None)
    if both is not None:
        raise FernError(f"{name}: {both!r} has a thousands separator; save the file without it")
    commas = [field for field in fields if _COMMA.fullmatch(field)]
    if not commas:
        return "."
    dots = [field for field in fields if _DOT.fullmatch(field)]
    if dots:
        raise FernError(
            f"{name}: contains both {commas[0]!r} and {dots[0]!r}: decimal point or decimal comma? Use one of them"
        )
    if all(_GROUPED.fullmatch(field) for field in commas):
        raise FernError(
            f"{name}: {commas[0]!r} may be a decimal comma or a thousands separator; say which (decimal ',' or '.'), "
            "or save the file with decimal points and without thousands separators"
        )
    return ","

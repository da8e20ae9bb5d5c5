"""Numbers as people write them: decimal point or comma, thousands separators, a currency sign."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fern.data.timestamps import is_text
from fern.errors import FernError

_EXPONENT = r"(?:[eE][+-]?\d+)?"
_DOT = re.compile(rf"[+-]?(?:\d+\.\d*|\.\d+){_EXPONENT}")
_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){_EXPONENT}")
_WHOLE = re.compile(rf"[+-]?\d+{_EXPONENT}")
_SPACES = " '\u00a0\u202f\u2009"
_SIGNS = "$€£¥"
# Grouped, and so that no decimal mark could be meant.
_SURE = {
    ",": re.compile(r"[+-]?\d{1,3}(?:(?:,\d{3})+\.\d+|(?:,\d{3}){2,})"),
    ".": re.compile(r"[+-]?\d{1,3}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})"),
}
_MAYBE = {",": re.compile(r"[+-]?[1-9]\d{0,2},\d{3}"), ".": re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")}
_SPACED = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d+)?")
_HUNDREDS = re.compile(r"[+-]?[1-9]\d\d")
_SHOWN_ROWS = 10_000


@dataclass(frozen=True)
class Marks:
    """How numbers are written: the decimal mark, and whether thousands are set apart or there is a currency sign."""

    decimal: str = "."
    grouped: bool = False


def is_number(text: str) -> bool:
    """Whether the text is a number with a decimal point or a decimal comma, thousands set apart or not.

    Example:
        >>> is_number("-1,5e3"), is_number("$1,234.50"), is_number("1.2.3")
        (True, True, False)
    """
    text = strip_sign(text)
    return any(pattern.fullmatch(text) for pattern in (_WHOLE, _DOT, _COMMA, *_SURE.values(), _SPACED))


def strip_sign(text: str) -> str:
    """The text without spaces around it and without a currency sign."""
    text = text.strip()
    if text[:1] in ("+", "-") and text[1:2] in _SIGNS:
        return text[0] + text[2:].strip()
    return text.strip(_SIGNS).strip() if text[:1] in _SIGNS or text[-1:] in _SIGNS else text


def choose_marks(columns: Sequence[Sequence[str]], *, where: str, decimal: str | None = None) -> Marks:
    """How the numbers of a table are written, from some texts of each column; what could mean two numbers is refused.

    Example:
        >>> choose_marks([["1,234.50", "7"]], where="f.csv"), choose_marks([["1,5", "2,25"]], where="f.csv")
        (Marks(decimal='.', grouped=True), Marks(decimal=',', grouped=False))
    """
    fields = [strip_sign(field) for column in columns for field in column if field]
    signed = any(strip_sign(field) != field.strip() for column in columns for field in column if is_number(field))
    spaced = any(_SPACED.fullmatch(field) for field in fields)
    sure = {
        mark: next((field for field in fields if pattern.fullmatch(field)), None) for mark, pattern in _SURE.items()
    }
    commas = [field for field in fields if _COMMA.fullmatch(field)]
    dots = [field for field in fields if _DOT.fullmatch(field)]
    likely = {
        ",": bool(commas) and all(_MAYBE[","].fullmatch(field) for field in commas),
        ".": bool(dots) and all(_MAYBE["."].fullmatch(field) for field in dots),
    }
    if decimal is not None:
        separator = "," if decimal == "." else "."
        return Marks(decimal, bool(sure[separator]) or likely[separator] or spaced or signed)
    thousands = next((mark for mark in sure if sure[mark]), None)
    if thousands is None and commas and dots and likely[","] != likely["."]:
        thousands = "," if likely[","] else "."
    both = (commas[0], dots[0]) if commas and dots else None
    if thousands is not None:
        rival = "." if thousands == "," else ","
        odd = next((f for f in (commas if thousands == "," else dots) if not _MAYBE[thousands].fullmatch(f)), None)
        if odd is None and not sure[rival]:
            return Marks(rival, grouped=True)
        both = str(sure[thousands]), str(odd or sure[rival])
    if both is not None:
        problem = f"contains both {both[0]!r} and {both[1]!r}: decimal point or decimal comma? Use one of them"
        raise FernError(problem, argument="decimal", where=where)
    if likely[","]:
        # 987 beside 1,037: as decimals these would be a thousand times apart.
        grouped = [
            any(_MAYBE[","].fullmatch(field) for field in column)
            and any(_HUNDREDS.fullmatch(field) for field in column)
            for column in columns
        ]
        if any(grouped):
            return Marks(".", grouped=True)
        problem = f"{commas[0]!r} may have a decimal comma or a thousands separator"
        expected = "',' or '.' (or save the file with decimal points and without thousands separators)"
        raise FernError(problem, argument="decimal", expected=expected, where=where)
    return Marks("," if commas else ".", grouped=spaced or signed)


def find_marks(column: pa.Array | pa.ChunkedArray, *, where: str = "", decimal: str | None = None) -> Marks | None:
    """How the numbers of a column of text are written; None where it holds no numbers, or only digits (as names do)."""
    if not is_text(column.type):
        return None
    texts = [text for text in column.slice(0, _SHOWN_ROWS).to_pylist() if text is not None]
    if not texts or not all(map(is_number, texts)) or all(text.strip().isdigit() for text in texts):
        return None
    return choose_marks([texts], where=where, decimal=decimal)


def parse_numbers(
    column: pa.Array | pa.ChunkedArray, *, name: str, where: str, marks: Marks | None = None, row: int = 0
) -> pa.Array | pa.ChunkedArray:  # float64
    """A column of text as numbers; an error names the first row (after ``row`` others) that holds none.

    Example:
        >>> parse_numbers(pa.array(["1,234.50", None, "-7"]), name="sales", where="frame").to_pylist()
        [1234.5, None, -7.0]
    """
    text = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    if marks is None:
        shown = [value for value in text.slice(0, _SHOWN_ROWS).to_pylist() if value]
        marks = choose_marks([shown], where=where) if all(map(is_number, shown)) else Marks()
    thousands = "," if marks.decimal == "." else r"\."
    mark = re.escape(marks.decimal)
    digits = rf"(?:\d+|\d{{1,3}}(?:[{thousands}{_SPACES}]\d{{3}})+)" if marks.grouped else r"\d+"
    number = rf"^[+-]?[{_SIGNS}]?\s?(?:{digits}(?:{mark}\d*)?|{mark}\d+){_EXPONENT}\s?[{_SIGNS}]?$"
    wrong = np.flatnonzero(np.asarray(pc.invert(pc.match_substring_regex(text, number)).fill_null(False)))
    if len(wrong):
        raise FernError(
            f"column {name!r} holds text ({column[int(wrong[0])].as_py()!r} in data row {row + int(wrong[0]) + 1:,})",
            expected="numbers; correct it, or ignore the column",
            where=where,
        )
    plain = pc.replace_substring_regex(text, rf"[{thousands}{_SPACES}{_SIGNS}\s]", "")
    return pc.cast(pc.replace_substring(plain, marks.decimal, "."), pa.float64())

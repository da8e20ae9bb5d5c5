"""A text table's encoding, separator and decimal mark are found, or the file is refused: never misread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error

from fern.data.csv_files import Dialect, decode, is_number, sniff
from fern.errors import FernError

ROWS = [("2020-01-01 00:00", 1.5, -20.25), ("2020-01-01 01:00", 100.0, 0.5), ("2020-01-01 02:00", 2e-3, 7.0)]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_every_pair_of_separator_and_decimal_mark_is_found(separator: str, decimal: str) -> None:
    quote = '"' if separator == decimal else ""
    lines = [separator.join(("ds", "a", "b"))]
    for stamp, *values in ROWS:
        fields = [f"{quote}{str(value).replace('.', decimal)}{quote}" for value in values]
        lines.append(separator.join([stamp, *fields]))
    assert sniff("\n".join(lines), name="f.csv") == Dialect(separator, decimal)


def test_a_single_column_needs_no_separator() -> None:
    assert sniff("load\n1.5\n2.5\n", name="f.csv") == Dialect(",", ".")


def test_spaces_separate_where_nothing_else_does() -> None:
    assert sniff("t a b\n1 2.5 3\n2 3.5 4\n", name="f.txt").separator == " "


def test_dates_with_dots_are_no_decimals() -> None:
    assert sniff("date;a\n31.12.2020;1,5\n01.01.2021;2,5\n", name="f.csv") == Dialect(";", ",")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ds,a,b\n2020-01-01,1,5,2,5\n", "line 2 has 5 fields, the header has 3.*decimals are commas"),
        ("ds,a,b\n2020-01-01,1\n", "line 2 has 2 fields, the header has 3"),
        ("a;b\n1,5;2.5\n", "both '1,5' and '2.5'"),
        ("ds;a\n2020-01-01;1,234\n2020-01-02;2,345\n", "decimal comma or a thousands separator"),
        ("ds;a\n2020-01-01;1.234,5\n2020-01-02;1,234.5\n", "decimal point or decimal comma"),
        ("1,2\n3,4\n", "first line contains values"),
        ("2020-01-01,2\n2020-01-02,4\n", "first line contains values"),
        ("a,b,a\n1,2,3\n", "'a' appears 2 times"),
        ("a,b,\n1,2,\n", "column 3 has no name"),
        ("date\n2020-01-01,4\n", "which is the separator"),
        (" \n\t\n", "contains only whitespace"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text: str, message: str) -> None:
    with pytest.raises(FernError, match=message):
        sniff(text, name="f.csv")


def test_what_is_said_is_not_guessed() -> None:
    text = "ds;a\n2020-01-01;1,234\n2020-01-02;2,345\n"
    assert sniff(text, name="f.csv", decimal=",").decimal == ","
    with raises_error("decimal"):
        sniff(text, name="f.csv", decimal="x")
    with raises_error("separator"):
        sniff(text, name="f.csv", separator=";;")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_usual_encodings_are_found(encoding: str) -> None:
    text = "date,T (°C),PAR (µmol/m²/s)\n2020-01-01,1,2\n"
    assert decode(text.encode(encoding), name="f.csv", complete=True)[1].lstrip("\ufeff") == text


@pytest.mark.parametrize(
    "content",
    [b"\x89PNG\r\n\x1a\n\x00\x00", bytes(range(256)), "ds,a\n1,2\n".encode("utf-16-le"), b"ds,a\n\x00\x01\x02,3\n"],
)
def test_bytes_that_are_no_text_are_refused(content: bytes) -> None:
    with pytest.raises(FernError, match="unreadable encoding"):
        decode(content, name="f.csv", complete=True)


def test_a_named_encoding_is_checked() -> None:
    assert decode(b"T \xb0", name="f.csv", complete=True, encoding="latin-1")[1] == "T °"
    with pytest.raises(FernError, match="is not utf-8"):
        decode(b"T \xb0", name="f.csv", complete=True, encoding="utf-8")
    with pytest.raises(FernError, match="unknown encoding 'utf8-x'"):
        decode(b"T", name="f.csv", complete=True, encoding="utf8-x")


def test_a_character_cut_at_the_end_of_the_head_is_no_error() -> None:
    assert decode("aé".encode()[:-1], name="f.csv", complete=False) == ("utf-8", "a")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_known_in_both_notations(number: float) -> None:
    assert is_number(repr(number))
    assert is_number(repr(number).replace(".", ","))
    assert not is_number(f"{number} V")

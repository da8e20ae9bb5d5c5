"""CSV files: opening them, detecting encoding, separator and decimal mark, and reading batches of typed columns."""

import codecs
import csv
import io
import re
import shutil
import stat
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pcsv

from fern.data.columns import Reading
from fern.data.number_marks import Marks, choose_marks, find_marks, is_number, parse_numbers
from fern.errors import FernError, NotWritten


class Opened:
    """A file that can be read more than once: itself, or a copy of a pipe that lasts as long as this object.

    Example:
        >>> _ = Path("load.csv").write_text("a")
        >>> Opened(Path("load.csv")).path
        PosixPath('load.csv')
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not _is_stream(path):
            return
        folder = tempfile.mkdtemp(prefix="fern-")
        self._finalizer = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "table"
        try:
            with path.open("rb") as source, self.path.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
        except OSError as error:
            self._finalizer()
            raise NotWritten(f"cannot be read into {tempfile.gettempdir()} ({error.strerror})", where=path) from None


def _is_stream(path: Path) -> bool:
    """Whether a file can be read only once: a pipe, standard input, a terminal."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # what is wrong with it is told by whoever opens it
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


@contextmanager
def open_for_arrow(path: Path) -> Iterator[Path | BinaryIO]:
    """The path, or the open file where its name is no text: Arrow takes names in UTF-8 alone."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with path.open("rb") as file:
            yield file
    else:
        yield path


DAMAGED = "\ufffd"
"""The mark that a program puts in place of a character it could not read."""

DAMAGED_IN_CIRCULATION = ("SWDR (W/m²)", "PAR (µmol/m²/s)", "max. PAR (µmol/m²/s)")
"""Names of Weather. Its header was Latin-1, read as UTF-8 and saved again: the ² and µ of every copy are lost."""


def repair_name(name: str) -> str:
    """A column's name with its damaged characters restored, where it is known what they were.

    Example:
        >>> repair_name("SWDR (W/m\\ufffd)")
        'SWDR (W/m²)'
    """
    if DAMAGED not in name:
        return name
    pattern = re.compile(re.escape(name).replace(DAMAGED, "."))
    return next((whole for whole in DAMAGED_IN_CIRCULATION if pattern.fullmatch(whole)), name)


SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space"}
_LINES = 500
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

_NOT_FOR_FILES = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined", "mbcs", "oem")

_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")


@dataclass(frozen=True)
class Dialect:
    """Separator and decimal mark of a text table, and whether its numbers have more marks (`number_marks`)."""

    separator: str
    decimal: str
    grouped: bool = False


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
            raise FernError(f"unknown encoding {encoding!r}; try utf-8, latin-1, utf-16", where=name) from None
        except UnicodeDecodeError as error:
            raise FernError(f"is not {encoding} (byte {error.start:,}: {error.reason})", where=name) from None
        except UnicodeError as error:  # UTF-16 without its mark
            raise FernError(f"is not {encoding} ({error})", where=name) from None
    candidates = [known for mark, known in _BOMS if head.startswith(mark)] or ["utf-8", "cp1252"]
    for candidate in candidates:
        try:
            text = codecs.getincrementaldecoder(candidate)().decode(head, final=complete)
        except UnicodeDecodeError:
            continue
        if not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text):
            _refuse_seven_bits(text, name=name)
            return candidate, text
    raise FernError(
        "unreadable encoding: neither UTF-8, UTF-16 nor Latin-1 text; is it a CSV or Parquet file? (save it as UTF-8, "
        "or give its encoding)",
        where=name,
    )


def _refuse_seven_bits(text: str, *, name: str) -> None:
    """Refuse UTF-7, whose letters beyond ASCII look like ASCII: ``gr+APYA3w-e``. The header tells."""
    for coded in re.findall(r"\+[A-Za-z0-9+/]{3,}-", text.partition("\n")[0]):
        try:
            meant = coded.encode("ascii").decode("utf-7")
        except UnicodeDecodeError:
            continue
        if meant.lstrip("\ufeff").isprintable() and not meant.isascii():
            problem = f"the header looks like UTF-7 ({coded!r} would be {meant!r})"
            raise FernError(problem, where=name, expected="UTF-8, or its encoding by name")


def _require_text_codec(encoding: str, *, name: str) -> None:
    """Refuse codecs that do not turn bytes into text, such as rot13 or hex."""
    wrong = FernError(f"unknown encoding {encoding[:40]!r}; try utf-8, latin-1, utf-16", where=name)
    try:
        known = codecs.lookup(encoding)
        "".encode(encoding)  # refuses what is no text encoding
    except (LookupError, ValueError):
        raise wrong from None
    if known.incrementaldecoder is None or known.name in _NOT_FOR_FILES:
        raise wrong


def sniff(text: str, *, name: str, separator: str | None = None, decimal: str | None = None) -> Dialect:
    """Find the dialect from the first whole lines of a file; what is given is not guessed.

    Anything that could be read in two ways is refused with a `FernError` that says how to settle it.

    Example:
        >>> sniff("ds;a;b\\n2020-01-01;1,5;2,25\\n", name="f.csv")
        Dialect(separator=';', decimal=',', grouped=False)
    """
    if decimal not in (None, ".", ","):
        raise FernError(argument="decimal", got=decimal, expected="'.' or ','")
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '\0\r\n"'):
        raise FernError(argument="separator", got=separator, expected="one ASCII character, such as ';'")
    lines = [line for line in text.splitlines()[:_LINES] if line.strip()]
    if not lines:
        raise FernError("contains only whitespace", expected="a header line and rows of values", where=name)
    if separator is None:
        separator = _separator(lines, name=name)
    rows = _fields(lines, separator)
    _check_header(rows[0], name=name)
    marks = choose_marks(list(zip(*rows[1:], strict=False)), where=name, decimal=decimal)
    return Dialect(separator, marks.decimal, marks.grouped)


def _fields(lines: list[str], separator: str) -> list[list[str]]:
    before = csv.field_size_limit(sys.maxsize)  # Python's own limit is 131,072 characters
    try:
        rows = csv.reader(io.StringIO("\n".join(lines)), delimiter=separator, skipinitialspace=separator == " ")
        return [[field.strip() for field in row] for row in rows]
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
            problem = f"the header {lines[0]!r} has one field, the lines below have more: which is the separator?"
            raise FernError(problem, where=name)
        return ","  # a single column
    separator = max(present, key=lines[0].count)
    rows = _fields(lines, separator)
    number, row = next((i, row) for i, row in enumerate(rows, start=1) if len(row) != len(rows[0]))
    hint = ""
    if separator == "," and len(row) > len(rows[0]):
        hint = "; if its decimals are commas, save it with another separator or decimal points"
    separated = f"{len(rows[0])} (separated by {SEPARATORS[separator]})"
    raise FernError(f"line {number} has {_count_fields(len(row))}, the header has {separated}{hint}", where=name)


def _count_fields(number: int) -> str:
    return f"{number:,} field" + "s" * (number != 1)


def _check_header(header: list[str], *, name: str) -> None:
    """A header names columns: values in its place would silently lose a row, doubles a column."""
    names = [field for field in header if field]
    if names and all(is_number(field) or _DATE.fullmatch(field) for field in names):
        raise FernError(
            f"the first line contains values ({', '.join(names[:3])}, …)", expected="column names", where=name
        )
    nameless = next((i for i, field in enumerate(header) if i and not field), None)
    if nameless is not None:
        raise FernError(f"column {nameless + 1} has no name (one separator too many in the header?)", where=name)
    doubled, times = min(((field, times) for field, times in Counter(names).items() if times > 1), default=("", 0))
    if times:
        raise FernError(f"column {doubled!r} appears {times} times in the header", where=name)


_BLOCK_BYTES = 1 << 22
_NULLS = (
    *("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NULL", "null", "None", "none", "NaN", "nan", "-NaN", "-nan"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "?", "-", "--", "missing", "#VALUE!", "#REF!", "#DIV/0!"),
)


@dataclass(frozen=True)
class CsvFile:
    """A CSV file whose dialect is known, and its first rows with the types that they look like."""

    path: Path
    name: Path
    encoding: str
    dialect: Dialect
    raw_names: tuple[str, ...]
    head: pa.Table

    @classmethod
    def open(
        cls,
        path: Path,
        start: bytes,  # the first bytes
        reading: Reading,
        *,
        name: Path,  # what messages call it
        complete: bool,  # they are all
    ) -> "CsvFile":
        """Find out how the file is written; what is given is not guessed."""
        encoding, text = decode(start, name=str(name), complete=complete, encoding=reading.encoding)
        if not complete and "\n" in text:
            text = text[: text.rindex("\n") + 1]
        dialect = sniff(text, name=str(name), separator=reading.separator, decimal=reading.decimal)
        try:
            head = pcsv.read_csv(
                io.BytesIO((text if text.endswith("\n") else text + "\n").encode()),
                read_options=pcsv.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, 2 * len(start))),
                parse_options=pcsv.ParseOptions(delimiter=dialect.separator),
                convert_options=_conversion(dialect, {}),
            )
        except pa.ArrowInvalid as error:
            raise _explain(name, error, []) from None
        raw = tuple(head.column_names)
        head = head.rename_columns([repair_name(column.strip()) for column in raw])
        if head.num_rows == 0:
            raise FernError("has a header but no rows", where=name)
        if dialect.grouped:
            for place, column in enumerate(head.column_names):
                if find_marks(head[column], decimal=dialect.decimal) is not None:
                    head = head.set_column(place, column, _numbers(head[column], dialect, column, name))
        return cls(path, name, encoding, dialect, raw, head)

    def batches(self, types: Mapping[str, pa.DataType], *, threads: bool = True) -> Iterator[pa.RecordBatch]:
        """All rows of these columns."""
        as_written = dict(zip(self.head.column_names, self.raw_names, strict=True))
        marked = [c for c, type_ in types.items() if self.dialect.grouped and pa.types.is_floating(type_)]
        raw = {as_written[c]: pa.string() if c in marked else type_ for c, type_ in types.items()}
        try:
            # A block holds some lines: more than usual where the columns are very many.
            block = max(_BLOCK_BYTES, 256 * len(self.raw_names), 4 * sum(map(len, self.raw_names)))
            read = pcsv.ReadOptions(block_size=block, encoding=self.encoding, use_threads=threads)
            parse = pcsv.ParseOptions(delimiter=self.dialect.separator)
            convert = _conversion(self.dialect, raw)
            with open_for_arrow(self.path) as source, pcsv.open_csv(source, read, parse, convert) as reader:
                row = 0
                for read_batch in reader:
                    batch = read_batch.rename_columns(list(types))
                    for column in marked:
                        values = _numbers(batch[column], self.dialect, column, self.name, row)
                        batch = batch.set_column(batch.schema.get_field_index(column), column, values)
                    yield batch
                    row += batch.num_rows
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            if threads:  # once more without threads: only then the error names the row
                for _ in self.batches(types, threads=False):
                    pass
            raise _explain(self.name, error, self.raw_names) from None


def _numbers(column: Any, dialect: Dialect, name: str, path: Path, row: int = 0) -> Any:
    return parse_numbers(column, name=name, where=str(path), marks=Marks(dialect.decimal, grouped=True), row=row)


def _conversion(dialect: Dialect, types: dict[str, pa.DataType]) -> pcsv.ConvertOptions:
    return pcsv.ConvertOptions(
        decimal_point=dialect.decimal,
        null_values=list(_NULLS),
        strings_can_be_null=True,
        column_types=types,
        include_columns=list(types),
        true_values=["True", "true", "TRUE"],
        false_values=["False", "false", "FALSE"],
    )


_CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to ([^:]+): invalid value '(.*)'"
)
_WIDTH = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


def _explain(path: Path, error: Exception, names: Sequence[str]) -> FernError:
    """What pyarrow found wrong with a CSV file, in the user's words."""
    text = str(error)
    conversion, width = _CONVERSION.search(text), _WIDTH.search(text)
    if conversion:
        column, row, kind, value = conversion.groups()
        number = int(column)
        name = names[number] if number < len(names) else f"#{number + 1}"
        where = f" in line {int(row):,}" if row else ""
        needs = {"double": "numbers", "int64": "integers"}.get(kind, "time stamps as in its first rows")
        return FernError(
            f"column {name!r} holds {value!r}{where}", expected=f"{needs} (or nothing, for a gap)", where=path
        )
    if width:
        row, expected, got = width.groups()
        where = f"line {int(row):,}" if row else "a line"
        return FernError(f"{where} has {_count_fields(int(got))}, the header has {expected}", where=path)
    return FernError(f"cannot be read as CSV ({first_line(error)})", where=path)


def first_line(error: Any) -> str:
    """The first line of another library's message."""
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__

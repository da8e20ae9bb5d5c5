"""CSV files: their dialect from the first rows, then batches of typed columns, or what is wrong in the user's words."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv

from fern.data.tables.dialect import Dialect, decode, sniff
from fern.data.tables.headers import repaired
from fern.data.tables.opening import for_arrow
from fern.errors import FernError

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
        *,
        name: Path,  # what messages call it
        complete: bool,  # they are all
        encoding: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
    ) -> "CsvFile":
        """Find out how the file is written; what is given is not guessed."""
        encoding, text = decode(start, name=str(name), complete=complete, encoding=encoding)
        if not complete and "\n" in text:
            text = text[: text.rindex("\n") + 1]
        dialect = sniff(text, name=str(name), separator=separator, decimal=decimal)
        try:
            head = pcsv.read_csv(
                io.BytesIO((text if text.endswith("\n") else text + "\n").encode()),
                read_options=pcsv.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, 2 * len(start))),
                parse_options=pcsv.ParseOptions(delimiter=dialect.separator),
                convert_options=_conversion(dialect, {}),
            )
        except pa.ArrowInvalid as error:
            raise _in_words(name, error, []) from None
        raw = tuple(head.column_names)
        head = head.rename_columns(repaired([column.strip() for column in raw]))
        if head.num_rows == 0:
            raise FernError(f"{name}: has a header but no rows")
        return cls(path, name, encoding, dialect, raw, head)

    def batches(self, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """All rows; columns without a type here get the one that their first rows look like."""
        yield from self._stream(types, threads=True)

    def _stream(self, types: Mapping[str, pa.DataType], *, threads: bool) -> Iterator[pa.RecordBatch]:
        names = self.head.column_names
        as_written = dict(zip(names, self.raw_names, strict=True))
        raw = {as_written[column]: type_ for column, type_ in types.items()}
        try:
            read = pcsv.ReadOptions(block_size=self._block_bytes(), encoding=self.encoding, use_threads=threads)
            parse = pcsv.ParseOptions(delimiter=self.dialect.separator)
            convert = _conversion(self.dialect, raw)
            with for_arrow(self.path) as source, pcsv.open_csv(source, read, parse, convert) as reader:
                for batch in reader:
                    yield batch.rename_columns(names)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            if threads:  # once more without threads: only then the error names the row
                for _ in self._stream(types, threads=False):
                    pass
            raise _in_words(self.name, error, self.raw_names) from None

    def _block_bytes(self) -> int:
        """A block holds some lines: more than usual where the columns are very many."""
        return max(_BLOCK_BYTES, 256 * len(self.raw_names), 4 * sum(map(len, self.raw_names)))


def _conversion(dialect: Dialect, types: dict[str, pa.DataType]) -> pcsv.ConvertOptions:
    return pcsv.ConvertOptions(
        decimal_point=dialect.decimal,
        null_values=list(_NULLS),
        strings_can_be_null=True,
        column_types=types,
        true_values=["True", "true", "TRUE"],
        false_values=["False", "false", "FALSE"],
    )


_CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to ([^:]+): invalid value '(.*)'"
)
_WIDTH = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


def _in_words(path: Path, error: Exception, names: Sequence[str]) -> FernError:
    """What pyarrow found wrong with a CSV file, in the user's words."""
    text = str(error)
    conversion, width = _CONVERSION.search(text), _WIDTH.search(text)
    if conversion:
        column, row, kind, value = conversion.groups()
        number = int(column)
        name = names[number] if number < len(names) else f"#{number + 1}"
        where = f" in line {int(row):,}" if row else ""
        needs = {"double": "numbers", "int64": "integers"}.get(kind, "time stamps as in its first rows")
        return FernError(f"{path}: column {name!r} holds {value!r}{where}, needs {needs} (or nothing, for a gap)")
    if width:
        row, expected, got = width.groups()
        where = f"line {int(row):,}" if row else "a line"
        return FernError(f"{path}: {where} has {got} fields, the header has {expected}")
    return FernError(f"{path}: cannot be read as CSV ({one_line(error)})")


def one_line(error: Any) -> str:
    """The first line of another library's message."""
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__

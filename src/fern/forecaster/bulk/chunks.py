"""A long Parquet table in chunks of whole series, found by reading nothing but the identifiers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fern.data.csv_files import one_line
from fern.errors import FernError, unknown_name


@dataclass(frozen=True)
class Chunk:
    """Successive rows of one file: all the rows of the series in them."""

    path: str
    first: int
    rows: int


def parquet_files(source: Path) -> list[Path]:
    """The file, or the Parquet files of the folder in the order of their names."""
    if source.is_dir():
        found = sorted(path for path in source.glob("*.parquet") if path.is_file())
        if not found:
            raise FernError("holds no .parquet file", where=source)
        return found
    if not source.is_file():
        raise FernError("no such file", where=source)
    return [source]


def chunks_of(source: Path, *, id_col: str, series_at_once: int) -> list[Chunk]:
    """Chunks of so many series; rows of one series must lie together, in one file."""
    chunks: list[Chunk] = []
    seen: set[object] = set()
    for path in parquet_files(source):
        starts, rows = _starts(path, id_col, seen)
        edges = [*starts[::series_at_once], rows]
        chunks += [Chunk(str(path), first, stop - first) for first, stop in pairwise(edges)]
    if not chunks:
        raise FernError("has no rows", where=source)
    return chunks


def _starts(path: Path, id_col: str, seen: set[object]) -> tuple[list[int], int]:
    """The first row of each series of a file, and its number of rows; the series are added to those seen."""
    starts: list[int] = []
    rows, last = 0, None
    for ids in _identifiers(path, id_col):
        changes = np.asarray(pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)))
        begins = [*([0] if last is None or last != ids[0] else []), *(np.flatnonzero(changes) + 1).tolist()]
        for offset in begins:
            name = ids[offset].as_py()
            if name in seen:
                raise FernError(
                    (
                        f"rows of series {name!r} do not lie together (again in data row {rows + offset + 1:,}); "
                        f"sort the table by {id_col!r}"
                    ),
                    where=path,
                )
            seen.add(name)
            starts.append(rows + offset)
        rows, last = rows + len(ids), ids[len(ids) - 1]
    return starts, rows


def read_chunk(chunk: Chunk) -> pa.Table:
    """The rows of a chunk; of the file no other row groups are read."""
    with _opened(Path(chunk.path)) as file, _readable(Path(chunk.path)):
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
        ends = np.cumsum(sizes)
        groups = np.flatnonzero((ends > chunk.first) & (ends - sizes < chunk.first + chunk.rows)).tolist()
        table = file.read_row_groups(groups)
        return table.slice(chunk.first - int(ends[groups[0]] - sizes[groups[0]]), chunk.rows)


def _identifiers(path: Path, id_col: str) -> Iterator[pa.Array]:
    with _opened(path) as file, _readable(path):
        if id_col not in file.schema_arrow.names:
            raise FernError(
                f"{unknown_name('column', id_col, file.schema_arrow.names)}; many series are a long table",
                where=path,
            )
        type_ = file.schema_arrow.field(id_col).type
        if pa.types.is_nested(type_) or pa.types.is_floating(type_):
            raise FernError(f"column {id_col!r} holds {type_}", expected="the names of the series", where=path)
        row = 0
        for batch in file.iter_batches(batch_size=1 << 16, columns=[id_col]):
            ids = batch.column(0)
            if ids.null_count:
                empty = int(np.flatnonzero(np.asarray(ids.is_null()))[0])
                raise FernError(f"column {id_col!r} is empty in data row {row + empty + 1:,}", where=path)
            ids = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids
            row += len(ids)
            if len(ids):
                yield ids


def _opened(path: Path) -> pq.ParquetFile:
    with _readable(path):
        return pq.ParquetFile(path)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What Arrow cannot read is a mistake in the file; damage within it is met only where it is read."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise FernError(f"is not a readable Parquet file ({one_line(error)})", where=path) from None

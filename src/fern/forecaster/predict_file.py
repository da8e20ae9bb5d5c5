"""Forecasts of more series than fit in memory: Parquet in, Parquet out, on this machine or over a Ray cluster.

Each chunk of whole series is read, forecast and written before the next. Chunks are found by reading nothing but the
identifiers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fern.data.columns import is_row_number
from fern.data.csv_files import first_line
from fern.data.reading import refuse_damage
from fern.data.timestamps import combine_chunks
from fern.errors import FernError, unknown_name
from fern.extras import import_optional
from fern.files import check_outputs, require_ending, write_whole
from fern.forecaster.predict import OutputColumns
from fern.forecaster.save import pack_forecaster, unpack_forecaster
from fern.processes import unwind_on_signals
from fern.training.runtime import RaySession

if TYPE_CHECKING:
    from fern.forecaster.forecaster import FernForecaster

Engine = Literal["local", "ray"]
ENGINES: tuple[Engine, ...] = ("local", "ray")

SERIES_AT_ONCE = 512
"""Series that are read and forecast together."""


@dataclass(frozen=True)
class Chunk:
    """Successive rows of one file: all the rows of the series in them."""

    path: str
    first: int
    rows: int
    schema: bytes
    """The types of the first file's columns, as Arrow packs them: those of all files."""


def predict_file(
    forecaster: "FernForecaster",
    source: Path,
    out: Path,
    *,
    futr_df: Path | None,
    h: int | None,
    level: Sequence[float] | float | None,
    quantiles: Sequence[float] | float | None,
    engine: Engine,
    address: str | None,
) -> int:
    """See `FernForecaster.predict_file`."""
    state = forecaster._require_fitted()
    if state.table.id_col is None:
        problem = "the forecaster was fitted to a wide frame; many series are a long one"
        raise FernError(problem, argument="predict_file")
    OutputColumns.of(level=level, quantiles=quantiles)
    id_col = state.table.id_col
    future = None if futr_df is None else _check_future(forecaster, futr_df, id_col=id_col)
    request: dict[str, Any] = {"h": h, "level": level, "quantiles": quantiles, "future": future, "id_col": id_col}
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    require_ending(out, (".parquet",), what="a forecast of many series")
    inputs = [*list_parquet_files(source), *([] if future is None else [Path(future)])]
    check_outputs([out], inputs=inputs, kept=[source if source.is_dir() else None])
    chunks = find_chunks(source, id_col=id_col, series_at_once=SERIES_AT_ONCE)
    if engine == "ray":
        tables = predict_by_ray(forecaster, chunks, request, address=address)
    elif address is not None:
        raise FernError(f"got {address!r}, which is for engine='ray'", argument="address")
    else:
        tables = (predict_chunk(forecaster, chunk, **request) for chunk in chunks)
    return _write(tables, out)


def predict_chunk(
    forecaster: "FernForecaster", chunk: Chunk, *, future: str | None, id_col: str, **request: Any
) -> pa.Table:
    """The forecasts of a chunk; of the future's rows those of its series are read."""
    rows = read_chunk(chunk)
    ahead = None if future is None else _read_future(Path(future), rows[id_col], id_col=id_col)
    try:
        return forecaster.predict(rows, futr_df=ahead, **request)
    except FernError as error:
        raise error if error.argument in (*request, "futr_df") else error.within(chunk.path) from None


def _check_future(forecaster: "FernForecaster", path: Path, *, id_col: str) -> str:
    """The path of a future that can be used; mistakes are errors before anything is forecast."""
    covariates = forecaster._require_fitted().covariates
    names = () if covariates is None else covariates.encoding.names.known
    if not names:
        raise FernError("the forecaster was fitted without known columns", argument="futr_df")
    if not path.is_file():
        raise FernError("no such file", argument="futr_df", where=path)
    with _open(path) as file:
        for name in (id_col, *names):
            if name not in file.schema_arrow.names:
                raise unknown_name("column", name, file.schema_arrow.names, argument="futr_df", where=str(path))
    return str(path.resolve())


def _read_future(path: Path, identifiers: pa.ChunkedArray, *, id_col: str) -> pa.Table:
    """The rows of some series; names are compared as text, whatever the files' types are."""
    names = pc.unique(identifiers.cast(pa.string()))
    parts = []
    with _open(path) as file, refuse_damage(path):
        for batch in file.iter_batches():
            rows = pa.Table.from_batches([batch])
            rows = rows.drop_columns([name for name in rows.column_names if is_row_number(rows, name)])
            parts.append(rows.filter(pc.is_in(rows[id_col].cast(pa.string()), names)))
        return pa.concat_tables(parts) if parts else file.schema_arrow.empty_table()


def _write(tables: Iterator[pa.Table], out: Path) -> int:
    """Write the tables to one file, which appears when the last is in it; returns its rows.

    A process that is told to end takes the half-written file with it.
    """
    rows, writer = 0, None
    with unwind_on_signals(), write_whole(out) as temporary:
        try:
            for table in tables:
                writer = writer or pq.ParquetWriter(temporary, table.schema)
                writer.write_table(table)
                rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()
    return rows


# --- chunks -------------------------------------------------------------------------------------------------


def list_parquet_files(source: Path) -> list[Path]:
    """The file, or the Parquet files of the folder in the order of their names."""
    if source.is_dir():
        # A hidden file is what an interrupted writer left behind, or another program's.
        files = sorted(source.glob("[!._]*.parquet"))
        if not files:
            raise FernError("holds no .parquet file", where=source)
        for path in files:
            if not path.is_file():  # left out, its series would be missing without a word
                raise FernError("is not a file", where=path)
        return files
    if not source.is_file():
        raise FernError("no such file", where=source)
    return [source]


def find_chunks(source: Path, *, id_col: str, series_at_once: int) -> list[Chunk]:
    """Chunks of so many series; rows of one series must lie together, in one file."""
    chunks: list[Chunk] = []
    files = list_parquet_files(source)
    with _open(files[0]) as file:
        schema = file.schema_arrow.remove_metadata().serialize().to_pybytes()
    layouts = [_starts(path, id_col) for path in files]
    _require_together(files, layouts, id_col)
    for path, (starts, _, rows) in zip(files, layouts, strict=True):
        edges = [*starts[::series_at_once].tolist(), rows]
        chunks += [Chunk(str(path), first, stop - first, schema) for first, stop in pairwise(edges)]
    if not chunks:
        raise FernError("has no rows", where=source)
    return chunks


def _starts(path: Path, id_col: str) -> tuple[NDArray[np.int64], pa.ChunkedArray, int]:
    """The first row of each series of a file, its name as text, and the file's number of rows."""
    starts, names = [np.empty(0, np.int64)], []
    rows, last = 0, None
    for ids in _identifiers(path, id_col):
        begins = np.append(last is None or last != ids[0], pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)))
        places = np.flatnonzero(begins)
        starts.append(rows + places)
        names.append(ids.take(pa.array(places)).cast(pa.string()))
        rows, last = rows + len(ids), ids[len(ids) - 1]
    return np.concatenate(starts), pa.chunked_array(names, pa.string()), rows


def _require_together(
    files: Sequence[Path], layouts: Sequence[tuple[NDArray[np.int64], pa.ChunkedArray, int]], id_col: str
) -> None:
    """Refuse a series that begins twice."""
    names = pa.chunked_array([piece for _, names, _ in layouts for piece in names.chunks], pa.string())
    encoded = combine_chunks(names).dictionary_encode()
    if len(encoded.dictionary) == len(encoded):
        return
    codes = np.asarray(encoded.indices)
    repeated = np.setdiff1d(np.arange(len(codes)), np.unique(codes, return_index=True)[1])
    again, name = int(repeated[0]), names[int(repeated[0])].as_py()
    for path, (starts, _, _) in zip(files, layouts, strict=True):
        if again < len(starts):
            raise FernError(
                f"rows of series {name!r} do not lie together (again in data row {int(starts[again]) + 1:,}); "
                f"sort the table by {id_col!r}",
                where=path,
            )
        again -= len(starts)


def read_chunk(chunk: Chunk) -> pa.Table:
    """The rows of a chunk; of the file no other row groups are read."""
    with _open(Path(chunk.path)) as file, refuse_damage(Path(chunk.path)):
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
        ends = np.cumsum(sizes)
        groups = np.flatnonzero((ends > chunk.first) & (ends - sizes < chunk.first + chunk.rows)).tolist()
        table = file.read_row_groups(groups)
        rows = table.slice(chunk.first - int(ends[groups[0]] - sizes[groups[0]]), chunk.rows)
    return _like_first(rows, pa.ipc.read_schema(pa.py_buffer(chunk.schema)), where=Path(chunk.path))


def _like_first(rows: pa.Table, schema: pa.Schema, *, where: Path) -> pa.Table:
    """The rows with their columns in the types of the first file; what cannot be is an error that names the column."""
    for place, field in enumerate(rows.schema):
        expected = schema.field(field.name).type if field.name in schema.names else field.type
        if field.type == expected:
            continue
        try:
            if _is_zoned(field.type) != _is_zoned(expected):  # a cast would drop the zone without a word
                raise pa.ArrowInvalid("one has a time zone")
            rows = rows.set_column(place, field.name, rows.column(place).cast(expected))
        except pa.ArrowException as error:
            problem = f"column {field.name!r} holds {field.type}, that of the first file {expected}"
            raise FernError(f"{problem} ({first_line(error)})", where=where) from None
    return rows


def _is_zoned(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) and type_.tz is not None


def _identifiers(path: Path, id_col: str) -> Iterator[pa.Array]:
    with _open(path) as file, refuse_damage(path):
        if id_col not in file.schema_arrow.names:
            raise unknown_name("column", id_col, file.schema_arrow.names, argument="id_col", where=str(path))
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


def _open(path: Path) -> pq.ParquetFile:
    with refuse_damage(path):
        file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise FernError(f"column {doubled!r} appears {names.count(doubled)} times", where=path)
    return file


# --- over a cluster -----------------------------------------------------------------------------------------

TABLE, ERROR = "table", "error"
"""The columns of an actor's answer: a table as an Arrow stream, or why there is none."""


def predict_by_ray(
    forecaster: "FernForecaster", chunks: list[Chunk], request: Mapping[str, Any], *, address: str | None
) -> Iterator[pa.Table]:
    """The forecasts of the chunks, in their order; every node must see the files by the same paths.

    Up to an actor a core holds the forecaster; Ray Data streams chunks to them, no faster than tables are taken.
    """
    session = RaySession(address)
    try:
        data = import_optional("ray.data", extra="ray")  # Ray alone comes without what its data part needs
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        actors = max(1, min(len(chunks), int(session.ray.cluster_resources().get("CPU", 1))))
        items = [{**asdict(chunk), "path": str(Path(chunk.path).resolve())} for chunk in chunks]
        mapped = data.from_items(items, override_num_blocks=len(items)).map_batches(
            Actor,
            fn_constructor_args=(type(forecaster), pack_forecaster(forecaster), dict(request)),
            batch_size=1,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(min_size=1, max_size=actors),
            num_cpus=1,
        )
        try:
            for answers in mapped.iter_batches(batch_size=None, batch_format="pyarrow"):
                for answer in answers.to_pylist():
                    yield _unpack(answer)
        except session.ray.exceptions.RayError as error:
            raise _describe(error) from None
    finally:
        session.leave()


class Actor:
    """A forecaster on a node, and what is asked of it."""

    def __init__(self, cls: "type[FernForecaster]", files: Mapping[str, bytes], request: Mapping[str, Any]) -> None:
        self._forecaster, self._request = unpack_forecaster(cls, files), request

    def __call__(self, batch: pa.Table) -> pa.Table:
        """The forecasts of one chunk, packed: Ray Data joins tables of one schema, and drops what an error says."""
        (item,) = batch.to_pylist()
        try:
            table = predict_chunk(self._forecaster, Chunk(**item), **self._request)
        except FernError as error:
            return pa.table({TABLE: pa.nulls(1, pa.binary()), ERROR: [str(error)]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return pa.table({TABLE: pa.array([sink.getvalue().to_pybytes()], pa.binary()), ERROR: pa.nulls(1, pa.string())})


def _unpack(answer: Mapping[str, Any]) -> pa.Table:
    """The table that an actor packed, or the error that it met."""
    if answer[ERROR] is not None:
        raise FernError(answer[ERROR])
    with pa.ipc.open_stream(answer[TABLE]) as reader:
        return reader.read_all()


def _describe(error: BaseException) -> FernError:
    """The error of an actor that failed; Ray wraps it."""
    inner = getattr(error, "cause", None) or error
    message = str(inner).strip().partition("\n")[0]
    return FernError(f"engine ray: {type(inner).__name__}: {message}")

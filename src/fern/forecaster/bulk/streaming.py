"""Forecasts chunk by chunk, each written before the next is made."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from fern.errors import FernError, unknown_name
from fern.files import check_outputs, ending_of, written_whole
from fern.forecaster.bulk.chunks import Chunk, chunks_of, parquet_files, read_chunk
from fern.forecaster.bulk.cluster import folder_of, forecasts_by_ray
from fern.forecaster.output import Asked
from fern.forecaster.saving.stored import Stored

Engine = Literal["local", "ray"]
ENGINES: tuple[Engine, ...] = ("local", "ray")

SERIES_AT_ONCE = 512
"""Series that are read and forecast together."""


class Bulk(Stored):
    """The part of `FernForecaster` for tables that need not fit in memory."""

    predict: Callable[..., Any]

    def predict_file(
        self,
        source: str | Path,
        out: str | Path,
        *,
        h: int | None = None,
        level: Sequence[float] | float | None = None,
        quantiles: Sequence[float] | float | None = None,
        engine: Engine = "local",
        address: str | None = None,
    ) -> int:
        """Forecast every series of a long Parquet table into a Parquet file; returns how many rows were written.

        Memory is bounded whatever the number of series: some hundred are read, forecast and written at a time. The
        rows of a series must lie together. ``source`` is a file or a folder of files. ``engine="ray"`` maps the
        chunks over a Ray cluster (at ``address``, or this machine's cores), with the same rows; its nodes must see
        ``source`` under the same path. The other arguments are those of `predict`.
        """
        state, place = self._fitted(), Path(source)
        if not state.form.long:
            raise FernError(
                "the forecaster was fitted to a wide frame; many series are a long one", argument="predict_file"
            )
        Asked.of(level=level, quantiles=quantiles)
        request = {"h": h, "level": level, "quantiles": quantiles}
        chunks = _checked(place, Path(out), id_col=self.id_col, engine=engine)
        if engine == "ray":
            saved = folder_of(self.save)
            tables = forecasts_by_ray(chunks, type(self).load, saved, request, address=address)
        elif address is not None:
            raise FernError(f"got {address!r}, which is for engine='ray'", argument="address")
        else:
            tables = (self.predict(read_chunk(chunk), **request) for chunk in chunks)
        return _written(tables, Path(out))


def _checked(source: Path, out: Path, *, id_col: str, engine: Engine) -> list[Chunk]:
    """The chunks of the source; what is wrong is told before anything is forecast."""
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    ending_of(out, (".parquet",), what="a forecast of many series")
    check_outputs([out], inputs=parquet_files(source), kept=[source if source.is_dir() else None])
    return chunks_of(source, id_col=id_col, series_at_once=SERIES_AT_ONCE)


def _written(tables: Iterator[pa.Table], out: Path) -> int:
    """Write the tables to one file, which appears when the last is in it; returns its rows."""
    rows, writer = 0, None
    with written_whole(out) as temporary:
        try:
            for table in tables:
                writer = writer or pq.ParquetWriter(temporary, table.schema)
                writer.write_table(table)
                rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()
    return rows

"""Chunks over a Ray cluster by Ray Data: actors that hold the forecaster, tables back in order."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from fern.errors import FernError
from fern.forecaster.bulk.chunks import Chunk, read_chunk
from fern.training.runtime import RaySession

Folder = Mapping[str, bytes]
"""A saved forecaster: the files of its folder by name."""

TABLE, ERROR = "table", "error"
"""The columns of an actor's answer: a table as an Arrow stream, or why there is none."""

Load = Callable[[str], Any]
"""``FernForecaster.load``, which this module must not import."""


def folder_of(save: Callable[[Path], None]) -> Folder:
    """What ``save`` writes to a folder."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "forecaster"
        save(folder)
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def forecasts_by_ray(
    chunks: list[Chunk],
    load: Load,
    forecaster: Folder,
    request: Mapping[str, Any],
    *,
    address: str | None,
) -> Iterator[pa.Table]:
    """The forecasts of the chunks, in their order; every node must see the files by the same paths.

    Up to an actor a core holds the forecaster; Ray Data streams chunks to them, no faster than tables are taken.
    """
    session = RaySession(address)
    try:
        data = _ray_data()
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        actors = max(1, min(len(chunks), int(session.ray.cluster_resources().get("CPU", 1))))
        items = [{"path": str(Path(c.path).resolve()), "first": c.first, "rows": c.rows} for c in chunks]
        mapped = data.from_items(items, override_num_blocks=len(items)).map_batches(
            Actor,
            fn_constructor_args=(load, dict(forecaster), dict(request)),
            batch_size=1,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(min_size=1, max_size=actors),
            num_cpus=1,
        )
        try:
            for answers in mapped.iter_batches(batch_size=None, batch_format="pyarrow"):
                for answer in answers.to_pylist():
                    yield _unpacked(answer)
        except session.ray.exceptions.RayError as error:
            raise _told(error) from None
    finally:
        session.leave()


def _ray_data() -> ModuleType:
    try:
        return import_module("ray.data")
    except ImportError as error:  # Ray alone comes without what its data part needs
        raise FernError(f"engine ray: Ray Data lacks a package: {error} (pip install 'fern-forecast[ray]')") from None


class Actor:
    """A forecaster on a node, and what is asked of it."""

    def __init__(self, load: Load, forecaster: Folder, request: Mapping[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as place:
            for name, contents in forecaster.items():
                (Path(place) / name).write_bytes(contents)
            self._forecaster = load(place)
        self._request = request

    def __call__(self, batch: pa.Table) -> pa.Table:
        """The forecasts of one chunk, packed: Ray Data joins tables of one schema, and drops what an error says."""
        (item,) = batch.to_pylist()
        try:
            made = self._forecaster.predict(read_chunk(Chunk(**item)), **self._request)
        except FernError as error:
            return pa.table({TABLE: pa.nulls(1, pa.binary()), ERROR: [str(error)]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, made.schema) as writer:
            writer.write_table(made)
        return pa.table({TABLE: pa.array([sink.getvalue().to_pybytes()], pa.binary()), ERROR: pa.nulls(1, pa.string())})


def _unpacked(answer: Mapping[str, Any]) -> pa.Table:
    """The table that an actor packed, or the error that it met."""
    if answer[ERROR] is not None:
        raise FernError(answer[ERROR])
    with pa.ipc.open_stream(answer[TABLE]) as reader:
        return reader.read_all()


def _told(error: BaseException) -> FernError:
    """What Ray tells of an actor that fell; it wraps the error itself."""
    inner = getattr(error, "cause", None) or error
    said = str(inner).strip().partition("\n")[0]
    return FernError(f"engine ray: {type(inner).__name__}: {said}")

"""Chunks over a Ray cluster by Ray Data: actors that hold the forecaster, tables back in order."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from fern.errors import FernError
from fern.forecaster.bulk.chunks import Chunk, read_chunk
from fern.training.machine.cluster import RaySession

Folder = Mapping[str, bytes]
"""A saved forecaster: the files of its folder by name."""

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
        data = session.ray.data
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
            yield from mapped.iter_batches(batch_size=None, batch_format="pyarrow")
        except session.ray.exceptions.RayError as error:
            raise _told(error) from None
    finally:
        session.leave()


class Actor:
    """A forecaster on a node, and what is asked of it."""

    def __init__(self, load: Load, forecaster: Folder, request: Mapping[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as place:
            for name, contents in forecaster.items():
                (Path(place) / name).write_bytes(contents)
            self._forecaster = load(place)
        self._request = request

    def __call__(self, batch: pa.Table) -> pa.Table:
        """The forecasts of one chunk."""
        (item,) = batch.to_pylist()
        return self._forecaster.predict(read_chunk(Chunk(**item)), **self._request)


def _told(error: BaseException) -> FernError:
    """The actor's own error, which Ray wraps."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, FernError):
            return FernError(str(getattr(inner, "cause", inner)))
        inner = getattr(inner, "cause", None) or inner.__cause__
    return FernError(f"engine ray: {str(error).splitlines()[0]}")

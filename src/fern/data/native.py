"""Data frames of pandas, polars and pyarrow as Arrow tables, and back into the kind that came in."""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from fern.data.columns import JOINT, require_distinct
from fern.data.timestamps import in_type, replace_views
from fern.errors import FernError, unknown_name

FrameKind = Literal["pyarrow", "pandas", "polars"]

_WORTH_THREADS = 1 << 20


@dataclass(frozen=True)
class Native:
    """The library a frame came from, and what Arrow does not keep of it: pandas' index and labels.

    Example:
        >>> table, native = unwrap(pa.table({"a": [1.0]}))
        >>> native.wrap(table).equals(table)
        True
    """

    kind: FrameKind
    index: str | None = None  # the column that was pandas' index
    index_name: Hashable = None
    labels: Mapping[str, Hashable] = field(default_factory=dict)  # pandas labels that are not text
    named_by: Mapping[str, pa.DataType | None] = field(default_factory=dict)  # columns that name a series together
    periods: Mapping[str, str] = field(default_factory=dict)  # pandas columns of periods, and their frequency

    def wrap(self, table: pa.Table) -> Any:
        """The table as a frame of this kind."""
        table = self._part_names(table)
        if self.kind not in get_args(FrameKind):
            raise unknown_name("kind of frame", self.kind, get_args(FrameKind))
        if self.kind == "pyarrow":
            return table
        try:
            if self.kind == "polars":
                return nw.from_arrow(table, backend="polars").to_native()
            # Threads cost a small table more than they save it.
            frame = table.to_pandas(use_threads=table.nbytes > _WORTH_THREADS)
        except ImportError:
            raise FernError(f"{self.kind} is not installed", argument="kind") from None
        for name, freq in self.periods.items():
            if name in frame.columns:
                frame[name] = frame[name].dt.to_period(freq)
        if self.index is not None and self.index in frame.columns:
            frame = frame.set_index(self.index)
            frame.index.name = self.index_name
        return frame.rename(columns=dict(self.labels)) if self.labels else frame

    def _part_names(self, table: pa.Table) -> pa.Table:
        """The table with the columns that name a series together in place of their names joined."""
        joined = JOINT.join(self.named_by)
        if len(self.named_by) < 2 or joined not in table.column_names:
            return table
        place = table.column_names.index(joined)
        parts = pc.split_pattern(pc.cast(table[joined], pa.string()), JOINT)
        table = table.remove_column(place)
        for number, (name, type_) in enumerate(self.named_by.items()):
            values = restore_names(pc.list_element(parts, number), type_)
            table = table.add_column(place + number, name, values)
        return table


def restore_names(names: pa.Array | pa.ChunkedArray, type_: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    """Series' names in the type of the column that came in."""
    if type_ is None or pa.types.is_dictionary(type_):
        return names if type_ is None else names.dictionary_encode()
    return in_type(names, type_)


def unwrap(frame: Any) -> tuple[pa.Table, Native]:
    """The frame as an Arrow table. A pandas index other than row numbers becomes the first column.

    Example:
        >>> import pandas
        >>> frame = pandas.DataFrame({"a": [1.0, 2.0]}, index=pandas.date_range("2020", periods=2, name="ds"))
        >>> unwrap(frame)[0].column_names
        ['ds', 'a']
    """
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        require_distinct(frame.column_names, name="frame")
        return replace_views(frame), Native("pyarrow")
    if nw.dependencies.is_pandas_dataframe(frame):
        return _from_pandas(frame)
    try:
        known = nw.from_native(frame)
    except TypeError:
        raise FernError(argument="frame", got=type(frame), expected="a pandas, polars or pyarrow data frame") from None
    kind = known.implementation.name.lower()
    if kind not in get_args(FrameKind):
        raise FernError(f"got a {kind} frame", argument="frame", expected="a pandas, polars or pyarrow one")
    if isinstance(known, nw.LazyFrame):
        raise FernError("got a lazy frame", argument="frame", expected="a collected one (.collect())")
    if not isinstance(known, nw.DataFrame):
        raise FernError(argument="frame", got=type(frame), expected="a data frame")
    with readable("frame"):
        return known.to_arrow(), Native("polars")


def _from_pandas(frame: Any) -> tuple[pa.Table, Native]:
    index, index_name, periods = None, frame.index.name, dict[str, str]()
    if type(frame.index).__name__ == "PeriodIndex":
        periods[str(index_name) if index_name is not None else "index"] = _span(frame.index.dtype)
        frame = frame.set_axis(frame.index.to_timestamp(), axis=0)
    if frame.index.nlevels > 1:
        raise FernError("has a MultiIndex; turn its levels into columns (reset_index)", argument="frame")
    if frame.columns.nlevels > 1:
        raise FernError(f"its columns have {frame.columns.nlevels} levels; give each one name", argument="frame")
    labels = list(frame.columns)
    names = [str(label) for label in labels]
    if type(frame.index).__name__ != "RangeIndex" and (frame.index.dtype.kind in "M" or index_name is not None):
        index = str(index_name) if index_name is not None else "index"
        if index in names:
            raise FernError(f"its index and a column are both called {index!r}", argument="frame")
        require_distinct(names, name="frame")
        frame = frame.set_axis(names, axis=1).rename_axis(index).reset_index()
        names = [index, *names]
    require_distinct(names, name="frame")
    frame = frame if names == list(frame.columns) else frame.set_axis(names, axis=1)
    columns = dict(frame.items())
    sparse = [name for name, column in columns.items() if type(column.dtype).__name__ == "SparseDtype"]
    if sparse:
        dense = {name: columns[name].astype(columns[name].dtype.subtype) for name in sparse}
        frame, columns = frame.assign(**dense), {**columns, **dense}
    spans = {name: column for name, column in columns.items() if type(column.dtype).__name__ == "PeriodDtype"}
    if spans:
        starts = {name: column.dt.to_timestamp() for name, column in spans.items()}
        periods |= {name: _span(column.dtype) for name, column in spans.items()}
        frame, columns = frame.assign(**starts), {**columns, **starts}
    for name, column in columns.items():
        _check_zones(name, column)
    table = _by_column(columns) if frame.size <= _WORTH_THREADS // 8 else None
    other = {str(label): label for label in labels if not isinstance(label, str)}
    return _whole(frame) if table is None else table, Native("pandas", index, index_name, other, periods=periods)


def _span(period: Any) -> str:
    """The span of a type of pandas: ``M`` of ``period[M]``."""
    return str(period).removeprefix("period[").removesuffix("]")


def _by_column(columns: Mapping[str, Any]) -> pa.Table | None:
    """The columns of a pandas frame, or None where one cannot be read: `_whole` tells which, and why."""
    try:
        return pa.table({name: pa.array(column, from_pandas=True) for name, column in columns.items()})
    except (pa.ArrowException, OverflowError):
        return None


def _whole(frame: Any) -> pa.Table:
    """A pandas frame by Arrow's own way, which has threads, and costs a small frame more than its values do."""
    try:
        threads = None if 8 * frame.size > _WORTH_THREADS else 1
        return pa.Table.from_pandas(frame, preserve_index=False, nthreads=threads).replace_schema_metadata(None)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise FernError(f"a column has values of mixed types ({error})", argument="frame") from None
    except OverflowError:
        raise FernError("a column has whole numbers beyond 64 bits", argument="frame") from None
    except pa.ArrowException as error:  # complex numbers, say
        raise FernError(f"a column cannot be read ({'; '.join(map(str, error.args))})", argument="frame") from None


def _check_zones(name: str, column: Any) -> None:
    """Refuse a column in which some stamps have a time zone and some not: Arrow would take the latter for UTC."""
    if column.dtype.kind == "O" and isinstance(column.iloc[0] if len(column) else None, datetime):
        zoned = {value.tzinfo is not None for value in column if isinstance(value, datetime) and value == value}
        if len(zoned) > 1:
            raise FernError(
                f"column {name!r} has stamps with a time zone and stamps without; use one of them", argument="frame"
            )


@contextmanager
def readable(name: str) -> Iterator[None]:
    """What Arrow cannot make sense of within the block is a `FernError`."""
    try:
        yield
    except pa.ArrowException as error:
        reason = " ".join(str(error.args[0] if error.args else error).split())[:300]
        raise FernError(f"cannot be read ({reason.rstrip('.')})", where=name) from None
    except UnicodeDecodeError as error:
        raise FernError(f"holds text that is not UTF-8 ({error.reason})", where=name) from None

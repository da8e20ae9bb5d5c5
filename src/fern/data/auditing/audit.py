"""The audit: every column of a table in one pass, and what the policy would do with it."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.auditing.policy import PAPER_POLICY, ColumnVerdict, Policy, judge
from fern.data.auditing.scan import OUTLIER_LIMIT, ColumnScan, ColumnStatistics
from fern.data.columns import Reading, Roles
from fern.data.frequency import ROWS, Frequency, GridScan, TimeGrid
from fern.data.reading import BATCH_ROWS, Source, readable, to_source
from fern.data.series_table import resolve_frequency, split_by_series
from fern.data.splits import Part
from fern.data.timestamps import to_numbers
from fern.errors import FernError


@dataclass(frozen=True)
class ColumnAudit:
    """A column's statistics and what the policy does with it."""

    statistics: ColumnStatistics
    verdict: ColumnVerdict

    @property
    def name(self) -> str:
        """The column's name."""
        return self.statistics.name


@dataclass(frozen=True)
class SeriesAudit:
    """One series: a wide table is one, a long table has one for each ``unique_id``."""

    name: str
    grid: TimeGrid
    frequency: Frequency
    columns: tuple[ColumnAudit, ...]

    def problems(self) -> list[str]:
        """What must be fixed before the series can be used."""
        empty = [f"column {column.name!r} has no values" for column in self.columns if column.statistics.finite == 0]
        where = f"series {self.name!r}: " if self.name else ""
        return [where + problem for problem in (*self.grid.problems(), *empty)]


@dataclass(frozen=True)
class AuditReport:
    """What the audit found.

    Example:
        >>> hours = np.datetime64("2020-01-01", "ns") + np.arange(100) * np.timedelta64(1, "h")
        >>> load = np.where(np.arange(100) == 5, 0.0, np.arange(100) + 1.0)
        >>> report = audit(pa.table({"ds": hours, "load": load}))
        >>> report["load"].statistics.zeros.total, report["load"].verdict.kinds
        (1, ('fill',))
    """

    name: str
    series: tuple[SeriesAudit, ...]
    policy: Policy
    roles: Roles

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return sum(series.grid.rows for series in self.series)

    def __getitem__(self, column: str) -> ColumnAudit:
        """The audit of a column of a wide table."""
        return next(entry for entry in self.series[0].columns if entry.name == column)

    def problems(self) -> list[str]:
        """What must be fixed before the table can be used, one line each; findings about values are not included."""
        return [problem for series in self.series for problem in series.problems()]


def audit(
    frame: Any,
    *,
    policy: Policy = PAPER_POLICY,
    time: str | None = None,
    series: str | None = None,
    ignore: Sequence[str] = (),
    step: timedelta | None = None,
    part: Part | None = None,
    outlier_limit: float = OUTLIER_LIMIT,
) -> AuditReport:
    """Audit a data frame (pandas, polars, pyarrow) or a CSV or Parquet file.

    Wide tables are read in one pass with memory of fixed size (about 3 MB a column and a batch of rows). Long
    tables are held in memory, to bring each series' rows together. ``step`` says how long a step lasts where the
    time column does not. ``part`` looks at these rows only (for instance the training part).
    """
    reading = Reading(time_col=time, id_col=None if series is None else (series,), ignore=tuple(ignore))
    source, _ = to_source(frame, reading)
    return audit_source(source, policy=policy, step=step, part=part, outlier_limit=outlier_limit)


def audit_source(
    source: Source,
    *,
    policy: Policy = PAPER_POLICY,
    step: timedelta | None = None,
    part: Part | None = None,
    outlier_limit: float = OUTLIER_LIMIT,
) -> AuditReport:
    """Audit an opened table."""
    if source.roles.series is None:
        pieces: Iterator[tuple[str, Iterator[pa.RecordBatch]]] = iter([("", source.batches())])
    else:
        pieces = ((name, iter(table.to_batches(BATCH_ROWS))) for name, table in split_by_series(source))
    report = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for name, batches in pieces:
            # Numbers near the largest that float64 has overflow in squares and differences, and are told as infinite.
            with readable(source.name), np.errstate(all="ignore"):
                grid, columns = _scan(batches if part is None else _rows(batches, part), source, pool, outlier_limit)
            where = f"{source.name}, series {name!r}" if name else source.name
            if grid.rows == 0:
                raise FernError(f"{where}: has no rows" + (f" in the part {part}" if part else ""))
            frequency = resolve_frequency(grid, step, where=where)
            audits = tuple(ColumnAudit(column, judge(column, frequency, policy)) for column in columns)
            report.append(SeriesAudit(name, grid, frequency, audits))
    return AuditReport(source.name, tuple(report), policy, source.roles)


def _scan(
    batches: Iterator[pa.RecordBatch], source: Source, pool: ThreadPoolExecutor, outlier_limit: float
) -> tuple[TimeGrid, list[ColumnStatistics]]:
    """One pass over the batches; the columns of a batch are read side by side."""
    time, scans = GridScan(), [ColumnScan(name) for name in source.roles.values]
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        columns = [as_floats(batch[name]) for name in source.roles.values]
        work = [pool.submit(scan.add, column) for scan, column in zip(scans, columns, strict=True)]
        if source.roles.time is not None:
            time.add(batch[source.roles.time])
        for future in work:
            future.result()
    grid = time.result() if source.roles.time is not None else TimeGrid(ROWS, rows)
    return grid, [scan.finish(outlier_limit=outlier_limit) for scan in scans]


def _rows(batches: Iterator[pa.RecordBatch], part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of the part; nothing after it is read."""
    first = 0
    for batch in batches:
        low, high = max(part.start - first, 0), min(part.stop - first, batch.num_rows)
        if low < high:
            yield batch.slice(low, high - low)
        first += batch.num_rows
        if first >= part.stop:
            return


def as_floats(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """A float64 column as an array, missing values as NaN."""
    return np.ascontiguousarray(to_numbers(column))

"""What cleaning would make of a table's columns, drawn for the page of an audit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.auditing.audit import AuditReport, as_floats
from fern.data.cleaning.clean import clean_source
from fern.data.frames import by_series
from fern.data.tables.readers import Source
from fern.errors import FernError
from fern.report.figures.repairs import Repaired, repair_figure
from fern.report.pages.drawing import drawing
from fern.report.pages.markup import Html, element, joined

MOST_FIGURES = 6
MOST_VALUES = 5_000_000
"""Of a table that is read whole: an audit alone reads one of any size."""


@dataclass(frozen=True)
class Repairs:
    """The columns in which something was found, worst first, and what is to be said about those that are not drawn."""

    columns: tuple[Repaired, ...] = ()
    note: str = ""


def repairs_of(source: Source, report: AuditReport, *, step: timedelta | None = None) -> Repairs:
    """Clean the table as the report's policy says, and set each column beside what becomes of it.

    Example:
        >>> from fern.data.auditing.audit import audit_source
        >>> from fern.data.tables.readers import table_source
        >>> hours = np.datetime64("2020-01-01", "ns") + np.arange(100) * np.timedelta64(1, "h")
        >>> load = np.where(np.arange(100) == 5, 0.0, np.arange(100) + 1.0)
        >>> source = table_source(pa.table({"ds": hours, "load": load, "other": load + 1}), name="example")
        >>> [found.name for found in repairs_of(source, audit_source(source)).columns]
        ['load']
    """
    values = report.rows * sum(len(series.columns) for series in report.series[:1])
    if values > MOST_VALUES:
        return Repairs(note=f"What cleaning would do is not drawn: the table has more than {MOST_VALUES:,} values.")
    try:
        cleaned, log = clean_source(source, policy=report.policy, step=step)
    except FernError as error:
        return Repairs(note=f"What cleaning would do is not drawn: {error}")
    found = []
    names = source.roles.series
    for audit, (series, table) in zip(report.series, by_series(source), strict=True):
        own = cleaned if names is None else cleaned.filter(pa.compute.equal(cleaned[names], series))
        for column in (one.name for one in audit.columns):
            left = as_floats(own[column]) if column in own.column_names and own[column].null_count < len(own) else None
            found.append(
                Repaired.of(
                    as_floats(table[column]),
                    left,
                    log,
                    column=column,
                    series=series,
                    when=_when(source, table),
                    stuck_after=report.policy.stuck_after(audit.frequency),
                )
            )
    worst = sorted((one for one in found if one.found), key=_rows_found, reverse=True)
    left_out = len(worst) - MOST_FIGURES
    note = f"{left_out:,} more columns in which something was found are not drawn." if left_out > 0 else ""
    return Repairs(tuple(worst[:MOST_FIGURES]), note)


def repairs_part(repairs: Repairs) -> Html:
    """A figure for each column in which something was found."""
    parts = [
        drawing(
            repair_figure(one),
            name=f"repair-{place}",
            alt=f"{one.in_words()}.",
            caption=f"{one.in_words()}.",
        )
        for place, one in enumerate(repairs.columns, start=1)
    ]
    if repairs.note:
        parts.append(element("p", {"class": "soft"}, repairs.note))
    return joined(parts)


def _rows_found(one: Repaired) -> int:
    masks: Sequence[NDArray[np.bool_]] = list(one.found.values())
    return int(np.logical_or.reduce(masks).sum())


def _when(source: Source, table: pa.Table) -> NDArray[Any]:
    """Dates as matplotlib takes them, or rows."""
    if source.roles.time is None or not pa.types.is_timestamp(table[source.roles.time].type):
        return np.arange(table.num_rows)
    stamps = table[source.roles.time].combine_chunks().cast(pa.timestamp("us"), safe=False)
    return np.asarray(stamps.to_numpy(zero_copy_only=False))

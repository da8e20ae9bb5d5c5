"""Cleaning by the policy: a new frame and a log of every change. Nothing is changed in place."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fern.data.auditing.audit import as_floats
from fern.data.auditing.policy import PAPER_POLICY, Action, Policy, in_words, judge, sentinels
from fern.data.auditing.scan import ColumnScan
from fern.data.auditing.scan_runs import runs_of
from fern.data.columns import Reading
from fern.data.frequency import ROWS, TimeGrid
from fern.data.reading import Native, Source, restore_names, to_source
from fern.data.series_table import (
    check_grid,
    fill_forward,
    resolve_frequency,
    restore_stamps,
    scan_grid,
    split_by_series,
)
from fern.data.splits import Part
from fern.data.timestamps import as_text
from fern.errors import FernError

ChangeKind = Literal["drop", "asinh", "delete rows", "fill", "to missing", "leave out", "keep", "undecided"]


@dataclass(frozen=True)
class Change:
    """One change: an action on rows ``first_row`` to ``last_row`` of the table that came in, counted from 0
    (in a long table: of its series).

    ``was``: the value that stood there (None: missing, or different ones); ``now``: what was put there.
    """

    action: ChangeKind
    series: str
    column: str
    first_row: int | None
    last_row: int | None
    first_stamp: str | None
    last_stamp: str | None
    was: float | None
    now: float | None
    reason: str

    @property
    def rows(self) -> int:
        """How many rows it covers."""
        return 0 if self.first_row is None or self.last_row is None else self.last_row - self.first_row + 1


@dataclass(frozen=True)
class ChangeSummary:
    """What happened to a column, in one line."""

    series: str
    column: str
    action: ChangeKind
    times: int
    rows: int
    reason: str


@dataclass(frozen=True)
class CleanLog:
    """Every change that a cleaning made, in the order of columns and rows."""

    name: str
    rows_before: int
    rows_after: int
    changes: tuple[Change, ...]

    @property
    def rows_deleted(self) -> int:
        """Rows that are gone (a row may be deleted for several columns)."""
        return self.rows_before - self.rows_after

    def summary(self) -> list[ChangeSummary]:
        """The changes of each column counted by action and reason."""
        groups: dict[tuple[str, str, ChangeKind, str], list[Change]] = {}
        for change in self.changes:
            groups.setdefault((change.series, change.column, change.action, change.reason), []).append(change)
        return [
            ChangeSummary(series, column, action, len(group), sum(change.rows for change in group), reason)
            for (series, column, action, reason), group in groups.items()
        ]

    def columns(self, action: ChangeKind) -> list[str]:
        """The columns to which the action happened, each once."""
        return list(dict.fromkeys(change.column for change in self.changes if change.action == action))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a JSON file."""
        return {
            "schema": "fern.clean/1",
            "source": self.name,
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "changes": [asdict(change) for change in self.changes],
        }


Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def clean(
    frame: Any,
    *,
    policy: Policy = PAPER_POLICY,
    time: str | None = None,
    series: str | None = None,
    ignore: Sequence[str] = (),
    step: timedelta | None = None,
    grid: Literal["time", "rows"] = "time",
    part: Part | None = None,
) -> tuple[Any, CleanLog]:
    """A cleaned frame, of the kind that came in, and the log of every change.

    The policy decides for each column (`fern.data.Policy`). What may follow: the column goes, takes asinh, loses the
    rows of its long zero runs (a row goes for all columns, in a long table for its series), has its short zero runs
    filled with the value before (at the start: after). Deleted rows leave gaps in the time grid; `read_frame` gives
    them as ``breaks``, and `Windows` with these lets no window cross one.

    ``part``: the rows from which the policy decides about dropping and asinh (the training part, so that test rows
    decide nothing); filling and deleting happen everywhere. ``grid="rows"`` takes the rows as equally spaced where
    the time stamps are not. ``ignore``: columns to leave out.

    Example:
        >>> hours = np.datetime64("2020-01-01", "ns") + np.arange(100) * np.timedelta64(1, "h")
        >>> load = np.where(np.arange(100) == 5, 0.0, np.arange(100) + 1.0)
        >>> cleaned, log = clean(pa.table({"ds": hours, "load": load}))
        >>> cleaned["load"][5].as_py(), log.changes[0].action
        (5.0, 'fill')
    """
    reading = Reading(time_col=time, id_col=None if series is None else (series,), ignore=tuple(ignore))
    source, native = to_source(frame, reading)
    types = {} if isinstance(frame, str | Path) else source.types
    cleaned, log = clean_source(source, policy=policy, step=step, grid=grid, part=part)
    transformed = {change.column for change in log.changes if change.action == "asinh"}
    return native.wrap(_cast_back(cleaned, source, types, transformed)), log


def clean_source(
    source: Source,
    *,
    policy: Policy = PAPER_POLICY,
    step: timedelta | None = None,
    grid: Literal["time", "rows"] = "time",
    part: Part | None = None,
) -> tuple[pa.Table, CleanLog]:
    """The cleaned table of an opened one, and the log."""
    if grid not in ("time", "rows"):
        raise FernError(argument="grid", got=grid, expected="'time' or 'rows'")
    changes = [
        Change("leave out", "", column, None, None, None, None, None, None, "requested")
        for column in source.roles.ignored
    ]
    pieces = []
    rows = 0
    for name, table in split_by_series(source):
        rows += table.num_rows
        cleaner = _Cleaner(name, table, source, policy=policy, by_rows=grid == "rows", step=step)
        piece, series_changes = cleaner.run(part)
        changes += series_changes
        if piece is not None:
            pieces.append(piece)
    if not pieces:
        raise FernError(
            "the policy drops every column; nothing is left. fern audit shows the reasons; where zeros are true "
            "values, as of counts, use the policy 'counts'",
            argument=source.name,
        )
    table = Native("pyarrow", named_by=dict.fromkeys(source.roles.named_by)).wrap(pa.concat_tables(pieces))
    return table, CleanLog(source.name, rows, sum(len(p) for p in pieces), tuple(changes))


class _Cleaner:
    """Cleans one series."""

    def __init__(
        self, name: str, table: pa.Table, source: Source, *, policy: Policy, by_rows: bool, step: timedelta | None
    ) -> None:
        self._name, self._table, self._policy = name, table, policy
        self._columns = source.roles.values
        self._where = f"{source.name}, series {name!r}" if name else source.name
        self._stamps = None if source.roles.time is None else table[source.roles.time].combine_chunks()
        grid = TimeGrid(ROWS, table.num_rows) if self._stamps is None else scan_grid(self._stamps)
        if self._stamps is not None and not by_rows:
            check_grid(grid, where=self._where, advice="treat them as equally spaced: grid='rows', --rows")
        self._frequency = resolve_frequency(grid, step, where=self._where)
        self._changes: list[Change] = []

    def run(self, part: Part | None) -> tuple[pa.Table | None, list[Change]]:
        """The cleaned rows (None where no column is left) and the changes."""
        deleted = np.zeros(self._table.num_rows, np.bool_)
        cleaned: dict[str, Floats] = {}
        for column in self._columns:
            values = as_floats(self._table[column]).copy()
            values[np.isinf(values)] = np.nan
            if self._policy.sentinels == "missing":
                for hidden in sentinels(values, stuck_after=self._policy.stuck_after(self._frequency)):
                    values[hidden.first : hidden.first + hidden.length] = np.nan
                    self._note(
                        "to missing", column, hidden.first, hidden.length, reason=hidden.reason, was=hidden.value
                    )
            action = self._column_action(column, values, part)
            if action is not None:
                self._note(action.kind, column, 0, len(values), reason=action.reason)
            if action is None or action.kind != "drop":
                asinh = action is not None
                zeros = not asinh and self._policy.zeros == "clean"
                values = np.arcsinh(values) if asinh else values
                cleaned[column] = self._repair_runs(column, values, deleted, zeros=zeros)
        if not cleaned:
            return None, self._changes
        table = self._table.select([name for name in self._table.column_names if name not in self._columns])
        for column, values in cleaned.items():
            table = table.append_column(column, pa.array(values, mask=np.isnan(values)))
        return table.filter(pa.array(~deleted)), [change for change in self._changes if not _is_moot(change, deleted)]

    def _column_action(self, column: str, values: Floats, part: Part | None) -> Action | None:
        """Whether the column as a whole is dropped or takes asinh."""
        if not np.isfinite(values).any():
            raise FernError(f"column {column!r} has no values; ignore it", argument=self._where)
        rows = values if part is None else values[part.start : part.stop]
        if len(rows) == 0:
            raise FernError(f"{self._where} has {len(values):,} rows, none of them in {part}", argument="part")
        scan = ColumnScan(column)
        scan.add(rows)
        actions = judge(scan.finish(), self._frequency, self._policy).actions
        return next((action for action in actions if action.kind in ("drop", "asinh")), None)

    def _repair_runs(self, column: str, values: Floats, deleted: Mask, *, zeros: bool) -> Floats:
        """Fill short runs of zeros and missing values, mark the rows of long ones as deleted."""
        runs = runs_of(values)
        chosen = (runs.values == 0) & zeros
        if self._policy.missing == "like zeros":
            chosen |= np.isnan(runs.values)
        if not chosen.any():
            return values
        limit = self._frequency.steps(self._policy.delete_run)
        if limit is None:
            raise FernError(
                f"column {column!r} has {runs.lengths[chosen].sum():,} zeros or missing values, and their treatment "
                "depends on their duration, which the time column does not give; give step",
                argument=self._where,
            )
        filled = fill_forward(np.where(np.repeat(chosen, runs.lengths), np.nan, values)[:, None])[:, 0]
        for first, length, value in runs.where(chosen):
            rows = slice(first, first + length)
            name = "zeros" if value == 0 else "missing values"
            if length > limit:
                deleted[rows] = True
                reason = f"{name} for longer than {in_words(self._policy.delete_run)}"
                self._note("delete rows", column, first, length, reason=reason, was=value)
            else:
                values[rows] = filled[rows]
                reason = f"{name} for up to {in_words(self._policy.delete_run)}"
                self._note("fill", column, first, length, reason=reason, was=value, now=filled[first])
        return values

    def _note(
        self,
        action: ChangeKind,
        column: str,
        first: int,
        length: int,
        *,
        reason: str,
        was: float | None = None,
        now: float | None = None,
    ) -> None:
        last = first + length - 1
        start, end = (None, None) if self._stamps is None else (self._stamps[first], self._stamps[last])
        self._changes.append(
            Change(
                action=action,
                series=self._name,
                column=column,
                first_row=first,
                last_row=last,
                first_stamp=as_text(start),
                last_stamp=as_text(end),
                was=None if was is None or np.isnan(was) else float(was),
                now=None if now is None or np.isnan(now) else float(now),
                reason=reason,
            )
        )


def _is_moot(change: Change, deleted: Mask) -> bool:
    """Whether rows were filled, or made missing, that are gone anyway."""
    if change.action not in ("fill", "to missing") or change.first_row is None or change.last_row is None:
        return False
    return bool(deleted[change.first_row : change.last_row + 1].all())


def _cast_back(table: pa.Table, source: Source, types: Mapping[str, pa.DataType], transformed: set[str]) -> pa.Table:
    """The columns in the types that came in; whole numbers that took asinh are no longer whole."""
    for i, name in enumerate(table.column_names):
        type_ = types.get(name)
        if type_ is None or table.schema.field(name).type == type_:
            continue
        column = table[name]
        if name == source.roles.time:
            column = restore_stamps(column, type_)
        elif name == source.roles.series:
            column = restore_names(column, type_)
        elif pa.types.is_floating(type_) or (pa.types.is_integer(type_) and name not in transformed):
            column = pc.cast(column, type_, safe=False)
        table = table.set_column(i, name, column)
    return table

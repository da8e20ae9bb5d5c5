"""The log of a cleaning: every change, and its summary."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

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
        changes: Sequence[Change] = self.changes
        return {
            "schema": "fern.clean/1",
            "source": self.name,
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "changes": [asdict(change) for change in changes],
        }

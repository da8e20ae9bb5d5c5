"""Parts of the results pages: a title, one line, one table, all made from committed results."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Result = Mapping[str, Any]
"""A committed measurement: what a JSON file in a ``results`` folder holds."""


@dataclass(frozen=True)
class Part:
    """A table under its title, with one line that says how it was made and how to read it."""

    title: str
    line: str
    table: Sequence[str]

    def markdown(self) -> str:
        """The part as it stands on a page."""
        return "\n".join([f"## {self.title}", "", self.line, "", *self.table, ""])


def draw_table(heads: Sequence[str], lines: Iterable[Sequence[object]], *, words: int = 1) -> list[str]:
    """A Markdown table whose first ``words`` columns are text, the others numbers.

    Example:
        >>> draw_table(["model", "MSE"], [["fern", 0.25]])
        ['| model | MSE |', '|:---|---:|', '| fern | 0.25 |']
    """
    marks = "|" + ":---|" * words + "---:|" * (len(heads) - words)
    return [f"| {' | '.join(heads)} |", marks, *(f"| {' | '.join(map(str, cells))} |" for cells in lines)]


def percent(share: float) -> str:
    """A share in percent, with one decimal."""
    return f"{100 * share:.1f} %"

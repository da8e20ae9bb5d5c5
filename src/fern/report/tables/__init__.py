"""Tables of benchmark rows beside the papers' numbers, and comparisons with their significance.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from fern.lazy import lazy_names

if TYPE_CHECKING:
    from fern.report.tables.comparison import Comparison, compare
    from fern.report.tables.paper import paper_value
    from fern.report.tables.ranking import Standings, standings
    from fern.report.tables.rendering import render
    from fern.report.tables.tables import Table, build_table
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.report.tables.comparison": ["Comparison", "compare"],
            "fern.report.tables.paper": ["paper_value"],
            "fern.report.tables.rendering": ["render"],
            "fern.report.tables.ranking": ["Standings", "standings"],
            "fern.report.tables.tables": ["Table", "build_table"],
        },
    )

__all__ = [
    "Comparison",
    "Standings",
    "Table",
    "build_table",
    "compare",
    "paper_value",
    "render",
    "standings",
]

"""Tables of benchmark results beside the papers' numbers, and comparisons with their significance.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from fern._lazy import lazy_names

if TYPE_CHECKING:
    from fern.benchmark.tables.build import Table, build_table
    from fern.benchmark.tables.comparison import Comparison, compare
    from fern.benchmark.tables.published import paper_value
    from fern.benchmark.tables.ranking import Standings, standings
    from fern.benchmark.tables.rendering import render
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.benchmark.tables.build": ["Table", "build_table"],
            "fern.benchmark.tables.comparison": ["Comparison", "compare"],
            "fern.benchmark.tables.published": ["paper_value"],
            "fern.benchmark.tables.ranking": ["Standings", "standings"],
            "fern.benchmark.tables.rendering": ["render"],
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

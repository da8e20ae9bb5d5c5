"""Pages: results as one HTML file that needs nothing else, and from which no request leaves.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from fern.lazy import lazy_names

if TYPE_CHECKING:
    from fern.report.pages.audit import audit_page
    from fern.report.pages.benchmark import benchmark_page
    from fern.report.pages.forecast import ForecastShown, forecast_page
    from fern.report.pages.markup import Html, element
    from fern.report.pages.shell import Section, page
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.report.pages.audit": ["audit_page"],
            "fern.report.pages.benchmark": ["benchmark_page"],
            "fern.report.pages.forecast": ["ForecastShown", "forecast_page"],
            "fern.report.pages.markup": ["Html", "element"],
            "fern.report.pages.shell": ["Section", "page"],
        },
    )

__all__ = [
    "ForecastShown",
    "Html",
    "Section",
    "audit_page",
    "benchmark_page",
    "element",
    "forecast_page",
    "page",
]

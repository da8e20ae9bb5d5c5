"""Figures to turn, zoom and hover over (Plotly, the extra ``report``), of the data that the still ones are drawn from.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from fern.lazy import lazy_names

if TYPE_CHECKING:
    from fern.report.figures.interactive.attractor import attractor_plot
    from fern.report.figures.interactive.canvas import has_plotly
    from fern.report.figures.interactive.coverage_over_time import coverage_over_time_plot
    from fern.report.figures.interactive.error_growth import error_growth_plot
    from fern.report.figures.interactive.fan import fan_plot
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.report.figures.interactive.attractor": ["attractor_plot"],
            "fern.report.figures.interactive.canvas": ["has_plotly"],
            "fern.report.figures.interactive.coverage_over_time": ["coverage_over_time_plot"],
            "fern.report.figures.interactive.error_growth": ["error_growth_plot"],
            "fern.report.figures.interactive.fan": ["fan_plot"],
        },
    )

__all__ = ["attractor_plot", "coverage_over_time_plot", "error_growth_plot", "fan_plot", "has_plotly"]

"""Figures to turn, zoom and hover over: Plotly's where the extra is installed, the still ones where it is not."""

from functools import cache
from typing import TYPE_CHECKING

from fern.report.figures.attractor import Attractor, attractor_figure
from fern.report.figures.coverage_over_time import CoverageOverTime, coverage_over_time_figure
from fern.report.figures.fan import Fans, fan_figure
from fern.report.figures.interactive import (
    attractor_plot,
    coverage_over_time_plot,
    error_growth_plot,
    fan_plot,
    has_plotly,
)
from fern.report.figures.interactive.canvas import EXTRA, bundle
from fern.report.figures.scores.error_growth import ErrorGrowth, error_growth_figure
from fern.report.pages.drawing import drawing
from fern.report.pages.markup import Html, data_element, data_opening

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Still
    from plotly.graph_objects import Figure as Plot

Shown = Attractor | CoverageOverTime | ErrorGrowth | Fans

LIVE = "live"
"""The class of what holds the data of a live figure."""


def live_drawing(shown: Shown, *, name: str, alt: str, caption: str) -> Html:
    """A figure of the page that can be turned and zoomed; without Plotly the still one, and the caption says so.

    Example:
        >>> import numpy as np
        >>> made = live_drawing(ErrorGrowth({"fern": np.arange(1.0, 9.0)}), name="growth", alt="", caption="Errors.")
        >>> made.count("<svg"), is_live(made) == has_plotly()
        (1, True)
    """
    still = still_of(shown)
    if not has_plotly():
        told = f"{caption} To zoom and read off values: {EXTRA}, then make the page again."
        return drawing(still, name=name, alt=alt, caption=told)
    held = data_element(LIVE, plot_of(shown).to_json())
    return drawing(still, name=name, alt=alt, caption=caption, live=held)


def is_live(content: str) -> bool:
    """Whether a piece of a page holds a live figure, and so needs Plotly's script."""
    return data_opening(LIVE) in content


def still_of(shown: Shown) -> "Still":
    """The figure as matplotlib draws it."""
    match shown:
        case Attractor():
            return attractor_figure(shown)
        case CoverageOverTime():
            return coverage_over_time_figure(shown)
        case ErrorGrowth():
            return error_growth_figure(shown)
        case Fans():
            return fan_figure(shown)


def plot_of(shown: Shown) -> "Plot":
    """The figure as Plotly draws it."""
    match shown:
        case Attractor():
            return attractor_plot(shown)
        case CoverageOverTime():
            return coverage_over_time_plot(shown)
        case ErrorGrowth():
            return error_growth_plot(shown)
        case Fans():
            return fan_plot(shown)


@cache
def plotly_script() -> str:
    """Plotly's own script, once a page."""
    return bundle()

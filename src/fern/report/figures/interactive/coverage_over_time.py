"""Coverage as time goes on, to be zoomed and read off."""

from typing import TYPE_CHECKING

from fern.report.figures.canvas import AFTER, BEFORE, SHOCK
from fern.report.figures.coverage_over_time import CoverageOverTime
from fern.report.figures.interactive.canvas import named, plain, plotly

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def coverage_over_time_plot(shown: CoverageOverTime) -> "Figure":
    """The line of `CoverageOverTime` over the stretch where chance may take it."""
    objects = plotly()
    drawn = objects.Figure()
    low, high = shown.chance
    drawn.add_hrect(y0=low, y1=high, fillcolor=BEFORE, opacity=0.18, line_width=0)
    drawn.add_hline(y=shown.level / 100, line={"color": SHOCK, "dash": "dash", "width": 1})
    drawn.add_trace(
        objects.Scatter(
            x=shown.when,
            y=shown.coverage,
            name=f"the newest {shown.windows:,} windows",
            mode="lines+markers" if len(shown.when) == 1 else "lines",
            line={"color": AFTER, "width": 2},
            hovertemplate="%{x}: %{y:.1%}<extra></extra>",
        )
    )
    plain(drawn, height=320, showlegend=True)
    drawn.update_layout(
        xaxis={"title": {"text": named(shown.axis)}},
        yaxis={"title": {"text": "share inside"}, "tickformat": ".0%", "range": [None, 1.02]},
    )
    return drawn

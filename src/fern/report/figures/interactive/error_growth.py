"""Errors by step ahead, to be zoomed and read off."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fern.report.figures.canvas import COLOURS, SHOCK
from fern.report.figures.interactive.canvas import DASHES, named, plain, plotly
from fern.report.figures.scores.error_growth import ErrorGrowth

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def error_growth_plot(shown: ErrorGrowth) -> "Figure":
    """The lines of `ErrorGrowth`; the errors of all models at a step are shown together."""
    objects = plotly()
    drawn = objects.Figure()
    steps = np.arange(1, shown.horizon + 1)
    lines = [
        (named(name), values, COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)])
        for place, (name, values) in enumerate(shown.errors.items())
    ]
    if shown.oracle is not None:
        lines.append(("oracle", shown.oracle, SHOCK, "dot"))
    for name, values, colour, dash in lines:
        look = {"color": colour, "dash": dash, "width": 2}
        drawn.add_trace(objects.Scatter(x=steps, y=shown.drawn(values), name=name, mode="lines", line=look))
    layout: dict[str, Any] = {"hovermode": "x unified"}
    scale = shown.lyapunov_times_a_step
    if scale:
        # An axis of Lyapunov times needs a line of its own; it is drawn with the first model's and not seen.
        first = shown.drawn(next(iter(shown.errors.values())))
        unseen: dict[str, Any] = {"xaxis": "x2", "opacity": 0, "hoverinfo": "skip", "showlegend": False}
        drawn.add_trace(objects.Scatter(x=steps * scale, y=first, mode="lines", **unseen))
        layout["xaxis2"] = {
            "title": {"text": "Lyapunov times"},
            "overlaying": "x",
            "side": "top",
            "matches": None,
            "range": [scale, scale * max(shown.horizon, 2)],
            "showgrid": False,
            "fixedrange": True,
        }
    plain(drawn, height=420, **layout)
    drawn.update_layout(
        xaxis={"title": {"text": "steps ahead"}, "range": [1, max(shown.horizon, 2)]},
        yaxis={"title": {"text": named(shown.label)}, "type": "log" if shown.logarithmic else "linear"},
        legend={"orientation": "v", "x": 1.02, "y": 1.0, "yanchor": "top"},
        margin={"t": 60},
    )
    return drawn

"""The attractor and its reconstruction, to be turned."""

from functools import partial
from typing import TYPE_CHECKING, Any

from fern.report.figures.attractor import Attractor
from fern.report.figures.interactive.canvas import named, plain, plotly
from fern.text import safe_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def attractor_plot(shown: Attractor) -> "Figure":
    """Both clouds of `Attractor`, each in a space of its own, or in a plane where there are two channels."""
    objects = plotly()
    from plotly.subplots import make_subplots

    in_space = len(shown.axes) == 3
    clouds = (shown.truth, shown.reconstruction)
    drawn = make_subplots(
        rows=1,
        cols=2,
        specs=[[{"type": "scene" if in_space else "xy"}] * 2],
        subplot_titles=[cloud.title for cloud in clouds],
        horizontal_spacing=0.14,
    )
    for place, cloud in enumerate(clouds, start=1):
        marker = {
            "size": 2 if in_space else 4,
            "color": cloud.colour,
            "colorscale": cloud.scheme.title(),
            "colorbar": {"title": {"text": cloud.label, "side": "right"}, "len": 0.8, "x": 0.43 if place == 1 else 1.0},
        }
        looks: dict[str, Any] = {"mode": "markers", "marker": marker, "name": cloud.title, "showlegend": False}
        x, y, *z = cloud.points.T
        trace = objects.Scatter3d(x=x, y=y, z=z[0], **looks) if in_space else objects.Scatter(x=x, y=y, **looks)
        drawn.add_trace(trace, row=1, col=place)
    # In space names are painted, letter by letter; in the plane they are read as markup.
    written = partial(safe_text, medium="line") if in_space else named
    names = [
        {"title": {"text": written(name)}, "range": list(limits)}
        for name, limits in zip(shown.axes, shown.limits, strict=True)
    ]
    if in_space:
        drawn.update_scenes(dict(zip(("xaxis", "yaxis", "zaxis"), names, strict=True)), aspectmode="cube")
    else:
        drawn.update_xaxes(names[0])
        drawn.update_yaxes(names[1])
    return plain(drawn, height=460, least=860)

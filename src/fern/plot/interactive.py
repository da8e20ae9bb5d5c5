"""Interactive figures (Plotly, the extra ``report``) of the data that the static ones are drawn from."""

from functools import cache, partial
from importlib.util import find_spec
from itertools import cycle
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from fern.errors import FernError
from fern.plot.attractor import Attractor
from fern.plot.canvas import AFTER, BEFORE, COLOURS, SHOCK, TRUTH
from fern.plot.coverage import COVERAGE_AXIS, CoverageOverTime
from fern.plot.forecasts import BAND, COLUMNS, MEAN, MOST_POINTS, Fan, Fans, Joint, shade
from fern.plot.scores import ErrorGrowth
from fern.text import safe_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

EXTRA = "pip install 'fern-forecast[report]'"
# matplotlib's dashes in Plotly's words.
DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot", "dot")


def has_plotly() -> bool:
    """Whether the extra ``report`` is installed.

    Example:
        >>> has_plotly() in (True, False)
        True
    """
    return find_spec("plotly") is not None


def plotly() -> Any:
    """``plotly.graph_objects``."""
    try:
        import plotly.graph_objects as objects
    except ImportError:
        raise FernError(f"interactive figures need plotly: {EXTRA}") from None
    return objects


@cache
def plotly_script() -> str:
    """Plotly's script, which a page holds once."""
    plotly()
    from plotly.offline import get_plotlyjs

    script: str = get_plotlyjs()
    if "</script" in script.lower() or "<!--" in script:
        raise FernError("its script cannot stand in a page", argument="plotly", expected="another release")
    return script


def plain(figure: "Figure", *, height: int, least: int = 540, **layout: Any) -> "Figure":
    """The figure without Plotly's own looks: the page gives it the colours of its scheme.

    ``least`` is the width in pixels below which it is no longer readable.
    """
    figure.update_layout(
        template="none",
        height=height,
        meta=least,
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        **layout,
    )
    return figure


def escape_text(text: str) -> str:
    """Foreign text in a figure."""
    return safe_text(text, "plotly")


def attractor_plot(shown: Attractor) -> "Figure":
    """Both clouds of `Attractor`, each in a space of its own, or in a plane where there are two channels."""
    objects = plotly()
    from plotly.subplots import make_subplots

    in_space = len(shown.axes) == 3
    clouds = (shown.truth, shown.reconstruction)
    fig = make_subplots(
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
        fig.add_trace(trace, row=1, col=place)
    # In space names are painted, letter by letter; in the plane they are read as markup.
    escape = partial(safe_text, medium="line") if in_space else escape_text
    names = [
        {"title": {"text": escape(name)}, "range": list(limits)}
        for name, limits in zip(shown.axes, shown.limits, strict=True)
    ]
    if in_space:
        fig.update_scenes(dict(zip(("xaxis", "yaxis", "zaxis"), names, strict=True)), aspectmode="cube")
    else:
        fig.update_xaxes(names[0])
        fig.update_yaxes(names[1])
    return plain(fig, height=460, least=860)


def coverage_over_time_plot(shown: CoverageOverTime) -> "Figure":
    """The line of `CoverageOverTime` over the stretch where chance may take it."""
    objects = plotly()
    fig = objects.Figure()
    low, high = shown.chance
    fig.add_hrect(y0=low, y1=high, fillcolor=BEFORE, opacity=0.18, line_width=0)
    fig.add_hline(y=shown.level / 100, line={"color": SHOCK, "dash": "dash", "width": 1})
    look = {"line": {"color": AFTER, "width": 2}, "mode": "lines+markers" if len(shown.when) == 1 else "lines"}
    words = {"name": f"the newest {shown.windows:,} windows", "hovertemplate": "%{x}: %{y:.1%}<extra></extra>"}
    fig.add_trace(objects.Scatter(x=shown.when, y=shown.coverage, **look, **words))
    plain(fig, height=320, showlegend=True)
    fig.update_layout(
        xaxis={"title": {"text": COVERAGE_AXIS}},
        yaxis={"title": {"text": "share inside"}, "tickformat": ".0%", "range": [None, 1.02]},
    )
    return fig


def error_growth_plot(shown: ErrorGrowth) -> "Figure":
    """The lines of `ErrorGrowth`; the errors of all models at a step are shown together."""
    objects = plotly()
    fig = objects.Figure()
    steps = np.arange(1, shown.horizon + 1)
    models = zip(shown.errors.items(), cycle(COLOURS), cycle(DASHES), strict=False)
    lines = [(escape_text(name), values, colour, dash) for (name, values), colour, dash in models]
    if shown.oracle is not None:
        lines.append(("oracle", shown.oracle, SHOCK, "dot"))
    for name, values, colour, dash in lines:
        look = {"color": colour, "dash": dash, "width": 2}
        fig.add_trace(objects.Scatter(x=steps, y=shown.mask_zeros(values), name=name, mode="lines", line=look))
    layout: dict[str, Any] = {"hovermode": "x unified"}
    scale = shown.lyapunov_times_a_step
    if scale:
        # An axis of Lyapunov times needs a line of its own; it is drawn with the first model's and not seen.
        first = shown.mask_zeros(next(iter(shown.errors.values())))
        unseen: dict[str, Any] = {"xaxis": "x2", "opacity": 0, "hoverinfo": "skip", "showlegend": False}
        fig.add_trace(objects.Scatter(x=steps * scale, y=first, mode="lines", **unseen))
        layout["xaxis2"] = {
            "title": {"text": "Lyapunov times"},
            "overlaying": "x",
            "side": "top",
            "matches": None,
            "range": [scale, scale * max(shown.horizon, 2)],
            "showgrid": False,
            "fixedrange": True,
        }
    plain(fig, height=420, **layout)
    fig.update_layout(
        xaxis={"title": {"text": "steps ahead"}, "range": [1, max(shown.horizon, 2)]},
        yaxis={"title": {"text": "MSE"}, "type": "log" if shown.logarithmic else "linear"},
        legend={"orientation": "v", "x": 1.02, "y": 1.0, "yanchor": "top"},
        margin={"t": 60},
    )
    return fig


def fan_plot(shown: Fans) -> "Figure":
    """The fans of `Fans` in the order of the still figure; a click on the legend hides what it names in all of them."""
    from plotly.subplots import make_subplots

    count = len(shown.fans)
    columns = 2 if shown.wide else min(COLUMNS, count)
    rows = count if shown.wide else ceil(count / columns)
    titles = [escape_text(fan.name) for fan in shown.fans]
    if shown.wide:
        beside = ["" if fan.joint is None else "two steps together" for fan in shown.fans]
        titles = [title for pair in zip(titles, beside, strict=True) for title in pair]
    fig = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=titles,
        column_widths=[0.74, 0.26] if shown.wide else None,
        horizontal_spacing=0.09,
        vertical_spacing=min(0.3, 0.45 / rows),
    )
    for place, fan in enumerate(shown.fans):
        row, column = (place + 1, 1) if shown.wide else (place // columns + 1, place % columns + 1)
        for trace in _traces(fan, shown.label, first=place == 0):
            fig.add_trace(trace, row=row, col=column)
        if fan.joint is not None:
            for trace in _joint(fan.joint):
                fig.add_trace(trace, row=row, col=2)
            fig.update_xaxes({"title": {"text": f"step {fan.joint.steps[0]}"}}, row=row, col=2)
            fig.update_yaxes({"title": {"text": f"step {fan.joint.steps[1]}"}}, row=row, col=2)
    plain(fig, height=110 + (360 if rows == 1 else 260 * rows), least=780 if columns > 1 else 540)
    # Titles of panels stand where the legend would: it goes above them.
    fig.update_layout(legend={"y": 1 + 50 / (260 * rows)}, margin={"t": 90})
    if shown.left_out:
        place_below = {"x": 0.5, "y": 0, "yshift": -48, "xref": "paper", "yref": "paper", "showarrow": False}
        fig.add_annotation(text=f"and {shown.left_out:,} more series that are not drawn", **place_below)
    return fig


def _traces(fan: Fan, label: str, *, first: bool) -> list[Any]:
    objects = plotly()
    widest_first = sorted(fan.intervals, key=lambda interval: -interval.level)
    after, mean = fan.opened
    traces = []
    for place, interval in enumerate(widest_first):
        red, green, blue = (round(255 * part) for part in shade(place, len(widest_first)))
        group = f"{interval.level:g} %"
        common = {"mode": "lines", "line": {"width": 0}, "legendgroup": group, "name": group}
        filled = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.85)", "showlegend": first}
        traces.append(objects.Scatter(x=after, y=fan.from_last(interval.high), showlegend=False, **common))
        traces.append(objects.Scatter(x=after, y=fan.from_last(interval.low), **filled, **common))
    if fan.band is not None:
        group = f"whole path, {fan.band.level:g} %"
        look: dict[str, Any] = {"mode": "lines", "line": {"color": BAND, "dash": "dash", "width": 1.2}}
        for shown, ends in ((first, fan.band.low), (False, fan.band.high)):
            values = fan.from_last(ends)
            where = {"x": after[: len(values)], "y": values}
            traces.append(objects.Scatter(**where, name=group, legendgroup=group, showlegend=shown, **look))
    lines = (("history", fan.before, fan.past, TRUTH, 1.2), (escape_text(label), after, mean, MEAN, 2.2))
    for name, when, values, colour, width in lines:
        look = {"mode": "lines", "line": {"color": colour, "width": width}}
        traces.append(objects.Scatter(x=when, y=values, name=name, legendgroup=name, showlegend=first, **look))
    return traces


def _joint(joint: Joint) -> list[Any]:
    objects = plotly()
    x, y = joint.points[:MOST_POINTS].T
    looks: dict[str, Any] = {"showlegend": False}
    dots = {"size": 3, "color": MEAN, "opacity": 0.35}
    traces = [objects.Scatter(x=x, y=y, mode="markers", name="paths", marker=dots, **looks)]
    for place, (level, ellipse) in enumerate(joint.ellipses):
        x, y = ellipse.outline().T
        line = {"color": BAND if place == 0 else MEAN, "width": 1.5}
        traces.append(objects.Scatter(x=x, y=y, mode="lines", name=f"{level:g} %", line=line, **looks))
    return traces

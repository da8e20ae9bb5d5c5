"""Forecasts as fans, to be zoomed and read off."""

from math import ceil
from typing import TYPE_CHECKING, Any

from fern.report.figures.canvas import TRUTH
from fern.report.figures.ellipses import Joint
from fern.report.figures.fan import BAND, COLUMNS, MEAN, MOST_POINTS, Fan, Fans, shade
from fern.report.figures.interactive.canvas import named, plain, plotly

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def fan_plot(shown: Fans) -> "Figure":
    """The fans of `Fans` in the order of the still figure; a click on the legend hides what it names in all of them."""
    from plotly.subplots import make_subplots

    count = len(shown.fans)
    columns = 2 if shown.wide else min(COLUMNS, count)
    rows = count if shown.wide else ceil(count / columns)
    titles = [named(fan.name) for fan in shown.fans]
    if shown.wide:
        beside = ["" if fan.joint is None else "two steps together" for fan in shown.fans]
        titles = [title for pair in zip(titles, beside, strict=True) for title in pair]
    drawn = make_subplots(
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
            drawn.add_trace(trace, row=row, col=column)
        if fan.joint is not None:
            for trace in _joint(fan.joint):
                drawn.add_trace(trace, row=row, col=2)
            drawn.update_xaxes({"title": {"text": f"step {fan.joint.steps[0]}"}}, row=row, col=2)
            drawn.update_yaxes({"title": {"text": f"step {fan.joint.steps[1]}"}}, row=row, col=2)
    plain(drawn, height=110 + (360 if rows == 1 else 260 * rows), least=780 if columns > 1 else 540)
    # Titles of panels stand where the legend would: it goes above them.
    drawn.update_layout(legend={"y": 1 + 50 / (260 * rows)}, margin={"t": 90})
    if shown.left_out:
        drawn.add_annotation(
            text=f"and {shown.left_out:,} more series that are not drawn", x=0.5, y=0, yshift=-48, xref="paper",
            yref="paper", showarrow=False,
        )  # fmt: skip
    return drawn


def _traces(fan: Fan, label: str, *, first: bool) -> list[Any]:
    objects = plotly()
    widest_first = sorted(fan.intervals, key=lambda interval: -interval.level)
    after, mean = fan.opened
    made = []
    for place, interval in enumerate(widest_first):
        red, green, blue = (round(255 * part) for part in shade(place, len(widest_first)))
        group = f"{interval.level:g} %"
        common = {"mode": "lines", "line": {"width": 0}, "legendgroup": group, "name": group}
        made.append(objects.Scatter(x=after, y=fan.from_last(interval.high), showlegend=False, **common))
        made.append(
            objects.Scatter(
                x=after,
                y=fan.from_last(interval.low),
                fill="tonexty",
                fillcolor=f"rgba({red},{green},{blue},0.85)",
                showlegend=first,
                **common,
            )
        )
    if fan.band is not None:
        group = f"whole path, {fan.band.level:g} %"
        for place, ends in enumerate((fan.band.low, fan.band.high)):
            values = fan.from_last(ends)
            made.append(
                objects.Scatter(
                    x=after[: len(values)], y=values, mode="lines", name=group, legendgroup=group,
                    showlegend=first and place == 0, line={"color": BAND, "dash": "dash", "width": 1.2},
                )
            )  # fmt: skip
    lines = (("history", fan.before, fan.past, TRUTH, 1.2), (named(label), after, mean, MEAN, 2.2))
    for name, when, values, colour, width in lines:
        look = {"color": colour, "width": width}
        made.append(
            objects.Scatter(
                x=when, y=values, mode="lines", name=name, legendgroup=name, showlegend=first, line=look
            )
        )  # fmt: skip
    return made


def _joint(joint: Joint) -> list[Any]:
    objects = plotly()
    x, y = joint.points[:MOST_POINTS].T
    looks: dict[str, Any] = {"showlegend": False}
    made = [
        objects.Scatter(
            x=x, y=y, mode="markers", name="paths", marker={"size": 3, "color": MEAN, "opacity": 0.35}, **looks
        )
    ]
    for place, (level, ellipse) in enumerate(joint.ellipses):
        x, y = ellipse.outline().T
        line = {"color": BAND if place == 0 else MEAN, "width": 1.5}
        made.append(objects.Scatter(x=x, y=y, mode="lines", name=f"{level:g} %", line=line, **looks))
    return made

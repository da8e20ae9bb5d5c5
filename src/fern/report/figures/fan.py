"""Forecasts as fans: the newest rows, the mean and its intervals, a panel for each series."""

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import TRUTH, dated, figure
from fern.report.figures.ellipses import Joint
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = NDArray[np.float64]

# Blue against orange is told apart by every kind of colour blindness, and shades of one blue by how dark they are.
MEAN, BAND = "#0b4f8a", "#c8622c"
LIGHTEST, DARKEST = (0.85, 0.91, 0.97), (0.55, 0.72, 0.88)
COLUMNS = 3
MOST_POINTS = 400


@dataclass(frozen=True, eq=False)
class Interval:
    """The ends of an interval of each step, and the percentage it should hold."""

    low: Values  # (h,)
    high: Values  # (h,)
    level: float


@dataclass(frozen=True, eq=False)
class Fan:
    """One series: what was, when it goes on, and what is forecast.

    ``band`` holds a whole path with its level, where the intervals hold each step with theirs; it may be shorter than
    the forecast. ``joint`` is the joint law of two of the steps.
    """

    name: str
    before: NDArray[Any]  # (n,) dates or numbers
    past: Values  # (n,)
    after: NDArray[Any]  # (h,)
    mean: Values  # (h,)
    intervals: tuple[Interval, ...] = ()
    band: Interval | None = None
    joint: Joint | None = None

    @property
    def opened(self) -> tuple[NDArray[Any], Values]:  # (h + 1,) each, or (h,) without a past
        """Where the forecast is drawn, and the forecast; it opens at the last row, of which there is no doubt."""
        if not len(self.past):
            return self.after, self.mean
        return np.concatenate((self.before[-1:], self.after)), self.from_last(self.mean)

    def from_last(self, values: Values) -> Values:
        """Values along the forecast, with the last row before them."""
        return np.concatenate((self.past[-1:], values)) if len(self.past) else values


@dataclass(frozen=True, eq=False)
class Fans:
    """What a figure of forecasts shows: a fan for each series, what the forecast is called, how many are not shown.

    Example:
        >>> steps = np.arange(10.0)
        >>> fan = Fan("load", np.arange(-10, 0), steps, steps, steps, (Interval(steps - 1, steps + 1, 80),))
        >>> Fans((fan,), label="Fern").wide
        False
    """

    fans: tuple[Fan, ...]
    label: str = "forecast"
    left_out: int = 0
    title: str = ""

    def __post_init__(self) -> None:
        if not self.fans:
            raise FernError("fans: got none, needs at least one series to draw")

    @property
    def wide(self) -> bool:
        """Whether any fan has two steps whose joint law is drawn beside it."""
        return any(fan.joint is not None for fan in self.fans)


def fan_figure(shown: Fans) -> "Figure":
    """A panel for each fan, three in a row, or one in a row beside the joint law of two of its steps.

    Example:
        >>> steps = np.arange(10.0)
        >>> fan = Fan("load", np.arange(-10, 0), steps, steps, steps, (Interval(steps - 1, steps + 1, 80),))
        >>> len(fan_figure(Fans((fan, fan))).axes)
        2
    """
    fans = shown.fans
    columns = 1 if shown.wide else min(COLUMNS, len(fans))
    rows = ceil(len(fans) / columns)
    height = 3.9 if rows == 1 else 2.5 * rows + 0.7
    if shown.wide:
        drawn = figure(11.0, height)
        both = np.asarray(drawn.subplots(rows, 2, squeeze=False, width_ratios=(3.2, 1)))
        axes = both[:, 0]
        for axis, fan in zip(both[:, 1], fans, strict=True):
            axis.remove() if fan.joint is None else _joint(axis, fan.joint)
    else:
        drawn = figure(9.5 if columns == 1 else 4.6 * columns, height)
        axes = np.atleast_1d(np.asarray(drawn.subplots(rows, columns, squeeze=False))).reshape(-1)
    for axis, fan in zip(axes, fans, strict=False):
        _panel(axis, fan, shown.label)
    for axis in axes[len(fans) :]:
        axis.remove()
    handles, labels = axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper left", ncols=6, fontsize="small", frameon=False)
    if shown.left_out:
        drawn.supxlabel(f"and {shown.left_out:,} more series that are not drawn", fontsize="small", color="#555555")
    if shown.title:
        drawn.suptitle(safe_text(shown.title, "figure"))
    return drawn


def _joint(axis: "Axes", joint: Joint) -> None:
    axis.scatter(
        joint.points[:MOST_POINTS, 0],
        joint.points[:MOST_POINTS, 1],
        s=3,
        color=MEAN,
        alpha=0.35,
        linewidths=0,
        rasterized=True,
    )
    for place, (level, ellipse) in enumerate(joint.ellipses):
        colour = BAND if place == 0 else MEAN
        axis.plot(*ellipse.outline().T, color=colour, linewidth=1.2, label=f"{level:g} %")
    axis.set_xlabel(f"step {joint.steps[0]}", fontsize="small")
    axis.set_ylabel(f"step {joint.steps[1]}", fontsize="small")
    axis.set_title("two steps together", loc="left", fontsize="small")
    axis.legend(loc="upper left", fontsize="x-small", frameon=False)
    axis.margins(0.12)
    axis.tick_params(labelsize="x-small")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _panel(axis: "Axes", fan: Fan, label: str) -> None:
    widest_first = sorted(fan.intervals, key=lambda interval: -interval.level)
    after, mean = fan.opened
    for place, interval in enumerate(widest_first):
        low, high = (fan.from_last(ends) for ends in (interval.low, interval.high))
        colour = shade(place, len(widest_first))
        axis.fill_between(after, low, high, color=colour, linewidth=0, label=f"{interval.level:g} %", zorder=1 + place)
    if fan.band is not None:
        inside = len(fan.from_last(fan.band.low))
        named = f"whole path, {fan.band.level:g} %"
        for ends, name in ((fan.band.low, named), (fan.band.high, None)):
            axis.plot(
                after[:inside],
                fan.from_last(ends),
                color=BAND,
                linewidth=1.0,
                linestyle=(0, (4, 2)),
                label=name,
                zorder=8,
            )
    axis.plot(fan.before, fan.past, color=TRUTH, linewidth=1.0, label="history", zorder=9)
    axis.plot(after, mean, color=MEAN, linewidth=1.6, label=safe_text(label, "figure"), zorder=10)
    axis.set_title(safe_text(fan.name, "figure"), loc="left", fontsize="medium")
    axis.margins(x=0.01)
    axis.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    dated(axis, fan.after)
    axis.tick_params(labelsize="small")


def shade(place: int, count: int) -> tuple[float, float, float]:
    """From light for the widest interval to dark for the narrowest."""
    share = 0.5 if count == 1 else place / (count - 1)
    red, green, blue = (light + share * (dark - light) for light, dark in zip(LIGHTEST, DARKEST, strict=True))
    return red, green, blue

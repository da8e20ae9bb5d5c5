"""Forecasts as fans: the newest rows, the mean and its intervals, a panel for each series."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import TRUTH, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = NDArray[np.float64]

# Blue against orange is told apart by every kind of colour blindness, and shades of one blue by how dark they are.
MEAN, BAND = "#0b4f8a", "#c8622c"
LIGHTEST, DARKEST = (0.85, 0.91, 0.97), (0.55, 0.72, 0.88)
COLUMNS = 3


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
    the forecast.
    """

    name: str
    before: NDArray[Any]  # (n,) dates or numbers
    past: Values  # (n,)
    after: NDArray[Any]  # (h,)
    mean: Values  # (h,)
    intervals: tuple[Interval, ...] = ()
    band: Interval | None = None


def fan_figure(fans: Sequence[Fan], *, label: str = "forecast", left_out: int = 0, title: str = "") -> "Figure":
    """A panel for each fan, three in a row; ``left_out`` more are mentioned below.

    Example:
        >>> steps = np.arange(10.0)
        >>> fan = Fan("load", np.arange(-10, 0), steps, steps, steps, (Interval(steps - 1, steps + 1, 80),))
        >>> len(fan_figure([fan, fan]).axes)
        2
    """
    if not fans:
        raise FernError("fans: got none, needs at least one series to draw")
    columns = min(COLUMNS, len(fans))
    rows = ceil(len(fans) / columns)
    drawn = figure(9.5 if columns == 1 else 4.6 * columns, 3.9 if rows == 1 else 2.5 * rows + 0.7)
    axes = np.atleast_1d(np.asarray(drawn.subplots(rows, columns, squeeze=False))).reshape(-1)
    for axis, fan in zip(axes, fans, strict=False):
        _panel(axis, fan, label)
    for axis in axes[len(fans) :]:
        axis.remove()
    handles, labels = axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper left", ncols=6, fontsize="small", frameon=False)
    if left_out:
        drawn.supxlabel(f"and {left_out:,} more series that are not drawn", fontsize="small", color="#555555")
    if title:
        drawn.suptitle(safe_text(title, "figure"))
    return drawn


def _panel(axis: "Axes", fan: Fan, label: str) -> None:
    widest_first = sorted(fan.intervals, key=lambda interval: -interval.level)
    # The fan opens at the last row: there is no doubt about what was seen.
    after, mean = fan.after, fan.mean
    if len(fan.past):
        after, mean = np.concatenate((fan.before[-1:], after)), np.concatenate((fan.past[-1:], mean))
    for place, interval in enumerate(widest_first):
        low, high = (_joined(fan, ends) for ends in (interval.low, interval.high))
        colour = _shade(place, len(widest_first))
        axis.fill_between(after, low, high, color=colour, linewidth=0, label=f"{interval.level:g} %", zorder=1 + place)
    if fan.band is not None:
        inside = len(fan.band.low) + (1 if len(fan.past) else 0)
        named = f"whole path, {fan.band.level:g} %"
        for ends, name in ((fan.band.low, named), (fan.band.high, None)):
            axis.plot(
                after[:inside],
                _joined(fan, ends),
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
    if np.issubdtype(fan.after.dtype, np.datetime64):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axis.tick_params(labelsize="small")


def _joined(fan: Fan, ends: Values) -> Values:
    return np.concatenate((fan.past[-1:], ends)) if len(fan.past) else ends


def _shade(place: int, count: int) -> tuple[float, float, float]:
    """From light for the widest interval to dark for the narrowest."""
    share = 0.5 if count == 1 else place / (count - 1)
    red, green, blue = (light + share * (dark - light) for light, dark in zip(LIGHTEST, DARKEST, strict=True))
    return red, green, blue

"""Forecasts: fan charts, forecasts beside the truth, joint ellipses of two quantities, and the transport map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError, is_whole
from fern.plot.canvas import AFTER, BEFORE, TRUTH, bare, figure, format_dates
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ellipse:
    """{v : (v − centre)ᵀ covariance⁻¹ (v − centre) ≤ radius²}.

    Example:
        >>> Ellipse(np.zeros(2), np.diag([4.0, 1.0]), 1.0).outline(points=5).round(6).max(axis=0).tolist()
        [2.0, 1.0]
    """

    centre: Array  # (2,)
    covariance: Array  # (2, 2)
    radius: float

    def outline(self, points: int = 100) -> Values:  # (points, 2)
        """Its edge, closed."""
        values, vectors = np.linalg.eigh(np.asarray(self.covariance, dtype=np.float64))
        angle = np.linspace(0, 2 * np.pi, points)
        circle = self.radius * np.stack((np.cos(angle), np.sin(angle)), axis=1)
        edge: Values = circle * np.sqrt(np.maximum(values, 0.0)) @ vectors.T + np.asarray(self.centre)
        return edge

    def half_axes(self) -> Values:  # (2, 2), a row each
        """From the centre to the edge, the short one first."""
        values, vectors = np.linalg.eigh(np.asarray(self.covariance, dtype=np.float64))
        axes: Values = self.radius * np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        return axes

    def holds(self, points: Array) -> NDArray[np.bool_]:  # (n, 2) -> (n,)
        """Which points lie inside."""
        return np.asarray(distances(points, self.centre, self.covariance) <= self.radius)


@dataclass(frozen=True, eq=False)
class Joint:
    """Two steps of drawn joint paths, and the ellipses that hold shares of them (percent, widest first).

    ``steps`` are counted from 1.
    """

    steps: tuple[int, int]
    points: Array  # (n, 2)
    ellipses: tuple[tuple[float, Ellipse], ...]

    @classmethod
    def of(cls, paths: Array, steps: tuple[int, int], *, levels: tuple[float, ...]) -> "Joint":  # paths (n, h)
        """Of joint paths: ellipses in the shape of their covariance, each scaled to hold its share of them.

        Example:
            >>> paths = np.random.default_rng(0).normal(size=(1000, 8)).cumsum(axis=1)
            >>> found = Joint.of(paths, (4, 8), levels=(80.0,))
            >>> level, ellipse = found.ellipses[0]
            >>> level, round(float(ellipse.holds(found.points).mean()), 2)
            (80.0, 0.8)
        """
        require_two_steps("steps", steps, paths.shape[1])
        points = np.asarray(paths, dtype=np.float64)[:, [step - 1 for step in steps]]
        centre, covariance = points.mean(axis=0), np.cov(points.T)
        far = distances(points, centre, covariance)
        ellipses = tuple(
            (level, Ellipse(centre, covariance, float(np.quantile(far, level / 100, method="higher"))))
            for level in sorted(levels, reverse=True)
        )
        return cls(steps, points, ellipses)


def require_two_steps(name: str, steps: tuple[int, int], horizon: int) -> None:
    """Refuse what is not two different steps of a horizon, counted from 1."""
    pair = isinstance(steps, tuple | list) and len(steps) == 2 and all(is_whole(step, least=1) for step in steps)
    if not pair or max(steps) > horizon or steps[0] == steps[1]:
        raise FernError(argument=name, got=steps, expected=f"two different steps from 1 to {horizon}")


def distances(points: Array, centre: Array, covariance: Array) -> Values:  # (n, 2), (2,), (2, 2) -> (n,)
    """√((v − centre)ᵀ covariance⁻¹ (v − centre)); along an axis without any spread only the centre is at 0."""
    values, vectors = np.linalg.eigh(np.asarray(covariance, dtype=np.float64))
    along = (np.asarray(points, dtype=np.float64) - centre) @ vectors
    spread = np.sqrt(np.maximum(values, values.max() * 1e-12))
    with np.errstate(all="ignore"):
        scaled = np.where(along == 0, 0.0, along / spread)
    lengths: Values = np.linalg.norm(scaled, axis=1)
    return lengths


# Blue against orange is told apart by every kind of colour blindness, and shades of one blue by how dark they are.
MEAN, BAND = "#0b4f8a", "#c8622c"
LIGHTEST, DARKEST = (0.85, 0.91, 0.97), (0.55, 0.72, 0.88)
COLUMNS = 3
MOST_POINTS = 400


@dataclass(frozen=True, eq=False)
class Interval:
    """The ends of an interval of each step, and the percentage of outcomes it should hold."""

    low: Array  # (h,), or (h, C) for several channels
    high: Array  # (h,) or (h, C)
    level: float


@dataclass(frozen=True, eq=False)
class Fan:
    """One series: what was, when it goes on, and what is forecast.

    ``band`` holds a whole path with its level, where the intervals hold each step with theirs; it may be shorter than
    the forecast. ``joint`` is the joint distribution of two of the steps.
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
    def opened(self) -> tuple[NDArray[Any], Array]:  # (h + 1,) each, or (h,) without a past
        """Where the forecast is drawn, and the forecast; it opens at the last row, of which there is no doubt."""
        if not len(self.past):
            return self.after, self.mean
        return np.concatenate((self.before[-1:], self.after)), self.from_last(self.mean)

    def from_last(self, values: Array) -> Array:
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

    def __post_init__(self) -> None:
        if not self.fans:
            raise FernError("got none", argument="fans", expected="at least one series to draw")

    @property
    def wide(self) -> bool:
        """Whether any fan has two steps whose joint distribution is drawn beside it."""
        return any(fan.joint is not None for fan in self.fans)


def fan_figure(shown: Fans) -> "Figure":
    """A panel for each fan, three in a row, or one in a row beside the joint distribution of two of its steps.

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
        fig = figure(11.0, height)
        both = np.asarray(fig.subplots(rows, 2, squeeze=False, width_ratios=(3.2, 1)))
        axes = both[:, 0]
        for axis, fan in zip(both[:, 1], fans, strict=True):
            axis.remove() if fan.joint is None else _joint(axis, fan.joint)
    else:
        fig = figure(9.5 if columns == 1 else 4.6 * columns, height)
        axes = np.atleast_1d(np.asarray(fig.subplots(rows, columns, squeeze=False))).reshape(-1)
    for axis, fan in zip(axes, fans, strict=False):
        _panel(axis, fan, shown.label)
    for axis in axes[len(fans) :]:
        axis.remove()
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper left", ncols=6, fontsize="small", frameon=False)
    if shown.left_out:
        fig.supxlabel(f"and {shown.left_out:,} more series that are not drawn", fontsize="small", color="#555555")
    return fig


def _joint(axis: "Axes", joint: Joint) -> None:
    x, y = joint.points[:MOST_POINTS].T
    axis.scatter(x, y, s=3, color=MEAN, alpha=0.35, linewidths=0, rasterized=True)
    for place, (level, ellipse) in enumerate(joint.ellipses):
        colour = BAND if place == 0 else MEAN
        axis.plot(*ellipse.outline().T, color=colour, linewidth=1.2, label=f"{level:g} %")
    axis.set_xlabel(f"step {joint.steps[0]}", fontsize="small")
    axis.set_ylabel(f"step {joint.steps[1]}", fontsize="small")
    axis.set_title("two steps together", loc="left", fontsize="small")
    axis.legend(loc="upper left", fontsize="x-small", frameon=False)
    axis.margins(0.12)
    bare(axis, size="x-small")


def _panel(axis: "Axes", fan: Fan, label: str) -> None:
    widest_first = sorted(fan.intervals, key=lambda interval: -interval.level)
    after, mean = fan.opened
    for place, interval in enumerate(widest_first):
        low, high = (fan.from_last(ends) for ends in (interval.low, interval.high))
        colour = shade(place, len(widest_first))
        axis.fill_between(after, low, high, color=colour, linewidth=0, label=f"{interval.level:g} %", zorder=1 + place)
    if fan.band is not None:
        look: dict[str, Any] = {"color": BAND, "linewidth": 1.0, "linestyle": (0, (4, 2)), "zorder": 8}
        for ends, name in ((fan.band.low, f"whole path, {fan.band.level:g} %"), (fan.band.high, None)):
            values = fan.from_last(ends)
            axis.plot(after[: len(values)], values, label=name, **look)
    axis.plot(fan.before, fan.past, color=TRUTH, linewidth=1.0, label="history", zorder=9)
    axis.plot(after, mean, color=MEAN, linewidth=1.6, label=safe_text(label, "figure"), zorder=10)
    axis.set_title(safe_text(fan.name, "figure"), loc="left", fontsize="medium")
    axis.margins(x=0.01)
    axis.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    bare(axis)
    format_dates(axis, fan.after)


def shade(place: int, count: int) -> tuple[float, float, float]:
    """From light for the widest interval to dark for the narrowest."""
    share = 0.5 if count == 1 else place / (count - 1)
    red, green, blue = (light + share * (dark - light) for light, dark in zip(LIGHTEST, DARKEST, strict=True))
    return red, green, blue


BALL = 2.0
"""Standard deviations of the ball in `mechanism_figure`."""
_COLOURS = ("#c8622c", "#3b6ea5", "#5a8f3c", "#8a5a9e", "#b0902a")


def forecast_figure(
    past: Array,  # (L, C)
    future: Array,  # (H, C)
    forecasts: Mapping[str, Array],  # name -> (H, C)
    *,
    channel_names: Sequence[str],
    band: Interval | None = None,
    title: str = "",
) -> "Figure":
    """The context, what came true and each forecast of it, one row a channel; ``band`` belongs to the first forecast.

    Example:
        >>> past, future = np.zeros((20, 1)), np.ones((10, 1))
        >>> len(forecast_figure(past, future, {"last value": 0 * future}, channel_names=("x",)).axes)
        1
    """
    for name, values in forecasts.items():
        if values.shape != future.shape:
            raise FernError(f"{name} has shape {values.shape}, the future has {future.shape}", argument="forecasts")
    fig = figure(11, 1.9 * len(channel_names) + 0.8)
    axes = np.atleast_1d(np.asarray(fig.subplots(len(channel_names), 1, sharex=True)))
    before, after = np.arange(-len(past), 0), np.arange(len(future))
    for c, (axis, channel) in enumerate(zip(axes, channel_names, strict=True)):
        axis.plot(before, past[:, c], color=TRUTH, linewidth=0.8, alpha=0.5)
        axis.plot(after, future[:, c], color=TRUTH, linewidth=1.4, label="truth")
        if band is not None:
            look: dict[str, Any] = {"color": _COLOURS[0], "alpha": 0.2, "linewidth": 0}
            axis.fill_between(after, band.low[:, c], band.high[:, c], label=f"{band.level:g} %", **look)
        for (name, values), colour in zip(forecasts.items(), _COLOURS, strict=False):
            axis.plot(after, values[:, c], color=colour, linewidth=1.1, label=safe_text(name, "figure"))
        axis.axvline(0, color=TRUTH, linewidth=0.6, linestyle=":")
        axis.set_ylabel(safe_text(channel, "figure"))
        axis.margins(x=0)
    axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=6, fontsize="small", frameon=False)
    axes[-1].set_xlabel("steps from the forecast")
    fig.suptitle(safe_text(title, "figure"))
    return fig


@dataclass(frozen=True, eq=False)
class PatchMap:
    """Two steps of one patch: where the map puts the ball's centre, and the covariance of the image.

    ``truth`` is what came, where that is known.
    """

    name: str
    steps: tuple[int, int]
    centre: Array  # (2,)
    covariance: Array  # (2, 2)
    truth: Array | None = None  # (2,)


def mechanism_figure(patches: Sequence[PatchMap], *, source_deviation: float) -> "Figure":
    """The ball of two standard deviations that all patches start from, and its image in two steps of each patch.

    ``source_deviation`` is the standard deviation of the ball's distribution in each direction (√a).

    Example:
        >>> patch = PatchMap("patch 1", (1, 24), np.zeros(2), np.array([[2.0, 1.0], [1.0, 1.0]]), np.ones(2))
        >>> len(mechanism_figure([patch, patch], source_deviation=0.3).axes)
        3
    """
    if not patches:
        raise FernError("got none", argument="patches", expected="at least one")
    fig = figure(2.5 * (len(patches) + 1), 2.8)
    axes = fig.subplots(1, len(patches) + 1, squeeze=False)[0]
    angle = np.linspace(0, 2 * np.pi, 100)
    reach = BALL * source_deviation
    axes[0].plot(reach * np.cos(angle), reach * np.sin(angle), color=BEFORE, linewidth=1.6)
    axes[0].scatter([0], [0], s=14, color=BEFORE)
    axes[0].set_title("y0, the ball", fontsize="medium")
    axes[0].set_aspect("equal", adjustable="datalim")
    for axis, patch in zip(axes[1:], patches, strict=True):
        image = Ellipse(patch.centre, patch.covariance, BALL)
        axis.plot(*image.outline().T, color=AFTER, linewidth=1.6)
        axis.scatter(*np.asarray(patch.centre)[:, None], s=14, color=AFTER, label="mean")
        for half_axis in image.half_axes():
            axis.plot(*np.stack((patch.centre, patch.centre + half_axis)).T, color=AFTER, linewidth=0.9, linestyle="--")
        if patch.truth is not None:
            axis.scatter(*np.asarray(patch.truth)[:, None], s=26, marker="x", color=TRUTH, label="truth", zorder=5)
        axis.set_title(safe_text(patch.name, "figure"), fontsize="medium")
        axis.set_xlabel(f"step {patch.steps[0]}", fontsize="small")
        axis.set_ylabel(f"step {patch.steps[1]}", fontsize="small")
        axis.margins(0.15)
    axes[-1].legend(fontsize="x-small", frameon=False)
    for axis in axes:
        axis.tick_params(labelsize="x-small")
    return fig

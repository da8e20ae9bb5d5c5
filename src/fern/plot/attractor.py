"""Trajectories with their shocks, and the attractor as it is and as it is forecast."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.plot.canvas import AFTER, BEFORE, SHOCK, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fern.systems import Trajectory

_MOST_LINES = 8  # more channels than this are drawn as one space-time map
_DRAWN_STEPS = 3000


def trajectory_figure(trajectory: "Trajectory") -> "Figure":
    """Time series around the first shock, and the attractor before and after it.

    Up to eight channels are drawn as lines, more as a space-time map. The attractor is three channels, spread over all
    of them, or a plot of each value against the one before when there are fewer.

    Example:
        >>> from fern.systems import simulate
        >>> len(trajectory_figure(simulate("OU_PARAM")).axes)
        2
    """
    values, plan = np.asarray(trajectory.values, dtype=np.float64), trajectory.scenario
    # The stretch to draw is centred on the first shock, or begins at the start.
    centre = trajectory.shock_index if trajectory.shock_index is not None else _DRAWN_STEPS // 2
    first = max(0, min(centre - _DRAWN_STEPS // 2, len(values) - _DRAWN_STEPS))
    rows = slice(first, min(first + _DRAWN_STEPS, len(values)))
    shocks = ", ".join(f"{s.kind} shock at row {row}" for s, row in zip(plan.shocks, plan.shock_rows, strict=True))
    lines = values.shape[1] <= _MOST_LINES
    height = 1.1 * values.shape[1] + 1.4 if lines else 4.2
    fig = figure(12, max(height, 4.2))
    fig.suptitle(safe_text(f"{plan.id or plan.system}   ({shocks or 'no shock'})", "figure"))
    areas: Any = fig.subfigures(1, 2, width_ratios=(1.5, 1))
    left, right = areas
    (_draw_lines if lines else _draw_map)(left, trajectory, values, rows)
    _draw_attractor(right, trajectory, values)
    return fig


def _pieces(trajectory: "Trajectory", rows: slice) -> list[tuple[slice, str]]:
    """The stretch cut at the shocks, with a colour each."""
    inside = [row for row in trajectory.scenario.shock_rows if rows.start < row < rows.stop]
    borders = [rows.start, *inside, rows.stop]
    first_shock = trajectory.shock_index
    return [
        (slice(a, b), BEFORE if first_shock is None or a < first_shock else AFTER)
        for a, b in itertools.pairwise(borders)
    ]


def _draw_lines(area: Any, trajectory: "Trajectory", values: np.ndarray, rows: slice) -> None:
    axes = np.atleast_1d(area.subplots(values.shape[1], 1, sharex=True))
    time = trajectory.dt * np.arange(1, len(values) + 1)
    for axis, name, series in zip(axes, trajectory.channel_names, values.T, strict=True):
        for piece, colour in _pieces(trajectory, rows):
            axis.plot(time[piece], series[piece], color=colour, linewidth=0.9)
        axis.set_ylabel(safe_text(name, "figure"))
        axis.margins(x=0)
        _mark_shocks(axis, trajectory, rows)
    axes[-1].set_xlabel("time")


def _draw_map(area: Any, trajectory: "Trajectory", values: np.ndarray, rows: slice) -> None:
    axis = area.subplots()
    extent = (rows.start * trajectory.dt, rows.stop * trajectory.dt, 0, values.shape[1])
    axis.imshow(values[rows].T, aspect="auto", origin="lower", extent=extent, cmap="RdBu_r")
    axis.set(xlabel="time", ylabel="channel")
    _mark_shocks(axis, trajectory, rows)


def _mark_shocks(axis: Any, trajectory: "Trajectory", rows: slice) -> None:
    for row in trajectory.scenario.shock_rows:
        if rows.start < row < rows.stop:
            axis.axvline(trajectory.dt * (row + 1), color=SHOCK, linestyle="--", linewidth=1)


def _draw_attractor(area: Any, trajectory: "Trajectory", values: np.ndarray) -> None:
    pieces = _pieces(trajectory, slice(0, len(values)))
    names = [safe_text(name, "figure") for name in trajectory.channel_names]
    if values.shape[1] >= 3:
        axis = area.add_subplot(projection="3d")
        x, y, z = np.arange(3) * values.shape[1] // 3
        for piece, colour in pieces:
            axis.plot(*values[piece][:, [x, y, z]].T, color=colour, linewidth=0.25, alpha=0.8, rasterized=True)
        axis.set(xlabel=names[x], ylabel=names[y], zlabel=names[z])
    else:
        axis = area.subplots()
        series = values[:, 0]
        for piece, colour in pieces:
            axis.scatter(series[piece][:-1], series[piece][1:], s=1, color=colour, alpha=0.3, linewidths=0)
        axis.set(xlabel=f"{names[0]}(t)", ylabel=f"{names[0]}(t+1)")
    if trajectory.shock_index is not None:
        for label, colour in (("before the shock", BEFORE), ("after", AFTER)):
            axis.plot([], [], color=colour, label=label)
        axis.legend(loc="upper left", fontsize="small", frameon=False)


Array = NDArray[np.floating[Any]]
_MOST_POINTS = 2500


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points in the plane or in space, each with a number that colours it."""

    title: str
    points: Array  # (n, 2) or (n, 3)
    colour: Array  # (n,)
    label: str
    scheme: str


@dataclass(frozen=True, eq=False)
class Attractor:
    """Truth coloured by its speed, and the reconstruction coloured by the largest eigenvalue of each row's patch."""

    truth: Cloud
    reconstruction: Cloud
    axes: tuple[str, ...]

    @property
    def limits(self) -> tuple[tuple[float, float], ...]:
        """From where to where each axis goes: the same for both, or they could not be compared."""
        both = np.concatenate((self.truth.points, self.reconstruction.points)).astype(np.float64)
        low, high = both.min(axis=0), both.max(axis=0)
        room = 0.03 * np.where(high > low, high - low, 1.0)
        return tuple(zip((low - room).tolist(), (high + room).tolist(), strict=True))

    @classmethod
    def of(
        cls,
        truth: Array,  # (T, C), C at least 2
        forecast: Array,  # (T, C)
        spectral_radius: Array,  # (T,) or (T, C)
        *,
        channel_names: Sequence[str],
        dt: float = 1.0,
    ) -> "Attractor":
        """The first three channels (or two), at most 2,500 rows evenly apart.

        Speed is the length of the difference of successive rows over ``dt``; of several channels' eigenvalues the
        mean counts, as in the paper's figure: the largest of three is at its bound nearly everywhere.

        Example:
            >>> values = np.random.default_rng(0).normal(size=(50, 4)).cumsum(axis=0)
            >>> found = Attractor.of(values, values, np.ones(50), channel_names=("x", "y", "z", "w"))
            >>> found.axes, found.truth.points.shape
            (('x', 'y', 'z'), (50, 3))
        """
        if truth.ndim != 2 or truth.shape != forecast.shape or truth.shape[1] < 2 or len(truth) < 2:
            raise FernError(
                f"got {truth.shape} and {forecast.shape}, need the same (rows, channels ≥ 2)",
                argument="truth, forecast",
            )
        radius = np.asarray(spectral_radius, dtype=np.float64)
        radius = radius.mean(axis=1) if radius.ndim == 2 else radius
        if radius.shape != (len(truth),):
            expected = f"one for each of the {len(truth):,} rows"
            raise FernError(argument="spectral_radius", got=radius.shape, expected=expected)
        every, shown = -(-len(truth) // _MOST_POINTS), min(3, truth.shape[1])
        true, reconstruction = truth[::every, :shown], forecast[::every, :shown]
        return cls(
            Cloud("truth", true, row_speed(truth, dt)[::every], "speed", "viridis"),
            Cloud("reconstruction", reconstruction, radius[::every], "largest eigenvalue of the patch", "plasma"),
            tuple(channel_names[:shown]),
        )


def attractor_figure(shown: Attractor) -> "Figure":
    """The two clouds beside each other, in space where there are three channels, with their bars of colour.

    Example:
        >>> values = np.random.default_rng(0).normal(size=(50, 3)).cumsum(axis=0)
        >>> drawn = attractor_figure(Attractor.of(values, values, np.ones(50), channel_names=("x", "y", "z")))
        >>> [axis.get_title() for axis in drawn.axes[::2]]
        ['truth', 'reconstruction']
    """
    fig = figure(9.5, 4.0)
    in_space = len(shown.axes) == 3
    names = [safe_text(name, "figure") for name in shown.axes]
    for place, cloud in enumerate((shown.truth, shown.reconstruction), start=1):
        axis: Any = fig.add_subplot(1, 2, place, **({"projection": "3d"} if in_space else {}))
        points = axis.scatter(*cloud.points.T, c=cloud.colour, s=2.5, cmap=cloud.scheme, linewidths=0, rasterized=True)
        axis.set_title(cloud.title)
        axis.set(**dict(zip(("xlabel", "ylabel", "zlabel"), names, strict=False)))
        axis.set(**dict(zip(("xlim", "ylim", "zlim"), shown.limits, strict=False)))
        axis.tick_params(labelsize="x-small")
        fig.colorbar(points, ax=axis, shrink=0.7, pad=0.12 if in_space else 0.03, label=cloud.label)
    return fig


def row_speed(values: Array, dt: float) -> NDArray[np.float64]:  # (T, C) -> (T,)
    """The length of the step into each row over ``dt``; the first row has that of the second.

    Example:
        >>> row_speed(np.array([[0.0, 0.0], [3.0, 4.0]]), 0.5).tolist()
        [10.0, 10.0]
    """
    steps = np.linalg.norm(np.diff(np.asarray(values, dtype=np.float64), axis=0), axis=1) / dt
    return np.concatenate((steps[:1], steps))

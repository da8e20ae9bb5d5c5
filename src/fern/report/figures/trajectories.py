"""Pictures of trajectories: the series with its shocks marked, and the attractor."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from fern.report.figures.canvas import AFTER, BEFORE, SHOCK, figure
from fern.systems import Trajectory
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINES = 8  # more channels than this are drawn as one space-time map
_DRAWN_STEPS = 3000


def trajectory_figure(trajectory: Trajectory) -> "Figure":
    """Time series around the first shock, and the attractor before and after it.

    Up to eight channels are drawn as lines, more as a space-time map. The attractor is three channels, spread over all
    of them, or a plot of each value against the one before when there are fewer.

    Example:
        >>> from fern.systems import simulate
        >>> len(trajectory_figure(simulate("OU_PARAM")).axes)
        2
    """
    values = np.asarray(trajectory.values, dtype=np.float64)
    rows = _rows_around_shock(trajectory)
    lines = values.shape[1] <= _MOST_LINES
    height = 1.1 * values.shape[1] + 1.4 if lines else 4.2
    drawn = figure(12, max(height, 4.2))
    drawn.suptitle(safe_text(_title(trajectory), "figure"))
    areas: Any = drawn.subfigures(1, 2, width_ratios=(1.5, 1))
    left, right = areas
    if lines:
        _draw_lines(left, trajectory, values, rows)
    else:
        _draw_map(left, trajectory, values, rows)
    _draw_attractor(right, trajectory, values)
    return drawn


def _title(trajectory: Trajectory) -> str:
    plan = trajectory.scenario
    shocks = ", ".join(f"{s.kind} shock at row {row}" for s, row in zip(plan.shocks, plan.shock_rows, strict=True))
    return f"{plan.id or plan.system}   ({shocks or 'no shock'})"


def _rows_around_shock(trajectory: Trajectory) -> slice:
    """The stretch to draw: centred on the first shock, or the start."""
    total = len(trajectory.values)
    centre = trajectory.shock_index if trajectory.shock_index is not None else _DRAWN_STEPS // 2
    first = max(0, min(centre - _DRAWN_STEPS // 2, total - _DRAWN_STEPS))
    return slice(first, min(first + _DRAWN_STEPS, total))


def _pieces(trajectory: Trajectory, rows: slice) -> list[tuple[slice, str]]:
    """The stretch cut at the shocks, with a colour each."""
    inside = [row for row in trajectory.scenario.shock_rows if rows.start < row < rows.stop]
    borders = [rows.start, *inside, rows.stop]
    first_shock = trajectory.shock_index
    return [
        (slice(a, b), BEFORE if first_shock is None or a < first_shock else AFTER)
        for a, b in itertools.pairwise(borders)
    ]


def _draw_lines(area: Any, trajectory: Trajectory, values: np.ndarray, rows: slice) -> None:
    axes = np.atleast_1d(area.subplots(values.shape[1], 1, sharex=True))
    time = trajectory.dt * np.arange(1, len(values) + 1)
    for axis, name, series in zip(axes, trajectory.channel_names, values.T, strict=True):
        for piece, colour in _pieces(trajectory, rows):
            axis.plot(time[piece], series[piece], color=colour, linewidth=0.9)
        axis.set_ylabel(safe_text(name, "figure"))
        axis.margins(x=0)
        _mark_shocks(axis, trajectory, rows)
    axes[-1].set_xlabel("time")


def _draw_map(area: Any, trajectory: Trajectory, values: np.ndarray, rows: slice) -> None:
    axis = area.subplots()
    extent = (rows.start * trajectory.dt, rows.stop * trajectory.dt, 0, values.shape[1])
    axis.imshow(values[rows].T, aspect="auto", origin="lower", extent=extent, cmap="RdBu_r")
    axis.set(xlabel="time", ylabel="channel")
    _mark_shocks(axis, trajectory, rows)


def _mark_shocks(axis: Any, trajectory: Trajectory, rows: slice) -> None:
    for row in trajectory.scenario.shock_rows:
        if rows.start < row < rows.stop:
            axis.axvline(trajectory.dt * (row + 1), color=SHOCK, linestyle="--", linewidth=1)


def _draw_attractor(area: Any, trajectory: Trajectory, values: np.ndarray) -> None:
    whole = slice(0, len(values))
    pieces = _pieces(trajectory, whole)
    if values.shape[1] >= 3:
        axis = area.add_subplot(projection="3d")
        columns = np.arange(3) * values.shape[1] // 3
        for piece, colour in pieces:
            axis.plot(*values[piece][:, columns].T, color=colour, linewidth=0.25, alpha=0.8, rasterized=True)
        names = [safe_text(trajectory.channel_names[column], "figure") for column in columns]
        axis.set(xlabel=names[0], ylabel=names[1], zlabel=names[2])
        _explain_colours(axis, trajectory)
        return
    axis = area.subplots()
    series = values[:, 0]
    for piece, colour in pieces:
        axis.scatter(series[piece][:-1], series[piece][1:], s=1, color=colour, alpha=0.3, linewidths=0)
    name = safe_text(trajectory.channel_names[0], "figure")
    axis.set(xlabel=f"{name}(t)", ylabel=f"{name}(t+1)")
    _explain_colours(axis, trajectory)


def _explain_colours(axis: Any, trajectory: Trajectory) -> None:
    if trajectory.shock_index is not None:
        for label, colour in (("before the shock", BEFORE), ("after", AFTER)):
            axis.plot([], [], color=colour, label=label)
        axis.legend(loc="upper left", fontsize="small", frameon=False)

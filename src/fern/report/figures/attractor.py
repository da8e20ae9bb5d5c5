"""The paper's reconstruction figure: the attractor as it is and as it is forecast."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]
_MOST_POINTS = 2500


def attractor_figure(
    truth: Array,  # (T, C), C at least 2
    forecast: Array,  # (T, C)
    spectral_radius: Array,  # (T,) or (T, C)
    *,
    channel_names: Sequence[str],
    dt: float = 1.0,
) -> "Figure":
    """Truth coloured by its speed, beside the reconstruction coloured by the largest eigenvalue of each row's patch.

    The first three channels are drawn in space, two in the plane. Speed is the length of the difference of successive
    rows over ``dt``; of several channels' eigenvalues the largest counts.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> values = rng.normal(size=(50, 3)).cumsum(axis=0)
        >>> drawn = attractor_figure(values, values, np.ones(50), channel_names=("x", "y", "z"))
        >>> [axis.get_title() for axis in drawn.axes[::2]]
        ['truth', 'reconstruction']
    """
    if truth.ndim != 2 or truth.shape != forecast.shape or truth.shape[1] < 2 or len(truth) < 2:
        raise FernError(f"truth, forecast: got {truth.shape} and {forecast.shape}, need the same (rows, channels ≥ 2)")
    radius = np.asarray(spectral_radius, dtype=np.float64)
    radius = radius.max(axis=1) if radius.ndim == 2 else radius
    if radius.shape != (len(truth),):
        raise FernError(f"spectral_radius: got {radius.shape}, needs one for each of the {len(truth):,} rows")
    shown = min(3, truth.shape[1])
    every = -(-len(truth) // _MOST_POINTS)
    drawn = figure(9.5, 4.0)
    speed = row_speed(truth, dt)
    for place, (name, values, colour, label, scheme) in enumerate(
        (
            ("truth", truth, speed, "speed", "viridis"),
            ("reconstruction", forecast, radius, "largest eigenvalue of the patch", "plasma"),
        ),
        start=1,
    ):
        axis: Any = drawn.add_subplot(1, 2, place, **({"projection": "3d"} if shown == 3 else {}))
        points = axis.scatter(
            *values[::every, :shown].T, c=colour[::every], s=2.5, cmap=scheme, linewidths=0, rasterized=True
        )
        axis.set_title(name)
        axis.set_xlabel(safe_text(channel_names[0], "figure"))
        axis.set_ylabel(safe_text(channel_names[1], "figure"))
        axis.tick_params(labelsize="x-small")
        if shown == 3:
            axis.set_zlabel(safe_text(channel_names[2], "figure"))
        drawn.colorbar(points, ax=axis, shrink=0.7, label=label)
    return drawn


def row_speed(values: Array, dt: float) -> NDArray[np.float64]:  # (T, C) -> (T,)
    """The length of the step into each row over ``dt``; the first row has that of the second.

    Example:
        >>> row_speed(np.array([[0.0, 0.0], [3.0, 4.0]]), 0.5).tolist()
        [10.0, 10.0]
    """
    steps = np.linalg.norm(np.diff(np.asarray(values, dtype=np.float64), axis=0), axis=1) / dt
    return np.concatenate((steps[:1], steps))

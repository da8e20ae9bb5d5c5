"""The paper's reconstruction figure: the attractor as it is and as it is forecast."""

from collections.abc import Sequence
from dataclasses import dataclass
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
        largest counts.

        Example:
            >>> values = np.random.default_rng(0).normal(size=(50, 4)).cumsum(axis=0)
            >>> found = Attractor.of(values, values, np.ones(50), channel_names=("x", "y", "z", "w"))
            >>> found.axes, found.truth.points.shape
            (('x', 'y', 'z'), (50, 3))
        """
        if truth.ndim != 2 or truth.shape != forecast.shape or truth.shape[1] < 2 or len(truth) < 2:
            raise FernError(
                f"truth, forecast: got {truth.shape} and {forecast.shape}, need the same (rows, channels ≥ 2)"
            )
        radius = np.asarray(spectral_radius, dtype=np.float64)
        radius = radius.max(axis=1) if radius.ndim == 2 else radius
        if radius.shape != (len(truth),):
            raise FernError(f"spectral_radius: got {radius.shape}, needs one for each of the {len(truth):,} rows")
        every, shown = -(-len(truth) // _MOST_POINTS), min(3, truth.shape[1])
        speed = row_speed(truth, dt)
        return cls(
            Cloud("truth", truth[::every, :shown], speed[::every], "speed", "viridis"),
            Cloud(
                "reconstruction",
                forecast[::every, :shown],
                radius[::every],
                "largest eigenvalue of the patch",
                "plasma",
            ),
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
    drawn = figure(9.5, 4.0)
    in_space = len(shown.axes) == 3
    names = [safe_text(name, "figure") for name in shown.axes]
    for place, cloud in enumerate((shown.truth, shown.reconstruction), start=1):
        axis: Any = drawn.add_subplot(1, 2, place, **({"projection": "3d"} if in_space else {}))
        points = axis.scatter(*cloud.points.T, c=cloud.colour, s=2.5, cmap=cloud.scheme, linewidths=0, rasterized=True)
        axis.set_title(cloud.title)
        axis.set(**dict(zip(("xlabel", "ylabel", "zlabel"), names, strict=False)))
        axis.set(**dict(zip(("xlim", "ylim", "zlim"), shown.limits, strict=False)))
        axis.tick_params(labelsize="x-small")
        drawn.colorbar(points, ax=axis, shrink=0.7, pad=0.12 if in_space else 0.03, label=cloud.label)
    return drawn


def row_speed(values: Array, dt: float) -> NDArray[np.float64]:  # (T, C) -> (T,)
    """The length of the step into each row over ``dt``; the first row has that of the second.

    Example:
        >>> row_speed(np.array([[0.0, 0.0], [3.0, 4.0]]), 0.5).tolist()
        [10.0, 10.0]
    """
    steps = np.linalg.norm(np.diff(np.asarray(values, dtype=np.float64), axis=0), axis=1) / dt
    return np.concatenate((steps[:1], steps))

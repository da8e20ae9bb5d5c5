"""The paper's mechanism figure: how the map turns a ball into an ellipsoid, patch by patch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import AFTER, BEFORE, TRUTH, figure
from fern.report.figures.ellipses import Ellipse
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]


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

    def image(self, deviations: float) -> Ellipse:
        """The image of a ball of so many standard deviations."""
        return Ellipse(self.centre, self.covariance, deviations)


def mechanism_figure(patches: Sequence[PatchMap], *, source_deviation: float, deviations: float = 2.0) -> "Figure":
    """The ball all patches start from, and its image in two steps of each patch, with its axes and the truth.

    ``source_deviation`` is the standard deviation of the ball's law in each direction (√a).

    Example:
        >>> patch = PatchMap("patch 1", (1, 24), np.zeros(2), np.array([[2.0, 1.0], [1.0, 1.0]]), np.ones(2))
        >>> len(mechanism_figure([patch, patch], source_deviation=0.3).axes)
        3
    """
    if not patches:
        raise FernError("patches: got none, needs at least one")
    drawn = figure(2.5 * (len(patches) + 1), 2.8)
    axes = drawn.subplots(1, len(patches) + 1, squeeze=False)[0]
    angle = np.linspace(0, 2 * np.pi, 100)
    reach = deviations * source_deviation
    axes[0].plot(reach * np.cos(angle), reach * np.sin(angle), color=BEFORE, linewidth=1.6)
    axes[0].scatter([0], [0], s=14, color=BEFORE)
    axes[0].set_title("y0, the ball", fontsize="medium")
    axes[0].set_aspect("equal", adjustable="datalim")
    for axis, patch in zip(axes[1:], patches, strict=True):
        image = patch.image(deviations)
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
    return drawn

"""Coverage: shares inside beside what they should be, with the error bars that n_eff allows, and the PIT."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import AFTER, BEFORE, SHOCK, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Covered:
    """The share of outcomes inside one kind of region at a level (percent), and how far chance alone may take it."""

    kind: str
    level: float
    coverage: float
    error_bar: float
    n_eff: float


def coverage_figure(
    covered: Sequence[Covered],
    *,
    pit: NDArray[np.floating[Any]] | None = None,  # (bins,) shares of all outcomes
) -> "Figure":
    """A panel for each kind of region: coverage over level; bars are what chance allows around the level itself.

    ``pit`` adds the histogram of probability integral transforms: the share of outcomes in each of equally probable
    stretches of the forecast, flat where the law is right.

    Example:
        >>> rows = [Covered("margin", level, level / 100, 0.05, 90.0) for level in (50.0, 90.0)]
        >>> len(coverage_figure(rows, pit=np.full(20, 0.05)).axes)
        2
    """
    kinds = list(dict.fromkeys(row.kind for row in covered))
    panels = len(kinds) + (pit is not None)
    if not panels:
        raise FernError("covered: got none, needs at least one")
    drawn = figure(max(4.0, 2.6 * panels), 2.9)
    axes = drawn.subplots(1, panels, squeeze=False)[0]
    for axis, kind in zip(axes, kinds, strict=False):
        _reliability(axis, kind, [row for row in covered if row.kind == kind])
    if len(kinds):
        axes[0].set_ylabel("share inside")
    if pit is not None:
        _histogram(axes[-1], np.asarray(pit, dtype=np.float64))
    return drawn


def _reliability(axis: "Axes", kind: str, rows: Sequence[Covered]) -> None:
    levels = np.array([row.level / 100 for row in rows])
    axis.plot([0, 1], [0, 1], color=SHOCK, linewidth=0.8, linestyle="--", label="as promised")
    # The bar belongs to the level: that is where the coverage should lie, 19 times in 20.
    axis.errorbar(
        levels,
        levels,
        yerr=[row.error_bar for row in rows],
        fmt="none",
        ecolor=BEFORE,
        elinewidth=5,
        alpha=0.35,
        label="by chance",
    )
    axis.scatter(levels, [row.coverage for row in rows], s=22, color=AFTER, zorder=4, label="measured")
    axis.set_title(safe_text(f"{kind}, n_eff {min(row.n_eff for row in rows):.0f}", "figure"), fontsize="medium")
    low = min(0.4, *(row.coverage - 0.05 for row in rows), *(row.level / 100 - 0.1 for row in rows))
    axis.set_xlim(low, 1.02)
    axis.set_ylim(low, 1.05)
    axis.set_xlabel("level")
    axis.tick_params(labelsize="small")
    axis.legend(loc="upper left", fontsize="x-small", frameon=False)


def _histogram(axis: "Axes", shares: NDArray[np.float64]) -> None:
    edges = np.linspace(0.0, 1.0, len(shares) + 1)
    axis.stairs(shares * len(shares), edges, fill=True, color=BEFORE, alpha=0.6)
    axis.axhline(1.0, color=SHOCK, linewidth=0.8, linestyle="--")
    axis.set_title("PIT", fontsize="medium")
    axis.set_xlabel("probability of less than what came")
    axis.set_ylabel("density")
    axis.set_xlim(0, 1)
    axis.tick_params(labelsize="small")

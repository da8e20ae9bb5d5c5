"""Coverage as time goes on: the share inside of the newest windows, beside what chance allows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import AFTER, BEFORE, SHOCK, dated, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class CoverageOverTime:
    """The share of outcomes inside, of ``windows`` windows up to each forecast, and how far chance may take it.

    ``n_eff`` is how many independent windows those are worth: neighbours overlap.

    Example:
        >>> CoverageOverTime(90.0, np.arange(3), np.full(3, 0.9), 0.06, 40, 25.0).inside_chance
        1.0
    """

    level: float
    when: NDArray[Any]  # (n,) dates or rows at which forecasts begin
    coverage: Array  # (n,)
    error_bar: float
    windows: int
    n_eff: float
    axis: str = "row at which the forecast begins"

    def __post_init__(self) -> None:
        if len(self.when) != len(self.coverage) or not len(self.when):
            raise FernError(
                f"when, coverage: got {len(self.when)} and {len(self.coverage)} of them, need as many of both, and one"
            )

    @property
    def inside_chance(self) -> float:
        """The share of places where chance alone explains the distance from the level."""
        return float((np.abs(self.coverage - self.level / 100) <= self.error_bar).mean())

    @property
    def chance(self) -> tuple[float, float]:
        """From where to where chance may take the coverage, 19 times in 20."""
        share = self.level / 100
        return max(0.0, share - self.error_bar), min(1.0, share + self.error_bar)


def coverage_over_time_figure(shown: CoverageOverTime) -> "Figure":
    """A line: the coverage of the newest windows; the level dashed; shaded where chance alone may take it.

    Example:
        >>> course = CoverageOverTime(90.0, np.arange(30), np.full(30, 0.88), 0.06, 40, 25.0)
        >>> len(coverage_over_time_figure(course).axes)
        1
    """
    drawn = figure(9.5, 2.9)
    axis = drawn.subplots()
    low, high = shown.chance
    axis.axhspan(low, high, color=BEFORE, alpha=0.18, linewidth=0, label=f"by chance, n_eff {shown.n_eff:.0f}")
    axis.axhline(shown.level / 100, color=SHOCK, linewidth=0.9, linestyle="--", label=f"promised, {shown.level:g} %")
    marker = "o" if len(shown.when) == 1 else None
    name = f"the newest {shown.windows:,} windows"
    axis.plot(shown.when, shown.coverage, color=AFTER, linewidth=1.5, marker=marker, label=name)
    axis.set_ylim(min(low, float(np.min(shown.coverage))) - 0.04, 1.02)
    axis.set_ylabel("share inside")
    axis.set_xlabel(safe_text(shown.axis, "figure"))
    axis.margins(x=0.01)
    dated(axis, shown.when)
    axis.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, fontsize="small", frameon=False)
    axis.tick_params(labelsize="small")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return drawn

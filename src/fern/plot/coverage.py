"""Coverage beside the nominal level, with error bars; over time; and the PIT."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.plot.canvas import AFTER, BEFORE, SHOCK, bare, figure, format_dates
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
    stretches of the forecast, flat where the distribution is right.

    Example:
        >>> rows = [Covered("margin", level, level / 100, 0.05, 90.0) for level in (50.0, 90.0)]
        >>> len(coverage_figure(rows, pit=np.full(20, 0.05)).axes)
        2
    """
    kinds = list(dict.fromkeys(row.kind for row in covered))
    panels = len(kinds) + (pit is not None)
    if not panels:
        raise FernError("got none", argument="covered", expected="at least one")
    fig = figure(max(4.0, 2.6 * panels), 2.9)
    axes = fig.subplots(1, panels, squeeze=False)[0]
    for axis, kind in zip(axes, kinds, strict=False):
        _reliability(axis, kind, [row for row in covered if row.kind == kind])
    if kinds:
        axes[0].set_ylabel("share inside")
    if pit is not None:
        _histogram(axes[-1], np.asarray(pit, dtype=np.float64))
    return fig


def _reliability(axis: "Axes", kind: str, rows: Sequence[Covered]) -> None:
    levels = np.array([row.level / 100 for row in rows])
    axis.plot([0, 1], [0, 1], color=SHOCK, linewidth=0.8, linestyle="--", label="as promised")
    # The bar belongs to the level: that is where the coverage should lie, 19 times in 20.
    look: dict[str, Any] = {"fmt": "none", "ecolor": BEFORE, "elinewidth": 5, "alpha": 0.35, "label": "by chance"}
    axis.errorbar(levels, levels, yerr=[row.error_bar for row in rows], **look)
    axis.scatter(levels, [row.coverage for row in rows], s=22, color=AFTER, zorder=4, label="measured")
    axis.set_title(safe_text(f"{kind}, n_eff {min(row.n_eff for row in rows):.0f}", "figure"), fontsize="medium")
    low = min(0.4, *(row.coverage - 0.05 for row in rows), *(row.level / 100 - 0.1 for row in rows))
    axis.set(xlim=(low, 1.02), ylim=(low, 1.05), xlabel="level")
    axis.tick_params(labelsize="small")
    axis.legend(loc="upper left", fontsize="x-small", frameon=False)


def _histogram(axis: "Axes", shares: NDArray[np.float64]) -> None:
    edges = np.linspace(0.0, 1.0, len(shares) + 1)
    axis.stairs(shares * len(shares), edges, fill=True, color=BEFORE, alpha=0.6)
    axis.axhline(1.0, color=SHOCK, linewidth=0.8, linestyle="--")
    axis.set_title("PIT", fontsize="medium")
    axis.set(xlabel="probability of less than what came", ylabel="density", xlim=(0, 1))
    axis.tick_params(labelsize="small")


COVERAGE_AXIS = "row at which the forecast begins"
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

    def __post_init__(self) -> None:
        if len(self.when) != len(self.coverage) or not len(self.when):
            raise FernError(
                f"got {len(self.when)} and {len(self.coverage)} of them, need as many of both, and one",
                argument="when, coverage",
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
    fig = figure(9.5, 2.9)
    axis = fig.subplots()
    low, high = shown.chance
    axis.axhspan(low, high, color=BEFORE, alpha=0.18, linewidth=0, label=f"by chance, n_eff {shown.n_eff:.0f}")
    axis.axhline(shown.level / 100, color=SHOCK, linewidth=0.9, linestyle="--", label=f"promised, {shown.level:g} %")
    marker = "o" if len(shown.when) == 1 else None
    name = f"the newest {shown.windows:,} windows"
    axis.plot(shown.when, shown.coverage, color=AFTER, linewidth=1.5, marker=marker, label=name)
    bottom = min(low, float(np.min(shown.coverage))) - 0.04
    axis.set(ylim=(bottom, 1.02), xlabel=COVERAGE_AXIS, ylabel="share inside")
    axis.margins(x=0.01)
    format_dates(axis, shown.when)
    axis.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, fontsize="small", frameon=False)
    bare(axis)
    return fig

"""How errors grow along the horizon, against the best possible forecast."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import COLOURS, DASHES, SHOCK, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class ErrorGrowth:
    """The mean error of each step ahead, of each model and of the best possible forecast.

    ``lyapunov_times_a_step`` is known of chaotic systems: errors there grow by e in a Lyapunov time.

    Example:
        >>> ErrorGrowth({"fern": np.arange(1.0, 25.0)}).horizon
        24
    """

    errors: Mapping[str, Array]  # name -> (H,)
    oracle: Array | None = None  # (H,)
    lyapunov_times_a_step: float | None = None
    label: str = "MSE"

    def __post_init__(self) -> None:
        lengths = {name: np.asarray(values).shape for name, values in self.errors.items()}
        if self.oracle is not None:
            lengths["oracle"] = np.asarray(self.oracle).shape
        if not self.errors or len(set(lengths.values())) != 1 or len(next(iter(lengths.values()))) != 1:
            raise FernError(f"errors: got shapes {lengths}, needs one list of steps for each model, all of one length")

    @property
    def horizon(self) -> int:
        """H."""
        return len(next(iter(self.errors.values())))

    @property
    def logarithmic(self) -> bool:
        """Whether a logarithmic axis shows them: no error is below 0, and of each model at least half are above."""
        return all(float(np.min(values)) >= 0 and float(np.median(values)) > 0 for values in self.errors.values())

    def drawn(self, values: Array) -> NDArray[np.float64]:  # (H,)
        """Errors as they are drawn: one of exactly 0 has no place on a logarithmic axis and leaves a gap."""
        errors = np.asarray(values, dtype=np.float64)
        return np.where(errors > 0, errors, np.nan) if self.logarithmic else errors


def error_growth_figure(shown: ErrorGrowth) -> "Figure":
    """Mean error over the step ahead, one line a model, logarithmic where that shows them.

    A second axis counts Lyapunov times where they are known. The dashed grey line is the oracle's error.

    Example:
        >>> steps = np.arange(1.0, 25.0)
        >>> drawn = error_growth_figure(ErrorGrowth({"fern": steps, "dlinear": 2 * steps}, oracle=0.1 * steps))
        >>> [line.get_label() for line in drawn.axes[0].lines]
        ['fern', 'dlinear', 'oracle']
    """
    drawn = figure(8.0, 3.8)
    axis = drawn.subplots()
    steps = np.arange(1, shown.horizon + 1)
    for place, (name, values) in enumerate(shown.errors.items()):
        axis.plot(
            steps,
            shown.drawn(values),
            color=COLOURS[place % len(COLOURS)],
            linestyle=DASHES[place % len(DASHES)],
            linewidth=1.5,
            label=safe_text(name, "figure"),
        )
    if shown.oracle is not None:
        axis.plot(steps, shown.drawn(shown.oracle), color=SHOCK, linestyle=(0, (2, 2)), linewidth=1.2, label="oracle")
    if shown.logarithmic:
        axis.set_yscale("log")
    axis.set_xlim(1, max(shown.horizon, 2))
    axis.set_xlabel("steps ahead")
    axis.set_ylabel(safe_text(shown.label, "figure"))
    if shown.lyapunov_times_a_step:
        scale = np.float64(shown.lyapunov_times_a_step)
        above = axis.secondary_xaxis(
            "top", functions=(lambda step: np.asarray(step) * scale, lambda time: np.asarray(time) / scale)
        )
        above.set_xlabel("Lyapunov times")
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small", frameon=False)
    axis.grid(color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("right",) if shown.lyapunov_times_a_step else ("top", "right"):
        axis.spines[side].set_visible(False)
    return drawn

"""How errors grow along the horizon, against the best possible forecast."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import SHOCK, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]
# Okabe and Ito's colours, which every kind of colour blindness tells apart; dashes tell them apart in print.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def error_growth_figure(
    errors: Mapping[str, Array],  # name -> (H,) mean error of each step
    *,
    oracle: Array | None = None,  # (H,)
    lyapunov_times_a_step: float | None = None,
    label: str = "MSE",
) -> "Figure":
    """Mean error over the step ahead, one line a model, logarithmic where all are above 0.

    With ``lyapunov_times_a_step`` a second axis counts Lyapunov times. The dashed grey line is the oracle's error.

    Example:
        >>> steps = np.arange(1.0, 25.0)
        >>> drawn = error_growth_figure({"fern": steps, "dlinear": 2 * steps}, oracle=0.1 * steps)
        >>> [line.get_label() for line in drawn.axes[0].lines]
        ['fern', 'dlinear', 'oracle']
    """
    lengths = {name: np.asarray(values).shape for name, values in errors.items()}
    if not errors or len(set(lengths.values())) != 1 or len(next(iter(lengths.values()))) != 1:
        raise FernError(f"errors: got shapes {lengths}, needs one list of steps for each model, all of one length")
    horizon = next(iter(lengths.values()))[0]
    drawn = figure(7.0, 3.6)
    axis = drawn.subplots()
    steps = np.arange(1, horizon + 1)
    shown = [np.asarray(values, dtype=np.float64) for values in errors.values()]
    for place, (name, values) in enumerate(zip(errors, shown, strict=True)):
        axis.plot(
            steps,
            values,
            color=COLOURS[place % len(COLOURS)],
            linestyle=DASHES[place % len(DASHES)],
            linewidth=1.5,
            label=safe_text(name, "figure"),
        )
    if oracle is not None:
        axis.plot(steps, oracle, color=SHOCK, linestyle=(0, (2, 2)), linewidth=1.2, label="oracle")
    if min(float(values.min()) for values in shown) > 0:
        axis.set_yscale("log")
    axis.set_xlim(1, horizon)
    axis.set_xlabel("steps ahead")
    axis.set_ylabel(safe_text(label, "figure"))
    if lyapunov_times_a_step:
        scale = np.float64(lyapunov_times_a_step)
        above = axis.secondary_xaxis(
            "top", functions=(lambda step: np.asarray(step) * scale, lambda time: np.asarray(time) / scale)
        )
        above.set_xlabel("Lyapunov times")
    axis.legend(loc="lower right", fontsize="small", frameon=False, ncols=2)
    axis.grid(color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    return drawn

"""Pictures of forecasts beside what came true."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import TRUTH, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]
_COLOURS = ("#c8622c", "#3b6ea5", "#5a8f3c", "#8a5a9e", "#b0902a")


@dataclass(frozen=True, eq=False)
class Band:
    """A central interval of each step, both ``(H, C)``, and the share of outcomes it should hold."""

    low: Array
    high: Array
    level: float


def forecast_figure(
    past: Array,  # (L, C)
    future: Array,  # (H, C)
    forecasts: Mapping[str, Array],  # name -> (H, C)
    *,
    channel_names: Sequence[str],
    band: Band | None = None,
    title: str = "",
) -> "Figure":
    """The context, what came true and each forecast of it, one row a channel; ``band`` belongs to the first forecast.

    Example:
        >>> past, future = np.zeros((20, 1)), np.ones((10, 1))
        >>> len(forecast_figure(past, future, {"last value": 0 * future}, channel_names=("x",)).axes)
        1
    """
    for name, values in forecasts.items():
        if values.shape != future.shape:
            raise FernError(f"forecasts: {name} has shape {values.shape}, the future has {future.shape}")
    drawn = figure(11, 1.9 * len(channel_names) + 0.8)
    axes = np.atleast_1d(np.asarray(drawn.subplots(len(channel_names), 1, sharex=True)))
    before, after = np.arange(-len(past), 0), np.arange(len(future))
    for c, (axis, channel) in enumerate(zip(axes, channel_names, strict=True)):
        axis.plot(before, past[:, c], color=TRUTH, linewidth=0.8, alpha=0.5)
        axis.plot(after, future[:, c], color=TRUTH, linewidth=1.4, label="truth")
        if band is not None:
            axis.fill_between(
                after,
                band.low[:, c],
                band.high[:, c],
                color=_COLOURS[0],
                alpha=0.2,
                linewidth=0,
                label=f"{band.level:.0%}",
            )
        for (name, values), colour in zip(forecasts.items(), _COLOURS, strict=False):
            axis.plot(after, values[:, c], color=colour, linewidth=1.1, label=safe_text(name, "figure"))
        axis.axvline(0, color=TRUTH, linewidth=0.6, linestyle=":")
        axis.set_ylabel(safe_text(channel, "figure"))
        axis.margins(x=0)
    axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=6, fontsize="small", frameon=False)
    axes[-1].set_xlabel("steps from the forecast")
    drawn.suptitle(safe_text(title, "figure"))
    return drawn

"""Series side by side, a row of panels for each family they come from."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.plot.canvas import BEFORE, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def families_figure(series: Mapping[str, Sequence[NDArray[np.floating]]]) -> "Figure":
    """A panel for each series, the families below each other; every panel has its own scale.

    Example:
        >>> from fern.synthetic import generate
        >>> drawn = {name: generate(3, length=64, seed=1, only=[name]).values for name in ("arma", "counts")}
        >>> len(families_figure(drawn).axes)
        6
    """
    if not series or not all(len(rows) for rows in series.values()):
        raise FernError(argument="series", expected="at least one series of each family")
    columns = max(len(rows) for rows in series.values())
    fig = figure(2.2 * columns, 0.85 * len(series) + 0.3)
    axes = np.asarray(fig.subplots(len(series), columns, squeeze=False))
    for row, (name, values) in zip(axes, series.items(), strict=True):
        for axis in row:
            axis.set_xticks([])
            axis.set_yticks([])
        for axis, curve in zip(row, values, strict=False):
            axis.plot(curve, color=BEFORE, linewidth=0.6)
        row[0].set_ylabel(safe_text(name.replace("_", "\n"), "figure"), rotation=0, ha="right", va="center")
    return fig

"""Average ranks as a critical-difference diagram (Demšar, 2006)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fern.errors import FernError
from fern.report.figures.canvas import AFTER, BEFORE, TRUTH, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def critical_difference_figure(
    ranks: Sequence[tuple[str, float]],
    *,
    critical_difference: float,
    alike: Sequence[Sequence[str]] = (),
) -> "Figure":
    """Models along their average rank, best on the left; bars join those that the test cannot tell apart.

    Example:
        >>> drawn = critical_difference_figure([("fern", 1.2), ("dlinear", 1.9)], critical_difference=1.0,
        ...     alike=[("fern", "dlinear")])
        >>> len(drawn.axes)
        1
    """
    if len(ranks) < 2:
        raise FernError(f"ranks: got {len(ranks)}, needs at least two models")
    placed = sorted(ranks, key=lambda one: one[1])
    rank_of = dict(placed)
    left, right = placed[: (len(placed) + 1) // 2], placed[(len(placed) + 1) // 2 :]
    rows = len(left)
    bars = 0.32 * len(alike)
    drawn = figure(7.0, 1.0 + 0.28 * rows + 0.16 * len(alike))
    axis = drawn.subplots()
    low, high = 1.0, float(max(len(placed), int(np.ceil(placed[-1][1]))))
    margin = 0.32 * (high - low)
    axis.plot([low, high], [0, 0], color=TRUTH, linewidth=1.2)
    for tick in range(1, int(high) + 1):
        axis.plot([tick, tick], [0, 0.18], color=TRUTH, linewidth=1.0)
        axis.annotate(str(tick), (tick, 0.25), ha="center", va="bottom", fontsize="small")
    axis.plot([low, low + critical_difference], [1.25, 1.25], color=AFTER, linewidth=2.0)
    axis.annotate(
        f"critical difference {critical_difference:.2f}", (low, 1.35), ha="left", va="bottom", fontsize="small"
    )
    for side, models in (("left", left), ("right", right)):
        edge = low - margin * 0.2 if side == "left" else high + margin * 0.2
        for place, (name, rank) in enumerate(models if side == "left" else list(reversed(models))):
            height = -(0.45 + bars + 0.55 * place)
            axis.plot([rank, rank, edge], [0, height, height], color=BEFORE, linewidth=1.0)
            axis.annotate(
                f"{safe_text(name, 'figure')} {rank:.2f}",
                (edge, height),
                ha="right" if side == "left" else "left",
                va="center",
                fontsize="small",
                xytext=(-3 if side == "left" else 3, 0),
                textcoords="offset points",
                annotation_clip=False,
            )
    for place, group in enumerate(alike):
        height = -(0.22 + 0.32 * place)
        ends = [rank_of[name] for name in group]
        axis.plot([min(ends) - 0.02, max(ends) + 0.02], [height, height], color=TRUTH, linewidth=3.5)
    axis.set_xlim(low - margin * 1.2, high + margin * 1.2)
    axis.set_ylim(-(0.8 + bars + 0.55 * (rows - 1)), 1.9)
    axis.set_axis_off()
    return drawn

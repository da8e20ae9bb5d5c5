"""What an audit finds in a column, and what cleaning makes of it: zero runs, codes, stuck values, and the repair."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.plot.canvas import AFTER, BEFORE, COLOURS, TRUTH, bare, figure, format_dates, outline
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]

ZEROS, STUCK, CODE = "zeros", "stuck", "missing-value code"
_SHADES: Mapping[str, str] = {ZEROS: COLOURS[0], STUCK: COLOURS[3], CODE: COLOURS[4]}
MOST_POINTS, MOST_MARKS = 2400, 800  # of a line: twice the width of a figure in pixels


@dataclass(frozen=True, eq=False)
class Repaired:
    """A column as it came, what an audit finds in it, and what cleaning leaves of it.

    ``masks``           for each kind of finding the rows it covers: zeros, stuck values, codes.
    ``mended``          the column after cleaning, NaN where rows are gone or values were made missing; None where the
                        policy drops the column.
    ``filled``          the rows that cleaning gave another value.
    ``verdict``         what the policy does with the column as a whole, in words.
    ``reconstruction``  what a model forecasts of the column, where that is known (the paper's figure of HULL).
    """

    name: str
    when: NDArray[Any]  # (T,) dates or rows
    values: Values  # (T,)
    masks: Mapping[str, Mask]  # kind -> (T,)
    mended: Values | None = None  # (T,)
    filled: Mask | None = None  # (T,)
    verdict: str = ""
    reconstruction: Values | None = None  # (T,)

    def cut(self, rows: slice) -> "Repaired":
        """A stretch of it."""

        def part(values: NDArray[Any] | None) -> Any:
            return None if values is None else values[rows]

        return replace(
            self,
            when=self.when[rows],
            values=self.values[rows],
            masks={kind: mask[rows] for kind, mask in self.masks.items() if mask[rows].any()},
            **{name: part(getattr(self, name)) for name in ("mended", "filled", "reconstruction")},
        )

    def in_words(self) -> str:
        """How many rows each finding covers, and what follows."""
        parts = [f"{kind} in {int(mask.sum()):,} rows" for kind, mask in self.masks.items()] or ["nothing found"]
        if self.mended is not None:
            gone, filled = int(np.isnan(self.mended).sum()), 0 if self.filled is None else int(self.filled.sum())
            parts += [f"{filled:,} filled"] * bool(filled) + [f"{gone:,} gone or missing after cleaning"] * bool(gone)
        parts += [self.verdict] if self.verdict else []
        return f"{self.name}, {len(self.values):,} rows: {'; '.join(parts)}"


def repair_figure(shown: Repaired) -> "Figure":
    """The column as it came, with what was found shaded; below as cleaning leaves it, and a model's reconstruction.

    Example:
        >>> rows = np.arange(40)
        >>> wave = np.sin(rows / 3.0)
        >>> shown = Repaired("HULL", rows, np.where(rows > 30, 0.0, wave), {"zeros": rows > 30}, wave, rows > 30)
        >>> [axis.get_ylabel() for axis in repair_figure(shown).axes]
        ['as it came', 'cleaned']
    """
    panels = 1 + (shown.mended is not None) + (shown.reconstruction is not None)
    fig = figure(11.0, 1.7 * panels + 0.7)
    axes = list(np.asarray(fig.subplots(panels, 1, sharex=True, squeeze=False))[:, 0])
    _line(axes[0], shown.when, shown.values, BEFORE, 0.9)
    axes[0].set_ylabel("as it came")
    for kind, mask in shown.masks.items():
        _shade(axes[0], shown.when, mask, kind)
    if shown.mended is not None:
        _line(axes[1], shown.when, shown.mended, BEFORE, 0.9)
        axes[1].set_ylabel("cleaned")
        if shown.filled is not None and shown.filled.any():
            places = np.flatnonzero(shown.filled)
            places = places[:: -(-len(places) // MOST_MARKS)]
            look = {"s": 6, "color": AFTER, "linewidths": 0, "zorder": 4, "label": "filled"}
            axes[1].scatter(shown.when[places], shown.mended[places], **look)
            axes[1].legend(loc="upper right", fontsize="small", frameon=False)
    if shown.reconstruction is not None:
        _line(axes[-1], shown.when, shown.values, TRUTH, 0.7, "truth")
        _line(axes[-1], shown.when, shown.reconstruction, AFTER, 1.0, "reconstruction")
        axes[-1].set_ylabel("reconstruction")
        axes[-1].legend(loc="upper right", ncols=2, fontsize="small", frameon=False)
    for axis in axes:
        axis.margins(x=0.005)
        bare(axis)
    format_dates(axes[-1], shown.when)
    title = f"{shown.name}: {shown.verdict}" if shown.verdict else shown.name
    axes[0].set_title(safe_text(title, "figure"), loc="left", fontsize="medium")
    if shown.masks:
        axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, fontsize="small", frameon=False)
    return fig


def _line(axis: "Axes", when: NDArray[Any], values: Values, colour: str, width: float, label: str = "") -> None:
    places = outline(values, MOST_POINTS)
    axis.plot(when[places], values[places], color=colour, linewidth=width, label=label or None)


def _shade(axis: "Axes", when: NDArray[Any], mask: Mask, kind: str) -> None:
    """Bars over the runs; those nearer to each other than a pixel are one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))).reshape(-1, 2)
    near = max(1, len(mask) // MOST_POINTS)
    joined: list[list[int]] = []
    for first, last in edges.tolist():
        if joined and first - joined[-1][1] < near:
            joined[-1][1] = last
        else:
            joined.append([first, last])
    for place, (first, last) in enumerate(joined):
        label = kind if place == 0 else None
        ends = when[first], when[min(last, len(mask) - 1)]
        axis.axvspan(*ends, color=_SHADES[kind], alpha=0.45, linewidth=0.4, label=label)

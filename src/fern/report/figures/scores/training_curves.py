"""Training curves: the error of every epoch, and the epochs that validation and test would have chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.report.figures.canvas import AFTER, BEFORE, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fern.training import History

COLUMNS = 3
BY_VALIDATION, BY_TEST = "best by validation", "best by test"


@dataclass(frozen=True, eq=False)
class TrainingCurve:
    """The error of each epoch on validation and test windows, and the epochs that either would choose."""

    name: str
    epochs: NDArray[np.int64]  # (E,)
    validation: NDArray[np.floating[Any]]  # (E,)
    test: NDArray[np.floating[Any]]  # (E,)
    chosen: Mapping[str, int]

    @classmethod
    def of(cls, name: str, history: "History", *, metric: str = "mse") -> "TrainingCurve":
        """Of a run that scored every epoch on test windows, too.

        Example:
            >>> from fern.training import EpochRecord, History
            >>> history = History(EpochRecord(epoch, 1.0, None, None, {"mse": val}, {"mse": test})
            ...     for epoch, val, test in ((1, 6.5, 6.9), (2, 8.0, 6.5), (3, 9.2, 6.2)))
            >>> TrainingCurve.of("fern", history).chosen
            {'best by validation': 1, 'best by test': 3}
        """
        tested = [(record.epoch, record.validation, record.test) for record in history if record.test is not None]
        if not tested or any(metric not in figures for _, *both in tested for figures in both):
            raise FernError(f"history: {name} has no {metric} of every epoch on validation and test windows")
        chosen = {row.choice: row.epoch for row in history.recency(metric)}
        return cls(
            name,
            np.array([epoch for epoch, _, _ in tested]),
            np.array([figures[metric] for _, figures, _ in tested]),
            np.array([figures[metric] for _, _, figures in tested]),
            {choice: chosen[choice] for choice in (BY_VALIDATION, BY_TEST)},
        )

    def at(self, choice: str) -> tuple[int, float]:
        """The epoch that is chosen so, and the test error it has."""
        epoch = self.chosen[choice]
        return epoch, float(self.test[int(np.flatnonzero(self.epochs == epoch)[0])])


def training_curves_figure(curves: Sequence[TrainingCurve], *, label: str = "MSE") -> "Figure":
    """A panel for each name: validation dashed, test solid, a line for each run; the chosen epochs are marked.

    The distance between the two marks on the test line is what choosing by validation costs (paper, Table 2).

    Example:
        >>> curve = TrainingCurve("fern", np.arange(1, 4), np.array([6.5, 8.0, 9.2]), np.array([6.9, 6.5, 6.2]),
        ...     {"best by validation": 1, "best by test": 3})
        >>> len(training_curves_figure([curve]).axes)
        1
    """
    if not curves:
        raise FernError("curves: got none, needs at least one run with the errors of its epochs")
    names = list(dict.fromkeys(curve.name for curve in curves))
    columns = min(COLUMNS, len(names))
    rows = ceil(len(names) / columns)
    drawn = figure(max(6.0, 3.7 * columns), 2.7 * rows + 0.4)
    axes = np.asarray(drawn.subplots(rows, columns, squeeze=False, sharex=True)).reshape(-1)
    for axis, name in zip(axes, names, strict=False):
        for place, curve in enumerate(one for one in curves if one.name == name):
            _draw(axis, curve, first=place == 0)
        axis.set_title(safe_text(name, "figure"), loc="left", fontsize="medium")
        axis.tick_params(labelsize="small")
        axis.xaxis.get_major_locator().set_params(integer=True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    for axis in axes[len(names) :]:
        axis.remove()
    for place in range(0, len(names), columns):
        axes[place].set_ylabel(safe_text(label, "figure"))
    for place in range(max(0, len(names) - columns), len(names)):
        axes[place].set_xlabel("epoch")
        axes[place].tick_params(labelbottom=True)
    handles, labels = axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper left", ncols=4, fontsize="small", frameon=False)
    return drawn


def _draw(axis: "Axes", curve: TrainingCurve, *, first: bool) -> None:
    def said(name: str) -> str | None:
        return name if first else None

    axis.plot(
        curve.epochs, curve.validation, color=BEFORE, linewidth=1.2, linestyle="--", alpha=0.8, label=said("validation")
    )
    axis.plot(curve.epochs, curve.test, color=AFTER, linewidth=1.6, alpha=0.9, label=said("test"))
    for choice, marker, colour in ((BY_VALIDATION, "s", BEFORE), (BY_TEST, "*", AFTER)):
        epoch, error = curve.at(choice)
        axis.scatter([epoch], [error], s=70, marker=marker, color=colour, zorder=5, label=said(choice))

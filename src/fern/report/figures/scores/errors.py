"""Errors of models on one dataset: every seed, the mean, the paper's number and the oracle's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fern.errors import FernError
from fern.report.figures.canvas import AFTER, BEFORE, SHOCK, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOG_FROM = 20.0  # times the smallest error from which an axis is logarithmic


@dataclass(frozen=True)
class ModelErrors:
    """A model's errors, one for each seed, and the paper's number for it."""

    model: str
    errors: tuple[float, ...]
    paper: float | None = None

    @property
    def mean(self) -> float:
        """Over seeds."""
        return sum(self.errors) / len(self.errors)


@dataclass(frozen=True)
class CaseErrors:
    """All models on one dataset at one horizon, and the error of the best possible forecast."""

    title: str
    models: tuple[ModelErrors, ...]
    oracle: float | None = None


def errors_figure(cases: Sequence[CaseErrors], *, label: str = "MSE") -> "Figure":
    """A panel for each case: a line for each model, a dot for each seed, a bar at the mean.

    A diamond is the paper's number, the dashed line the error of the best possible forecast.

    Example:
        >>> case = CaseErrors("24 steps", (ModelErrors("fern", (1.0, 1.2), 0.9), ModelErrors("dlinear", (3.0,))), 0.5)
        >>> len(errors_figure([case]).axes)
        1
    """
    if not cases or not any(case.models for case in cases):
        raise FernError("cases: got none with a model, needs at least one")
    names = list(dict.fromkeys(one.model for case in cases for one in case.models))
    width, height = max(7.0, 3.0 * len(cases)), 1.0 + 0.28 * len(names)
    # Places that follow from the names: a page of hundreds of runs has no time to measure every label.
    drawn = figure(width, height, arranged=False)
    left = 0.15 + 0.085 * max(map(len, names))
    drawn.subplots_adjust(
        left=min(0.5, left / width), right=1 - 0.1 / width, bottom=0.48 / height, top=1 - 0.3 / height, wspace=0.12
    )
    axes = drawn.subplots(1, len(cases), sharey=True, squeeze=False)[0]
    for axis, case in zip(axes, cases, strict=True):
        _panel(axis, case, names, label)
    axes[0].set_yticks(range(len(names)), [safe_text(name, "figure") for name in names])
    axes[0].invert_yaxis()
    return drawn


def _panel(axis: "Axes", case: CaseErrors, names: Sequence[str], label: str) -> None:
    from matplotlib.ticker import NullFormatter

    lines = {name: place for place, name in enumerate(names)}
    shown = [error for one in case.models for error in one.errors]
    places = [lines[one.model] for one in case.models for _ in one.errors]
    axis.scatter(shown, places, s=14, color=BEFORE, alpha=0.75, linewidths=0, zorder=3)
    middles = [lines[one.model] for one in case.models]
    means = [one.mean for one in case.models]
    axis.vlines(means, [y - 0.28 for y in middles], [y + 0.28 for y in middles], color=BEFORE, linewidth=2.0, zorder=4)
    papers = [(one.paper, lines[one.model]) for one in case.models if one.paper is not None]
    if papers:
        shown += [error for error, _ in papers]
        xs, ys = zip(*papers, strict=True)
        axis.scatter(xs, ys, s=26, marker="D", facecolors="none", edgecolors=AFTER, linewidths=1.3, zorder=5)
    if case.oracle is not None:
        axis.axvline(case.oracle, color=SHOCK, linewidth=1.0, linestyle="--", zorder=2)
        shown.append(case.oracle)
    positive = [error for error in shown if error > 0]
    if positive and len(positive) == len(shown) and max(positive) > _LOG_FROM * min(positive):
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel(label)
    axis.set_title(safe_text(case.title, "figure"), loc="left", fontsize="medium")
    axis.set_ylim(-0.6, len(names) - 0.4)
    axis.grid(axis="x", color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize="small")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)

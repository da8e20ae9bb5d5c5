"""Scores: errors of models, critical differences, error by step, training curves, response to a shock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.plot.canvas import AFTER, BEFORE, COLOURS, DASHES, SHOCK, TRUTH, bare, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fern.benchmark.stress.response import ShockResponse
    from fern.training import History


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


def errors_figure(cases: Sequence[CaseErrors]) -> "Figure":
    """A panel for each case: a line for each model, a dot for each seed, a bar at the mean.

    A diamond is the paper's number, the dashed line the error of the best possible forecast.

    Example:
        >>> case = CaseErrors("24 steps", (ModelErrors("fern", (1.0, 1.2), 0.9), ModelErrors("dlinear", (3.0,))), 0.5)
        >>> len(errors_figure([case]).axes)
        1
    """
    if not cases or not any(case.models for case in cases):
        raise FernError("got none with a model", argument="cases", expected="at least one")
    names = list(dict.fromkeys(model.model for case in cases for model in case.models))
    width, height = max(7.0, 3.0 * len(cases)), 1.0 + 0.28 * len(names)
    # Places that follow from the names: a page of hundreds of runs has no time to measure every label.
    fig = figure(width, height, arranged=False)
    left = 0.15 + 0.085 * max(map(len, names))
    fig.subplots_adjust(
        left=min(0.5, left / width), right=1 - 0.1 / width, bottom=0.48 / height, top=1 - 0.3 / height, wspace=0.12
    )
    axes = fig.subplots(1, len(cases), sharey=True, squeeze=False)[0]
    for axis, case in zip(axes, cases, strict=True):
        _panel(axis, case, names)
    axes[0].set_yticks(range(len(names)), [safe_text(name, "figure") for name in names])
    axes[0].invert_yaxis()
    return fig


def _panel(axis: "Axes", case: CaseErrors, names: Sequence[str]) -> None:
    from matplotlib.ticker import NullFormatter

    lines = {name: place for place, name in enumerate(names)}
    shown = [error for entry in case.models for error in entry.errors]
    places = [lines[entry.model] for entry in case.models for _ in entry.errors]
    axis.scatter(shown, places, s=14, color=BEFORE, alpha=0.75, linewidths=0, zorder=3)
    middles = [lines[entry.model] for entry in case.models]
    means = [entry.mean for entry in case.models]
    axis.vlines(means, [y - 0.28 for y in middles], [y + 0.28 for y in middles], color=BEFORE, linewidth=2.0, zorder=4)
    papers = [(entry.paper, lines[entry.model]) for entry in case.models if entry.paper is not None]
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
    axis.set(xlabel="MSE", ylim=(-0.6, len(names) - 0.4))
    axis.set_title(safe_text(case.title, "figure"), loc="left", fontsize="medium")
    axis.grid(axis="x", color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    bare(axis)


def importance_figure(table: Sequence[tuple[str, float, float]]) -> "Figure":
    """A bar for each covariate: by what share the error grows without it, the most important first.

    Arguments:
        table: name, importance and its standard deviation, which is drawn as a line about the bar's end.

    Example:
        >>> len(importance_figure([("load", 0.4, 0.02), ("wind", 0.1, 0.01)]).axes[0].patches)
        2
    """
    if not table:
        raise FernError("got none", argument="table", expected="at least one covariate")
    ordered = sorted(table, key=lambda entry: -entry[1])
    names, sizes, errors = zip(*ordered, strict=True)
    fig = figure(7.0, 0.9 + 0.28 * len(names))
    axis = fig.subplots()
    percent = 100 * np.asarray(sizes)
    axis.barh(range(len(names)), percent, xerr=100 * np.asarray(errors), color=COLOURS[1], ecolor=TRUTH, height=0.6)
    axis.axvline(0.0, color=TRUTH, linewidth=0.8)
    axis.set_yticks(range(len(names)), [safe_text(name, "figure") for name in names])
    axis.invert_yaxis()
    axis.set_xlabel("growth of the held-out error without it, %")
    return fig


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
        raise FernError(f"got {len(ranks)}", argument="ranks", expected="at least two models")
    by_rank = sorted(ranks, key=lambda pair: pair[1])
    rank_of = dict(by_rank)
    left, right = by_rank[: (len(by_rank) + 1) // 2], by_rank[(len(by_rank) + 1) // 2 :]
    rows = len(left)
    bars = 0.32 * len(alike)
    fig = figure(7.0, 1.0 + 0.28 * rows + 0.16 * len(alike))
    axis = fig.subplots()
    low, high = 1.0, float(max(len(by_rank), int(np.ceil(by_rank[-1][1]))))
    margin = 0.32 * (high - low)
    axis.plot([low, high], [0, 0], color=TRUTH, linewidth=1.2)
    for tick in range(1, int(high) + 1):
        axis.plot([tick, tick], [0, 0.18], color=TRUTH, linewidth=1.0)
        axis.annotate(str(tick), (tick, 0.25), ha="center", va="bottom", fontsize="small")
    axis.plot([low, low + critical_difference], [1.25, 1.25], color=AFTER, linewidth=2.0)
    axis.annotate(f"critical difference {critical_difference:.2f}", (low, 1.35), va="bottom", fontsize="small")
    sides = ((left, low - margin * 0.2, -3, "right"), (right[::-1], high + margin * 0.2, 3, "left"))
    look: dict[str, Any] = {"va": "center", "fontsize": "small", "textcoords": "offset points"}
    for models, edge, shift, towards in sides:
        for place, (name, rank) in enumerate(models):
            height = -(0.45 + bars + 0.55 * place)
            axis.plot([rank, rank, edge], [0, height, height], color=BEFORE, linewidth=1.0)
            text = f"{safe_text(name, 'figure')} {rank:.2f}"
            axis.annotate(text, (edge, height), ha=towards, xytext=(shift, 0), annotation_clip=False, **look)
    for place, group in enumerate(alike):
        height = -(0.22 + 0.32 * place)
        ends = [rank_of[name] for name in group]
        axis.plot([min(ends) - 0.02, max(ends) + 0.02], [height, height], color=TRUTH, linewidth=3.5)
    axis.set_xlim(low - margin * 1.2, high + margin * 1.2)
    axis.set_ylim(-(0.8 + bars + 0.55 * (rows - 1)), 1.9)
    axis.set_axis_off()
    return fig


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

    def __post_init__(self) -> None:
        lengths = {name: np.asarray(values).shape for name, values in self.errors.items()}
        if self.oracle is not None:
            lengths["oracle"] = np.asarray(self.oracle).shape
        if not self.errors or len(set(lengths.values())) != 1 or len(next(iter(lengths.values()))) != 1:
            expected = "one list of steps for each model, all of one length"
            raise FernError(f"got shapes {lengths}", argument="errors", expected=expected)

    @property
    def horizon(self) -> int:
        """H."""
        return len(next(iter(self.errors.values())))

    @property
    def logarithmic(self) -> bool:
        """Whether a logarithmic axis shows them: no error is below 0, and of each model at least half are above."""
        return all(float(np.min(values)) >= 0 and float(np.median(values)) > 0 for values in self.errors.values())

    def mask_zeros(self, values: Array) -> NDArray[np.float64]:  # (H,)
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
    fig = figure(8.0, 3.8)
    axis = fig.subplots()
    steps = np.arange(1, shown.horizon + 1)
    for (name, values), colour, dash in zip(shown.errors.items(), cycle(COLOURS), cycle(DASHES), strict=False):
        label = safe_text(name, "figure")
        axis.plot(steps, shown.mask_zeros(values), color=colour, linestyle=dash, linewidth=1.5, label=label)
    if shown.oracle is not None:
        errors = shown.mask_zeros(shown.oracle)
        axis.plot(steps, errors, color=SHOCK, linestyle=(0, (2, 2)), linewidth=1.2, label="oracle")
    if shown.logarithmic:
        axis.set_yscale("log")
    axis.set(xlim=(1, max(shown.horizon, 2)), xlabel="steps ahead", ylabel="MSE")
    if shown.lyapunov_times_a_step:
        scale = np.float64(shown.lyapunov_times_a_step)
        both_ways = (lambda step: np.asarray(step) * scale, lambda time: np.asarray(time) / scale)
        axis.secondary_xaxis("top", functions=both_ways).set_xlabel("Lyapunov times")
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small", frameon=False)
    axis.grid(color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["right"] if shown.lyapunov_times_a_step else ["top", "right"]].set_visible(False)
    return fig


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
    def of(cls, name: str, history: "History") -> "TrainingCurve":
        """Of a run that scored every epoch on test windows, too.

        Example:
            >>> from fern.training import EpochRecord, History
            >>> history = History(EpochRecord(epoch, 1.0, None, None, {"mse": val}, {"mse": test})
            ...     for epoch, val, test in ((1, 6.5, 6.9), (2, 8.0, 6.5), (3, 9.2, 6.2)))
            >>> TrainingCurve.of("fern", history).chosen
            {'best by validation': 1, 'best by test': 3}
        """
        records = [(record.epoch, record.validation, record.test) for record in history if record.test is not None]
        if not records or any("mse" not in figures for _, *both in records for figures in both):
            raise FernError(f"{name} has no mse of every epoch on validation and test windows", argument="history")
        chosen = {row.choice: row.epoch for row in history.recency("mse")}
        return cls(
            name,
            np.array([epoch for epoch, _, _ in records]),
            np.array([figures["mse"] for _, figures, _ in records]),
            np.array([figures["mse"] for _, _, figures in records]),
            {choice: chosen[choice] for choice in (BY_VALIDATION, BY_TEST)},
        )

    def at(self, choice: str) -> tuple[int, float]:
        """The epoch that is chosen so, and the test error it has."""
        epoch = self.chosen[choice]
        return epoch, float(self.test[int(np.flatnonzero(self.epochs == epoch)[0])])


def training_curves_figure(curves: Sequence[TrainingCurve]) -> "Figure":
    """A panel for each name: validation dashed, test solid, a line for each run; the chosen epochs are marked.

    The distance between the two marks on the test line is what choosing by validation costs (paper, Table 2).

    Example:
        >>> curve = TrainingCurve("fern", np.arange(1, 4), np.array([6.5, 8.0, 9.2]), np.array([6.9, 6.5, 6.2]),
        ...     {"best by validation": 1, "best by test": 3})
        >>> len(training_curves_figure([curve]).axes)
        1
    """
    if not curves:
        raise FernError("got none", argument="curves", expected="at least one run with the errors of its epochs")
    names = list(dict.fromkeys(curve.name for curve in curves))
    columns = min(COLUMNS, len(names))
    rows = ceil(len(names) / columns)
    fig = figure(max(6.0, 3.7 * columns), 2.7 * rows + 0.4)
    axes = np.asarray(fig.subplots(rows, columns, squeeze=False, sharex=True)).reshape(-1)
    for axis, name in zip(axes, names, strict=False):
        for place, curve in enumerate(c for c in curves if c.name == name):
            _draw(axis, curve, first=place == 0)
        axis.set_title(safe_text(name, "figure"), loc="left", fontsize="medium")
        axis.xaxis.get_major_locator().set_params(integer=True)
        bare(axis)
    for axis in axes[len(names) :]:
        axis.remove()
    for axis in axes[: len(names) : columns]:
        axis.set_ylabel("MSE")
    for axis in axes[max(0, len(names) - columns) : len(names)]:
        axis.set_xlabel("epoch")
        axis.tick_params(labelbottom=True)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper left", ncols=4, fontsize="small", frameon=False)
    return fig


def _draw(axis: "Axes", curve: TrainingCurve, *, first: bool) -> None:
    """The lines of a run; ``first`` names them in the legend."""
    validation, test, *chosen = ("validation", "test", BY_VALIDATION, BY_TEST) if first else [None] * 4
    dashed: dict[str, Any] = {"linewidth": 1.2, "linestyle": "--", "alpha": 0.8}
    axis.plot(curve.epochs, curve.validation, color=BEFORE, label=validation, **dashed)
    axis.plot(curve.epochs, curve.test, color=AFTER, linewidth=1.6, alpha=0.9, label=test)
    marks = ((BY_VALIDATION, "s", BEFORE), (BY_TEST, "*", AFTER))
    for (choice, marker, colour), label in zip(marks, chosen, strict=True):
        epoch, error = curve.at(choice)
        axis.scatter([epoch], [error], s=70, marker=marker, color=colour, zorder=5, label=label)


def shock_response_figure(response: "ShockResponse", *, name: str = "") -> "Figure":
    """The error of each window over where it starts, its smoothed course, the twin's, the shock and the recovery.

    Example:
        >>> from fern.benchmark.stress.response import shock_response
        >>> from fern.systems import scenario, simulate
        >>> import numpy as np
        >>> found = shock_response(lambda past: np.repeat(past[:, -1:], 12, axis=1),
        ...     simulate(scenario("OU_PARAM", steps=2000)), context_length=24, horizon=12)
        >>> len(shock_response_figure(found, name="last value").axes)
        1
    """
    fig = figure(10, 4)
    axis = fig.subplots()
    since = response.starts - response.shock_row
    axis.plot(since, response.twin_errors, color=BEFORE, linewidth=0.8, alpha=0.8, label="twin without the shock")
    axis.plot(since, response.errors, color=AFTER, linewidth=0.6, alpha=0.45, label="each window")
    axis.plot(since, response.smoothed, color=AFTER, linewidth=1.8, label="smoothed")
    axis.plot(since, response.limits, color=SHOCK, linewidth=0.8, linestyle=":", label="limit of recovery")
    axis.axvline(0, color=SHOCK, linewidth=1.0, linestyle="--", label="shock")
    axis.axvspan(-response.horizon, 0, color=SHOCK, alpha=0.08)
    if response.recovery:
        axis.axvline(response.recovery, color=BEFORE, linewidth=1.0, linestyle="--", label="recovered")
    if float(response.errors.min()) > 0.0 and float(response.twin_errors.min()) > 0.0:
        axis.set_yscale("log")
    axis.set_xlabel("first row forecast, counted from the shock")
    axis.set_ylabel("MSE")
    title = f"{name} on {response.scenario}: {response.in_words()}".removeprefix(" on ")
    axis.set_title(safe_text(title, "figure"))
    axis.legend(loc="best", fontsize=8)
    return fig

"""A picture of a forecaster's error around a shock."""

from typing import TYPE_CHECKING

from fern.report.figures.canvas import AFTER, BEFORE, SHOCK, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fern.stress.response import ShockResponse


def shock_response_figure(response: "ShockResponse", *, name: str = "") -> "Figure":
    """The error of each window over where it starts, its smoothed course, the twin's, the shock and the recovery.

    Example:
        >>> from fern.stress.response import shock_response
        >>> from fern.systems import scenario, simulate
        >>> import numpy as np
        >>> found = shock_response(lambda past: np.repeat(past[:, -1:], 12, axis=1),
        ...     simulate(scenario("OU_PARAM", steps=2000)), context_length=24, horizon=12)
        >>> len(shock_response_figure(found, name="last value").axes)
        1
    """
    drawn = figure(10, 4)
    axis = drawn.subplots()
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
    return drawn

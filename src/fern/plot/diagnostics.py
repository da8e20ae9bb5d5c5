"""The paper's diagnostic figure: forecast, error and eigen-summaries along time, with alarms marked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fern.errors import FernError
from fern.plot.canvas import AFTER, BEFORE, TRUTH, figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fern.diagnostics import Alarm, EigenProfile

_ALARM_COLOURS = {"variance collapse": "#c8622c", "rising spectral radius": "#8a5a9e"}


def diagnostics_figure(
    profile: "EigenProfile",
    *,
    channel: int = 0,
    name: str = "",
    alarms: Sequence["Alarm"] = (),
    rows: slice | None = None,
) -> "Figure":
    """Five rows over time: forecast and truth, log error, spectral radius, trace, log-determinant of one channel.

    ``rows`` is the stretch of the profile to draw (default: all). Alarms of that channel are shaded.

    Example:
        >>> flat = np.ones((50, 1))
        >>> from fern.diagnostics import EigenProfile
        >>> len(diagnostics_figure(EigenProfile(0, flat, flat, flat, flat, flat, flat)).axes)
        5
    """
    if not 0 <= channel < profile.channels:
        raise FernError(argument="channel", got=channel, expected=f"0 to {profile.channels - 1}")
    stretch = slice(*(rows or slice(None)).indices(len(profile)))
    time = profile.first_row + np.arange(stretch.start, stretch.stop)
    fig = figure(12, 8)
    axes = np.asarray(fig.subplots(5, 1, sharex=True))
    axes[0].plot(time, profile.truth[stretch, channel], color=BEFORE, linewidth=1, label="truth")
    axes[0].plot(time, profile.forecast[stretch, channel], color=AFTER, linewidth=1, label="forecast")
    smallest = np.finfo(np.float64).tiny
    panels = {
        "log10 error": np.log10(np.maximum(profile.error, smallest)),
        "spectral radius": profile.spectral_radius,
        "trace": profile.trace,
        "log det": profile.log_det,
    }
    for axis, (label, values) in zip(axes[1:], panels.items(), strict=True):
        axis.plot(time, values[stretch, channel], color=TRUTH, linewidth=0.9)
        axis.set_ylabel(label)
    axes[0].set_ylabel(safe_text(name or f"channel {channel}", "figure"))
    labelled: set[str] = set()
    for alarm in alarms:
        if alarm.channel == channel and alarm.last_row >= time[0] and alarm.first_row <= time[-1]:
            colour = _ALARM_COLOURS.get(alarm.rule, TRUTH)
            for axis in axes:
                once = alarm.rule if axis is axes[0] and alarm.rule not in labelled else None
                axis.axvspan(alarm.first_row, alarm.last_row + 1, color=colour, alpha=0.15, linewidth=0, label=once)
            labelled.add(alarm.rule)
    axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, fontsize="small", frameon=False)
    axes[0].set_xlim(time[0], time[-1])
    axes[-1].set_xlabel("row")
    return fig

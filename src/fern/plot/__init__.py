"""Figures of results (matplotlib, the extra ``plots``, which is imported when a figure is drawn)."""

from fern.plot.attractor import Attractor, attractor_figure, trajectory_figure
from fern.plot.audit import Repaired, repair_figure
from fern.plot.canvas import save_figure
from fern.plot.coverage import CoverageOverTime, Covered, coverage_figure, coverage_over_time_figure
from fern.plot.diagnostics import diagnostics_figure
from fern.plot.families import families_figure
from fern.plot.forecasts import Fan, Fans, Interval, Joint, fan_figure, forecast_figure, mechanism_figure
from fern.plot.scores import (
    ErrorGrowth,
    TrainingCurve,
    critical_difference_figure,
    error_growth_figure,
    errors_figure,
    importance_figure,
    shock_response_figure,
    training_curves_figure,
)

__all__ = [
    "Attractor",
    "CoverageOverTime",
    "Covered",
    "ErrorGrowth",
    "Fan",
    "Fans",
    "Interval",
    "Joint",
    "Repaired",
    "TrainingCurve",
    "attractor_figure",
    "coverage_figure",
    "coverage_over_time_figure",
    "critical_difference_figure",
    "diagnostics_figure",
    "error_growth_figure",
    "errors_figure",
    "families_figure",
    "fan_figure",
    "forecast_figure",
    "importance_figure",
    "mechanism_figure",
    "repair_figure",
    "save_figure",
    "shock_response_figure",
    "training_curves_figure",
    "trajectory_figure",
]

"""Figures of results (matplotlib, the extra ``plots``). Names are imported when they are first used."""

from typing import TYPE_CHECKING

from fern.lazy import lazy_names

if TYPE_CHECKING:
    from fern.report.figures.attractor import Attractor, attractor_figure
    from fern.report.figures.canvas import save_figure
    from fern.report.figures.coverage import Covered, coverage_figure
    from fern.report.figures.coverage_over_time import CoverageOverTime, coverage_over_time_figure
    from fern.report.figures.diagnostics import diagnostics_figure
    from fern.report.figures.ellipses import Joint
    from fern.report.figures.fan import Fan, Fans, Interval, fan_figure
    from fern.report.figures.forecasts import forecast_figure
    from fern.report.figures.mechanism import mechanism_figure
    from fern.report.figures.repairs import Repaired, repair_figure
    from fern.report.figures.scores.error_growth import ErrorGrowth, error_growth_figure
    from fern.report.figures.scores.errors import errors_figure
    from fern.report.figures.scores.ranking import critical_difference_figure
    from fern.report.figures.scores.training_curves import TrainingCurve, training_curves_figure
    from fern.report.figures.shock_response import shock_response_figure
    from fern.report.figures.trajectories import trajectory_figure
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.report.figures.attractor": ["Attractor", "attractor_figure"],
            "fern.report.figures.canvas": ["save_figure"],
            "fern.report.figures.coverage": ["Covered", "coverage_figure"],
            "fern.report.figures.coverage_over_time": ["CoverageOverTime", "coverage_over_time_figure"],
            "fern.report.figures.diagnostics": ["diagnostics_figure"],
            "fern.report.figures.scores.error_growth": ["ErrorGrowth", "error_growth_figure"],
            "fern.report.figures.scores.errors": ["errors_figure"],
            "fern.report.figures.ellipses": ["Joint"],
            "fern.report.figures.fan": ["Fan", "Fans", "Interval", "fan_figure"],
            "fern.report.figures.forecasts": ["forecast_figure"],
            "fern.report.figures.mechanism": ["mechanism_figure"],
            "fern.report.figures.scores.ranking": ["critical_difference_figure"],
            "fern.report.figures.repairs": ["Repaired", "repair_figure"],
            "fern.report.figures.scores.training_curves": ["TrainingCurve", "training_curves_figure"],
            "fern.report.figures.shock_response": ["shock_response_figure"],
            "fern.report.figures.trajectories": ["trajectory_figure"],
        },
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
    "fan_figure",
    "forecast_figure",
    "mechanism_figure",
    "repair_figure",
    "save_figure",
    "shock_response_figure",
    "training_curves_figure",
    "trajectory_figure",
]

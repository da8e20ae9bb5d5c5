"""Figures of results (matplotlib, the extra ``plots``). Names are imported when they are first used."""

from typing import TYPE_CHECKING

from fern.lazy import lazy_names

if TYPE_CHECKING:
    from fern.report.figures.canvas import save_figure
    from fern.report.figures.diagnostics import diagnostics_figure
    from fern.report.figures.fan import fan_figure
    from fern.report.figures.forecasts import forecast_figure
    from fern.report.figures.shock_response import shock_response_figure
    from fern.report.figures.trajectories import trajectory_figure
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.report.figures.canvas": ["save_figure"],
            "fern.report.figures.diagnostics": ["diagnostics_figure"],
            "fern.report.figures.fan": ["fan_figure"],
            "fern.report.figures.forecasts": ["forecast_figure"],
            "fern.report.figures.shock_response": ["shock_response_figure"],
            "fern.report.figures.trajectories": ["trajectory_figure"],
        },
    )

__all__ = [
    "diagnostics_figure",
    "fan_figure",
    "forecast_figure",
    "save_figure",
    "shock_response_figure",
    "trajectory_figure",
]

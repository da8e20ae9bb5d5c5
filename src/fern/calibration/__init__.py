"""Distributions in, calibrated distributions out: intervals, bands, regions, sums and paths that hold what they say."""

from fern.calibration.calibration import Calibration, fit_calibration
from fern.calibration.coverage import CoverageReport, coverage_report
from fern.calibration.forecast import CalibratedForecast
from fern.calibration.online import OnlineCalibration
from fern.calibration.residuals import Residuals
from fern.calibration.settings import CalibrationSettings, OnlineSettings

__all__ = [
    "CalibratedForecast",
    "Calibration",
    "CalibrationSettings",
    "CoverageReport",
    "OnlineCalibration",
    "OnlineSettings",
    "Residuals",
    "coverage_report",
    "fit_calibration",
]

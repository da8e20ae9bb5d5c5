"""Classical forecasters, compiled: thousands of series a second, from one row up, with a distribution of their own."""

from fern.models.classical.ensemble import ClassicalSettings, Members, fit_members, forecast_panel
from fern.models.classical.forecast import KNOTS, QuantileForecast

__all__ = [
    "KNOTS",
    "ClassicalSettings",
    "Members",
    "QuantileForecast",
    "fit_members",
    "forecast_panel",
]

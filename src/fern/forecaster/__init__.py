"""FernForecaster: frames in, calibrated forecasts as frames out."""

from fern.forecaster.forecaster import FernForecaster, FernWarning

__all__ = ["FernForecaster", "FernWarning"]

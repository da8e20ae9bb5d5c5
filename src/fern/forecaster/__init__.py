"""FernForecaster: frames in, calibrated forecasts as frames out."""

"""A Fern that was trained on synthetic series, for forecasts of series it has never seen."""

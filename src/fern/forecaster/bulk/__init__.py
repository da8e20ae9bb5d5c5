"""Forecasts of more series than fit in memory: Parquet in, Parquet out, on this machine or over a Ray cluster."""

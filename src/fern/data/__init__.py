"""Real series: published data sets, audit, cleaning, frames, splits, windows, scaling."""

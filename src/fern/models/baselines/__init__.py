"""The six baselines, one to a file."""

"""The ``fern`` command: one file for each group of commands."""

"""``fern scenarios`` and ``fern simulate``."""

import typer


def register(app: typer.Typer) -> None:
    """Add this group's commands."""

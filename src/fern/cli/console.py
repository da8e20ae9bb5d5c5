"""The terminal that commands print to."""

from functools import cache

from rich.console import Console

_WIDTH_OF_A_FILE = 140


@cache
def console() -> Console:
    """As wide as the terminal, or wide enough not to cut a table when the output goes to a file or a pipe."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=_WIDTH_OF_A_FILE)

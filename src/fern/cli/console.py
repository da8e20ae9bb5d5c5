"""The terminal that commands print to. Nothing reaches it but through `fern.text`.

The files that a command's arguments stand for: no output may be one of them."""

import json
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fern.extras import add_search_folder, import_modules
from fern.files import check_outputs
from fern.text import say, terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

_WIDTH_OF_A_FILE = 140

Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Import this module first, such as one that registers your own systems (the current folder is searched "
        "last). Repeatable.",
    ),
]


def import_own(modules: list[str] | None) -> None:
    """Import the modules of ``--import``."""
    if modules:
        add_search_folder(str(Path.cwd()))
        import_modules(modules)


@cache
def console() -> "Console":
    """As wide as the terminal, or wide enough not to cut a table when the output goes to a file or a pipe."""
    plain = terminal()
    return plain if plain.is_terminal else terminal(width=_WIDTH_OF_A_FILE)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """A text on standard output, or on standard error."""
    say(text, sys.stderr if err else sys.stdout, end="\n" if nl else "")


def echo_json(value: Any, *, indent: int) -> None:
    """A value as JSON on standard output."""
    say(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False), sys.stdout, medium="json")


def echo_table(data: bytes) -> None:
    """A table for another program: as it is, but on a terminal without what only a terminal would obey."""
    stream = sys.stdout
    if stream is None or stream.isatty() or not hasattr(stream, "buffer"):
        say(data.decode(), stream, end="")
        return
    stream.flush()
    stream.buffer.write(data)  # UTF-8 whatever the locale is
    stream.flush()


def working(text: str) -> "Status":
    """Says on standard error, within the block, what takes its time."""
    from rich.text import Text

    return terminal(stderr=True).status(Text(text))  # a plain text would be read as markup


def check_target_outputs(out: Path | None, *, target: str, scenarios: Iterable[str]) -> None:
    """Refuse an output that is a scenario's file, a saved model, or the source that ``module:callable`` may mean."""
    from fern.systems.scenarios import is_scenario_file

    module, _, name = target.partition(":")
    source = Path(*module.split("."))
    sources = [source.with_suffix(".py"), source / "__init__.py"] if module and name else []
    read: list[Path | str | None] = [*filter(is_scenario_file, scenarios), target, *sources]
    check_outputs([out], inputs=read, kept=[target] if Path(target).is_dir() else [])

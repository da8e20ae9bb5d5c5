"""Strict settings: frozen dataclasses read from mappings and files, where a misspelt key is an error."""

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fern.errors import FernError, unknown_name

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
"""A settings dataclass carries ``__pydantic_config__ = STRICT``."""


def from_mapping(settings: type[T], values: Mapping[str, Any], *, where: str = "") -> T:
    """Build the settings dataclass from plain values; unknown keys and wrong types are errors.

    ``where`` says in the message where the values came from (a file name, say).

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Grid:
        ...     __pydantic_config__ = STRICT
        ...     steps: int = 10
        >>> from_mapping(Grid, {"steps": 3})
        Grid(steps=3)
        >>> from_mapping(Grid, {"stepps": 3})
        Traceback (most recent call last):
            ...
        fern.errors.FernError: unknown setting 'stepps': did you mean 'steps'? Known: steps
    """
    if not is_dataclass(settings):
        raise TypeError(f"{settings!r} is not a dataclass")
    prefix = f"{where}: " if where else ""
    known = [field.name for field in fields(settings)]
    for key in values:
        if key not in known:
            raise FernError(f"{prefix}{unknown_name('setting', key, known)}")
    try:
        return cast("T", TypeAdapter(settings).validate_python(dict(values)))
    except ValidationError as error:
        raise FernError(prefix + _in_words(error)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """The contents of a TOML file, or an error that says what is wrong with it.

    Example:
        >>> read_toml(Path("missing.toml"))
        Traceback (most recent call last):
            ...
        fern.errors.FernError: missing.toml: no such file
    """
    try:
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        raise FernError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise FernError(f"{path}: is a directory, needs a TOML file") from None
    except OSError as error:
        raise FernError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FernError(f"{path}: not a valid TOML file ({error})") from None


def _in_words(error: ValidationError) -> str:
    """One line for each thing pydantic found, named by its place in the settings."""
    lines = []
    for problem in error.errors():
        place = ".".join(str(part) for part in problem["loc"]) or "settings"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "value_error":
            lines.append(message if len(problem["loc"]) == 0 else f"{place}: {message}")
        else:
            lines.append(f"{place}: {message}, got {problem['input']!r}")
    return "; ".join(lines)

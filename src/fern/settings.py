"""Strict settings: frozen dataclasses read from mappings and files, where a misspelt key is an error."""

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from fern.errors import FernError, show_value, unknown_name
from fern.files import read_plain

T = TypeVar("T")

_MOST_BYTES = 1 << 24  # of a settings file
_MOST_SHOWN = 5  # problems that a message lists

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
    known = [field.name for field in fields(settings)]
    for key in values:
        if key not in known:
            raise unknown_name("setting", key, known, where=where)
    try:
        return cast("T", _validator(settings).validate_python(dict(values)))
    except ValidationError as error:
        raise _as_error(error).within(where) from None
    except (RecursionError, OverflowError) as error:
        raise FernError(f"cannot be read ({error})", where=where) from None


@cache
def _validator(settings: type[Any]) -> SchemaValidator:
    """Takes lists for tuples, as files have no tuples, but neither text nor truth values for numbers."""
    return SchemaValidator(_strict(TypeAdapter(settings).core_schema))


def _strict(schema: Any) -> Any:
    """The schema with every number and truth value in it taken as what it is."""
    if isinstance(schema, dict):
        changed = {name: _strict(part) for name, part in schema.items()}
        return {**changed, "strict": True} if schema.get("type") in ("int", "float", "bool") else changed
    return [_strict(part) for part in schema] if isinstance(schema, list) else schema


def read_toml(path: Path) -> dict[str, Any]:
    """The contents of a TOML file, or an error that says what is wrong with it."""
    try:
        if path.is_dir():
            raise IsADirectoryError
        return tomllib.loads(read_plain(path, most=_MOST_BYTES).decode())
    except FileNotFoundError:
        raise FernError("no such file", where=path) from None
    except IsADirectoryError:
        raise FernError("is a directory", expected="a TOML file", where=path) from None
    except FernError:
        raise
    except OSError as error:
        raise FernError(f"cannot be read ({error.strerror})", where=path) from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, too many digits, nested too deep
        raise FernError(f"not a valid TOML file ({error})", where=path) from None


def read_json(text: bytes | str, *, where: str) -> Any:
    """The value of a JSON text in which every number is finite and every text is text; else an error that says so."""
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise FernError(f"is not JSON ({error})", where=where) from None
    return value


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no finite number")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(digits[:40])


def _as_error(error: ValidationError) -> FernError:
    """What pydantic found: the error of the settings' own checks, or the place and value of a wrong type."""
    problems = error.errors()
    cause = problems[0].get("ctx", {}).get("error")
    place = ".".join(str(part) for part in problems[0]["loc"])
    if isinstance(cause, FernError):
        return cause.within(place)
    if len(problems) == 1:
        got = problems[0]["input"]
        return FernError(f"{problems[0]['msg']}, got {show_value(got)}", argument=place or "settings", got=got)
    lines = [
        f"{'.'.join(map(str, p['loc'])) or 'settings'}: {p['msg']}, got {show_value(p['input'])}"
        for p in problems[:_MOST_SHOWN]
    ]
    more = [f"and {len(problems) - len(lines):,} more"] if len(problems) > len(lines) else []
    return FernError("; ".join(lines + more), where="settings")

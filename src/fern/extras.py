"""Optional libraries, imported where they are used."""

from importlib import import_module
from types import ModuleType
from typing import Any

from fern.errors import FernError


class MissingExtra(FernError, ImportError):  # noqa: N818 - what is wrong
    """A library that is an optional extra is not installed, or cannot be imported."""


def import_optional(module: str, *, extra: str) -> ModuleType:
    """The module, or an error that says how to get it.

    Example:
        >>> import_optional("json", extra="never needed").__name__
        'json'
        >>> import_optional("no_such_library", extra="such")
        Traceback (most recent call last):
            ...
        fern.extras.MissingExtra: no_such_library is not installed: pip install 'fern-forecast[such]'
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == package:
            raise MissingExtra(f"{package} is not installed: pip install 'fern-forecast[{extra}]'") from None
        raise MissingExtra(f"{package} is installed but cannot be imported: {error}") from error
    except ImportError as error:
        raise MissingExtra(f"{package} is installed but cannot be imported: {error}") from error


def describe_kind(value: Any) -> str:
    """What was given in place of an object of a library; the class itself is the usual slip.

    Example:
        >>> describe_kind(3), describe_kind(int)
        ('int', 'the class int')
    """
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__

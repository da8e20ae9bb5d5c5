"""Code that is not ours: optional libraries, imported where they are used, and modules that a user names."""

import sys
from collections.abc import Iterable
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


_named: dict[str, None] = {}  # the modules that a user named, in order


def add_search_folder(folder: str) -> None:
    """Have modules found in a folder that are found nowhere else: what lies there takes the place of no other module.

    Only for a module that somebody has named; nothing else is imported from a folder of data.
    """
    if folder not in sys.path:
        sys.path.append(folder)


def import_modules(names: Iterable[str]) -> None:
    """Import modules that a user names, such as one that registers systems; whatever they raise is a `FernError`.

    Example:
        >>> import_modules(["no_such_module"])
        Traceback (most recent call last):
            ...
        fern.errors.FernError: import: no_such_module cannot be imported: ModuleNotFoundError: No module named ...
    """
    for name in names:
        try:
            import_module(name)
        except SystemExit as error:
            reason = f"it called sys.exit({error.code!r})"
            raise FernError(f"{name} cannot be imported: {reason}", argument="import") from None
        except Exception as error:  # noqa: BLE001  whatever a user's module does when it is imported
            reason = f"{type(error).__name__}: {error}"
            raise FernError(f"{name} cannot be imported: {reason}", argument="import") from None
        _named[name] = None


def list_imported_modules() -> tuple[str, ...]:
    """The modules that `import_modules` has imported: a worker process imports them too."""
    return tuple(_named)

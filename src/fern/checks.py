"""Checks of single settings, with one wording for all parts of the package.

A truth value is no number here: ``True`` where a count is wanted is a mistake. NumPy's integers are refused too:
settings are compared, hashed and written as JSON, which knows Python's numbers alone; ``int(value)`` makes one.
"""

import math
from collections.abc import Callable
from typing import TypeGuard

from fern.errors import FernError


def is_whole(value: object, *, least: int) -> TypeGuard[int]:
    """Whether this is a Python int of at least ``least``.

    Example:
        >>> is_whole(3, least=1), is_whole(True, least=1), is_whole(3.0, least=1), is_whole(0, least=1)
        (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def require_whole(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least ``least``.

    Example:
        >>> require_whole("horizon", 0, 1)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: horizon: got 0, needs a whole number of at least 1
    """
    if not is_whole(value, least=least):
        raise FernError(f"{name}: got {value!r}, needs a whole number of at least {least}")


def require_number(name: str, value: object, needs: str, fits: Callable[[float], bool]) -> None:
    """Refuse what is not a finite number for which ``fits`` holds; ``needs`` says in the message what that is.

    Example:
        >>> require_number("dt", float("nan"), "a finite number above 0", lambda value: value > 0)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: dt: got nan, needs a finite number above 0
    """
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or not fits(number):
        raise FernError(f"{name}: got {value!r}, needs {needs}")

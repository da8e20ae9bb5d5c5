"""Assertions on errors: by their fields, not by their wording."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fern.errors import ABSENT, FernError


@contextmanager
def raises_error(
    argument: str | None = None, *, got: object = ABSENT, where: str | None = None
) -> Iterator[pytest.ExceptionInfo[FernError]]:
    """A `FernError` about this argument, with this value, in this place; what is left out may be anything."""
    with pytest.raises(FernError) as caught:
        yield caught
    error = caught.value
    assert argument is None or error.argument == argument, f"{error.argument!r}: {error}"
    assert got is ABSENT or error.got == got, f"{error.got!r}: {error}"
    assert where is None or where in error.where, f"{error.where!r}: {error}"
    assert str(error).strip(), "an error without a text"

"""What the transport's tests share."""

from collections.abc import Iterator

import pytest
from torch.distributions import Distribution


@pytest.fixture(autouse=True)
def _values_are_checked() -> Iterator[None]:
    """torch's default. ``torch.compile``, used by another test of the same process, turns it off for good."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(True)
    yield
    Distribution.set_default_validate_args(before)

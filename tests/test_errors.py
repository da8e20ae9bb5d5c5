"""One check of whole numbers and of numbers, which takes no truth values."""

import math

import numpy as np
import pytest
from tests.errors import raises_error

from fern.errors import FernError, is_whole, require_number, require_whole


@pytest.mark.parametrize("value", [True, False, 0, -1, 1.0, "1", None, np.int64(3), math.nan])
def test_what_is_no_whole_number_of_at_least_one_is_refused_and_named(value: object) -> None:
    assert not is_whole(value, least=1)
    with pytest.raises(FernError) as told:
        require_whole("steps", value, 1)
    assert str(told.value) == f"steps: got {value!r}, needs a whole number of at least 1"


def test_the_least_whole_number_itself_is_taken() -> None:
    assert is_whole(1, least=1)
    assert is_whole(0, least=0)
    assert require_whole("seed", 0, 0) is None


@pytest.mark.parametrize("value", [True, "1", None, math.nan, math.inf, 0.0])
def test_what_is_no_finite_number_that_fits_is_refused(value: object) -> None:
    with raises_error("limit"):
        require_number("limit", value, "a number above 0", lambda number: number > 0)

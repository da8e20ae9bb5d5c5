"""Splits cut a series in the order of time, with borders that are exact integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fern.data.splits import ETT_HOURLY, ETT_MINUTELY, PRESETS, Counts, Part, Shares, Split, split
from fern.errors import FernError


@given(length=st.integers(1, 10**9), name=st.sampled_from(["shock", "detailed"]))
def test_shares_cover_every_row_once(length: int, name: str) -> None:
    parts = split(length, name)
    assert parts.train.start == 0
    assert parts.train.stop == parts.validation.start
    assert parts.validation.stop == parts.test.start
    assert parts.test.stop == length


@pytest.mark.parametrize(
    ("name", "length", "borders"),
    [
        ("shock", 35_999, (25_199, 32_400)),  # LORENZ_BASE's length: not a multiple of 100
        ("detailed", 17_420, (12_194, 13_936)),
        ("detailed", 52_696, (36_887, 42_157)),
        ("ett_hourly", 17_420, (8_640, 11_520)),
        ("ett_minutely", 69_680, (34_560, 46_080)),
    ],
)
def test_presets_put_the_borders_where_the_protocols_do(name: str, length: int, borders: tuple[int, int]) -> None:
    parts = split(length, name)
    assert (parts.train.stop, parts.test.start) == borders


def test_ett_borders_are_months_of_thirty_days() -> None:
    assert Counts(360 * 24, 120 * 24, 120 * 24) == ETT_HOURLY
    assert Counts(360 * 96, 120 * 96, 120 * 96) == ETT_MINUTELY
    assert split(17_420, ETT_HOURLY).test == Part(11_520, 14_400)


def test_shares_do_not_depend_on_floating_point_rounding() -> None:
    # int(0.7 * 10) is 7, but 100 * 0.29 is 28.999999999999996.
    assert Shares(29, 42, 29).split(100).train.stop == 29


def test_only_contexts_reach_back_before_a_part() -> None:
    assert Part(700, 900).rows(context_length=336, lookback=True) == Part(364, 900)
    assert Part(700, 900).rows(context_length=336, lookback=False) == Part(700, 900)
    assert Part(0, 700).rows(context_length=336, lookback=True) == Part(0, 700)


def test_a_misspelt_preset_gets_the_nearest_name() -> None:
    with pytest.raises(FernError, match="did you mean 'detailed'"):
        split(100, "detaild")
    assert set(PRESETS) == {"shock", "detailed", "ett_hourly", "ett_minutely"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: split(0, "shock"), "has 0 rows, needs at least 1"),
        (lambda: split(14_399, "ett_hourly"), "has 14,399 rows, these borders need 14,400"),
        (lambda: Shares(70, 20, 20), "sum to 100"),
        (lambda: Shares(110, -20, 10), "sum to 100"),
        (lambda: Part(5, 4), "needs 0 <= start <= stop"),
        (lambda: Part(-1, 4), "needs 0 <= start <= stop"),
        (lambda: Split(Part(0, 5), Part(4, 6), Part(6, 8)), "overlap"),
    ],
)
def test_borders_that_make_no_sense_are_refused(make: object, message: str) -> None:
    with pytest.raises(FernError, match=message):
        make()  # type: ignore[operator]

"""Frequencies are found, checked and continued: fixed steps, calendars, time zones, integers."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fern.data.frequency import (
    Frequency,
    GridScan,
    TimeGrid,
    next_stamps,
    parse_duration,
    to_frequency,
)
from fern.errors import FernError


def as_stamps(index: object) -> pa.Array:
    column = pa.array(index)
    if pa.types.is_integer(column.type):
        return column
    return column.cast(pa.timestamp("ns", tz=column.type.tz))


def scanned(index: object, batch: int = 7) -> TimeGrid:
    stamps, scan = as_stamps(index), GridScan()
    for first in range(0, len(stamps), batch):
        scan.add(stamps.slice(first, batch))
    return scan.result()


CALENDARS = [
    ("h", None, "1 hour"),
    ("15min", None, "15 minutes"),
    ("10s", None, "10 seconds"),
    ("250ms", None, "250 milliseconds"),
    ("D", None, "1 day"),
    ("W", None, "7 days"),
    ("B", None, "1 business day"),
    ("MS", None, "1 month"),
    ("ME", None, "1 month (month end)"),
    ("QE", None, "3 months (month end)"),
    ("YS", None, "12 months"),
    ("D", "Europe/Berlin", "1 day"),
    ("h", "Europe/Berlin", "1 hour"),
    ("MS", "America/New_York", "1 month"),
    ("h", "UTC", "1 hour"),
]


@pytest.mark.parametrize(("code", "zone", "name"), CALENDARS)
def test_frequencies_are_found_and_continued_as_pandas_does(code: str, zone: str | None, name: str) -> None:
    whole = pd.date_range("2020-01-31 00:00", periods=203, freq=code, tz=zone)
    grid = scanned(whole[:200])
    assert str(grid.frequency) == name
    assert (grid.gaps, grid.problems()) == (0, ())
    assert grid.frequency is not None
    follow = next_stamps(as_stamps(whole[:200])[199], grid.frequency, 3)
    assert follow.to_pylist() == as_stamps(whole[200:]).to_pylist()


@given(step=st.integers(1, 10**6), start=st.integers(-(10**9), 10**9), count=st.integers(2, 50))
def test_integer_time_has_its_step(step: int, start: int, count: int) -> None:
    grid = scanned([start + step * i for i in range(count)])
    assert grid.frequency == Frequency("integer", step)
    assert (grid.gaps, grid.problems()) == (0, ())
    last = pa.scalar(start + step * (count - 1))
    assert next_stamps(last, grid.frequency, 2).to_pylist() == [start + step * count, start + step * (count + 1)]


@given(batch=st.integers(1, 60), missing=st.sets(st.integers(1, 98), min_size=1, max_size=2))
def test_gaps_are_counted_whatever_the_batches(batch: int, missing: set[int]) -> None:
    grid = scanned(pd.date_range("2020-01-01", periods=100, freq="h").delete(sorted(missing)), batch)
    assert str(grid.frequency) == "1 hour"
    assert grid.missing_rows == len(missing)
    assert grid.problems() == ()
    assert grid.gaps > 0


def test_holidays_are_gaps_in_business_days() -> None:
    grid = scanned(pd.bdate_range("2020-01-01", periods=300).delete([50, 150]))
    assert str(grid.frequency) == "1 business day"
    assert (grid.gaps, grid.missing_rows) == (2, 2)


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_a_change_of_frequency_is_mixed(batch: int) -> None:
    hours = pd.date_range("2020-01-01", periods=50, freq="h")
    quarters = pd.date_range(hours[-1] + pd.Timedelta("15min"), periods=2_000, freq="15min")
    grid = scanned(hours.append(quarters), batch)
    assert grid.mixed  # 2.5 % of the steps, but 49 in a row
    assert "mixed frequencies (2,000 × 15 minutes, 49 × 1 hour)" in grid.problems()[0]


def test_alternating_steps_are_mixed() -> None:
    grid = scanned([i // 2 * 7 + i % 2 * 2 for i in range(100)])
    assert grid.mixed


def test_duplicates_disorder_and_holes_are_counted_and_placed() -> None:
    hours = pd.date_range("2020-01-01", periods=50, freq="h")
    assert scanned(hours.insert(20, hours[19])).duplicates == 1
    assert scanned(hours.insert(20, hours[19])).first_problem_row == 20
    swapped = hours[:10].append(hours[11:12]).append(hours[10:11]).append(hours[12:])
    assert scanned(swapped).unordered == 1
    assert scanned(swapped).first_problem_row == 11
    holed = hours.insert(5, pd.NaT)
    assert scanned(holed).empty == 1
    assert scanned(holed).first_problem_row == 5
    assert scanned(hours.insert(20, hours[19])).problems() == ("1 duplicate time stamp",)


def test_jitter_is_off_the_grid() -> None:
    stamps = pd.date_range("2020-01-01", periods=200, freq="h").to_series().to_numpy().copy()
    stamps[100] += np.timedelta64(2, "s")
    grid = scanned(pd.DatetimeIndex(stamps))
    assert grid.irregular == 2
    assert grid.problems() == ("2 steps off the grid of 1 hour",)


def test_random_stamps_keep_memory_bounded() -> None:
    rng = np.random.default_rng(0)
    scan = GridScan()
    for _ in range(5):
        scan.add(pa.array(np.sort(rng.integers(0, 2**60, 20_000))))
    assert len(scan._elapsed.counts) <= 4_096
    assert scan.result().mixed


def test_one_row_or_none_has_no_frequency() -> None:
    assert scanned([5]).frequency is None
    assert GridScan().result().frequency is None


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("10 min", timedelta(minutes=10)),
        ("3h", timedelta(hours=3)),
        ("1.5 hours", timedelta(minutes=90)),
        ("1 week", timedelta(weeks=1)),
        ("2 days", timedelta(days=2)),
        ("30s", timedelta(seconds=30)),
        ("5 ms", timedelta(milliseconds=5)),
        ("7us", timedelta(microseconds=7)),
    ],
)
def test_durations_are_read_in_words(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "3", "h", "3 fortnights", "-3h", "3 h 5 min"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(FernError, match="needs a number and a unit"):
        parse_duration(text)


def test_durations_become_steps() -> None:
    assert to_frequency(timedelta(minutes=15)).steps(timedelta(hours=3)) == 12
    assert Frequency("month", 1).steps(timedelta(days=7)) == pytest.approx(7 / 30.4375)
    assert Frequency("integer", 1).steps(timedelta(days=7)) is None
    with pytest.raises(FernError, match="above 0"):
        to_frequency(timedelta(0))

"""The step of a time column: its name, length and next stamps; and every way in which a column leaves its grid."""

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fern.data.timestamps import as_integers, as_text, is_time
from fern.errors import FernError

Unit = Literal["nanosecond", "day", "business day", "month", "month end", "integer", "row"]

DAY = 86_400_000_000_000
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WORKDAYS = "1111100"
_NAMES = (
    (DAY, "day"),
    (3_600_000_000_000, "hour"),
    (60_000_000_000, "minute"),
    (1_000_000_000, "second"),
    (1_000_000, "millisecond"),
    (1_000, "microsecond"),
    (1, "nanosecond"),
)
_UNITS = {
    **dict.fromkeys(("us", "µs", "microsecond"), "microseconds"),
    **dict.fromkeys(("ms", "millisecond"), "milliseconds"),
    **dict.fromkeys(("s", "sec", "second"), "seconds"),
    **dict.fromkeys(("m", "min", "minute"), "minutes"),
    **dict.fromkeys(("h", "hour"), "hours"),
    **dict.fromkeys(("d", "day"), "days"),
    **dict.fromkeys(("w", "week"), "weeks"),
}
_LENGTHS = {"nanosecond": 1, "day": DAY, "business day": DAY, "month": DAY * 30.4375, "month end": DAY * 30.4375}


@dataclass(frozen=True)
class Frequency:
    """``count`` units from one row to the next.

    ``nanosecond`` counts elapsed time; ``day``, ``month``, … count on the calendar of the time zone;
    ``integer`` is a step of an integer time column; ``row`` stands for a table without a time column.

    Example:
        >>> str(Frequency("nanosecond", 900 * 10**9)), str(Frequency("month", 3))
        ('15 minutes', '3 months')
    """

    unit: Unit
    count: int
    weekmask: str = WORKDAYS
    """The weekdays that a business day can be, from Monday on, as NumPy writes them."""

    def __str__(self) -> str:
        if self.unit == "nanosecond":
            size, name = next((size, name) for size, name in _NAMES if self.count % size == 0)
            return _pluralise(self.count // size, name)
        if self.unit == "integer":
            return f"integer step of {self.count}"
        if self.unit == "month end":
            return f"{_pluralise(self.count, 'month')} (month end)"
        if self.unit == "business day" and self.weekmask != WORKDAYS:
            closed = [day for day, open_ in zip(WEEKDAYS, self.weekmask, strict=True) if open_ == "0"]
            return f"{_pluralise(self.count, 'open day')} (never on {' or '.join(closed)})"
        return _pluralise(self.count, self.unit)

    @property
    def nanoseconds(self) -> float | None:
        """The length of a step (a month counts 30.4375 days); None where steps have no length in time."""
        length = _LENGTHS.get(self.unit)
        return None if length is None else self.count * length

    def steps(self, duration: timedelta) -> float | None:
        """How many steps fill the duration; None where steps have no length in time.

        Example:
            >>> Frequency("nanosecond", 900 * 10**9).steps(timedelta(hours=3))
            12.0
        """
        length = self.nanoseconds
        return None if length is None else duration / timedelta(microseconds=1) * 1_000 / length


ROWS = Frequency("row", 1)
"""The step of a table without a time column: its rows are taken as equally spaced."""


def to_frequency(duration: timedelta) -> Frequency:
    """The frequency of a fixed step.

    Example:
        >>> str(to_frequency(timedelta(minutes=10)))
        '10 minutes'
    """
    nanoseconds = round(duration / timedelta(microseconds=1)) * 1_000
    if nanoseconds <= 0:
        raise FernError(argument="step", got=duration, expected="a duration above 0")
    return Frequency("nanosecond", nanoseconds)


def parse_duration(text: str) -> timedelta:
    """A duration in words: a number and a unit from microseconds to weeks.

    Example:
        >>> parse_duration("10 min"), parse_duration("1week")
        (datetime.timedelta(seconds=600), datetime.timedelta(days=7))
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*", text.casefold())
    unit = None if match is None else _UNITS.get(match[2], _UNITS.get(match[2].removesuffix("s")))
    if match is None or unit is None:
        expected = "a number and a unit, as in '15 min', '3 hours', '1 week'"
        raise FernError(argument="duration", got=text, expected=expected)
    try:
        return timedelta(**{unit: float(match[1])})
    except OverflowError:
        problem = f"got {text[:60]!r}, which is longer than {timedelta.max.days:,} days"
        raise FernError(problem, argument="duration") from None


def next_stamps(last: pa.Scalar, frequency: Frequency, count: int) -> pa.Array:
    """The ``count`` stamps after the last one, of its type.

    Example:
        >>> import datetime
        >>> last = pa.scalar(datetime.datetime(2020, 1, 31), pa.timestamp("ns"))
        >>> [str(stamp.as_py())[:10] for stamp in next_stamps(last, Frequency("month end", 1), 2)]
        ['2020-02-29', '2020-03-31']
    """
    return _add_steps(last, frequency, np.arange(1, count + 1, dtype=np.int64))


def last_stamps(last: pa.Scalar, frequency: Frequency, count: int) -> pa.Array:
    """The ``count`` stamps up to the last one, itself among them, on a grid without gaps.

    Example:
        >>> import datetime
        >>> last = pa.scalar(datetime.datetime(2020, 3, 31), pa.timestamp("ns"))
        >>> [str(stamp.as_py())[:10] for stamp in last_stamps(last, Frequency("month end", 1), 2)]
        ['2020-02-29', '2020-03-31']
    """
    return _add_steps(last, frequency, np.arange(1 - count, 1, dtype=np.int64))


def require_reach(last: pa.Scalar, frequency: Frequency, count: int) -> None:
    """Refuse ``count`` steps from a stamp that lead beyond what 64 bits hold: for stamps of nanoseconds the year 2262.

    Example:
        >>> require_reach(pa.scalar(2**63 - 10), Frequency("integer", 3), 3)
        >>> require_reach(pa.scalar(2**63 - 10), Frequency("integer", 3), 4)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: 4 steps from 9223372036854775798 leave the calendar (the step is integer step of 3)
    """
    step = int(frequency.nanoseconds or frequency.count)
    slack = 0 if frequency.unit in ("nanosecond", "integer", "row") else 62 * DAY + abs(step * count) // 64
    if not -(2**63) + slack <= int(last.value if is_time(last.type) else last.as_py()) + step * count < 2**63 - slack:
        raise FernError(f"{count:,} steps from {as_text(last)} leave the calendar (the step is {frequency})")


def _add_steps(last: pa.Scalar, frequency: Frequency, rows: NDArray[np.int64]) -> pa.Array:
    if len(rows):
        require_reach(last, frequency, int(rows[np.abs(rows).argmax()]))
    steps = rows * frequency.count
    if frequency.unit in ("nanosecond", "integer", "row"):
        return pa.array(as_integers(pa.array([last], last.type)) + steps).view(last.type)
    local = local_times(pa.array([last], last.type))[0]
    stamps = pc.cast(pa.array(_step_calendar(local, frequency, steps)), pa.timestamp("ns"))
    if last.type.tz is not None:
        # An hour that the clock skips moves to the next; of an hour that comes twice the first is taken.
        stamps = pc.assume_timezone(stamps, last.type.tz, ambiguous="earliest", nonexistent="latest")
    return stamps.cast(last.type)


def local_times(stamps: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Timestamps as nanoseconds on the wall clock of their zone."""
    zone = stamps.type.tz
    if zone in (None, "UTC"):
        return as_integers(stamps)
    try:
        return as_integers(pc.local_timestamp(stamps))
    except pa.ArrowException as error:
        raise FernError(f"time zone {zone!r}: cannot be used ({error})") from None


def count_units(
    local: NDArray[np.int64],  # nanoseconds on the wall clock
    unit: Unit,
    weekmask: str = WORKDAYS,
) -> NDArray[np.int64]:
    """The number of calendar units since 1970 of each time."""
    days = (local // DAY).astype("datetime64[D]")
    if unit == "business day":
        return np.asarray(np.busday_count(np.datetime64(0, "D"), days, weekmask=weekmask))
    return (days if unit == "day" else days.astype("datetime64[M]")).astype(np.int64)


def _step_calendar(local: np.int64, frequency: Frequency, steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Wall-clock nanoseconds ``steps`` units after ``local``."""
    clock = local % DAY
    date = np.datetime64(int(local // DAY), "D")
    if frequency.unit == "day":
        days = date + steps.astype("timedelta64[D]")
    elif frequency.unit == "business day":
        days = np.busday_offset(date, steps, roll="backward", weekmask=frequency.weekmask)
    else:
        months = date.astype("datetime64[M]") + steps.astype("timedelta64[M]")
        ends = (months + 1).astype("datetime64[D]") - 1
        day = (date - date.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)
        same = np.minimum(months.astype("datetime64[D]") + day, ends)
        days = ends if frequency.unit == "month end" else same
    return np.asarray(days.astype(np.int64) * DAY + clock, dtype=np.int64)


def _pluralise(count: int, name: str) -> str:
    return f"{count} {name}{'s' if count != 1 else ''}"


# --- grids --------------------------------------------------------------------------------------------------

_KEPT_STEPS = 4_096
_MIXED_SHARE = 0.10
_MIXED_RUN = 10
_KEPT_DAYS = 1 << 20

LEAST_OPEN, LEAST_WEEKS = 4, 4
"""Weekdays that a calendar of open days has at least, and weeks that it takes to tell a closed day from a gap."""


@dataclass(frozen=True)
class TimeGrid:
    """What a time column looks like. Row numbers count from 0.

    ``gaps`` are steps of several frequencies (``missing_rows`` rows are not there); ``irregular`` steps are no
    multiple of the frequency; ``mixed`` means that another step is so common, or so often repeated in a row,
    that the column changes its frequency.
    """

    frequency: Frequency | None
    rows: int
    first: str | None = None
    last: str | None = None
    empty: int = 0
    duplicates: int = 0
    unordered: int = 0
    gaps: int = 0
    missing_rows: int = 0
    irregular: int = 0
    mixed: bool = False
    common_steps: tuple[tuple[str, int], ...] = ()
    first_problem_row: int | None = None

    def problems(self) -> tuple[str, ...]:
        """What keeps the rows from being a series in time; gaps alone do not."""
        problems = [
            f"{count:,} {what.format('' if count == 1 else 's')}"
            for count, what in (
                (self.empty, "empty time stamp{}"),
                (self.duplicates, "duplicate time stamp{}"),
                (self.unordered, "time stamp{} earlier than the one before"),
            )
            if count
        ]
        if self.mixed:
            steps = ", ".join(f"{count:,} × {step}" for step, count in self.common_steps[:3])
            problems.append(f"mixed frequencies ({steps})")
        elif self.irregular:
            problems.append(f"{self.irregular:,} steps off the grid of {self.frequency}")
        return tuple(problems)


@dataclass
class _Steps:
    """How often each step occurs and how often it is repeated in a row, carried over batches."""

    last: int | None = None
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)  # step: (count, longest run)
    _run: tuple[int, int] = (0, 0)  # the step at the end of the last batch, and its run so far

    def add(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the steps between these numbers and from the last ones; returns them."""
        if self.last is not None:
            numbers = np.concatenate([[self.last], numbers])
        self.last = int(numbers[-1])
        steps = np.diff(numbers)
        if len(steps) == 0:
            return steps
        before = self._run
        ends = np.flatnonzero(steps[1:] != steps[:-1]) + 1
        if len(ends) == 0:  # one step from first to last, as on a whole grid
            tallies = [(int(steps[0]), len(steps), len(steps) + (before[1] if steps[0] == before[0] else 0))]
            self._run = (tallies[0][0], tallies[0][2])
        else:
            lengths = np.diff(np.concatenate([[0], ends, [len(steps)]]))
            values = steps[np.concatenate([[0], ends])]
            runs = lengths.copy()
            if values[0] == before[0]:
                runs[0] += before[1]
            self._run = (int(values[-1]), int(runs[-1]))
            unique, inverse = np.unique(values, return_inverse=True)
            totals, longest = np.zeros(len(unique), np.int64), np.zeros(len(unique), np.int64)
            np.add.at(totals, inverse, lengths)
            np.maximum.at(longest, inverse, runs)
            tallies = list(zip(unique.tolist(), totals.tolist(), longest.tolist(), strict=True))
        for step, total, run in tallies:
            count, known = self.counts.get(step, (0, 0))
            self.counts[step] = (count + total, max(known, run))
        if len(self.counts) > _KEPT_STEPS:  # a column of random stamps: keep the commonest, memory stays bounded
            commonest = sorted(self.counts.items(), key=lambda item: -item[1][0])
            self.counts = dict(commonest[: _KEPT_STEPS // 2])
        return steps

    def base(self) -> int | None:
        """The commonest step forwards."""
        forwards = [(count, -step) for step, (count, _) in self.counts.items() if step > 0]
        return -max(forwards)[1] if forwards else None


class GridScan:
    """Reads a time column batch by batch and finds its frequency.

    Example:
        >>> import datetime
        >>> scan = GridScan()
        >>> scan.add(pa.array([datetime.datetime(2020, month, 1) for month in (1, 2, 3)], pa.timestamp("ns")))
        >>> str(scan.result().frequency)
        '1 month'
    """

    def __init__(self) -> None:
        self._rows = self._empty = self._duplicates = self._unordered = 0
        self._elapsed = _Steps()
        self._integer = False
        # Calendar readings, each followed as long as every stamp fits it.
        units: tuple[Unit, ...] = ("day", "month", "month end", "business day")
        self._calendar: dict[Unit, _Steps] = {unit: _Steps() for unit in units}
        self._days: list[NDArray[np.int64]] | None = []  # all days of a calendar; None where they are too many to keep
        self._first: tuple[int, int] | None = None  # time of day and day of month of the first stamp
        self._first_problem: int | None = None
        self._start: str | None = None
        self._end: pa.Scalar | None = None

    def add(self, stamps: pa.Array | pa.ChunkedArray) -> None:  # timestamp[ns] or int64
        """The next rows."""
        start = self._rows
        self._rows += len(stamps)
        if stamps.null_count:
            self._empty += stamps.null_count
            self._note(start + int(np.flatnonzero(np.asarray(stamps.is_null()))[0]))
            stamps = stamps.drop_null()
        if len(stamps) == 0:
            return
        self._integer = bool(pa.types.is_integer(stamps.type))
        if self._start is None:
            self._start = as_text(stamps[0])
        self._end = stamps[len(stamps) - 1]
        joined = self._elapsed.last is not None
        steps = self._elapsed.add(as_integers(stamps))
        backwards = np.flatnonzero(steps <= 0)
        if len(backwards):
            self._duplicates += int((steps == 0).sum())
            self._unordered += int((steps < 0).sum())
            self._note(start + int(backwards[0]) + (0 if joined else 1))
        if not self._integer and self._calendar:
            self._follow_calendar(local_times(stamps))

    def result(self) -> TimeGrid:
        """The grid of the rows so far."""
        readings: list[tuple[Unit, _Steps]] = [
            ("integer" if self._integer else "nanosecond", self._elapsed),
            *(self._calendar.items() if not self._integer else ()),
        ]
        base = TimeGrid(
            frequency=None,
            rows=self._rows,
            first=self._start,
            last=as_text(self._end),
            empty=self._empty,
            duplicates=self._duplicates,
            unordered=self._unordered,
            first_problem_row=self._first_problem,
        )
        grids = [_grid(base, unit, steps) for unit, steps in readings if steps.base() is not None]
        if not any(grid.gaps + grid.irregular == 0 for grid in grids):
            grids += self._open_days(base)
        # The reading that leaves the fewest steps unexplained; elapsed time wins a tie.
        return min(grids, key=lambda grid: (grid.mixed, grid.gaps + grid.irregular), default=base)

    def _open_days(self, base: TimeGrid) -> list[TimeGrid]:
        """The grid of the weekdays that there are, where some never are: a shop that is closed on Sundays."""
        if self._integer or "day" not in self._calendar or not self._days:
            return []
        days = np.concatenate(self._days)
        is_open = np.bincount((days + 3) % 7, minlength=7) > 0  # the epoch was a Thursday
        if not LEAST_OPEN <= is_open.sum() < 7 or days[-1] - days[0] < 7 * LEAST_WEEKS:
            return []
        mask = "".join("1" if is_day_open else "0" for is_day_open in is_open)
        if mask == WORKDAYS:
            return []  # has a reading already
        steps = _Steps()
        steps.add(count_units(days * DAY, "business day", mask))
        return [_grid(base, "business day", steps, mask)] if steps.base() is not None else []

    def _note(self, row: int) -> None:
        if self._first_problem is None or row < self._first_problem:
            self._first_problem = row

    def _follow_calendar(self, local: NDArray[np.int64]) -> None:
        clock = local % DAY
        days = (local // DAY).astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        day_of_month = (days - months.astype("datetime64[D]")).astype(np.int64)
        if self._first is None:
            self._first = (int(clock[0]), int(day_of_month[0]))
        if (clock != self._first[0]).any():
            self._calendar.clear()
            return
        if ((days + 1).astype("datetime64[M]") == months).any():  # not the last day of its month
            self._calendar.pop("month end", None)
        if (day_of_month != self._first[1]).any():
            self._calendar.pop("month", None)
        if not np.is_busday(days).all():
            self._calendar.pop("business day", None)
        if self._days is not None:
            self._days.append(days.astype(np.int64))
            self._days = self._days if sum(map(len, self._days)) <= _KEPT_DAYS else None
        for unit, steps in self._calendar.items():
            steps.add(count_units(local, unit))


def grid_by(stamps: pa.Array, frequency: Frequency) -> TimeGrid | None:
    """The grid of stamps by a frequency that is given; None where they are not on it.

    Example:
        >>> import datetime
        >>> days = [datetime.datetime(2024, 1, day) for day in (5, 6, 8)]  # Friday, Saturday, Monday
        >>> str(grid_by(pa.array(days, pa.timestamp("ns")), Frequency("business day", 1, "1111110")).frequency)
        '1 open day (never on Sunday)'
    """
    if pa.types.is_integer(stamps.type) != (frequency.unit == "integer") or stamps.null_count or len(stamps) == 0:
        return None
    numbers = as_integers(stamps)
    if frequency.unit not in ("nanosecond", "integer"):
        numbers = count_units(local_times(stamps), frequency.unit, frequency.weekmask)
        again = next_stamps(stamps[0], frequency, int((numbers.max() - numbers[0]) // frequency.count + 1))
        known = np.concatenate([as_integers(stamps[:1]), as_integers(again)])
        if not np.isin(as_integers(stamps), known).all():
            return None
    base = TimeGrid(frequency=None, rows=len(stamps), first=as_text(stamps[0]), last=as_text(stamps[len(stamps) - 1]))
    if len(stamps) == 1:
        return replace(base, frequency=frequency)
    sizes = np.diff(numbers)
    if (sizes <= 0).any() or (sizes % frequency.count).any():
        return None
    gaps = int((sizes > frequency.count).sum())
    missing = int((sizes // frequency.count - 1).sum())
    if gaps > max(_MIXED_SHARE * len(sizes), 2):
        return None
    return replace(base, frequency=frequency, gaps=gaps, missing_rows=missing)


def _grid(base: TimeGrid, unit: Unit, steps: _Steps, weekmask: str = WORKDAYS) -> TimeGrid:
    """The grid that one reading of the steps gives."""
    step = steps.base()
    assert step is not None
    frequency = Frequency(unit, step, weekmask)
    forwards = {s: counted for s, counted in steps.counts.items() if s > 0}
    total = sum(count for count, _ in forwards.values())
    gaps = missing = irregular = 0
    for size, (count, _) in forwards.items():
        if size % step:
            irregular += count
        elif size != step:
            gaps += count
            missing += count * (size // step - 1)
    longest_run = max((run for size, (_, run) in forwards.items() if size != step), default=0)
    common = sorted(forwards.items(), key=lambda item: (-item[1][0], item[0]))[:5]
    return replace(
        base,
        frequency=frequency,
        gaps=gaps,
        missing_rows=missing,
        irregular=irregular,
        mixed=(gaps + irregular) > max(_MIXED_SHARE * total, 2) or longest_run >= _MIXED_RUN,
        common_steps=tuple((str(Frequency(unit, size, weekmask)), count) for size, (count, _) in common),
    )

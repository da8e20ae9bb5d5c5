"""The step of a time column: what it is called, how long it lasts and which stamps come next."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fern.data.timestamps import as_integers
from fern.errors import FernError

Unit = Literal["nanosecond", "day", "business day", "month", "month end", "integer", "row"]

DAY = 86_400_000_000_000
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

    def __str__(self) -> str:
        if self.unit == "nanosecond":
            size, name = next((size, name) for size, name in _NAMES if self.count % size == 0)
            return _counted(self.count // size, name)
        if self.unit == "integer":
            return f"integer step of {self.count}"
        if self.unit == "month end":
            return f"{_counted(self.count, 'month')} (month end)"
        return _counted(self.count, self.unit)

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


def frequency_of(duration: timedelta) -> Frequency:
    """The frequency of a fixed step.

    Example:
        >>> str(frequency_of(timedelta(minutes=10)))
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
        raise FernError(
            argument="duration", got=text, expected="a number and a unit, as in '15 min', '3 hours', '1 week'"
        )
    try:
        return timedelta(**{unit: float(match[1])})
    except OverflowError:
        raise FernError(
            f"got {text[:60]!r}, which is longer than {timedelta.max.days:,} days", argument="duration"
        ) from None


def next_stamps(last: pa.Scalar, frequency: Frequency, count: int) -> pa.Array:
    """The ``count`` stamps after the last one, of its type.

    Example:
        >>> import datetime
        >>> last = pa.scalar(datetime.datetime(2020, 1, 31), pa.timestamp("ns"))
        >>> [str(stamp.as_py())[:10] for stamp in next_stamps(last, Frequency("month end", 1), 2)]
        ['2020-02-29', '2020-03-31']
    """
    return _stepped(last, frequency, np.arange(1, count + 1, dtype=np.int64))


def last_stamps(last: pa.Scalar, frequency: Frequency, count: int) -> pa.Array:
    """The ``count`` stamps up to the last one, itself among them, on a grid without gaps.

    Example:
        >>> import datetime
        >>> last = pa.scalar(datetime.datetime(2020, 3, 31), pa.timestamp("ns"))
        >>> [str(stamp.as_py())[:10] for stamp in last_stamps(last, Frequency("month end", 1), 2)]
        ['2020-02-29', '2020-03-31']
    """
    return _stepped(last, frequency, np.arange(1 - count, 1, dtype=np.int64))


def _stepped(last: pa.Scalar, frequency: Frequency, rows: NDArray[np.int64]) -> pa.Array:
    steps = rows * frequency.count
    if frequency.unit in ("nanosecond", "integer", "row"):
        return pa.array(as_integers(pa.array([last], last.type)) + steps).view(last.type)
    zone = last.type.tz
    local = local_times(pa.array([last], last.type))[0]
    return _at_zone(_on_calendar(local, frequency, steps), zone).cast(last.type)


def local_times(stamps: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Timestamps as nanoseconds on the wall clock of their zone."""
    zone = stamps.type.tz
    if zone in (None, "UTC"):
        return as_integers(stamps)
    try:
        return as_integers(pc.local_timestamp(stamps))
    except pa.ArrowException as error:
        raise FernError(f"time zone {zone!r}: cannot be used ({error})") from None


def _on_calendar(local: np.int64, frequency: Frequency, steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Wall-clock nanoseconds ``steps`` units after ``local``."""
    clock = local % DAY
    date = np.datetime64(int(local // DAY), "D")
    if frequency.unit == "day":
        days = date + steps.astype("timedelta64[D]")
    elif frequency.unit == "business day":
        days = np.busday_offset(date, steps, roll="backward")
    else:
        months = date.astype("datetime64[M]") + steps.astype("timedelta64[M]")
        ends = (months + 1).astype("datetime64[D]") - 1
        day = (date - date.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)
        same = np.minimum(months.astype("datetime64[D]") + day, ends)
        days = ends if frequency.unit == "month end" else same
    return np.asarray(days.astype(np.int64) * DAY + clock, dtype=np.int64)


def _at_zone(local: NDArray[np.int64], zone: str | None) -> pa.Array:
    naive = pc.cast(pa.array(local), pa.timestamp("ns"))
    if zone is None:
        return naive
    # An hour that the clock skips moves to the next; of an hour that comes twice the first is taken.
    return pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'s' if count != 1 else ''}"

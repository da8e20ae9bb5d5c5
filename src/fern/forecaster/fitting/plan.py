"""What follows from the data: context, patches, the parts of each series, batches and epochs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, gcd

from fern.data.frames import Series
from fern.data.frequency import Frequency
from fern.data.splits import Part
from fern.errors import FernError

CONTEXT_PER_HORIZON = 3.5
LONGEST_CONTEXT = 512
SHORTEST_CONTEXT = 4
HELD_OUT_SHARE = 0.1
"""Of the rows of a series: for validation, and again for calibration."""

MANY_SERIES = 40
"""From here on series count as a panel: one held-out window of each says more than many of a few."""

_DAY = 86_400_000_000_000
_SEASONS = {"day": 7, "business day": 5, "month": 12, "month end": 12}


@dataclass(frozen=True)
class SeriesParts:
    """Which rows of a series train, which choose the epoch and which calibrate; targets lie in these parts."""

    train: Part
    validation: Part
    calibration: Part


@dataclass(frozen=True)
class Plan:
    """The sizes of a fit.

    ``parts``  for each series that the model learns from; None for one that is too short.
    """

    context_length: int
    horizon: int
    season: int
    parts: tuple[SeriesParts | None, ...]

    @property
    def learnt(self) -> int:
        """How many series the model learns from."""
        return sum(part is not None for part in self.parts)


def season_of(frequency: Frequency) -> int:
    """The usual season of a frequency in steps: a day of hours, a week of days, a year of months; else 1.

    Example:
        >>> season_of(Frequency("month", 1)), season_of(Frequency("nanosecond", 900 * 10**9))
        (12, 96)
    """
    if frequency.unit == "nanosecond":
        if frequency.count % (7 * _DAY) == 0:
            return max(1, round(365.25 / (frequency.count / _DAY)))
        if frequency.count >= _DAY:
            return max(1, round(7 * _DAY / frequency.count))
        return _DAY // frequency.count if _DAY // frequency.count <= 288 else 60
    return max(1, _SEASONS.get(frequency.unit, 1) // frequency.count)


def make_plan(
    series: Sequence[Series],
    *,
    horizon: int,
    context_length: int | None,
    season: int | None = None,
) -> Plan:
    """The plan of a fit.

    The context, unless given, is 3.5 horizons, at least two seasons, at most 512 steps and short enough that a typical
    series (the median) still has windows to learn from. A tenth of each series, at least one horizon, is held out for
    validation and again for calibration; a series that has no room for that and a window to learn from is left to a
    simpler model.
    """
    lengths = sorted(_longest_stretch(one) for one in series)
    typical = lengths[len(lengths) // 2] if len(lengths) >= MANY_SERIES else lengths[-1]
    step = season_of(series[0].frequency) if season is None else season
    if context_length is None:
        wanted = max(CONTEXT_PER_HORIZON * horizon, 2 * step + 2)
        room = typical - 2 * _held_out(typical, horizon) - 2 * horizon
        context_length = int(max(SHORTEST_CONTEXT, min(wanted, LONGEST_CONTEXT, room)))
    elif context_length > lengths[-1]:
        raise FernError(
            (f"got {context_length:,}, the longest series has {lengths[-1]:,} rows in a row; give fewer, or 'auto'"),
            argument="context_length",
        )
    parts = tuple(_parts(one, context_length=context_length, horizon=horizon) for one in series)
    return Plan(context_length, horizon, step, parts)


def _longest_stretch(series: Series) -> int:
    edges = [0, *series.breaks, len(series.values)]
    return max(stop - start for start, stop in pairwise(edges))


def _held_out(rows: int, horizon: int) -> int:
    return max(horizon, ceil(HELD_OUT_SHARE * rows))


def _parts(series: Series, *, context_length: int, horizon: int) -> SeriesParts | None:
    rows = len(series.values)
    held = _held_out(rows, horizon)
    last, middle = rows - held, rows - 2 * held
    if middle < context_length + horizon:
        return None
    return SeriesParts(Part(0, middle), Part(middle, last), Part(last, rows))


def stride_for(windows: int, *, most: int, season: int = 1) -> int:
    """Every how many rows a window is taken so that no more than about ``most`` are.

    It has no common divisor with the season: windows of every phase of it take part.

    Example:
        >>> stride_for(2_700, most=512), stride_for(2_700, most=512, season=24), stride_for(100, most=512)
        (6, 7, 1)
    """
    stride = max(1, ceil(windows / most))
    while gcd(stride, season) > 1:
        stride += 1
    return stride

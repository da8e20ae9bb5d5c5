"""What follows from the data: context, season, the parts of each series, and their windows in model units."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, gcd
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fern.calibration import Residuals
from fern.data.frequency import DAY, Frequency
from fern.data.series_table import Series
from fern.data.splits import Part
from fern.data.windows import Windows
from fern.errors import FernError
from fern.forecaster.state import Scale, measure_scale
from fern.models import Forecaster
from fern.models.base import distribution_of

HeldOut = Literal["validation", "calibration"]
Rows = NDArray[np.int64]

AT_ONCE = 4096
"""Series (windows times channels) that are forecast together."""

CONTEXT_PER_HORIZON = 3.5
LONGEST_CONTEXT = 512
SHORTEST_CONTEXT = 4
HELD_OUT_SHARE = 0.1
"""Of the rows of a series: for validation, and again for calibration."""

MANY_SERIES = 40
"""From here on series count as a panel: one held-out window of each says more than many of a few."""

_SEASONS = {"day": 7, "month": 12, "month end": 12}


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


def guess_season(frequency: Frequency) -> int:
    """The usual season of a frequency in steps: a day of hours, a week of days, a year of months; else 1.

    Example:
        >>> guess_season(Frequency("month", 1)), guess_season(Frequency("nanosecond", 900 * 10**9))
        (12, 96)
    """
    if frequency.unit == "nanosecond":
        if frequency.count % (7 * DAY) == 0:
            return max(1, round(365.25 / (frequency.count / DAY)))
        if frequency.count >= DAY:
            return max(1, round(7 * DAY / frequency.count))
        return DAY // frequency.count if DAY // frequency.count <= 288 else 60
    open_days = frequency.weekmask.count("1") if frequency.unit == "business day" else 1
    return max(1, _SEASONS.get(frequency.unit, open_days) // frequency.count)


def make_plan(
    series: Sequence[Series],
    *,
    horizon: int,
    context_length: int | None,
    season: int | None = None,
    longest: int | None = None,
) -> Plan:
    """The plan of a fit; a model that reads as many rows as there are, up to ``longest``, gets them.

    The context, unless given, is 3.5 horizons, at least two seasons, at most 512 steps and short enough that a typical
    series (the median) still has windows to learn from. A tenth of each series, at least one horizon, is held out for
    validation and again for calibration; a series that has no room for that and a window to learn from is left to a
    simpler model.
    """
    # The longest stretch of each without a break.
    lengths = sorted(max(np.diff([0, *member.breaks, len(member.values)]).tolist()) for member in series)
    typical = lengths[len(lengths) // 2] if len(lengths) >= MANY_SERIES else lengths[-1]
    step = guess_season(series[0].frequency) if season is None else season
    if context_length is None:
        length = max(CONTEXT_PER_HORIZON * horizon, 2 * step + 2)
        room = typical - 2 * _count_held_out(typical, horizon) - 2 * horizon
        if longest is None:
            context_length = int(max(SHORTEST_CONTEXT, min(length, LONGEST_CONTEXT, room)))
        else:
            context_length = max(2 * SHORTEST_CONTEXT, min(longest, room))
    elif context_length > lengths[-1]:
        problem = f"the longest series has {lengths[-1]:,} rows in a row"
        raise FernError(problem, argument="context_length", got=context_length, expected="no more")
    parts = tuple(_parts(member, context_length=context_length, horizon=horizon) for member in series)
    return Plan(context_length, horizon, step, parts)


def _count_held_out(rows: int, horizon: int) -> int:
    return max(horizon, ceil(HELD_OUT_SHARE * rows))


def _parts(series: Series, *, context_length: int, horizon: int) -> SeriesParts | None:
    rows = len(series.values)
    count = _count_held_out(rows, horizon)
    last, middle = rows - count, rows - 2 * count
    if middle < context_length + horizon:
        return None
    return SeriesParts(Part(0, middle), Part(middle, last), Part(last, rows))


def choose_stride(windows: int, *, most: int, season: int = 1) -> int:
    """Every how many rows a window is taken so that no more than about ``most`` are.

    It has no common divisor with the season: windows of every phase of it take part.

    Example:
        >>> choose_stride(2_700, most=512), choose_stride(2_700, most=512, season=24), choose_stride(100, most=512)
        (6, 7, 1)
    """
    stride = max(1, ceil(windows / most))
    while gcd(stride, season) > 1:
        stride += 1
    return stride


@dataclass(frozen=True)
class TrainingSeries:
    """The series that a model learns from, in model units, with their parts."""

    values: tuple[NDArray[np.float32], ...]  # each (T_i, C)
    breaks: tuple[tuple[int, ...], ...]
    parts: tuple[SeriesParts, ...]
    plan: Plan

    @classmethod
    def of(cls, series: Sequence[Series], scales: Sequence[Scale], plan: Plan) -> "TrainingSeries":
        """The series that are long enough, scaled."""
        places = [i for i, parts in enumerate(plan.parts) if parts is not None]
        return cls(
            tuple(scales[i].apply(series[i].values) for i in places),
            tuple(series[i].breaks for i in places),
            tuple(parts for parts in plan.parts if parts is not None),
            plan,
        )

    def train(self) -> Windows:
        """Every window of the training parts."""
        return self._windows([parts.train for parts in self.parts], most=None)

    def before_calibration(self) -> Windows:
        """Every window of the training and validation parts."""
        return self._windows([Part(0, parts.calibration.start) for parts in self.parts], most=None)

    def everything(self) -> Windows:
        """Every window of the series."""
        return self._windows([Part(0, len(values)) for values in self.values], most=None)

    def validation(self, *, most: int) -> Windows:
        """Windows of the validation parts, at most about so many."""
        return self._windows([parts.validation for parts in self.parts], most=most)

    def residuals(self, model: Forecaster, part: HeldOut, *, most: int) -> Residuals:
        """Residuals of about ``most`` held-out windows over all series under the model's distributions."""
        residuals = [
            Residuals.of(distribution_of(model, past), future, origins=rows, series=series)
            for past, future, rows, series in self.held_out(part, most=most)
        ]
        if residuals:
            return Residuals.joined(residuals)
        channels = self.values[0].shape[1]
        distribution = distribution_of(model, torch.zeros(1, self.plan.context_length, channels))
        return Residuals.none(channels=channels, horizon=self.plan.horizon, patch_size=distribution.patch_size)

    def count(self, part: HeldOut, *, most: int) -> int:
        """How many windows `held_out` gives."""
        try:
            return len(self._windows([getattr(parts, part) for parts in self.parts], most=most))
        except FernError:  # breaks in the time grid leave no window there
            return 0

    def held_out(
        self, part: HeldOut, *, most: int, in_phase: bool = False
    ) -> Iterator[tuple[Tensor, Tensor, Rows, Rows]]:
        """Held-out windows in batches: past (n, L, C), future (n, H, C), first forecast row, series.

        With ``in_phase`` those alone that begin whole seasons before the end of their series: at midnight, where a
        table by the hour ends with a day.
        """
        try:
            windows = self._windows([getattr(parts, part) for parts in self.parts], most=None if in_phase else most)
        except FernError:  # breaks in the time grid leave no window there
            return
        lengths = np.array([len(values) for values in self.values])
        begins = np.concatenate([[0], np.cumsum(lengths)])
        rows = windows.starts(torch.arange(len(windows))).numpy() + windows.context_length
        series = np.searchsorted(begins, rows, side="right") - 1
        rows = rows - begins[series]
        chosen = np.arange(len(windows))
        if in_phase:
            chosen = chosen[(lengths[series] - rows) % self.plan.season == 0]
            chosen = chosen[:: max(1, -(-len(chosen) // most))]
        at_once = max(1, AT_ONCE // windows.channels)
        for first in range(0, len(chosen), at_once):
            batch = chosen[first : first + at_once]
            yield *windows.gather(torch.from_numpy(batch)), rows[batch], series[batch]

    def _windows(self, parts: Sequence[Part], *, most: int | None) -> Windows:
        def cut(stride: int) -> Windows:
            return Windows.over(
                self.values,
                parts=parts,
                breaks=self.breaks,
                stride=stride,
                context_length=self.plan.context_length,
                horizon=self.plan.horizon,
            )

        whole = cut(1)
        if most is None or len(whole) <= most:
            return whole
        return cut(choose_stride(len(whole), most=most, season=self.plan.season))


def measure_scales(series: Sequence[Series], plan: Plan) -> list[Scale]:
    """The scale of each series, from its training rows alone (all rows where the model does not learn from it)."""
    return [
        measure_scale(member.values if parts is None else member.values[parts.train.start : parts.train.stop])
        for member, parts in zip(series, plan.parts, strict=True)
    ]

"""What a fitted forecaster knows: model, calibration, scales, and the newest rows of each series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.calibration import Calibration, OnlineCalibration
from fern.calibration.coverage import CoverageByOrigin, CoverageRow
from fern.data.frequency import Frequency, next_stamps
from fern.data.series_table import Series, SeriesTable
from fern.diagnostics import EigenProfile, Rules
from fern.diagnostics.alarms import Rates
from fern.errors import FernError
from fern.forecaster.covariates import CovariateModel
from fern.forecaster.partner import Combination, Partner, count_rows
from fern.models import Forecaster

Floats = NDArray[np.float64]

_AT_ONCE = 1 << 16

MOST_STEPS = 2**31
"""Of a context, a horizon or a season: beyond any table."""

LARGEST = 1e30
"""Of a row or a forecast in units of its scale: products of larger ones overflow in single precision."""

LARGEST_VALUE = 1e150
"""Of a row: the squares of larger ones overflow."""


def require_squares(values: Floats) -> None:
    """Refuse values whose squares overflow.

    Example:
        >>> require_squares(np.array([1e200]))
        Traceback (most recent call last):
            ...
        fern.errors.FernError: frame: a value of size 1e+200, needs at most 1e+150
    """
    size = float(np.abs(values).max(initial=0.0))
    if size > LARGEST_VALUE:
        raise FernError(f"a value of size {size:.3g}", argument="frame", expected=f"at most {LARGEST_VALUE:g}")


def to_units(values: Floats, shift: Floats, spread: Floats) -> NDArray[np.float32]:
    """(y - shift) / spread; rows that overflow single precision are an error.

    Example:
        >>> to_units(np.array([1.0, 1e40]), np.zeros(1), np.ones(1))
        Traceback (most recent call last):
            ...
        fern.errors.FernError: frame: a value lies 1e+40 spreads of its series from their mean, needs at most 1e+30
    """
    with np.errstate(over="ignore"):
        scaled = (values - shift) / spread
    size = float(np.abs(scaled).max(initial=0.0))
    if size >= LARGEST:
        problem = f"a value lies {size:.3g} spreads of its series from their mean"
        raise FernError(problem, argument="frame", expected=f"at most {LARGEST:g}")
    return scaled.astype(np.float32)


@dataclass(frozen=True)
class Scale:
    """The map to model units, (y - shift) / spread, for each channel of a series."""

    shift: Floats  # (C,)
    spread: Floats  # (C,)

    def apply(self, values: Floats) -> NDArray[np.float32]:  # (..., C)
        """In model units; worked out a stretch at a time, so that a long series is not held in float64 once more."""
        scaled = np.empty(values.shape, np.float32)
        for first in range(0, len(values), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            scaled[rows] = to_units(values[rows], self.shift, self.spread)
        return scaled

    def invert(self, values: NDArray[np.floating]) -> Floats:  # (..., C)
        """In the units of the data."""
        return np.asarray(values, dtype=np.float64) * self.spread + self.shift


def measure_scale(values: Floats) -> Scale:  # (T, C)
    """Mean and standard deviation of the rows; a constant channel has spread 1 at its own magnitude.

    Example:
        >>> measure_scale(np.array([[1.0, 5.0], [3.0, 5.0]])).spread.tolist()
        [1.0, 1.0]
    """
    size = np.maximum(values.max(axis=0), -values.min(axis=0))
    require_squares(size)
    shift, spread = values.mean(axis=0), values.std(axis=0)
    dust = spread <= 1e-10 * size  # a constant column can leave rounding dust instead of 0
    return Scale(shift, np.where(dust, 1.0, spread))


@dataclass(frozen=True)
class Recent:
    """The newest rows of a series: what a forecast is made from."""

    name: str
    values: Floats  # (n, C), in the units of the data
    last: pa.Scalar | None  # the stamp of the last row
    rows: int  # rows of the whole series
    fitted: int  # of them, those that were there when the model was fitted
    covariates: Floats | None = None  # (n, K), known and past columns as numbers
    ahead: Floats | None = None  # (H, K known), known columns of the steps to forecast
    static: Floats | None = None  # (Q,)

    def future(self, frequency: Frequency, count: int) -> pa.Array:
        """The stamps of the next ``count`` rows; row numbers where there is no time column."""
        if self.last is None:
            return pa.array(np.arange(self.rows, self.rows + count))
        return next_stamps(self.last, frequency, count)


@dataclass(frozen=True, eq=False)
class Profiled:
    """The eigen-profile of a series in model units, and the rules that were learnt on its earlier part.

    ``rules`` is None where there are too few rows to learn any; ``measured`` are their rates on the later part.
    """

    name: str
    stamps: pa.Array | None  # of the profile's rows
    profile: EigenProfile
    rules: Rules | None = None
    measured: Mapping[str, Rates] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Findings:
    """Profiles of some series (none for a model without a distribution), and coverage on windows the radii are not
    from.

    ``course`` is the coverage of 90 % intervals window by window, and the PIT.
    """

    profiled: tuple[Profiled, ...] = ()
    coverage: tuple[CoverageRow, ...] = ()
    course: CoverageByOrigin | None = None


@dataclass(frozen=True)
class State:
    """All that a fit leaves behind."""

    context_length: int
    horizon: int
    season: int
    table: SeriesTable
    """The fitted table without its rows: columns, frequency, kind of frame."""
    model_name: str
    label: str
    model: Forecaster | None
    """None where every series was too short to learn from."""
    calibration: Calibration | None
    scales: Mapping[str, Scale]
    recent: tuple[Recent, ...]
    notes: tuple[str, ...] = ()
    online: Mapping[str, OnlineCalibration] = field(default_factory=dict)
    """The online calibration of series that were updated since the fit."""
    findings: Findings | None = None
    """What the fit measured of its distribution on held-out rows."""
    combination: Combination = field(default_factory=lambda: Combination(partner=Partner(season=1)))
    """How the model's forecasts and the classical partner's go together."""
    covariates: CovariateModel | None = None
    """The covariates, and the regression on them where it has a part; None without any."""

    @property
    def channel_names(self) -> tuple[str, ...]:
        """The columns that are forecast."""
        return self.table.channel_names

    @property
    def frequency(self) -> Frequency:
        """The step of the time column."""
        return self.table.frequency

    @property
    def keep(self) -> int:
        """Rows of each series that are kept."""
        regressed = 0 if self.covariates is None else self.covariates.rows
        return max(self.context_length + self.horizon, count_rows(self.season), self.combination.rows, regressed)

    @property
    def output_names(self) -> list[str]:
        """The columns of point forecasts: the model's name for one channel of a long table, else the channels'."""
        return [self.label] if self.table.long and len(self.channel_names) == 1 else list(self.channel_names)

    def scale(self, name: str, values: Floats) -> Scale:
        """The scale of a series: as fitted, or for a new one from these rows."""
        return self.scales[name] if name in self.scales else measure_scale(values)

    def learns(self, values: Floats) -> bool:
        """Whether the model can forecast from these rows."""
        return self.model is not None and len(values) >= self.context_length

    def require_like(self, table: SeriesTable, *, target_given: bool = False, step: bool = True) -> None:
        """Refuse a table of another form, other targets (one may be named anew) or another ``step`` than the fitted."""
        if table.long != self.table.long:
            form = "long (with an identifier column)" if self.table.long else "wide (a column for each channel)"
            raise FernError(f"the forecaster was fitted to a {form} frame", argument="frame", expected="the same")
        names, fitted = table.channel_names, self.channel_names
        lone = table.long and len(names) == len(fitted) == 1
        if names != fitted and not (lone and target_given):
            problem = f"has the columns {', '.join(names)}, the forecaster was fitted to {', '.join(fitted)}"
            if lone:
                difference = f"its target is {names[0]!r}, the forecaster was fitted to {fitted[0]!r}"
                problem = f"{difference}; target_col says that it is meant"
            raise FernError(problem, argument="frame")
        if self.covariates is not None:
            fitted_columns = self.covariates.encoding.dynamic_outputs
            if table.encoding is None or table.encoding.dynamic_outputs != fitted_columns:
                problem = "was read without the covariates that were fitted"
                raise FernError(problem, argument="frame", expected="read() of this forecaster")
        if step and table.frequency != self.frequency:
            problem = f"its time steps by {table.frequency}, the forecaster was fitted to {self.frequency}"
            raise FernError(problem, argument="frame")


def kind_of_time(type_: pa.DataType) -> tuple[bool, bool]:
    """Whether these are dates, and dates with a time zone."""
    dates = pa.types.is_timestamp(type_)
    return dates, dates and type_.tz is not None


def keep_recent(series: Sequence[Series], *, keep: int) -> tuple[Recent, ...]:
    """The newest rows after the last break of each series."""
    recent = []
    for member in series:
        rows = len(member.values)
        start = max(rows - keep, member.breaks[-1] if member.breaks else 0, 0)
        last = None if member.stamps is None else member.stamps[rows - 1]
        newest = member.values[start:].copy()  # a view would hold on to the whole series
        covariates = None if member.covariates is None else member.covariates[start:].copy()
        recent.append(Recent(member.name, newest, last, rows, rows, covariates, static=member.static))
    return tuple(recent)

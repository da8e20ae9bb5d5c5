"""What a fitted forecaster knows: model, calibration, scales, and the newest rows of each series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.calibration import Calibration, OnlineCalibration
from fern.data.frames import Series
from fern.data.frequency import Frequency, next_stamps
from fern.errors import FernError
from fern.forecaster.inputs import Form, Table
from fern.forecaster.scales import Scale, scale_of
from fern.forecaster.watching.findings import Findings
from fern.models import Forecaster

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Recent:
    """The newest rows of a series: what a forecast is made from."""

    name: str
    values: Floats  # (n, C), in the units of the data
    last: pa.Scalar | None  # the stamp of the last row
    rows: int  # rows of the whole series
    fitted: int  # of them, those that were there when the model was fitted

    def future(self, frequency: Frequency, count: int) -> pa.Array:
        """The stamps of the next ``count`` rows; row numbers where there is no time column."""
        if self.last is None:
            return pa.array(np.arange(self.rows, self.rows + count))
        return next_stamps(self.last, frequency, count)


@dataclass(frozen=True)
class State:
    """All that a fit leaves behind."""

    context_length: int
    horizon: int
    season: int
    channel_names: tuple[str, ...]
    frequency: Frequency
    form: Form
    model_name: str
    label: str
    model: Forecaster | None
    """None where every series was too short to learn from."""
    calibration: Calibration | None
    scales: Mapping[str, Scale]
    recent: tuple[Recent, ...]
    notes: tuple[str, ...] = ()
    online: Mapping[str, OnlineCalibration] = field(default_factory=dict)
    """For series that were updated since: the calibration with factors that have followed what came."""
    findings: Findings | None = None
    """What the fit found out about its distribution on held-out rows."""

    def calibration_of(self, name: str) -> Calibration | OnlineCalibration | None:
        """The calibration of a series: as fitted, or as what came later has moved it."""
        return self.online.get(name, self.calibration)

    def scale(self, name: str, values: Floats) -> Scale:
        """The scale of a series: as fitted, or for a new one from the rows that are given."""
        return self.scales[name] if name in self.scales else scale_of(values)

    def learns(self, values: Floats) -> bool:
        """Whether the model can forecast from these rows."""
        return self.model is not None and len(values) >= self.context_length

    def reads(self, table: Table) -> tuple[Recent, ...]:
        """The newest rows of the series of another table, which must fit the fitted ones."""
        if table.series[0].frequency != self.frequency:
            raise FernError(
                (f"its time steps by {table.series[0].frequency}, the forecaster was fitted to {self.frequency}"),
                argument="frame",
            )
        if table.form.long != self.form.long:
            wanted = "long (an identifier column)" if self.form.long else "wide (a column for each channel)"
            raise FernError(f"the forecaster was fitted to a {wanted} frame", argument="frame", expected="the same")
        return recent_rows(table.series, keep=self.context_length + self.horizon)


def recent_rows(series: Sequence[Series], *, keep: int) -> tuple[Recent, ...]:
    """The newest rows after the last break of each series."""
    found = []
    for one in series:
        start = max(len(one.values) - keep, one.breaks[-1] if one.breaks else 0, 0)
        last = None if one.stamps is None else one.stamps[len(one.stamps) - 1]
        rows = len(one.values)
        newest = one.values[start:].copy()  # a view would hold on to the whole series
        found.append(Recent(one.name, newest, last, rows, rows))
    return tuple(found)

"""Update without retraining: newer contexts, and radii that follow the errors of former forecasts."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from fern.calibration import OnlineCalibration
from fern.data.frequency import Frequency
from fern.data.series_table import LONGEST_CLOSED, Series, SeriesTable, count_open_days
from fern.data.timestamps import as_text
from fern.errors import FernError, unknown_name
from fern.forecaster.state import Recent, State
from fern.models.base import distribution_of

AT_ONCE = 4096
"""Windows times channels whose distributions are held at once."""


def update_state(state: State, table: SeriesTable) -> State:
    """The state with the rows of a table that continue its series."""
    known = {recent.name: place for place, recent in enumerate(state.recent)}
    # All rows are checked before any is taken in: an error leaves the forecaster as it was.
    for series in table.series:
        if series.name not in known:
            error = unknown_name("series", series.name, list(known)[:20], where="frame")
            error.expected = "fitted series; predict(df) forecasts new ones"
            raise error
        _require_following(state.recent[known[series.name]], series, state.frequency)
    recent, online = list(state.recent), dict(state.online)
    for series in table.series:
        place = known[series.name]
        before = recent[place]
        values = np.concatenate((before.values, series.values))
        after = replace(
            before,
            values=values,
            last=None if series.stamps is None else _stamps_like(before, series)[len(series.stamps) - 1],
            rows=before.rows + len(series.values),
            covariates=_join_covariates(before, series),
        )
        follower = _follow(state, after, new=len(series.values))
        if follower is not None:
            online[series.name] = follower
        kept = after.covariates
        recent[place] = replace(
            after,
            values=np.ascontiguousarray(values[-state.keep :]),
            covariates=None if kept is None else np.ascontiguousarray(kept[-state.keep :]),
        )
    return replace(state, recent=tuple(recent), online=online)


def _join_covariates(before: Recent, later: Series) -> NDArray[np.float64] | None:
    if before.covariates is None or later.covariates is None:
        return None
    return np.concatenate((before.covariates, later.covariates))


def _require_following(before: Recent, later: Series, frequency: Frequency) -> None:
    """Refuse rows that do not go on where the series ends."""
    where = f"frame, series {before.name!r}" if before.name else "frame"
    if (before.last is None) != (later.stamps is None):
        raise FernError(argument="frame", expected="a time column if and only if the fitted frame had one", where=where)
    if before.last is None:
        return
    if frequency.unit == "business day":
        steps = count_open_days(pa.concat_arrays([pa.array([before.last]), _stamps_like(before, later)]), frequency)
        if ((steps > 0) & (steps <= LONGEST_CLOSED + 1)).all():
            return  # holidays at most
    expected = before.future(frequency, len(later.values))
    for row, (wanted, stamp) in enumerate(zip(expected, _stamps_like(before, later), strict=True)):
        if wanted == stamp:
            continue
        end = before.last if row == 0 else expected[row - 1]
        what = "is known already: the rows overlap" if stamp.value <= end.value else "leaves a gap"
        raise FernError(
            f"row {row + 1} has the stamp {as_text(stamp)}, which {what}; after {as_text(end)} comes "
            f"{as_text(wanted)} (the step is {frequency})",
            where=where,
        )


def _stamps_like(before: Recent, later: Series) -> pa.Array:
    """The stamps in the type of those that are known."""
    assert before.last is not None and later.stamps is not None
    own, new = before.last.type, later.stamps.type
    zoned = [pa.types.is_timestamp(type_) and type_.tz is not None for type_ in (own, new)]
    if pa.types.is_timestamp(own) != pa.types.is_timestamp(new) or zoned[0] != zoned[1]:
        raise FernError(f"its time column holds {new}, the forecaster was fitted to {own}", argument="frame")
    return later.stamps.cast(own)


def _follow(state: State, after: Recent, *, new: int) -> OnlineCalibration | None:
    """The online calibration after windows whose first patch has just become known; None where there is none to learn.

    A window counts when all of its first patch came after the fit: what the model has learnt from says nothing of its
    errors. Each new row makes one such window known, the one that begins a patch before it.
    """
    if state.model is None or state.calibration is None:
        return None
    length = state.context_length
    patch = min(state.calibration.patch_size, state.horizon)
    begin = after.rows - len(after.values)  # the row of the series that values[0] is
    first = max(after.rows - new - patch + 1, after.fitted, begin + length)
    origins = np.arange(first, after.rows - patch + 1) - begin
    if not len(origins):
        return state.online.get(after.name)
    scaled = state.scale(after.name, after.values).apply(after.values)
    follower = state.online.get(after.name) or OnlineCalibration.start(state.calibration)
    at_once = max(1, AT_ONCE // scaled.shape[1])
    for start in range(0, len(origins), at_once):
        rows = origins[start : start + at_once, None]
        distribution = distribution_of(state.model, torch.from_numpy(scaled[rows + np.arange(-length, 0)]))
        follower = follower.update(distribution, scaled[rows + np.arange(patch)])
    return follower

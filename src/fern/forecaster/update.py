"""Update without retraining: newer contexts, and radii that follow the errors of former forecasts."""

from collections.abc import Iterator, Sequence
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
from fern.forecaster.state import Recent, State, kind_of_time
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
        state.scales[series.name].apply(series.values)  # refuses rows that no forecast could be made from
    recent = list(state.recent)
    longer = []
    for series in table.series:
        place = known[series.name]
        before = recent[place]
        after = replace(
            before,
            values=np.concatenate((before.values, series.values)),
            last=None if series.stamps is None else _stamps_like(before, series)[len(series.stamps) - 1],
            rows=before.rows + len(series.values),
            covariates=None
            if before.covariates is None or series.covariates is None
            else np.concatenate((before.covariates, series.covariates)),
        )
        longer.append((after, len(series.values)))
        covariates = after.covariates
        recent[place] = replace(
            after,
            values=np.ascontiguousarray(after.values[-state.keep :]),
            covariates=None if covariates is None else np.ascontiguousarray(covariates[-state.keep :]),
        )
    return replace(state, recent=tuple(recent), online=_follow(state, longer))


def _require_following(before: Recent, later: Series, frequency: Frequency) -> None:
    """Refuse rows that do not go on where the series ends."""
    where = f"frame, series {before.name!r}" if before.name else "frame"
    if (before.last is None) != (later.stamps is None):
        raise FernError(argument="frame", expected="a time column if and only if the fitted frame had one", where=where)
    if before.last is None or later.stamps is None:
        return
    if later.stamps.null_count:
        row = later.stamps.is_null().index(True).as_py() + 1
        raise FernError(f"row {row} has no stamp", where=where)
    if frequency.unit == "business day":
        steps = count_open_days(pa.concat_arrays([pa.array([before.last]), _stamps_like(before, later)]), frequency)
        if ((steps > 0) & (steps <= LONGEST_CLOSED + 1)).all():
            return  # holidays at most
    expected = before.future(frequency, len(later.values))
    for row, (following, stamp) in enumerate(zip(expected, _stamps_like(before, later), strict=True)):
        if following == stamp:
            continue
        end = before.last if row == 0 else expected[row - 1]
        problem = "is known already: the rows overlap" if stamp.value <= end.value else "leaves a gap"
        raise FernError(
            f"row {row + 1} has the stamp {as_text(stamp)}, which {problem}; after {as_text(end)} comes "
            f"{as_text(following)} (the step is {frequency})",
            where=where,
        )


def _stamps_like(before: Recent, later: Series) -> pa.Array:
    """The stamps in the type of those that are known."""
    assert before.last is not None and later.stamps is not None
    fitted, new = before.last.type, later.stamps.type
    if kind_of_time(fitted) != kind_of_time(new):
        raise FernError(f"its time column holds {new}, the forecaster was fitted to {fitted}", argument="frame")
    return later.stamps.cast(fitted)


def _follow(state: State, longer: Sequence[tuple[Recent, int]]) -> dict[str, OnlineCalibration]:
    """The online calibrations after windows whose first patch has become known by so many new rows of each series.

    A window counts when all of its first patch came after the fit: what the model has learnt from says nothing of its
    errors. Each new row makes one such window known, the one that begins a patch before it.
    """
    online = dict(state.online)
    if state.model is None or state.calibration is None:
        return online
    known = next(iter(online.values()), OnlineCalibration.start(state.calibration))
    start = OnlineCalibration.start(state.calibration, settings=known.settings)
    length, patch = state.context_length, min(state.calibration.patch_size, state.horizon)
    for batch in _windows(state, longer, patch):
        scaled = [state.scale(series.name, series.values).apply(series.values) for series, _ in batch]
        contexts, outcomes = (
            np.concatenate([rows[origins[:, None] + steps] for rows, (_, origins) in zip(scaled, batch, strict=True)])
            for steps in (np.arange(-length, 0), np.arange(patch))
        )
        arrived = start.measure(distribution_of(state.model, torch.from_numpy(contexts)), outcomes)
        ends = np.cumsum([len(origins) for _, origins in batch]).tolist()
        for (series, origins), end in zip(batch, ends, strict=True):
            online[series.name] = online.get(series.name, start).learn(arrived.part(slice(end - len(origins), end)))
    return online


def _windows(
    state: State, longer: Sequence[tuple[Recent, int]], patch: int
) -> Iterator[list[tuple[Recent, NDArray[np.int64]]]]:
    """Series and the places of their rows at which windows to learn from begin, `AT_ONCE` windows at a time."""
    most = max(1, AT_ONCE // len(state.channel_names))
    batch: list[tuple[Recent, NDArray[np.int64]]] = []
    room = most
    for after, new in longer:
        begin = after.rows - len(after.values)  # the row of the series that values[0] is
        first = max(after.rows - new - patch + 1, after.fitted, begin + state.context_length)
        origins = np.arange(first, after.rows - patch + 1) - begin
        while len(origins):
            batch.append((after, origins[:room]))
            origins, room = origins[room:], room - len(batch[-1][1])
            if not room:
                yield batch
                batch, room = [], most
    if batch:
        yield batch

"""The forecast as a picture: what `FernForecaster.plot` draws."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fern.data.frequency import last_stamps
from fern.errors import require_whole
from fern.forecaster.predict import (
    OutputColumns,
    Request,
    calibrate_forecast,
    make_batch,
    predict_series,
    simulate_series,
)
from fern.forecaster.state import Recent, State

if TYPE_CHECKING:
    from fern.forecaster.forecaster import FernForecaster
    from fern.plot.forecasts import Fans

MOST_PANELS = 12
HISTORY_PER_HORIZON, LEAST_HISTORY = 3, 30
JOINT_PATHS, MOST_JOINT, LEVEL = 1000, 4, 90.0
"""Paths that the joint distribution of two steps is seen from, the series it is drawn for, the share of paths that it
holds.
"""


def make_fans(
    forecaster: "FernForecaster",
    df: Any,
    *,
    futr_df: Any = None,
    level: Sequence[float] | float,
    h: int | None,
    band: bool = True,
    history: int | None = None,
    joint: tuple[int, int] | None = None,
) -> "Fans":
    """What is drawn of a forecast: the fan of each series and channel, with the joint distribution of two steps if
    asked for.
    """
    from fern.plot.forecasts import Fan, Fans, Interval, Joint, require_two_steps

    state, output = forecaster._require_fitted(), OutputColumns.of(level=level, quantiles=None)
    steps = forecaster._steps(h)
    shown = max(LEAST_HISTORY, HISTORY_PER_HORIZON * steps) if history is None else history
    require_whole("history", shown, 0)
    if joint is not None:
        require_two_steps("joint", joint, steps)
    recent, _ = forecaster._contexts(df, futr_df)
    channels = len(state.channel_names)
    series = recent[: max(1, MOST_PANELS // channels)]
    request = Request(steps, tuple(output.probabilities), seed=forecaster.seed, progress=forecaster.progress)
    prediction = predict_series(state, series, request)
    levels = sorted(zip(output.levels, range(0, 2 * len(output.levels), 2), strict=True), reverse=True)
    paths = None
    if joint is not None:
        chosen: dict[str, Any] = {"n_paths": JOINT_PATHS, "seed": forecaster.seed, "progress": forecaster.progress}
        paths = simulate_series(state, series, steps=steps, **chosen)
    ends = tuple(number for number, _ in levels) or (LEVEL,)
    fans: list[Fan] = []
    for place, member in enumerate(series):
        bands = _band(state, member, levels[0][0]) if band and levels and state.learns(member.values) else None
        ahead = _times(member.future(state.frequency, steps))
        before = _times(_before(state, member, shown))
        for c, channel in list(enumerate(state.channel_names))[:MOST_PANELS]:
            intervals = [
                Interval(prediction.quantiles[at, place, :, c], prediction.quantiles[at + 1, place, :, c], number)
                for number, at in levels
            ]
            whole = None
            if bands is not None:
                inside = min(steps, state.horizon)
                whole = Interval(bands[0][:inside, c], bands[1][:inside, c], levels[0][0])
            tail = member.values[len(member.values) - len(before) :, c]
            name = member.name if state.table.long else channel
            pair = None
            if paths is not None and joint is not None and len(fans) < MOST_JOINT:
                pair = Joint.of(paths[:, place, :, c], joint, levels=ends)
            fans.append(Fan(name, before, tail, ahead, prediction.mean[place, :, c], tuple(intervals), whole, pair))
    return Fans(tuple(fans), label=state.label, left_out=len(recent) * channels - len(fans))


def _band(state: State, series: Recent, level: float) -> tuple[Any, Any]:  # (H, C) each
    batch = make_batch(state, [series])
    low, high = calibrate_forecast(state.model, batch.calibration, batch.contexts).band(level)
    return batch.invert(low)[0], batch.invert(high)[0]


def _before(state: State, series: Recent, count: int) -> pa.Array:
    """The stamps of the newest rows, at most ``count``."""
    count = min(count, len(series.values))
    if series.last is None:
        return pa.array(np.arange(series.rows - count, series.rows))
    return last_stamps(series.last, state.frequency, count)


def _times(stamps: pa.Array) -> Any:
    """Stamps as matplotlib takes them: wall-clock dates of their zone, or numbers."""
    if not pa.types.is_timestamp(stamps.type):
        return np.asarray(stamps.to_numpy(zero_copy_only=False))
    local = stamps if stamps.type.tz is None else pc.local_timestamp(stamps)
    return local.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)

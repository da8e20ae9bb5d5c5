"""Sums and means over the horizon, whole or by calendar periods, with intervals from the joint distribution."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fern.data.series_table import SeriesTable
from fern.errors import FernError, unknown_name
from fern.forecaster.predict import (
    OutputColumns,
    Request,
    calibrate_forecast,
    make_batch,
    predict_series,
    simulate_series,
    uses_model_alone,
)
from fern.forecaster.state import Recent, State

Period = Literal["day", "week", "month", "quarter", "year"]
How = Literal["sum", "mean"]
Floats = NDArray[np.float64]

PATHS = 1000
"""Paths behind the sums of forecasts that are not the model's alone."""


def total_frame(
    state: State, recent: Sequence[Recent], table: SeriesTable, output: OutputColumns, *, by: Period | None, how: How
) -> Any:
    """A frame with one row for each series and period: identifier, first stamp, ``steps``, total and its intervals."""
    if how not in get_args(How):
        raise unknown_name("how", how, get_args(How))
    if by is not None and by not in get_args(Period):
        raise unknown_name("by", by, get_args(Period))
    stamps = [series.future(state.frequency, state.horizon) for series in recent]
    groups = [_groups(ahead, by) for ahead in stamps]
    columns: dict[str, list[Floats]] = {}
    for series, rows in zip(recent, groups, strict=True):
        weights = rows / rows.sum(axis=1, keepdims=True) if how == "mean" else rows
        mean, ends = _totals(state, series, weights, output)
        for c, name in enumerate(state.output_names):
            for column, values in output.label(name, mean[:, c], [end[:, c] for end in ends]).items():
                columns.setdefault(column, []).append(values)
    firsts = [ahead.take(pa.array(rows.argmax(axis=1))) for ahead, rows in zip(stamps, groups, strict=True)]
    steps = np.concatenate([rows.sum(axis=1) for rows in groups]).astype(np.int64)
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return table.frame([series.name for series in recent], firsts, {"steps": steps, **joined}, integers=["steps"])


def _totals(state: State, series: Recent, weights: Floats, output: OutputColumns) -> tuple[Floats, list[Floats]]:
    """The totals (J, C) of one series, and the ends of their intervals in the order of the columns."""
    if not uses_model_alone(state, series):
        prediction = predict_series(state, [series], Request(state.horizon))
        paths = simulate_series(state, [series], steps=state.horizon, n_paths=PATHS, seed=0)[:, 0]
        sums = np.einsum("jh,phc->pjc", weights, paths)
        # The point forecast is the mean: sums over steps and series are sums of means.
        return weights @ prediction.mean[0], [np.quantile(sums, share, axis=0) for share in output.probabilities]
    batch = make_batch(state, [series])
    forecast = calibrate_forecast(state.model, batch.calibration, batch.contexts)
    spread = batch.spread[0]
    shift = weights.sum(axis=1, keepdims=True) * batch.shift[0]
    floor = weights.sum(axis=1, keepdims=True) * state.combination.floor(series.name, series.values)
    mean = np.maximum(np.einsum("jh,hc->jc", weights, forecast.mean[0]) * spread + shift, floor)
    ends = []
    for level in output.levels:
        interval = forecast.functional(weights, level)
        ends += [np.maximum(end[0] * spread + shift, floor) for end in (interval.low, interval.high)]
    return mean, ends


def _groups(stamps: pa.Array, by: Period | None) -> Floats:  # (periods, H), 0 or 1
    """Which steps belong to which period, on the calendar of the stamps' time zone."""
    count = len(stamps)
    if by is None:
        return np.ones((1, count))
    if not pa.types.is_timestamp(stamps.type):
        raise FernError(f"got {by!r}, but the time column holds {stamps.type}, not dates", argument="by")
    local = stamps if stamps.type.tz is None else pc.local_timestamp(stamps)
    begins = np.asarray(pc.floor_temporal(local, unit=by).cast(pa.int64()))
    _, codes = np.unique(begins, return_inverse=True)
    rows = np.zeros((int(codes.max()) + 1, count))
    rows[codes, np.arange(count)] = 1.0
    return rows

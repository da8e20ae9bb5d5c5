"""Forecasts of past rows beside what came."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fern.data.frames import Series, restored
from fern.errors import FernError
from fern.forecaster.inputs import Table
from fern.forecaster.output import Asked, named
from fern.forecaster.prediction import Request, predict_series
from fern.forecaster.state import recent_rows

if TYPE_CHECKING:
    from fern.forecaster.forecaster import FernForecaster


def cross_validate(
    forecaster: "FernForecaster",
    df: Any,
    *,
    n_windows: int,
    step: int,
    asked: Asked,
    refit: bool,
    use_fitted: bool,
) -> Any:
    """The frame of `FernForecaster.cross_validation`."""
    table = forecaster._reader().read(df)
    horizon = forecaster.horizon
    needed = horizon + (n_windows - 1) * step
    shortest = min(table.series, key=lambda one: len(one.values))
    if len(shortest.values) <= needed:
        name = f"series {shortest.name!r}" if shortest.name else "the series"
        raise FernError(
            (
                f"{n_windows} windows of {horizon} steps, {step} apart, need more than {needed:,} rows; "
                f"{name} has {len(shortest.values):,}"
            ),
            argument="n_windows",
        )
    pieces: list[pa.Table] = []
    fitted = forecaster if use_fitted else None
    for window in range(n_windows):
        after = needed - window * step  # rows of each series from the first forecast one to the end
        known = _until(table, after)
        if fitted is None or refit:
            fitted = type(forecaster)(**forecaster.get_params())
            fitted.fit_table(known)
        pieces.append(_window(fitted, table, known, after, asked))
    return table.form.native.wrap(_sorted(pa.concat_tables(pieces), series=len(table.series), horizon=horizon))


def _until(table: Table, after: int) -> Table:
    """The table without the last ``after`` rows of each series."""
    return replace(table, series=tuple(_cut(one, len(one.values) - after) for one in table.series))


def _cut(one: Series, rows: int) -> Series:
    return replace(
        one,
        values=one.values[:rows],
        stamps=None if one.stamps is None else one.stamps[:rows],
        breaks=tuple(row for row in one.breaks if row < rows),
    )


def _window(fitted: "FernForecaster", table: Table, known: Table, after: int, asked: Asked) -> pa.Table:
    state, form = fitted._fitted(), table.form
    recent = recent_rows(known.series, keep=state.context_length + state.horizon)
    horizon = state.horizon
    made = predict_series(state, recent, Request(horizon, tuple(asked.shares), seed=fitted.seed))
    starts = [len(one.values) - after for one in table.series]
    stamps = [
        pa.array(np.arange(start, start + horizon)) if one.stamps is None else one.stamps[start : start + horizon]
        for one, start in zip(table.series, starts, strict=True)
    ]
    lasts = [
        pa.array([start - 1] * horizon) if one.stamps is None else one.stamps.take(pa.array([start - 1] * horizon))
        for one, start in zip(table.series, starts, strict=True)
    ]
    columns: dict[str, Any] = {}
    if form.identifier is not None:
        columns[form.identifier] = form.identifiers([one.name for one in recent], [horizon] * len(recent))
    columns[form.time or "row"] = restored(pa.concat_arrays(stamps), form.time_type)
    columns["cutoff"] = restored(pa.concat_arrays(lasts), form.time_type)
    names = fitted._output_names()
    truth = np.stack([one.values[start : start + horizon] for one, start in zip(table.series, starts, strict=True)])
    for c, name in enumerate(names):
        others = [quantile[..., c].reshape(-1) for quantile in made.quantiles]
        for column, values in named(asked, name, made.mean[..., c].reshape(-1), others).items():
            columns[column] = pa.array(values, form.value_type)
    for c, name in enumerate(table.channel_names):
        label = name if form.long else f"{name}-y"
        columns[label] = pa.array(truth[..., c].reshape(-1), form.value_type)
    return pa.table(columns)


def _sorted(rows: pa.Table, *, series: int, horizon: int) -> pa.Table:
    """By series in the order they came, then by window: as they were made it is the other way round."""
    windows = rows.num_rows // (series * horizon)
    places = np.arange(rows.num_rows).reshape(windows, series, horizon).swapaxes(0, 1)
    return rows.take(pa.array(places.reshape(-1)))

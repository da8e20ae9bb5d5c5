"""Cross-validation: forecasts of past rows beside what came."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fern.data.series_table import Series, SeriesTable, restore_stamps
from fern.errors import FernError
from fern.forecaster.predict import OutputColumns, Request, predict_series
from fern.forecaster.state import Recent, State, keep_recent

if TYPE_CHECKING:
    from fern.forecaster.forecaster import FernForecaster


def cross_validate(
    forecaster: "FernForecaster",
    table: SeriesTable,
    *,
    n_windows: int,
    step: int,
    output: OutputColumns,
    refit: bool,
    use_fitted: bool,
) -> Any:
    """The frame of `FernForecaster.cross_validation`."""
    horizon = forecaster.horizon
    needed = horizon + (n_windows - 1) * step
    shortest = min(table.series, key=lambda series: len(series.values))
    if len(shortest.values) <= needed:
        name = f"series {shortest.name!r}" if shortest.name else "the series"
        raise FernError(
            f"{n_windows} windows of {horizon} steps, {step} apart, need more than {needed:,} rows; "
            f"{name} has {len(shortest.values):,}",
            argument="n_windows",
            got=n_windows,
        )
    for window in range(n_windows):
        _require_no_gap(table, after=needed - window * step, horizon=horizon)
    if use_fitted:
        _require_later_rows(forecaster._require_fitted(), table, needed=needed, step=step)
    pieces: list[pa.Table] = []
    fitted = forecaster if use_fitted else None
    for window in range(n_windows):
        after = needed - window * step  # rows of each series from the first forecast one to the end
        known = replace(table, series=tuple(_cut(series, len(series.values) - after) for series in table.series))
        if fitted is None or refit:
            fitted = type(forecaster)(**forecaster.get_params()).fit(known)
        pieces.append(_predict_window(fitted, table, known, after, output))
    # By series in the order they came, then by window: as they were made it is the other way round.
    places = np.arange(n_windows * len(table.series) * horizon).reshape(n_windows, -1, horizon).swapaxes(0, 1)
    return table.native.wrap(pa.concat_tables(pieces).take(pa.array(places.reshape(-1))))


def _require_later_rows(state: State, table: SeriesTable, *, needed: int, step: int) -> None:
    """Refuse windows with rows that the forecaster has seen: their scores would be too good."""
    known = {recent.name: recent for recent in state.recent}
    for series in table.series:
        recent = known.get(series.name)
        if recent is None or _is_another(series, recent):
            continue
        later = _count_later(series, recent)
        if later < needed:
            fits = max(0, (later - state.horizon) // step + 1) if later >= state.horizon else 0
            end = f"row {recent.rows - 1}" if recent.last is None else recent.last.as_py()
            raise FernError(
                f"the forecaster was fitted to rows up to {end}; {later:,} rows are later, enough for {fits} windows",
                argument="n_windows",
                where=f"frame, series {series.name!r}" if series.name else "frame",
            )


def _require_no_gap(table: SeriesTable, *, after: int, horizon: int) -> None:
    """Refuse a window whose rows do not follow each other: its forecasts are of the steps that were left out."""
    for series in table.series:
        start = len(series.values) - after
        row = next((row for row in series.breaks if start <= row < start + horizon), None)
        if row is not None:
            before = f"row {row}" if series.stamps is None else str(series.stamps[row - 1].as_py())
            raise FernError(
                f"rows are missing after {before}, within a window",
                argument="missing",
                expected="'interpolate' or 'ffill', or windows that lie elsewhere (n_windows, step_size)",
                where=f"frame, series {series.name!r}" if series.name else "frame",
            )


def _count_later(series: Series, recent: Recent) -> int:
    """Rows after the newest that the forecaster has seen."""
    if series.stamps is None or recent.last is None:
        return max(0, len(series.values) - recent.rows)
    return int(pc.sum(pc.greater(series.stamps, recent.last.cast(series.stamps.type))).as_py() or 0)


def _is_another(series: Series, recent: Recent) -> bool:
    """Whether a series of the same name has other values in the newest row that the forecaster has seen."""
    row = recent.rows - 1
    if series.stamps is not None and recent.last is not None:
        row = pc.index(series.stamps, recent.last.cast(series.stamps.type)).as_py()
    if not 0 <= row < len(series.values):
        return False
    return not np.allclose(series.values[row], recent.values[-1], rtol=1e-6, atol=0.0)


def look_ahead(state: State, recent: Sequence[Recent], table: SeriesTable, after: int) -> list[Recent]:
    """The newest rows with the known columns of the steps to forecast, which the whole table has."""
    known = 0 if state.covariates is None else len(state.covariates.encoding.known_outputs)
    if not known:
        return list(recent)
    ahead = []
    for newest, series in zip(recent, table.series, strict=True):
        assert series.covariates is not None
        start = len(series.values) - after
        ahead.append(replace(newest, ahead=series.covariates[start : start + state.horizon, :known]))
    return ahead


def _cut(series: Series, rows: int) -> Series:
    """The first rows of a series."""
    return replace(
        series,
        values=series.values[:rows],
        stamps=None if series.stamps is None else series.stamps[:rows],
        breaks=tuple(row for row in series.breaks if row < rows),
        covariates=None if series.covariates is None else series.covariates[:rows],
    )


def _predict_window(
    fitted: "FernForecaster", table: SeriesTable, known: SeriesTable, after: int, output: OutputColumns
) -> pa.Table:
    """The forecasts of one window, and the truth ``after`` rows before the end."""
    state = fitted._require_fitted()
    recent = look_ahead(state, keep_recent(known.series, keep=state.keep), table, after)
    horizon = state.horizon
    prediction = predict_series(state, recent, Request(horizon, tuple(output.probabilities), seed=fitted.seed))
    stamps, cutoffs, truth = [], [], []
    for series in table.series:
        start = len(series.values) - after
        rows = pa.array(np.arange(len(series.values))) if series.stamps is None else series.stamps
        stamps.append(rows[start : start + horizon])
        cutoffs.append(rows.take(pa.array([start - 1] * horizon)))
        truth.append(series.values[start : start + horizon])
    columns: dict[str, Any] = {}
    if table.id_col is not None:
        columns[table.id_col] = table.identifiers([series.name for series in recent], [horizon] * len(recent))
    columns[table.time_col or "row"] = restore_stamps(pa.concat_arrays(stamps), table.time_type)
    columns["cutoff"] = restore_stamps(pa.concat_arrays(cutoffs), table.time_type)
    for c, name in enumerate(state.output_names):
        quantiles = [quantile[..., c].reshape(-1) for quantile in prediction.quantiles]
        for column, values in output.label(name, prediction.mean[..., c].reshape(-1), quantiles).items():
            columns[column] = pa.array(values, table.value_type)
    for c, name in enumerate(table.channel_names):
        columns[name if table.long else f"{name}-y"] = pa.array(np.stack(truth)[..., c].reshape(-1), table.value_type)
    return pa.table(columns)

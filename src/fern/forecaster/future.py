"""The known columns of the steps ahead: the frame to fill in, what it lacks, and two futures compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.columns import Reading, join_columns
from fern.data.covariates import align_future, encode_columns
from fern.data.reading import read_columns, unwrap
from fern.data.series_table import SeriesTable
from fern.data.timestamps import as_integers, time_format, to_stamps
from fern.errors import FernError, unknown_name
from fern.forecaster.covariates import prepare
from fern.forecaster.predict import Request, covariate_rows, predict_series, simulate_series
from fern.forecaster.state import Recent, State, kind_of_time

Floats = NDArray[np.float64]


def read_future(state: State, recent: Sequence[Recent], futr_df: Any) -> dict[str, Floats]:  # series -> (H, K)
    """The known columns of every step to forecast, from a frame of the user's."""
    rows = _future_rows(state, futr_df)
    assert state.covariates is not None
    expected = {series.name: series.future(state.frequency, state.horizon) for series in recent}
    return align_future(rows, expected, columns=state.covariates.encoding.known_outputs)


def _future_rows(state: State, futr_df: Any) -> dict[str, tuple[pa.Array, Floats]]:
    """The stamps and known columns of each series in a frame; every mistake names ``futr_df``."""
    if state.covariates is None or not state.covariates.encoding.known:
        raise FernError("the forecaster was fitted without known columns", argument="futr_df")
    encoding, table = state.covariates.encoding, state.table
    if isinstance(futr_df, str | Path):
        naming = tuple(table.native.named_by) or ((table.id_col,) if table.id_col else None)
        known = encoding.names.known
        frame = read_columns(futr_df, Reading(table.time_col, naming, covariates=known, forecast=True))
    else:
        try:
            frame, _ = unwrap(futr_df)
        except FernError as error:
            raise error.within("futr_df") from None
    frame = join_columns(frame, table.id_col, name="futr_df")
    if table.time_col is None:
        raise FernError("the fitted frame has no time column, so no steps ahead", argument="futr_df")
    for column in (table.time_col, *((table.id_col,) if table.id_col else ()), *encoding.names.known):
        if column not in frame.column_names:
            raise unknown_name("column", column, frame.column_names, argument="futr_df")
    roles = {table.time_col, table.id_col, *encoding.names.known, *table.channel_names}
    extra = [column for column in frame.column_names if column not in roles]
    if extra:
        problem = f"has the columns {', '.join(extra[:5])}, which are not known columns"
        expected = ", ".join(part for part in (table.id_col, table.time_col, *encoding.names.known) if part)
        raise FernError(problem, argument="futr_df", expected=expected)
    try:
        stamps = to_stamps(
            frame[table.time_col],
            name=table.time_col,
            form=time_format(frame[table.time_col], name=table.time_col, named=True),
        )
    except FernError as error:
        raise error.within("futr_df") from None
    last = state.recent[0].last
    if last is not None and kind_of_time(last.type) != kind_of_time(stamps.type):
        raise FernError(f"its time column holds {stamps.type}, the fitted one {last.type}", argument="futr_df")
    values = np.stack(list(encode_columns(frame, encoding.known, argument="futr_df", where="").values()), axis=1)
    stamps = stamps.combine_chunks() if isinstance(stamps, pa.ChunkedArray) else stamps
    if table.id_col is None:
        return {"": (stamps, values)}
    names = frame[table.id_col].cast(pa.string()).combine_chunks().dictionary_encode()
    codes, rows = np.asarray(names.indices), {}
    for code, name in enumerate(names.dictionary.to_pylist()):
        places = np.flatnonzero(codes == code)
        rows[name] = (stamps.take(pa.array(places)), values[places])
    return rows


def make_future(state: State, recent: Sequence[Recent], table: SeriesTable) -> Any:
    """The frame of `FernForecaster.make_future_dataframe`."""
    names = () if state.covariates is None else state.covariates.encoding.names.known
    stamps = [series.future(state.frequency, state.horizon) for series in recent]
    count = sum(map(len, stamps))
    return table.frame(
        [series.name for series in recent], stamps, {name: pa.nulls(count, pa.float64()) for name in names}
    )


def find_missing(state: State, recent: Sequence[Recent], table: SeriesTable, futr_df: Any) -> Any:
    """The frame of `FernForecaster.missing_future`: identifier and stamp of each row that lacks something."""
    rows = _future_rows(state, futr_df)
    names, stamps = [], []
    for series in recent:
        expected = series.future(state.frequency, state.horizon)
        have, values = rows.get(series.name, (expected[:0], np.empty((0, 1))))
        whole = as_integers(have)[np.isfinite(values).all(axis=1)]
        lacking = ~np.isin(as_integers(expected), whole)
        names.append(series.name)
        stamps.append(expected.filter(pa.array(lacking)))
    return table.frame(names, stamps, {})


def compare_futures(
    state: State,
    first: Sequence[Recent],
    second: Sequence[Recent],
    table: SeriesTable,
    *,
    level: float,
    n_paths: int,
    seed: int,
) -> Any:
    """The frame of `FernForecaster.compare`: the difference of two forecasts.

    Its interval has the uncertainty of the estimated effect, and that of the paths under common random numbers where
    these do not all differ by the same.
    """
    means = [predict_series(state, rows, Request(state.horizon, seed=seed)).mean for rows in (first, second)]
    paths = [simulate_series(state, rows, steps=state.horizon, n_paths=n_paths, seed=seed) for rows in (first, second)]
    mean = means[0] - means[1]
    differences = paths[0] - paths[1] - mean + _sample_effects(state, first, second, mean, n_paths=n_paths, seed=seed)
    low, high = (np.quantile(differences, 0.5 + side * level / 200, axis=0) for side in (-1, 1))
    # Other forecasts, which know of no effect, draw the difference towards 0: it is within the interval all the same.
    low, high = np.minimum(low, mean), np.maximum(high, mean)
    columns: dict[str, Floats] = {}
    for c, name in enumerate(state.output_names):
        columns |= {
            name: mean[..., c].reshape(-1),
            f"{name}-lo-{level:g}": low[..., c].reshape(-1),
            f"{name}-hi-{level:g}": high[..., c].reshape(-1),
        }
    stamps = [series.future(state.frequency, state.horizon) for series in first]
    return table.frame([series.name for series in first], stamps, columns)


def _sample_effects(
    state: State, first: Sequence[Recent], second: Sequence[Recent], mean: Floats, *, n_paths: int, seed: int
) -> Floats:  # (n_paths, N, H, C)
    """Draws of the effect itself; the difference of the forecasts where the regression has no part in them."""
    draws = np.broadcast_to(mean, (n_paths, *mean.shape)).copy()
    model = state.covariates
    if model is None or not model.active:
        return draws
    for number, pair in enumerate(zip(first, second, strict=True)):
        rows = [covariate_rows(state, series) for series in pair]
        for channel, regression in enumerate(model.regressions):
            if len(pair[0].values) < regression.config.context_length:
                continue
            with_first, with_second = (prepare(entry, model.encoding, channel, state.frequency) for entry in rows)
            # Every series has the same draws of the weights: they are estimated from all of them together.
            rng = np.random.default_rng((seed, channel))
            effects = regression.sample_effects(with_first, with_second, n_paths, rng)
            kernel = model.kernels[channel] if model.kernels else None
            curved = None if kernel is None else kernel.sample_effects(with_first, with_second, n_paths, rng)
            if kernel is not None and curved is not None:
                # A mixture, not an average: what the two disagree about is uncertain, too.
                effects = np.where(rng.random((n_paths, 1)) < kernel.share, curved, effects)
            draws[:, number, :, channel] = effects
    return draws

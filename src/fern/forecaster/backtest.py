"""Cross-validation: forecasts of past rows beside what came, and their scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.series_table import Series, SeriesTable, restore_stamps
from fern.errors import FernError
from fern.forecaster.predict import OutputColumns, Request, predict_series
from fern.forecaster.state import keep_recent

if TYPE_CHECKING:
    from fern.forecaster.forecaster import FernForecaster

Floats = NDArray[np.float64]

GRID = tuple(round(0.05 * number, 2) for number in range(1, 20))
"""The quantiles behind the CRPS."""


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
    pieces: list[pa.Table] = []
    fitted = forecaster if use_fitted else None
    for window in range(n_windows):
        after = needed - window * step  # rows of each series from the first forecast one to the end
        known = replace(table, series=tuple(_cut(series, len(series.values) - after) for series in table.series))
        if fitted is None or refit:
            fitted = type(forecaster)(**forecaster.get_params()).fit(known)
        pieces.append(_predict_window(fitted, table, known, after, output))
    return table.native.wrap(_sort(pa.concat_tables(pieces), series=len(table.series), horizon=horizon))


def _cut(series: Series, rows: int) -> Series:
    """The first rows of a series."""
    return replace(
        series,
        values=series.values[:rows],
        stamps=None if series.stamps is None else series.stamps[:rows],
        breaks=tuple(row for row in series.breaks if row < rows),
    )


def _predict_window(
    fitted: "FernForecaster", table: SeriesTable, known: SeriesTable, after: int, output: OutputColumns
) -> pa.Table:
    """The forecasts of one window, and the truth ``after`` rows before the end."""
    state = fitted._fitted()
    recent = keep_recent(known.series, keep=state.keep)
    horizon = state.horizon
    made = predict_series(state, recent, Request(horizon, tuple(output.probabilities), seed=fitted.seed))
    starts = [len(series.values) - after for series in table.series]
    stamps, cutoffs, truth = [], [], []
    for series, start in zip(table.series, starts, strict=True):
        rows = pa.array(np.arange(len(series.values))) if series.stamps is None else series.stamps
        stamps.append(rows[start : start + horizon])
        cutoffs.append(rows.take(pa.array([start - 1] * horizon)))
        truth.append(series.values[start : start + horizon])
    columns: dict[str, Any] = {}
    if table.id_col is not None:
        columns[table.id_col] = table.identifiers([one.name for one in recent], [horizon] * len(recent))
    columns[table.time_col or "row"] = restore_stamps(pa.concat_arrays(stamps), table.time_type)
    columns["cutoff"] = restore_stamps(pa.concat_arrays(cutoffs), table.time_type)
    for c, name in enumerate(state.output_names):
        others = [quantile[..., c].reshape(-1) for quantile in made.quantiles]
        for column, values in output.label(name, made.mean[..., c].reshape(-1), others).items():
            columns[column] = pa.array(values, table.value_type)
    for c, name in enumerate(table.channel_names):
        columns[name if table.long else f"{name}-y"] = pa.array(np.stack(truth)[..., c].reshape(-1), table.value_type)
    return pa.table(columns)


def _sort(rows: pa.Table, *, series: int, horizon: int) -> pa.Table:
    """By series in the order they came, then by window: as they were made it is the other way round."""
    windows = rows.num_rows // (series * horizon)
    places = np.arange(rows.num_rows).reshape(windows, series, horizon).swapaxes(0, 1)
    return rows.take(pa.array(places.reshape(-1)))


@dataclass(frozen=True)
class Score:
    """Of one series or column, or of all: over every forecast step of every window."""

    name: str
    steps: int
    mse: float
    mae: float
    crps: float
    coverage: tuple[float, ...]
    """The share of outcomes inside each level's interval."""


def list_quantiles(levels: Sequence[float]) -> tuple[float, ...]:
    """The quantiles to ask `FernForecaster.cross_validation` for: the grid, and the ends of each level's interval.

    Example:
        >>> list_quantiles([99])[0], len(list_quantiles([80])), len(list_quantiles([99]))
        (0.005, 19, 21)
    """
    return tuple(sorted({*GRID, *_ends(levels)}))


def score_forecasts(
    rows: pa.Table, *, columns: Sequence[tuple[str, str]], levels: Sequence[float], by: str | None = None
) -> list[Score]:
    """The scores of a table that `cross_validation` gave for `probabilitys_for` these levels.

    Arguments:
        columns: for each channel the column of the forecast and that of what came.
        by: a column of names; each gets a score, after the score of all.
    """
    groups: list[tuple[str, pa.Table]] = [("all", rows)]
    if by is not None:
        names = np.asarray(rows[by].cast(pa.string()).to_numpy(zero_copy_only=False))
        distinct = list(dict.fromkeys(names.tolist()))
        groups += [(name, rows.filter(pa.array(names == name))) for name in distinct] if len(distinct) > 1 else []
    scores = [_score(name, part, columns, levels) for name, part in groups]
    if len(columns) > 1:
        scores += [_score(truth.removesuffix("-y"), rows, [(made, truth)], levels) for made, truth in columns]
    return scores


def keep_levels(rows: pa.Table, *, columns: Sequence[tuple[str, str]], levels: Sequence[float]) -> pa.Table:
    """The same table with the ends of the levels' intervals in place of all the quantiles."""
    quantiles = {name: column for made, _ in columns for name, column in _quantiles(made, list_quantiles(levels))}
    keep: dict[str, str] = {}
    for name in rows.column_names:
        if name not in quantiles:
            keep[name] = name
        if name in {made for made, _ in columns}:
            output = OutputColumns.of(level=list(levels), quantiles=None) if levels else OutputColumns()
            ends = zip(output.names(name)[1:], output.probabilities, strict=True)
            keep |= {column: _column(name, _rounded(probability)) for column, probability in ends}
    return pa.table({column: rows[source] for column, source in keep.items()})


def _score(name: str, rows: pa.Table, columns: Sequence[tuple[str, str]], levels: Sequence[float]) -> Score:
    made, truth = (np.concatenate([_values(rows, pair[side]) for pair in columns]) for side in (0, 1))

    def quantile(probability: float) -> Floats:
        return np.concatenate([_values(rows, _column(column, probability)) for column, _ in columns])

    pinball = [
        np.maximum(probability * (truth - q), (probability - 1) * (truth - q)).mean()
        for probability in GRID
        for q in [quantile(probability)]
    ]
    inside = tuple(
        float(((quantile(low) <= truth) & (truth <= quantile(high))).mean())
        for low, high in zip(_ends(levels)[::2], _ends(levels)[1::2], strict=True)
    )
    error = made - truth
    return Score(
        name,
        rows.num_rows,
        float(np.square(error).mean()),
        float(np.abs(error).mean()),
        2 * float(np.mean(pinball)),
        inside,
    )


def _values(rows: pa.Table, column: str) -> Floats:
    return np.asarray(rows[column].to_numpy(), dtype=np.float64)


def _ends(levels: Sequence[float]) -> list[float]:
    return [_rounded(0.5 + side * level / 200) for level in levels for side in (-1, 1)]


def _rounded(probability: float) -> float:
    """Without rounding dust, so that 0.1 of a level and 0.1 of the grid are one quantile."""
    return round(probability, 12)


def _quantiles(made: str, probabilitys: Sequence[float]) -> list[tuple[str, str]]:
    return [(_column(made, probability), made) for probability in probabilitys]


def _column(made: str, probability: float) -> str:
    return OutputColumns(quantiles=(probability,)).names(made)[1]

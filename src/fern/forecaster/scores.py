"""Scores of cross-validated forecasts, beside seasonal naive and classical forecasts of the same windows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import ndtri

from fern.data.series_table import SeriesTable
from fern.forecaster.predict import OutputColumns
from fern.models.classical import ClassicalSettings, forecast_panel

Floats = NDArray[np.float64]

GRID = tuple(round(0.05 * number, 2) for number in range(1, 20))
"""The quantiles behind the CRPS."""

NAIVE, CLASSICAL = "seasonal naive", "classical"
TIE = 0.01
"""A difference below this share is none."""


@dataclass(frozen=True)
class Score:
    """Of a method over every forecast step of every window, or of one of its series or columns.

    ``mase`` is the MAE over that of seasonal naive inside the rows before the first window, mean over series; None
    where those rows never change. ``coverage`` is the share of outcomes inside each level's interval.
    """

    name: str
    steps: int
    mse: float
    mae: float
    mase: float | None
    crps: float
    coverage: tuple[float, ...]


@dataclass(frozen=True)
class Backtest:
    """Scores of a forecaster and of baselines on the same windows.

    Attributes:
        methods: the score of the forecaster first, then those of seasonal naive and of the classical ensemble.
        parts: the forecaster's score on each series or column, where there are several.
        levels: the levels of the coverage, in percent.
        windows: forecasts of each series.
        season: rows of a season; 1 for none, and seasonal naive repeats the last value.
    """

    methods: tuple[Score, ...]
    parts: tuple[Score, ...]
    levels: tuple[float, ...]
    windows: int
    season: int

    @property
    def verdict(self) -> str:
        """One sentence: how much better or worse the forecaster is than the baselines.

        By MASE, or by MAE where there is no MASE.
        """
        ours, *baselines = self.methods
        naive = f"{NAIVE} (season {self.season})" if self.season > 1 else "the last value"
        names = {NAIVE: naive, CLASSICAL: "the classical ensemble"}
        comparisons = [_compare(_error(ours), _error(baseline), names[baseline.name]) for baseline in baselines]
        windows = "1 window" if self.windows == 1 else f"{self.windows} windows"
        few = "; few windows say little" if self.windows < 4 else ""
        return f"{ours.name} is {' and '.join(comparisons)} ({windows} of each series{few})."

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return {**asdict(self), "verdict": self.verdict}


def list_quantiles(levels: Sequence[float]) -> tuple[float, ...]:
    """The quantiles to ask `FernForecaster.cross_validation` for: the grid, and the ends of each level's interval.

    Example:
        >>> list_quantiles([99])[0], len(list_quantiles([80])), len(list_quantiles([99]))
        (0.005, 19, 21)
    """
    return tuple(sorted({*GRID, *_ends(levels)}))


def score_backtest(
    rows: pa.Table, table: SeriesTable, *, levels: Sequence[float], horizon: int, step: int, season: int, name: str
) -> Backtest:
    """Score what `cross_validation` returned for `list_quantiles` of these levels, beside the baselines.

    Arguments:
        rows: the forecasts, by series, then by window.
        table: the series that were forecast.
        step: rows between windows.
        season: rows of a season.
        name: what the forecaster is called.
    """
    columns = list_columns(table, rows.column_names)
    probabilities = list_quantiles(levels)

    def stack(names: Sequence[str]) -> Floats:  # (S, W, H, C)
        shape = (len(table.series), -1, horizon)
        return np.stack([np.asarray(rows[name].to_numpy(), dtype=np.float64).reshape(shape) for name in names], axis=-1)

    truth = stack([column for _, column in columns])
    quantiles = np.stack([stack([_column(mean, p) for mean, _ in columns]) for p in probabilities])
    windows = truth.shape[1]
    needed = horizon + (windows - 1) * step
    starts = [needed - window * step for window in range(windows)]
    scales = np.stack([_naive_error(series.values[: len(series.values) - needed], season) for series in table.series])
    known = [[series.values[: len(series.values) - start] for start in starts] for series in table.series]
    score = partial(_score, truth=truth, scales=scales, probabilities=probabilities, levels=levels)
    forecast = (stack([mean for mean, _ in columns]), quantiles)
    methods = (
        score(name, *forecast),
        score(NAIVE, *_forecast_naive(known, horizon, season, probabilities)),
        score(CLASSICAL, *_forecast_classical(known, horizon, season, probabilities)),
    )
    parts: list[Score] = []
    if len(table.series) > 1:
        parts += [score(series.name, *forecast, series=[place]) for place, series in enumerate(table.series)]
    if len(columns) > 1:
        parts += [score(channel, *forecast, channels=[c]) for c, channel in enumerate(table.channel_names)]
    return Backtest(methods, tuple(parts), tuple(levels), windows, season)


def keep_levels(rows: pa.Table, table: SeriesTable, *, levels: Sequence[float]) -> pa.Table:
    """The forecasts with the ends of the levels' intervals in place of all the quantiles."""
    means = [mean for mean, _ in list_columns(table, rows.column_names)]
    quantiles = {_column(mean, probability) for mean in means for probability in list_quantiles(levels)}
    keep: dict[str, str] = {}
    for name in rows.column_names:
        if name not in quantiles:
            keep[name] = name
        if name in means:
            output = OutputColumns.of(level=list(levels), quantiles=None) if levels else OutputColumns()
            ends = zip(output.names(name)[1:], output.probabilities, strict=True)
            keep |= {column: _column(name, _round(probability)) for column, probability in ends}
    return pa.table({column: rows[source] for column, source in keep.items()})


def list_columns(table: SeriesTable, names: Sequence[str]) -> list[tuple[str, str]]:
    """The column of the forecast and that of the truth, for each channel of a cross-validation."""
    if not table.long:
        return [(name, f"{name}-y") for name in table.channel_names]
    return [(names[list(names).index("cutoff") + 1], table.channel_names[0])]


def _score(
    name: str,
    mean: Floats,  # (S, W, H, C)
    quantiles: Floats,  # (Q, S, W, H, C)
    *,
    truth: Floats,  # (S, W, H, C)
    scales: Floats,  # (S, C)
    probabilities: Sequence[float],
    levels: Sequence[float],
    series: Sequence[int] | None = None,
    channels: Sequence[int] | None = None,
) -> Score:
    """The score over some series and channels; over all where none are named."""
    rows = slice(None) if series is None else list(series)
    columns = slice(None) if channels is None else list(channels)
    truth, mean, quantiles = truth[rows][..., columns], mean[rows][..., columns], quantiles[:, rows][..., columns]
    error, scales = mean - truth, scales[rows][..., columns]
    scaled = np.abs(error).mean(axis=(1, 2)) / np.where(scales > 0, scales, np.nan)
    at = dict(zip(probabilities, quantiles, strict=True))
    pinball = [np.maximum(p * (truth - at[p]), (p - 1) * (truth - at[p])) for p in GRID]
    ends = _ends(levels)
    return Score(
        name,
        truth.size,
        float(np.square(error).mean()),
        float(np.abs(error).mean()),
        None if np.isnan(scaled).all() else float(np.nanmean(scaled)),
        2 * float(np.mean(pinball)),
        tuple(
            float(((at[low] <= truth) & (truth <= at[high])).mean())
            for low, high in zip(ends[::2], ends[1::2], strict=True)
        ),
    )


Known = Sequence[Sequence[Floats]]
"""Of each series the rows (T, C) before each window."""


def _forecast_naive(
    known: Known, horizon: int, season: int, probabilities: Sequence[float]
) -> tuple[Floats, Floats]:  # (S, W, H, C), (Q, S, W, H, C)
    """Seasonal naive with normal intervals from its own past errors."""
    forecasts = [[_repeat_season(rows, horizon=horizon, season=season) for rows in windows] for windows in known]
    mean, stddev = (np.array([[forecast[part] for forecast in windows] for windows in forecasts]) for part in (0, 1))
    return mean, np.stack([mean + ndtri(probability) * stddev for probability in probabilities])


def _repeat_season(values: Floats, *, horizon: int, season: int) -> tuple[Floats, Floats]:  # (T, C) -> (H, C) each
    """The last season, or the last value where there are no two seasons, and the standard deviation of each step.

    That is the root mean square of the same forecast's errors inside the series, over as many seasons (or steps);
    where fewer than three remain, it grows like a random walk's.
    """
    rows, steps = len(values), np.arange(1, horizon + 1)
    lag = season if season > 1 and rows >= 2 * season else 1
    mean = values[rows - lag + (steps - 1) % lag]
    if rows <= lag:  # a single row: nothing is known of its errors
        return mean, np.repeat(np.maximum(np.abs(values).max(axis=0), 1.0)[None], horizon, axis=0)
    laps = ((steps - 1) // lag + 1).tolist()
    sizes = {
        lap: np.sqrt(np.square(values[lap * lag :] - values[: rows - lap * lag]).mean(axis=0))
        for lap in set(laps)
        if lap * lag < rows
    }
    first = np.where(sizes[1] > 0, sizes[1], 1e-6 * np.maximum(np.abs(values).max(axis=0), 1e-6))
    spread = [np.maximum(sizes[lap], first) if rows - lap * lag >= 3 else first * np.sqrt(lap) for lap in laps]
    return mean, np.maximum.accumulate(np.stack(spread), axis=0)


def _forecast_classical(
    known: Known, horizon: int, season: int, probabilities: Sequence[float]
) -> tuple[Floats, Floats]:  # (S, W, H, C), (Q, S, W, H, C)
    """The classical ensemble, channel by channel."""
    columns = [column for windows in known for rows in windows for column in rows.T]
    forecast = forecast_panel(columns, horizon, ClassicalSettings(season=season))
    shape = (len(known), len(known[0]), known[0][0].shape[1], horizon)
    quantiles = forecast.quantile(list(probabilities)).reshape(len(probabilities), *shape)
    return forecast.mean.reshape(shape).swapaxes(2, 3), quantiles.swapaxes(3, 4)


def _naive_error(values: Floats, season: int) -> Floats:  # (T, C) -> (C,)
    """The mean absolute error of seasonal naive inside a series; of the last value where it is too short for that."""
    lag = season if len(values) > season else 1
    steps = np.abs(values[lag:] - values[:-lag])
    return steps.mean(axis=0) if len(steps) else np.zeros(values.shape[1])


def _error(score: Score) -> float:
    return score.mae if score.mase is None else score.mase


def _compare(ours: float, theirs: float, name: str) -> str:
    if theirs <= 0 or abs(ours / theirs - 1) < TIE:
        return f"as good as {name}"
    return f"{'better' if ours < theirs else 'worse'} than {name} by {abs(1 - ours / theirs):.0%}"


def _ends(levels: Sequence[float]) -> list[float]:
    return [_round(0.5 + side * level / 200) for level in levels for side in (-1, 1)]


def _round(probability: float) -> float:
    """Without rounding dust, so that 0.1 of a level and 0.1 of the grid are one quantile."""
    return round(probability, 12)


def _column(mean: str, probability: float) -> str:
    return OutputColumns(quantiles=(probability,)).names(mean)[1]

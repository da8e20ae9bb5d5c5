"""Series with too few rows for the other regressions: what known and static columns tell of them.

A ridge regression of each step on a series' newest rows, its columns and the calendar is fitted to all series together,
in the units of the data or in their logarithms: so a series of one row takes part in what others of its kind do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.forecaster.combination import HeldOutWindows, choose_blend
from fern.models.classical import QuantileForecast
from fern.models.lag_regression import LagRegression, LagRegressionConfig, RegressionSeries, fit_lag_regression

Floats = NDArray[np.float64]
Scale = Literal["none", "log"]
SCALES: tuple[Scale, ...] = get_args(Scale)

NEWEST = 3
"""Rows of a series that enter; the first is repeated before a series of fewer."""

FEWEST_SERIES = 8
"""Held-out windows, one of each series, from which it is judged."""


@dataclass(frozen=True, eq=False)
class BriefPart:
    """The regressions of short series, one for each channel, and their weight beside the other forecasts."""

    weights: tuple[tuple[Floats, ...], ...]  # by channel and step: (1, p_h + 1)
    spread: Floats  # (C, H) standard deviations, as `scale` has the values
    scale: Scale
    weight: float

    def forecast(self, ready: RegressionSeries, channel: int) -> QuantileForecast:  # (1, H)
        """The forecast of the steps after a series' last row."""
        regression = LagRegression(_config(self.spread.shape[1]), self.weights[channel])
        means = regression.predict(_prepend(ready, self.scale))
        return _distribution(means, self.spread[[channel]], self.scale)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What JSON holds, and arrays."""
        arrays = {f"weights.{c}.{h}": weight for c, steps in enumerate(self.weights) for h, weight in enumerate(steps)}
        return {"scale": self.scale, "weight": self.weight}, {**arrays, "spread": self.spread}

    @classmethod
    def from_parts(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, horizon: int) -> "BriefPart":
        """What `to_parts` took apart."""
        spread = np.asarray(arrays["spread"], dtype=np.float64)
        if spread.ndim != 2 or spread.shape[1] != horizon or not np.isfinite(spread).all():
            raise FernError(f"spread of shape {spread.shape}, or not finite", argument="covariates")
        weights = tuple(
            tuple(np.asarray(arrays[f"weights.{c}.{h}"], dtype=np.float64) for h in range(horizon))
            for c in range(len(spread))
        )
        if any(
            weight.ndim != 2 or not weight.size or not np.isfinite(weight).all()
            for steps in weights
            for weight in steps
        ):
            raise FernError("weights of the wrong shape, or not finite", argument="covariates")
        return cls(weights, spread, plain["scale"], float(plain["weight"]))


def fit_brief(
    ready: Sequence[Sequence[RegressionSeries]],  # by channel and series
    held: HeldOutWindows,
    *,
    alone: bool,
) -> BriefPart | None:
    """The regressions, where the newest held-out window of each series says that they help.

    It is judged beside the other forecasts where there is no other regression (``alone``). Else there are long series,
    of which the others read all rows: the last value, with the spread of its errors, stands for what they could tell
    of few.
    """
    newest = np.zeros(len(ready[0]), dtype=np.int64)
    np.maximum.at(newest, held.series, held.rows)
    places = np.flatnonzero(held.rows == newest[held.series])
    if len(np.unique(held.series[places])) < FEWEST_SERIES:
        return None
    horizon = held.actual.shape[1]
    reference = None if alone else _last_values(ready, held)
    best, chosen = inf, None
    positive = all((series.values > 0).all() for panel in ready for series in panel)
    for scale in SCALES if positive else SCALES[:1]:
        means = np.full(held.actual.shape, np.nan)
        try:
            for channel, panel in enumerate(ready):
                prepended = [_prepend(series, scale) for series in panel]
                early = [
                    series.before(NEWEST + (row or len(series.values)))
                    for series, row in zip(prepended, newest.tolist(), strict=True)
                ]
                regression = fit_lag_regression(early, _config(horizon))
                for place in places[held.channels[places] == channel].tolist():
                    origins = NEWEST + held.rows[[place]]
                    means[place] = regression.predict(prepended[held.series[place]], origins=origins)[0]
        except FernError:  # too few rows
            continue
        error = (np.log(held.actual) if scale == "log" else held.actual) - means
        spread = np.stack(
            [np.sqrt(np.nanmean(np.square(error[held.channels == channel]), axis=0)) for channel in range(len(ready))]
        )
        forecast = _distribution(means, spread[held.channels], scale)
        blend, losses = choose_blend(held.compare(forecast, places, other=reference))
        if blend.weight > 0 and losses[blend.weight] < best:
            best, chosen = losses[blend.weight], BriefPart((), spread, scale, blend.weight)
    if chosen is None:
        return None
    weights = []
    for panel in ready:
        fitted = fit_lag_regression([_prepend(series, chosen.scale) for series in panel], _config(horizon)).weights
        weights.append(tuple(weight for weight in fitted if weight is not None))
    return replace(chosen, weights=tuple(weights))


def _config(horizon: int) -> LagRegressionConfig:
    return LagRegressionConfig(horizon=horizon, recent=NEWEST, cycles=(1,), reach=0, memories=(2.0,), lean=True)


def _prepend(series: RegressionSeries, scale: Scale) -> RegressionSeries:
    """The series in units that all share, with its first row repeated before it."""

    def repeat(rows: Floats) -> Floats:
        return np.concatenate((np.repeat(rows[:1], NEWEST, axis=0), rows)) if len(rows) else rows

    values = np.log(np.maximum(series.values, np.finfo(np.float64).tiny)) if scale == "log" else series.values
    known, past, dates = repeat(series.known), repeat(series.past), repeat(series.dates)
    return replace(series, values=repeat(values), known=known, past=past, dates=dates, scale=(0.0, 1.0))


def _distribution(means: Floats, spread: Floats, scale: Scale) -> QuantileForecast:  # (n, H) each
    response = np.full_like(means, 0.5) ** np.arange(means.shape[1])
    forecast = QuantileForecast.normal(means, spread, response)
    return forecast.through(np.exp) if scale == "log" else forecast


def _last_values(ready: Sequence[Sequence[RegressionSeries]], held: HeldOutWindows) -> QuantileForecast:
    """The last value again, with the spread of its errors."""
    entries = zip(held.channels.tolist(), held.series.tolist(), held.rows.tolist(), strict=True)
    last = np.array([ready[channel][number].values[row - 1] for channel, number, row in entries])
    means, scale = np.repeat(last[:, None], held.actual.shape[1], axis=1), held.scale[:, None]
    spread = np.sqrt(np.square((held.actual - means) / scale).mean(axis=0)) * scale
    return _distribution(means, spread, "none")

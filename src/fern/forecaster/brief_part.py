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
        return _distribution(
            self._regression(channel).predict(_prepend(ready, self.scale)), self.spread[[channel]], self.scale
        )

    def _regression(self, channel: int) -> LagRegression:
        return LagRegression(_config(self.spread.shape[1]), self.weights[channel])

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What JSON holds, and arrays."""
        arrays = {f"weights.{c}.{h}": own for c, steps in enumerate(self.weights) for h, own in enumerate(steps)}
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
        if any(own.ndim != 2 or not own.size or not np.isfinite(own).all() for steps in weights for own in steps):
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
    other = None if alone else _last_values(ready, held)
    best, chosen = inf, None
    positive = all((one.values > 0).all() for several in ready for one in several)
    for scale in SCALES if positive else SCALES[:1]:
        means = np.full(held.actual.shape, np.nan)
        try:
            for channel, several in enumerate(ready):
                moved = [_prepend(one, scale) for one in several]
                early = [
                    one.before(NEWEST + (row or len(one.values)))
                    for one, row in zip(moved, newest.tolist(), strict=True)
                ]
                regression = fit_lag_regression(early, _config(horizon))
                for place in places[held.channels[places] == channel].tolist():
                    origins = NEWEST + held.rows[[place]]
                    means[place] = regression.predict(moved[held.series[place]], origins=origins)[0]
        except FernError:  # too few rows
            continue
        error = (np.log(held.actual) if scale == "log" else held.actual) - means
        spread = np.stack(
            [np.sqrt(np.nanmean(np.square(error[held.channels == channel]), axis=0)) for channel in range(len(ready))]
        )
        made = _distribution(means, spread[held.channels], scale)
        blend, losses = choose_blend(held.judged(made, places, other=other))
        if blend.weight > 0 and losses[blend.weight] < best:
            best, chosen = losses[blend.weight], BriefPart((), spread, scale, blend.weight)
    if chosen is None:
        return None
    weights = []
    for several in ready:
        fitted = fit_lag_regression([_prepend(one, chosen.scale) for one in several], _config(horizon)).weights
        weights.append(tuple(own for own in fitted if own is not None))
    return replace(chosen, weights=tuple(weights))


def _config(horizon: int) -> LagRegressionConfig:
    return LagRegressionConfig(horizon=horizon, recent=NEWEST, cycles=(1,), reach=0, memories=(2.0,), lean=True)


def _prepend(one: RegressionSeries, scale: Scale) -> RegressionSeries:
    """The series in units that all share, with its first row repeated before it."""

    def repeat(rows: Floats) -> Floats:
        return np.concatenate((np.repeat(rows[:1], NEWEST, axis=0), rows)) if len(rows) else rows

    values = np.log(np.maximum(one.values, np.finfo(np.float64).tiny)) if scale == "log" else one.values
    known, past, dates = repeat(one.known), repeat(one.past), repeat(one.dates)
    return replace(one, values=repeat(values), known=known, past=past, dates=dates, scale=(0.0, 1.0))


def _distribution(means: Floats, spread: Floats, scale: Scale) -> QuantileForecast:  # (n, H) each
    response = np.full_like(means, 0.5) ** np.arange(means.shape[1])
    made = QuantileForecast.normal(means, spread, response)
    return made.through(np.exp) if scale == "log" else made


def _last_values(ready: Sequence[Sequence[RegressionSeries]], held: HeldOutWindows) -> QuantileForecast:
    """The last value again, with the spread of its errors."""
    entries = zip(held.channels.tolist(), held.series.tolist(), held.rows.tolist(), strict=True)
    last = np.array([ready[channel][number].values[row - 1] for channel, number, row in entries])
    means, scale = np.repeat(last[:, None], held.actual.shape[1], axis=1), held.scale[:, None]
    spread = np.sqrt(np.square((held.actual - means) / scale).mean(axis=0)) * scale
    return _distribution(means, spread, "none")

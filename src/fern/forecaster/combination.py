"""How a model's forecasts and the classical ensemble's go together: weights, shape and bias from held-out windows.

A forecast is a table of quantiles of each step (`fern.models.classical.QuantileForecast`). Tables are averaged quantile
by quantile; then the standardised errors of held-out windows, pooled over series, may give the distribution its shape
and move its mean. What scores better on held-out windows is taken, with a handicap for what is more than the plain one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.models.classical import KNOTS, QuantileForecast

Floats = NDArray[np.float64]

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the model in the average that are tried."""

HANDICAP = 0.6
"""What the model's weight costs, in shares of the loss over the number of windows: few windows say little, and the
classical ensemble cannot have learnt them by heart."""

EVEN = 1.0
"""What a share of the pretrained network away from a half costs, times its square, in the same units: two forecasts
that have not seen the series are averaged until windows say otherwise."""

ALIKE = 0.02
"""What the sum of the squared weights of all forecasts costs, in shares of the loss, however many windows there are:
times change, and an average does not depend on which of its parts has the better day."""

SHAPE_HANDICAPS = {"own": 0.003, "symmetric": 0.0, "skewed": 0.001, "moved": 0.004}
"""By which share of the loss a shape must score better than symmetric quantiles of held-out errors: these have the
coverage of the held-out windows, which the tables' own shape need not have."""

PRIOR_WINDOWS = 2.0
"""The shape of errors from n windows is believed as n / (n + 2)."""

OWN_WIDTHS, TIMES, PRIOR_TIMES = 0.25, 0.4, 2.0
"""Their width changes with the times: standard deviations, in logarithms, of what the tables' own widths are off by and
of the widths of one stretch of time and the next, the latter counting as two stretches. By windows before the test
parts of the development tasks."""

FEWEST_WINDOWS, FEWEST_TIMES = 8.0, 8
"""Windows from which the shape of errors is looked at, and stretches of time from which their bias is."""

SYMMETRIC, SKEWED = 0.15, 0.3
"""The distance of mean and median of the next step, in standard deviations, up to which the classical distribution
counts as symmetric, as the pretrained network's always is, and from which that network has no part in its forecast."""

WILD = 8.0
"""Standardised errors count as this at most, in bias and shape alike."""

BLOCKS = (1, 4, 16, 64, 256)
"""Steps at which a new block of steps begins (from 1), whose errors are pooled."""

LOW, MIDDLE, HIGH = (int(np.searchsorted(KNOTS, share - 1e-9)) for share in (0.1, 0.5, 0.9))
WIDTH = 2.5631031310892007
"""The 80 % interval of a normal variable, in standard deviations."""

SCORED = np.searchsorted(KNOTS, np.arange(1, 20) / 20 - 1e-9)
"""The knots whose pinball losses are averaged: 5, 10, …, 95 %."""


@dataclass(frozen=True, eq=False)
class Blend:
    """How the tables of a group of series are put together.

    ``weight``   of the model; the classical ensemble and the pretrained network have the rest.
    ``share``    of the pretrained network in that rest; none of series with many zeros or skewed distributions.
    ``shape``    standardised quantiles of held-out errors by block of steps, or None for the tables' own shape.
    ``trust``    how far ``shape`` replaces the tables' own.
    ``bias``     mean standardised error by block of steps, as far as it is believed; added to the mean.
    """

    weight: float
    shape: Floats | None = None  # (blocks, KNOTS)
    trust: float = 0.0
    bias: Floats | None = None  # (blocks,)
    share: float = 0.0

    @property
    def plain(self) -> bool:
        """Whether the model's own forecast is left as it is."""
        return self.weight == 1.0 and self.shape is None and self.bias is None

    def apply(
        self,
        model: QuantileForecast | None,
        classical: QuantileForecast,
        least: Floats,  # (N,) nothing lies below
        pretrained: QuantileForecast | None = None,
    ) -> QuantileForecast:
        """The forecast; that of the others where there is no model."""
        forecast = average(model, average_others(classical, pretrained, self.share), self.weight)
        spread, middle = spread_of(forecast), forecast.table[..., MIDDLE]
        blocks = blocks_of(forecast.mean.shape[1])
        table, mean = forecast.table, forecast.mean
        if self.shape is not None:
            shaped = middle[..., None] + spread[..., None] * self.shape[np.minimum(blocks, len(self.shape) - 1)]
            shaped = table + self.trust * (shaped - table)
            table = np.where(forecast.stepped[:, None, None], table, shaped)
        if self.bias is not None:
            shift = spread * self.bias[np.minimum(blocks, len(self.bias) - 1)]
            mean = np.where(forecast.stepped[:, None], mean, mean + shift)
        return replace(forecast, mean=mean, table=table).clip_below(least)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What JSON holds, and arrays."""
        arrays = {name: getattr(self, name) for name in ("shape", "bias") if getattr(self, name) is not None}
        return {"weight": self.weight, "trust": self.trust, "share": self.share}, arrays

    @classmethod
    def from_parts(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Blend":
        """What `to_parts` took apart, checked by `saved_schema` and `saved_state`."""
        return cls(plain["weight"], arrays.get("shape"), plain["trust"], arrays.get("bias"), plain.get("share", 0.0))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Forecasts of held-out windows beside what came, one entry for each window and channel."""

    actual: Floats  # (n, H)
    model: QuantileForecast | None
    classical: QuantileForecast
    scale: Floats  # (n,) by which losses are divided
    series: NDArray[np.int64]  # (n,)
    ends: NDArray[np.int64]  # (n,) rows from the first forecast one to the end of the series
    least: Floats  # (n,)
    pretrained: QuantileForecast | None = None

    @property
    def times(self) -> NDArray[np.int64]:  # (n,)
        """The stretch of time, a horizon long, that a window lies in, counted from the end."""
        return np.asarray((self.ends - 1) // self.actual.shape[1])

    @property
    def worth(self) -> float:
        """How many independent windows these are: the geometric mean of the disjoint windows and the stretches of time.

        Series of one panel rise and fall together: a thousand of them at one time are not a thousand windows.
        """
        if not len(self.scale):
            return 0.0
        disjoint = len(np.unique(self.series * (int(self.times.max()) + 1) + self.times))
        return float(np.sqrt(disjoint * len(np.unique(self.times))))

    def take(self, chosen: NDArray[np.bool_]) -> "HeldOut":
        """These windows alone."""
        places = np.flatnonzero(chosen)
        parts: dict[str, Any] = {
            name: part.take(places) if isinstance(part, QuantileForecast) else part[places]
            for name, part in vars(self).items()
            if part is not None
        }
        return replace(self, **parts)

    def combine(self, blend: Blend) -> QuantileForecast:
        """What a blend makes of these windows."""
        return blend.apply(self.model, self.classical, self.least, self.pretrained)


@dataclass(frozen=True, eq=False)
class HeldOutWindows:
    """Windows that the other forecasts were judged on: one entry for each window and channel."""

    series: NDArray[np.int64]  # (n,)
    rows: NDArray[np.int64]  # (n,) the first forecast row
    channels: NDArray[np.int64]  # (n,)
    actual: Floats  # (n, H)
    forecast: QuantileForecast  # (n, H) without covariates
    scale: Floats  # (n,)
    ends: NDArray[np.int64]  # (n,)
    least: Floats  # (n,)

    def compare(
        self, forecast: QuantileForecast, places: NDArray[np.int64], *, other: QuantileForecast | None = None
    ) -> HeldOut:
        """Forecasts of some of the windows beside ``other``, by default the forecasts without covariates.

        All windows of a series count in one unit, as in MASE: columns that are known tell most when a series is
        restless.
        """
        _, series = np.unique(self.series[places], return_inverse=True)
        scale = np.bincount(series, self.scale[places]) / np.bincount(series)
        return HeldOut(
            self.actual[places],
            forecast.take(places),
            (other or self.forecast).take(places),
            scale[series],
            self.series[places],
            self.ends[places],
            self.least[places],
        )


def choose_blend(held: HeldOut, *, share: float | None = None) -> tuple[Blend, dict[float, float]]:
    """The blend that scores best on held-out windows, and the losses of the weights that were tried.

    ``share`` is that of the pretrained network where other windows have chosen it.
    """
    if not len(held.scale):
        return Blend(0.0), {}
    losses: dict[float, float] = {}
    costs: dict[Blend, float] = {}
    shares = WEIGHTS if share is None else (share,)
    for weight in WEIGHTS if held.model is not None else (0.0,):
        for candidate in shares if held.pretrained is not None and weight < 1 else (0.0,):
            blend = Blend(weight, share=candidate)
            costs[blend] = loss(held, held.combine(blend))
            losses[weight] = min(losses.get(weight, inf), costs[blend])
    floor = max(min(losses.values()), 1e-12)
    for blend, value in costs.items():
        rest = 1 - blend.weight
        uneven = EVEN * rest * (blend.share - 0.5) ** 2 if held.pretrained is not None else 0.0
        squares = blend.weight**2 + (rest * blend.share) ** 2 + (rest * (1 - blend.share)) ** 2
        costs[blend] = value / floor + (HANDICAP * blend.weight + uneven) / held.worth + ALIKE * squares
    best = min(costs, key=lambda blend: costs[blend])
    return best if held.worth < FEWEST_WINDOWS else _choose_shape(held, best), losses


def _choose_shape(held: HeldOut, blend: Blend) -> Blend:
    """The blend with the shape and the bias of held-out errors, where half of the windows say so of the other half."""
    times = len(np.unique(held.times))
    _, codes = np.unique(held.times if times >= FEWEST_TIMES else held.series, return_inverse=True)
    halves = [held.take(codes % 2 == half) for half in (0, 1)]
    if min(len(half.scale) for half in halves) == 0:
        return blend
    options = [option for option in SHAPE_HANDICAPS if option != "moved" or times >= FEWEST_TIMES]
    totals = []
    for option in options:
        total = 0.0
        for learn, judge in (halves, halves[::-1]):
            candidate = _with_errors(learn, blend, option)
            total += loss(judge, judge.combine(candidate)) * len(judge.scale)
        totals.append(total * (1 + SHAPE_HANDICAPS[option]))
    return _with_errors(held, blend, options[int(np.argmin(totals))])


def _with_errors(held: HeldOut, blend: Blend, option: str) -> Blend:
    """The blend with what the standardised errors of these windows say.

    ``symmetric``: quantiles of their sizes; ``skewed``: their own quantiles about their median; ``moved``: their own
    quantiles, and their mean as a bias, as far as stretches of time agree on it.
    """
    if option == "own":
        return blend
    forecast = average(held.model, average_others(held.classical, held.pretrained, blend.share), blend.weight)
    spread, middle = spread_of(forecast), forecast.table[..., MIDDLE]
    known = (spread > 0) & ~forecast.stepped[:, None]
    blocks = blocks_of(held.actual.shape[1])
    count = int(blocks.max()) + 1
    shapes, biases = np.empty((count, len(KNOTS))), np.zeros(count)
    for block in range(count):
        chosen = known & (blocks == block)
        if not chosen.any():
            return blend
        errors = np.clip((held.actual[chosen] - middle[chosen]) / spread[chosen], -WILD, WILD)
        pooled = np.concatenate((errors, -errors)) if option == "symmetric" else errors
        shapes[block] = np.quantile(pooled, KNOTS, method="median_unbiased")
        if option == "skewed":
            shapes[block] -= shapes[block, MIDDLE]
        if option == "moved":
            about = np.clip((held.actual - forecast.mean) / np.where(spread > 0, spread, 1.0), -WILD, WILD)
            means = [
                about[chosen & (held.times == time)[:, None]].mean() for time in np.unique(held.times[chosen.any(1)])
            ]
            mean, error = float(np.mean(means)), float(np.std(means) / len(means) ** 0.5)
            biases[block] = mean**3 / (mean**2 + error**2) if mean else 0.0
    widths = (shapes[:, HIGH] - shapes[:, LOW]) / WIDTH
    believed = _believe_widths((held.actual - middle) / np.where(known, spread, np.nan), held.times)
    shapes *= np.where(widths > 0, widths, 1.0)[:, None] ** (believed - 1)
    trust = held.worth / (held.worth + PRIOR_WINDOWS)
    return replace(blend, shape=shapes, trust=trust, bias=biases if option == "moved" else None)


def _believe_widths(
    errors: Floats,  # (n, H) standardised, NaN where unknown
    times: NDArray[np.int64],  # (n,)
) -> float:
    """The power of the held-out errors' width that is believed: an empirical Bayes estimate over stretches of time."""
    sizes = [np.nanquantile(np.abs(errors[times == time]), 0.8) for time in np.unique(times[~np.isnan(errors).all(1)])]
    logs = np.log([size for size in sizes if size > 0])
    changes = (PRIOR_TIMES * TIMES**2 + ((logs - logs.mean()) ** 2).sum()) / (PRIOR_TIMES + len(logs) - 1)
    return float(OWN_WIDTHS**2 / (OWN_WIDTHS**2 + changes / len(logs)))


def under(parts: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin so, without that.

    Example:
        >>> under({"blend.bias": np.zeros(1), "spread": np.ones(1)}, "blend.")
        {'bias': array([0.])}
    """
    return {name.removeprefix(prefix): values for name, values in parts.items() if name.startswith(prefix)}


def average(model: QuantileForecast | None, classical: QuantileForecast, weight: float) -> QuantileForecast:
    """The average of two forecasts, quantile by quantile."""
    if model is None or weight == 0.0:
        return classical
    if weight == 1.0:
        return replace(model, stepped=np.zeros_like(model.stepped))
    return QuantileForecast(
        weight * model.mean + (1 - weight) * classical.mean,
        weight * model.table + (1 - weight) * classical.table,
        classical.response,
        np.zeros_like(classical.stepped),
    )


def average_others(classical: QuantileForecast, pretrained: QuantileForecast | None, share: float) -> QuantileForecast:
    """The average of the classical ensemble and the pretrained network.

    Series with many zeros or clearly skewed distributions are the former's: the latter's is a bell around its mean.
    """
    if pretrained is None or share == 0.0:
        return classical
    spread = spread_of(classical)
    skew = np.abs(classical.mean - classical.table[..., MIDDLE]) / np.where(spread > 0, spread, np.inf)
    bell = np.clip((SKEWED - skew[:, 0]) / (SKEWED - SYMMETRIC), 0.0, 1.0)
    part = (share * np.where(classical.stepped, 0.0, bell))[:, None]
    return replace(
        classical,
        mean=classical.mean + part * (pretrained.mean - classical.mean),
        table=classical.table + part[..., None] * (pretrained.table - classical.table),
    )


def spread_of(forecast: QuantileForecast) -> Floats:  # (N, H)
    """The width of the 80 % interval, as a normal variable's standard deviation."""
    return np.asarray((forecast.table[..., HIGH] - forecast.table[..., LOW]) / WIDTH)


def blocks_of(horizon: int) -> NDArray[np.int64]:  # (H,)
    """The block of each step.

    Example:
        >>> blocks_of(6).tolist()
        [0, 0, 0, 1, 1, 1]
    """
    return np.searchsorted(np.asarray(BLOCKS[1:]), np.arange(1, horizon + 1), side="right")


def loss(held: HeldOut, forecast: QuantileForecast) -> float:
    """The mean of `losses_of` over windows."""
    return float(losses_of(held, forecast).mean())


def losses_of(held: HeldOut, forecast: QuantileForecast) -> Floats:  # (n,)
    """The CRPS (from 19 quantiles) of each window over its series' scale."""
    error = held.actual[..., None] - forecast.table[..., SCORED]
    shares = KNOTS[SCORED]
    by_window = 2 * np.maximum(shares * error, (shares - 1) * error).mean(axis=(1, 2))
    return np.asarray(by_window / held.scale)


def naive_scales(histories: Sequence[Floats], season: int) -> Floats:  # (n,)
    """The mean size of a series' seasonal changes, by which its losses are divided; of its values if none changes."""
    scales = np.empty(len(histories))
    for place, rows in enumerate(histories):
        lag = season if len(rows) > 2 * season else 1
        size = np.abs(rows[lag:] - rows[:-lag]).mean() if len(rows) > lag else 0.0
        scales[place] = size or np.abs(rows).mean() or 1.0
    return scales

"""The classical ensemble over a panel: exponential smoothing, Theta and seasonal naive with drift, averaged."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError, require_number, require_whole
from fern.models.classical.forecast import KNOTS, SCORES, Floats, QuantileForecast
from fern.models.classical.intermittent import TABLE_POINTS, fit_demands
from fern.models.classical.kernel import MEMBERS, NAIVE, SHAPE_POINTS, fit_many

UNKNOWN_SPREAD = 0.3
"""The standard deviation of a step, in units of the level, where nothing tells it: one row of one series."""

PRIOR_ROWS = 3.0
"""The spread of a series of few rows is pulled to that of its panel as by so many rows."""

FEW_ROWS = 16
PANEL = 10
"""Longer series from which the spread of a panel is known."""

SHAPE_ROWS = 15.0
"""The shape of a series' errors is believed against the normal one as n / (n + 15)."""

PARAMETERS = 4.0
"""What estimating costs: variances grow by 1 + 4 / n, as in Akaike's final prediction error."""


@dataclass(frozen=True, kw_only=True)
class ClassicalSettings:
    """Settings of the classical ensemble.

    ``season``      rows of a season; 1 for none. Whether a series has it is tested.
    ``weights``     of exponential smoothing, Theta and seasonal naive with drift in the mean.
    ``positive``    no quantile below 0: of series that were never negative (``"auto"``), of all, or of none.
    ``rows``        the newest rows that are looked at, at least eight seasons.
    ``evaluations`` of the likelihood, for each specification of exponential smoothing.
    """

    season: int = 1
    weights: tuple[float, float, float] = (0.45, 0.4, 0.15)
    positive: bool | str = "auto"
    rows: int = 600
    evaluations: int = 80

    def __post_init__(self) -> None:
        require_whole("season", self.season, 1)
        require_whole("rows", self.rows, 1)
        require_whole("evaluations", self.evaluations, 10)
        if len(self.weights) != MEMBERS:
            raise FernError(argument="weights", got=self.weights, expected=f"{MEMBERS} numbers")
        for weight in self.weights:
            require_number("weights", weight, "numbers of at least 0", lambda value: value >= 0)
        if sum(self.weights) <= 0:
            raise FernError(argument="weights", got=self.weights, expected="a sum above 0")
        if self.positive not in (True, False, "auto"):
            raise FernError(argument="positive", got=self.positive, expected="True, False or 'auto'")


@dataclass(frozen=True, eq=False)
class Members:
    """What each member says of each series, before they are averaged."""

    means: Floats  # (N, MEMBERS, H)
    stddevs: Floats  # (N, MEMBERS, H)
    responses: Floats  # (N, MEMBERS, H)
    shapes: Floats  # (N, SHAPE_POINTS) NaN where unknown
    widest: Floats  # (N, H) the largest standard deviation that the series' own changes allow
    rows: NDArray[np.int64]  # (N,)
    scales: Floats  # (N,) mean size of the values
    lowest: Floats  # (N,)
    demand: Floats  # (N,) mean of an intermittent series, else NaN
    demand_table: Floats  # (N, TABLE_POINTS)

    def combine(self, settings: ClassicalSettings) -> QuantileForecast:
        """The ensemble's forecast."""
        weights = np.asarray(settings.weights) / sum(settings.weights)
        mean = np.einsum("nmh,m->nh", self.means, weights)
        # The naive member's mean steadies the others; its spread says more about its own errors than about theirs.
        spread_weights = weights.copy()
        spread_weights[NAIVE] = weights[NAIVE] if weights[:NAIVE].sum() == 0 else 0.0
        spread_weights /= spread_weights.sum()
        variance = np.einsum("nmh,m->nh", np.square(self.stddevs), spread_weights)
        variance = np.minimum(variance, np.square(self.widest))
        response = np.einsum("nmh,m->nh", self.responses, spread_weights)
        response[:, 0] = 1.0
        variance = self._with_prior(variance) * (1.0 + PARAMETERS / np.maximum(self.rows, 2))[:, None]
        shape = self._errors_shape(response)
        table = mean[..., None] + np.sqrt(variance)[..., None] * shape
        forecast = QuantileForecast(mean, table, response, np.zeros(len(mean), dtype=np.bool_))
        if settings.positive is not False:
            never = (self.lowest >= 0) | (settings.positive is True)
            forecast = forecast.clip_below(np.where(never, 0.0, -np.inf))
        return self._with_demand(forecast)

    def _with_prior(self, variance: Floats) -> Floats:  # (N, H)
        """The variance of series with few rows, pulled to the panel's."""
        few = self.rows < FEW_ROWS
        if not few.any():
            return variance
        steps = np.arange(1.0, variance.shape[1] + 1)
        known = ~few & (self.scales > 0)
        if known.sum() >= PANEL:
            typical = np.median(variance[known] / np.square(self.scales[known])[:, None], axis=0)
            believed = np.full(few.sum(), PRIOR_ROWS)
        else:  # nothing but the series itself, which from four rows on tells more than a guess
            typical, believed = UNKNOWN_SPREAD**2 * np.sqrt(steps), np.clip(4.0 - self.rows[few], 0.0, 1.0)
        scale = np.where(self.scales > 0, self.scales, np.median(self.scales) or 1.0)[few, None]
        count = np.where(self.rows[few] == 2, 0.5, np.maximum(self.rows[few] - 2.0, 0.0))[:, None]
        measured = np.where(np.isnan(variance[few]), 0.0, variance[few])
        result = variance.copy()
        prior = believed[:, None] * typical * np.square(scale)
        result[few] = (count * measured + prior) / (count + believed[:, None])
        return result

    def _errors_shape(self, response: Floats) -> Floats:  # (N, H, KNOTS)
        """Standardised quantiles: the series' own one-step errors, nearer to normal the more errors a step sums."""
        known = ~np.isnan(self.shapes[:, 0])
        places = np.clip(KNOTS * SHAPE_POINTS - 0.5, 0, SHAPE_POINTS - 1)
        low = np.minimum(places.astype(np.int64), SHAPE_POINTS - 2)
        shape = self.shapes[:, low] + (places - low) * (self.shapes[:, low + 1] - self.shapes[:, low])
        # Beyond the outermost errors the tails go on as normal ones do.
        edge = np.clip(KNOTS, 0.5 / SHAPE_POINTS, 1 - 0.5 / SHAPE_POINTS)
        shape += SCORES - np.interp(edge, KNOTS, SCORES)
        sizes = np.abs(response)
        summed = np.cumsum(sizes**3, axis=1) / np.cumsum(sizes**2, axis=1) ** 1.5  # 1 for one error, 1/√k for k
        believed = np.where(known, self.rows / (self.rows + SHAPE_ROWS), 0.0)[:, None] * summed
        shape = np.where(known[:, None], shape, SCORES)
        return SCORES + believed[..., None] * (shape - SCORES)[:, None, :]

    def _with_demand(self, forecast: QuantileForecast) -> QuantileForecast:
        intermittent = ~np.isnan(self.demand)
        if not intermittent.any():
            return forecast
        places = np.ceil(KNOTS * TABLE_POINTS - 0.5 - 1e-9).astype(np.int64).clip(0, TABLE_POINTS - 1)
        mean, table, response = forecast.mean.copy(), forecast.table.copy(), forecast.response.copy()
        mean[intermittent] = self.demand[intermittent, None]
        table[intermittent] = self.demand_table[intermittent][:, places][:, None, :]
        response[intermittent] = 0.0
        response[intermittent, 0] = 1.0
        return QuantileForecast(mean, table, response, intermittent)


def fit_members(
    series: Sequence[Floats],  # each (n_i,), n_i >= 1
    horizon: int,
    settings: ClassicalSettings,
) -> Members:
    """Fit every member to every series."""
    require_whole("horizon", horizon, 1)
    arrays = [np.ascontiguousarray(rows, dtype=np.float64) for rows in series]
    for number, array in enumerate(arrays):
        if array.ndim != 1 or not len(array):
            expected = "at least one value in one dimension"
            raise FernError(f"number {number} has shape {array.shape}", argument="series", expected=expected)
    rows = np.array([len(array) for array in arrays], dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(rows))).astype(np.int64)
    values = np.concatenate(arrays) if arrays else np.empty(0)
    if not np.isfinite(values).all():
        number = int(np.searchsorted(offsets, np.flatnonzero(~np.isfinite(values))[0], side="right")) - 1
        raise FernError(f"number {number} holds a value that is not finite", argument="series")
    count = len(arrays)
    shape = (count, MEMBERS, horizon)
    means, stddevs, responses = np.empty(shape), np.empty(shape), np.empty(shape)
    shapes, widest = np.empty((count, SHAPE_POINTS)), np.empty(shape[::2])
    most = max(settings.rows, 8 * settings.season)
    fit_many(
        values, offsets, settings.season, settings.evaluations, most,
        means, stddevs, responses, shapes, widest,
    )  # fmt: skip
    demand, demand_table = np.full(count, np.nan), np.zeros((count, TABLE_POINTS))
    if settings.positive is not False:
        fit_demands(values, offsets, most, demand_table, demand)
    if count:
        scales = np.add.reduceat(np.abs(values), offsets[:-1]) / rows
        lowest = np.minimum.reduceat(values, offsets[:-1])
    else:
        scales = lowest = np.empty(0)
    return Members(means, stddevs, responses, shapes, widest, rows, scales, lowest, demand, demand_table)


def forecast_panel(
    series: Sequence[Floats],  # each (n_i,), n_i >= 1
    horizon: int,
    settings: ClassicalSettings | None = None,
) -> QuantileForecast:
    """Forecast distributions of series of any lengths, each from its own rows.

    Exponential smoothing (none, damped or linear trend; none, additive or multiplicative season; additive or
    multiplicative errors; averaged by AICc), the optimised Theta method and seasonal naive with drift are averaged.
    Series with many zeros get the smoothed empirical distribution of their demand; one row gives the last value with
    the panel's spread.

    Example:
        >>> rows = 100 + 10 * np.sin(np.arange(48) * np.pi / 6)
        >>> forecast = forecast_panel([rows, np.array([7.0])], 12, ClassicalSettings(season=12))
        >>> forecast.mean.shape, bool(abs(forecast.mean[0, 3] - 110) < 1), forecast.mean[1, 0].item()
        ((2, 12), True, 7.0)
    """
    settings = ClassicalSettings() if settings is None else settings
    return fit_members(series, horizon, settings).combine(settings)

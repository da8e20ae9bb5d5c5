"""The kernel regression beside the ridge regression: whether it helps, in what transform, and how it forecasts.

It learns from a series' own rows alone, whenever it is forecast: so it knows the newest ones, and no series enters
another's forecast. Held-out windows choose its transform, its share in the average with the ridge regression, and how
far its widths follow the volatility of late; where it does not help there is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.forecaster.combination import WIDTH, HeldOutWindows, average, loss
from fern.forecaster.partner import choose_rows
from fern.models.classical import QuantileForecast
from fern.models.kernel_regression import (
    FEWEST_WINDOWS,
    MOST_PHASES,
    KernelRegression,
    KernelRegressionConfig,
    fit_kernel_regression,
)
from fern.models.lag_regression import TRANSFORMS, RegressionSeries, invert_values, transform_values

Floats = NDArray[np.float64]

KERNEL_WINDOWS, JUDGED_WINDOWS = 60_000, 40_000
"""Windows that the kernel regressions of all series learn from, at most about; and all trials of one transform."""

NEWEST = 8
"""One over the share of the held-out windows that tell the importance of covariates, the newest of them."""

SHARES = (0.0, 0.5, 1.0)
"""Of the kernel in the average with the ridge regression."""

CALMS = (0.0, 1.0)
"""Powers of the volatility of late that widths may be multiplied by."""

KERNEL_HANDICAP = 0.002
"""By which share of the loss the kernel must score better than the ridge regression alone, beside `CHANCE`."""

CHANCE = 1.0
"""By which share of the loss, over the number of windows, what bends must score better than what is straight: few
windows choose by chance, and an effect is then told with too much certainty."""


@dataclass(frozen=True, eq=False)
class KernelPart:
    """How the kernel regression of a channel forecasts.

    ``spread`` is the standard deviation of each step in transformed units, by the 80 % interval of held-out windows; it
    is multiplied by the volatility of late to the power ``calm``. A series whose rows give less than ``fewest`` windows
    has the ridge regression alone.
    """

    config: KernelRegressionConfig
    spread: Floats  # (H,)
    share: float
    calm: float
    fewest: int

    @property
    def rows(self) -> int:
        """Rows of a series that it learns from."""
        config = self.config
        return config.context_length + config.horizon + config.windows * min(config.season, MOST_PHASES)

    def forecast(self, series: RegressionSeries) -> QuantileForecast | None:
        """The forecast of the steps after a series' last row, learnt from its rows; None where they are too few."""
        model = self._learn(series)
        if model is None:
            return None
        at = np.array([len(series.values)])
        means, level = model.predict(series, at)
        return self.distribution(means, model.volatility(at), level, np.array([model.unit]))

    def sample_effects(
        self, first: RegressionSeries, second: RegressionSeries, n: int, rng: np.random.Generator
    ) -> Floats | None:  # (n, H)
        """Draws of the effect of known columns, ``first``'s less ``second``'s; None where rows are too few."""
        model = self._learn(first, keep_factor=True)
        if model is None:
            return None
        first_draws, second_draws = (
            invert_values(self.config.transform, side) for side in model.sample_pair(first, second, n, rng)
        )
        return np.asarray(model.unit * (first_draws - second_draws))

    def _learn(self, series: RegressionSeries, *, keep_factor: bool = False) -> KernelRegression | None:
        """The regression of a series' rows at the phase of the steps ahead; None where they are too few."""
        count = len(series.values)  # the steps ahead are not learnt from
        phase = (series.phase + count) % self.config.season
        model = _learn(series.before(count), self.config, phase, keep_factor=keep_factor)
        return model if model is not None and len(model.features) >= self.fewest else None

    def distribution(
        self,
        means: Floats,  # (n, H), transformed
        volatility: Floats,  # (n, H)
        level: Floats,  # (n,)
        unit: Floats,  # (n,)
    ) -> QuantileForecast:
        """Normal in transformed units, in the units of the data."""
        spread = self.spread * volatility**self.calm
        response = np.full_like(means, 0.5) ** np.arange(means.shape[1])
        below, scale = level[:, None, None], unit[:, None, None]
        forecast = QuantileForecast.normal(means, spread, response)
        return forecast.through(lambda table: below + scale * invert_values(self.config.transform, table))


def describe_kernel(part: KernelPart) -> dict[str, Any]:
    """What JSON holds of a kernel regression."""
    return {"config": asdict(part.config), "share": part.share, "calm": part.calm, "fewest": part.fewest}


def drop_former(config: Any) -> Any:
    """A saved configuration without what only earlier versions had: their windows halved with age, today's drift."""
    return (
        {name: value for name, value in config.items() if name != "half_life"} if isinstance(config, dict) else config
    )


def read_kernel(plain: Mapping[str, Any], spread: NDArray[Any] | None, horizon: int) -> KernelPart:
    """What `describe_kernel` wrote, and its spread."""
    settings = drop_former(plain["config"])
    config = KernelRegressionConfig(**{**settings, "cycles": tuple(settings["cycles"])})
    if spread is None or spread.shape != (horizon,) or not np.isfinite(spread).all() or config.horizon != horizon:
        raise FernError("a kernel's spread of the wrong shape, or not finite", argument="covariates")
    return KernelPart(config, np.asarray(spread, dtype=np.float64), plain["share"], plain["calm"], plain["fewest"])


@dataclass(frozen=True, eq=False)
class KernelTrial:
    """A kernel regression of the rows before some held-out windows of a series and phase, and these windows."""

    model: KernelRegression
    series: int
    places: NDArray[np.int64]


def fit_kernel(
    ready: Sequence[RegressionSeries],
    held: HeldOutWindows,
    ridge: QuantileForecast,  # (n, H)
    windows: NDArray[np.int64],
    *,
    season: int,
) -> tuple[KernelPart | None, QuantileForecast, list[KernelTrial]]:
    """The kernel regression of a channel where it helps, the windows' forecasts with it, and trials before the newest.

    ``windows`` are the windows of the channel that the ridge regression can forecast. Each is forecast from the rows
    before it, as it would have been then.
    """
    horizon = held.actual.shape[1]
    most = min(KernelRegressionConfig(horizon=horizon).windows, KERNEL_WINDOWS // len(ready))
    if not len(windows) or most < FEWEST_WINDOWS:
        return None, ridge, []
    straight = held.compare(ridge, windows)
    best, part, forecast = loss(straight, ridge.take(windows)), None, ridge
    handicap = 1 + KERNEL_HANDICAP + CHANCE / straight.worth
    in_windows = np.isin(np.arange(len(held.scale)), windows)
    places_of = _group(ready, held, windows, season)
    judged = min(most, max(3 * FEWEST_WINDOWS, JUDGED_WINDOWS // len(places_of)))
    for transform in TRANSFORMS:
        config = KernelRegressionConfig(horizon=horizon, season=season, windows=most, transform=transform)
        means, volatility, level, unit, fewest = _hindcast(ready, held, places_of, replace(config, windows=judged))
        able = np.asarray(np.isfinite(means).all(axis=1))
        if able[windows].mean() < 0.5:  # it would speak for few
            continue
        places = np.flatnonzero(able)
        target = transform_values(transform, (held.actual[places] - level[places, None]) / unit[places, None])
        for calm in CALMS:
            spread = _measure_spread((target - means[places]) / volatility[places] ** calm)
            candidate = KernelPart(config, spread, 1.0, calm, max(FEWEST_WINDOWS, fewest // 2))
            candidate_forecast = candidate.distribution(np.nan_to_num(means), volatility, level, unit)
            candidate_forecast = choose_rows(able, candidate_forecast, ridge)
            for share in SHARES[1:]:
                mixed = choose_rows(able, average(candidate_forecast, ridge, share), ridge)
                score = handicap * loss(held.compare(mixed, windows), mixed.take(windows))
                if score < best:
                    best, part = score, replace(candidate, share=share)
                    forecast = choose_rows(in_windows, mixed, ridge)
    if part is None:
        return None, ridge, []
    trials = []
    for (number, phase), places in places_of.items():
        newest = places[(NEWEST - 1) * len(places) // NEWEST :]
        model = _learn(ready[number].before(int(held.rows[newest[0]])), replace(part.config, windows=judged), phase)
        if model is not None:
            trials.append(KernelTrial(model, number, newest))
    return part, forecast, trials


def _measure_spread(errors: Floats) -> Floats:  # (n, H) -> (H,)
    """Each step's mean size of errors, as the standard deviation of a normal variable with their 80 % interval."""
    sizes = np.abs(np.clip(errors, -10, 10))
    means = sizes.mean(axis=0)
    within = np.quantile(sizes / np.where(means > 0, means, 1.0), 0.8)
    return np.asarray(means * within / (WIDTH / 2))


def _group(
    ready: Sequence[RegressionSeries], held: HeldOutWindows, chosen: NDArray[np.int64], season: int
) -> dict[tuple[int, int], NDArray[np.int64]]:
    """The windows of each series and phase, the oldest first."""
    groups: dict[tuple[int, int], NDArray[np.int64]] = {}
    for number in np.unique(held.series[chosen]).tolist():
        windows = chosen[held.series[chosen] == number]
        windows = windows[np.argsort(held.rows[windows], kind="stable")]
        phases = (
            (ready[number].phase + held.rows[windows]) % season if season <= MOST_PHASES else np.zeros_like(windows)
        )
        groups |= {(number, phase): windows[phases == phase] for phase in np.unique(phases).tolist()}
    return groups


def _learn(
    series: RegressionSeries, config: KernelRegressionConfig, phase: int, *, keep_factor: bool = False
) -> KernelRegression | None:
    """The regression of a series' rows; None where they are too few."""
    try:
        return fit_kernel_regression(series, config, phase=phase, keep_factor=keep_factor)
    except FernError:
        return None


def _hindcast(
    ready: Sequence[RegressionSeries],
    held: HeldOutWindows,
    places_of: Mapping[tuple[int, int], NDArray[np.int64]],
    config: KernelRegressionConfig,
) -> tuple[Floats, Floats, Floats, Floats, int]:  # (n, H), transformed; (n, H); (n,); (n,)
    """The forecasts of held-out windows, their volatility, the level and unit that the forecasts are about, and the
    least number of windows that one was learnt from."""
    means, volatility = np.full(held.actual.shape, np.nan), np.ones(held.actual.shape)
    level, unit, fewest = np.ones(len(held.scale)), np.ones(len(held.scale)), config.windows
    for (number, phase), places in places_of.items():
        rows = held.rows[places]
        model = _learn(ready[number].before(int(rows[-1])), config, phase, keep_factor=True)
        if model is None:
            continue
        means[places], level[places] = model.hindcast(ready[number], rows)
        volatility[places], unit[places] = model.volatility(rows), model.unit
        ended = model.count_ended(rows)
        fewest = min([fewest, *ended[ended >= FEWEST_WINDOWS].tolist()])
    return means, volatility, level, unit, fewest


def forecast_trials(
    trials: Sequence[KernelTrial], ready: Sequence[RegressionSeries], held: HeldOutWindows
) -> tuple[Floats, Floats, Floats, Floats]:  # (n, H), transformed; (n, H); (n,); (n,)
    """The trials' forecasts of their windows, their volatility, and the level and unit that the forecasts are about."""
    means, volatility = np.full(held.actual.shape, np.nan), np.ones(held.actual.shape)
    level, unit = np.ones(len(held.scale)), np.ones(len(held.scale))
    for trial in trials:
        rows = held.rows[trial.places]
        means[trial.places], level[trial.places] = trial.model.predict(ready[trial.series], rows)
        volatility[trial.places], unit[trial.places] = trial.model.volatility(rows), trial.model.unit
    return means, volatility, level, unit

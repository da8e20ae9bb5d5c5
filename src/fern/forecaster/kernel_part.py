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
from fern.forecaster.combination import HeldOutWindows, average, loss
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

JUDGED_TIMES = 8
"""Times within the held-out part at which the kernel regression learns anew, as it does whenever it forecasts."""

SHARES = (0.0, 0.5, 1.0)
"""Of the kernel in the average with the ridge regression."""

CALMS = (0.0, 0.5, 1.0)
"""Powers of the volatility of late that widths may be multiplied by."""

KERNEL_HANDICAP = 0.002
"""By which share of the loss the kernel must score better than the ridge regression alone, beside `CHANCE`."""

CHANCE = 1.0
"""By which share of the loss, over the number of windows, what bends must score better than what is straight: few
windows choose by chance, and an effect is then told with too much certainty."""


@dataclass(frozen=True, eq=False)
class KernelPart:
    """How the kernel regression of a channel forecasts.

    ``spread`` is the standard deviation of each step in transformed units, from held-out windows; it is multiplied by
    the volatility of late to the power ``calm``. A series whose rows give less than ``fewest`` windows has the ridge
    regression alone.
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
        means, level = model.predict(series, np.array([len(series.values)]))
        return self.distribution(means, np.array([model.volatility]), level, np.array([model.unit]))

    def sample_effects(
        self, first: RegressionSeries, second: RegressionSeries, n: int, rng: np.random.Generator
    ) -> Floats | None:  # (n, H)
        """Draws of the effect of known columns, ``first``'s less ``second``'s; None where rows are too few."""
        model = self._learn(first, keep_factor=True)
        if model is None:
            return None
        one, other = (invert_values(self.config.transform, side) for side in model.sample_pair(first, second, n, rng))
        return np.asarray(model.unit * (one - other))

    def _learn(self, series: RegressionSeries, *, keep_factor: bool = False) -> KernelRegression | None:
        """The regression of a series' rows at the phase of the steps ahead; None where they are too few."""
        count = len(series.values)
        phase = (series.phase + count) % self.config.season
        try:  # the steps ahead are not learnt from
            model = fit_kernel_regression(series.before(count), self.config, phase=phase, keep_factor=keep_factor)
        except FernError:  # too few rows
            return None
        return model if len(model.features) >= self.fewest else None

    def distribution(
        self,
        means: Floats,  # (n, H), transformed
        volatility: Floats,  # (n,)
        level: Floats,  # (n,)
        unit: Floats,  # (n,)
    ) -> QuantileForecast:
        """Normal in transformed units, in the units of the data."""
        spread = self.spread * volatility[:, None] ** self.calm
        response = np.full_like(means, 0.5) ** np.arange(means.shape[1])
        below, scale = level[:, None, None], unit[:, None, None]
        made = QuantileForecast.normal(means, spread, response)
        return made.through(lambda table: below + scale * invert_values(self.config.transform, table))


def describe_kernel(part: KernelPart) -> dict[str, Any]:
    """What JSON holds of a kernel regression."""
    return {"config": asdict(part.config), "share": part.share, "calm": part.calm, "fewest": part.fewest}


def read_kernel(plain: Mapping[str, Any], spread: NDArray[Any] | None, horizon: int) -> KernelPart:
    """What `describe_kernel` wrote, and its spread."""
    config = KernelRegressionConfig(**{**plain["config"], "cycles": tuple(plain["config"]["cycles"])})
    if spread is None or spread.shape != (horizon,) or not np.isfinite(spread).all() or config.horizon != horizon:
        raise FernError("a kernel's spread of the wrong shape, or not finite", argument="covariates")
    return KernelPart(config, np.asarray(spread, dtype=np.float64), plain["share"], plain["calm"], plain["fewest"])


@dataclass(frozen=True, eq=False)
class KernelTrial:
    """A kernel regression as it was at a time within the held-out part, and the windows that it forecasts."""

    model: KernelRegression
    series: int
    places: NDArray[np.int64]


def fit_kernel(
    ready: Sequence[RegressionSeries],
    held: HeldOutWindows,
    ridge: QuantileForecast,  # (n, H)
    mine: NDArray[np.int64],
    *,
    season: int,
) -> tuple[KernelPart | None, QuantileForecast, list[KernelTrial]]:
    """The kernel regression of a channel where it helps, the windows' forecasts with it, and its newest trials.

    ``mine`` are the windows of the channel that the ridge regression can forecast.
    """
    horizon = held.actual.shape[1]
    most = min(KernelRegressionConfig(horizon=horizon).windows, KERNEL_WINDOWS // len(ready))
    if not len(mine) or most < FEWEST_WINDOWS:
        return None, ridge, []
    straight = held.judged(ridge, mine)
    best, part, chosen, own = loss(straight, ridge.take(mine)), None, list[KernelTrial](), ridge
    handicap = 1 + KERNEL_HANDICAP + CHANCE / straight.worth
    mine_only = np.isin(np.arange(len(held.scale)), mine)
    for transform in TRANSFORMS:
        config = KernelRegressionConfig(horizon=horizon, season=season, windows=most, transform=transform)
        trials = _try_kernel(ready, held, mine, config)
        means, volatility, level, unit = forecast_trials(trials, ready, held)
        able = np.asarray(np.isfinite(means).all(axis=1))
        if able[mine].mean() < 0.5:  # it would speak for few
            continue
        places = np.flatnonzero(able)
        target = transform_values(transform, (held.actual[places] - level[places, None]) / unit[places, None])
        fewest = max(FEWEST_WINDOWS, min(len(trial.model.features) for trial in trials) // 2)
        for calm in CALMS:
            error = (target - means[places]) / volatility[places, None] ** calm
            spread = np.sqrt(np.square(np.clip(error, -10, 10)).mean(axis=0))
            candidate = KernelPart(config, spread, 1.0, calm, fewest)
            made = candidate.distribution(np.nan_to_num(means), volatility, level, unit)
            made = choose_rows(able, made, ridge)
            for share in SHARES[1:]:
                mixed = choose_rows(able, average(made, ridge, share), ridge)
                score = handicap * loss(held.judged(mixed, mine), mixed.take(mine))
                if score < best:
                    best, part, chosen = score, replace(candidate, share=share), trials
                    own = choose_rows(mine_only, mixed, ridge)
    latest = max((int(held.rows[trial.places].max()) for trial in chosen), default=0)
    newest = [trial for trial in chosen if held.rows[trial.places].max() > latest - horizon * JUDGED_TIMES]
    return part, own, newest


def _try_kernel(
    ready: Sequence[RegressionSeries], held: HeldOutWindows, mine: NDArray[np.int64], config: KernelRegressionConfig
) -> list[KernelTrial]:
    """Kernel regressions at several times within the held-out part, one for each series and phase of its windows."""
    times = min(JUDGED_TIMES, len(mine))
    plans: list[tuple[int, int, int, NDArray[np.int64]]] = []  # series, phase, first row and windows
    for number in np.unique(held.series[mine]).tolist():
        own = mine[held.series[mine] == number]
        rows = held.rows[own]
        phases = (ready[number].phase + rows) % config.season if config.season <= MOST_PHASES else np.zeros_like(rows)
        for some in np.array_split(np.argsort(rows, kind="stable"), min(times, len(rows))):
            first = int(rows[some].min())
            plans += [(number, phase, first, own[some[phases[some] == phase]]) for phase in np.unique(phases[some])]
    config = replace(config, windows=max(FEWEST_WINDOWS, min(config.windows, JUDGED_WINDOWS // max(1, len(plans)))))
    trials = []
    for number, phase, cut, places in plans:
        try:
            model = fit_kernel_regression(ready[number].before(cut), config, phase=int(phase))
        except FernError:  # too few rows
            continue
        trials.append(KernelTrial(model, number, places))
    return trials


def forecast_trials(
    trials: Sequence[KernelTrial], ready: Sequence[RegressionSeries], held: HeldOutWindows
) -> tuple[Floats, Floats, Floats, Floats]:  # (n, H), transformed; (n,) each
    """The trials' forecasts of their windows, their volatility, and the level and unit that the forecasts are about."""
    means = np.full(held.actual.shape, np.nan)
    volatility, level, unit = (np.ones(len(held.scale)) for _ in range(3))
    for trial in trials:
        rows = held.rows[trial.places]
        means[trial.places], level[trial.places] = trial.model.predict(ready[trial.series], rows)
        volatility[trial.places], unit[trial.places] = trial.model.volatility, trial.model.unit
    return means, volatility, level, unit

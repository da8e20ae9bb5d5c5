"""Covariates in a forecast: regressions on lags and columns beside the target, averaged with the other forecasts.

There are two. A ridge regression for each step (`fern.models.lag_regression`) is fitted once to all series. A kernel
regression (`fern.models.kernel_regression`) learns from a series' own rows alone, whenever it is forecast: so it knows
the newest ones, and no series enters another's forecast. Held-out windows choose their transforms, the share of the
kernel in the average of both, and the weight of that average beside the other forecasts, which is 0 where it does not
help.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.covariates import Encoding, calendar_features
from fern.data.frequency import DAY, Frequency, local_times
from fern.data.timestamps import as_integers
from fern.errors import FernError
from fern.forecaster.brief_part import BriefPart, fit_brief
from fern.forecaster.combination import Blend, HeldOut, HeldOutWindows, average, choose_blend, loss, losses_of, under
from fern.forecaster.kernel_part import (
    CHANCE,
    KernelPart,
    KernelTrial,
    describe_kernel,
    fit_kernel,
    forecast_trials,
    read_kernel,
)
from fern.forecaster.partner import choose_rows
from fern.models.classical import QuantileForecast
from fern.models.lag_regression import (
    TRANSFORMS,
    LagRegression,
    LagRegressionConfig,
    RegressionSeries,
    fit_lag_regression,
    read_influences,
)

Floats = NDArray[np.float64]

FEW_STEPS = 4
"""Steps of the horizon by which a design is chosen."""

YEARS = 2.0
"""Years of rows from which the time of the year is a feature: within less it is a trend."""

REPEATS = 5
"""Permutations behind an importance."""


def phase_of(stamp: Any, frequency: Frequency, season: int, *, row: int) -> int:
    """The phase of a row within the season: by the calendar where there is one, else by the row's number.

    So that the same hour of the day has the same phase in every series.
    """
    if stamp is None:
        return row % season
    stamps = pa.array([stamp], stamp.type)
    if not pa.types.is_timestamp(stamps.type):
        return int(as_integers(stamps)[0]) // frequency.count % season
    local = local_times(stamps)
    if frequency.unit in ("month", "month end"):
        return (
            int(local.astype("datetime64[ns]").astype("datetime64[M]").astype(np.int64)[0]) // frequency.count % season
        )
    return int(local[0] // int(frequency.nanoseconds or 1)) % season


@dataclass(frozen=True, eq=False)
class CovariateRows:
    """The rows of one series with covariates as numbers, and those known ahead."""

    name: str
    values: Floats  # (n, C)
    covariates: Floats  # (n, K)
    stamps: pa.Array | None  # (n,) or (n + H,)
    future: Floats | None  # (H, K known)
    static: Floats  # (Q,)
    phase: int
    level: Floats  # (C,) of the values, as fitted
    unit: Floats  # (C,)


@dataclass(frozen=True, eq=False)
class CovariateModel:
    """The fitted regressions, one for each channel, and their part in the average.

    ``spread`` is the standard deviation of each step of the ridge regression in units of the series' scale, from
    held-out windows; ``importance`` says for each covariate by what share the held-out loss grows where its values are
    permuted; ``kernels`` are empty where the ridge regression alone scores better; ``brief`` forecasts series with too
    few rows for the others.
    """

    encoding: Encoding
    regressions: tuple[LagRegression, ...] = ()
    blend: Blend = field(default_factory=lambda: Blend(0.0))
    spread: Floats = field(default_factory=lambda: np.empty((0, 0)))  # (C, H)
    importance: tuple[tuple[str, float, float], ...] = ()
    kernels: tuple[KernelPart | None, ...] = ()
    brief: BriefPart | None = None

    @property
    def active(self) -> bool:
        """Whether a regression has a part in the forecast."""
        return self.blend.weight > 0 or self.brief is not None

    @property
    def rows(self) -> int:
        """Rows that a forecast reads."""
        kernels = [kernel.rows for kernel in self.kernels if kernel is not None]
        return max([*(regression.config.context_length for regression in self.regressions), *kernels], default=0)

    def apply(
        self,
        forecast: QuantileForecast,  # (N·C, H)
        series: Sequence[CovariateRows],
        scales: Floats,  # (N·C,) of losses, as in `naive_scales`
        least: Floats,  # (N·C,)
        frequency: Frequency,
    ) -> QuantileForecast:
        """The average of the regression's forecast and the others'."""
        if not self.active:
            return forecast
        able, blended = np.zeros(len(scales), dtype=np.bool_), forecast
        if self.regressions:
            regressed = self.forecast(series, scales, frequency)
            able = np.asarray(np.isfinite(regressed.mean).all(axis=1))
            blended = self.blend.apply(regressed, forecast, least)
        blended = choose_rows(able, blended, forecast)
        if able.all() or self.brief is None:
            return blended
        channels = len(self.brief.spread)
        for entry in np.flatnonzero(~able).tolist():
            ready = prepare(series[entry // channels], self.encoding, entry % channels, frequency)
            short = self.brief.forecast(ready, entry % channels)
            mixed = average(short, forecast.take(np.array([entry])), self.brief.weight).clip_below(least[[entry]])
            for name in ("mean", "table", "response", "stepped"):
                getattr(blended, name)[entry] = getattr(mixed, name)[0]
        return blended

    def forecast(
        self, series: Sequence[CovariateRows], scales: Floats, frequency: Frequency
    ) -> QuantileForecast:  # (N·C, H)
        """The regressions' own forecast; NaN where a series has too few rows."""
        horizon, channels = self.spread.shape[1], len(self.regressions)
        means = np.full((len(scales), horizon), np.nan)
        by_kernel: dict[int, QuantileForecast] = {}
        for number, rows in enumerate(series):
            for channel, regression in enumerate(self.regressions):
                ready, entry = prepare(rows, self.encoding, channel, frequency), number * channels + channel
                if len(rows.values) >= regression.config.context_length:
                    means[entry] = regression.predict(ready)[0]
                kernel = self.kernels[channel] if self.kernels else None
                forecast = None if kernel is None else kernel.forecast(ready)
                if kernel is not None and forecast is not None:
                    by_kernel[entry] = forecast
        spread = np.tile(self.spread, (len(series), 1)) * scales[:, None]
        ridge = QuantileForecast.normal(means, spread, np.full_like(means, 0.5) ** np.arange(horizon))
        for entry, forecast in by_kernel.items():
            part = self.kernels[entry % channels]
            assert part is not None
            mixed = average(forecast, ridge.take(np.array([entry])), part.share)
            for name in ("mean", "table", "response"):
                getattr(ridge, name)[entry] = getattr(mixed, name)[0]
        return ridge

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What JSON holds, and arrays."""
        blend, arrays = self.blend.to_parts()
        arrays = {f"blend.{name}": values for name, values in arrays.items()} | {"spread": self.spread}
        for channel, regression in enumerate(self.regressions):
            arrays |= {f"weights.{channel}.{h}": w for h, w in enumerate(regression.weights) if w is not None}
            arrays |= {f"influences.{channel}.{name}": part for name, part in regression.influence_parts().items()}
        configs = [
            {**config.__dict__, "cycles": list(config.cycles), "memories": list(config.memories)}
            for config in (regression.config for regression in self.regressions)
        ]
        plain: dict[str, Any] = {
            "encoding": self.encoding.to_mapping(),
            "blend": blend,
            "regressions": configs,
            "importance": [list(entry) for entry in self.importance],
        }
        if self.kernels:
            plain["kernels"] = [None if kernel is None else describe_kernel(kernel) for kernel in self.kernels]
            arrays |= {f"kernels.{k}": kernel.spread for k, kernel in enumerate(self.kernels) if kernel is not None}
        if self.brief is not None:
            plain["brief"], brief_arrays = self.brief.to_parts()
            arrays |= {f"brief.{name}": values for name, values in brief_arrays.items()}
        return plain, arrays

    @classmethod
    def from_parts(
        cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, horizon: int
    ) -> "CovariateModel":
        """What `to_parts` took apart: numbers are checked by `saved_schema`, sizes here."""
        regressions = []
        for channel, settings in enumerate(plain["regressions"]):
            lists = {name: tuple(settings[name]) for name in ("cycles", "memories")}
            config = LagRegressionConfig(**{**settings, **lists})
            weights = tuple(
                np.asarray(arrays[f"weights.{channel}.{step}"], dtype=np.float64) for step in range(config.horizon)
            )
            if config.horizon != horizon or any(weight.ndim != 2 or not weight.size for weight in weights):
                raise FernError("weights of the wrong shape", argument="covariates")
            parts = under(arrays, f"influences.{channel}.")
            regressions.append(LagRegression(config, weights, read_influences(parts, weights)))
        brief = None
        if plain.get("brief"):
            brief = BriefPart.from_parts(plain["brief"], under(arrays, "brief."), horizon=horizon)
        importance = tuple((name, mean, error) for name, mean, error in plain["importance"])
        spread = np.asarray(arrays["spread"], dtype=np.float64)
        if regressions and spread.shape != (len(regressions), horizon):
            raise FernError(f"spread of shape {spread.shape}", argument="covariates")
        encoding = Encoding.from_mapping(plain["encoding"])
        kernels = tuple(
            None if part is None else read_kernel(part, arrays.get(f"kernels.{channel}"), horizon)
            for channel, part in enumerate(plain.get("kernels", ()))
        )
        if kernels and len(kernels) != len(regressions):
            raise FernError(f"{len(kernels)} kernels for {len(regressions)} channels", argument="covariates")
        blend = Blend.from_parts(plain["blend"], under(arrays, "blend."))
        return cls(encoding, tuple(regressions), blend, spread, importance, kernels, brief)


def prepare(rows: CovariateRows, encoding: Encoding, channel: int, frequency: Frequency) -> RegressionSeries:
    """A channel of a series as the regression takes it: known columns and the calendar side by side."""
    count = len(encoding.known_outputs)
    known = rows.covariates[:, :count]
    if rows.future is not None:
        known = np.concatenate((known, rows.future))
    dates = np.empty((0, 0))
    if encoding.calendar and rows.stamps is not None:
        _, dates = calendar_features(rows.stamps, frequency, country=encoding.country, year=encoding.year)
    return RegressionSeries(
        rows.values[:, channel],
        known,
        rows.covariates[:, count:],
        rows.static,
        rows.phase,
        scale=(float(rows.level[channel]), float(rows.unit[channel])),
        dates=dates,
    )


def fit_covariates(
    series: Sequence[CovariateRows],
    encoding: Encoding,
    held: HeldOutWindows,
    *,
    horizon: int,
    season: int,
    frequency: Frequency,
    seed: int,
) -> tuple[CovariateModel, str]:
    """The regressions, their weight by held-out windows, and what was decided in words."""
    longest = max(len(rows.values) for rows in series) * (frequency.nanoseconds or 0.0)
    encoding = replace(encoding, year=longest >= YEARS * 365.25 * DAY)
    model, note = _fit_regressions(
        series, encoding, held, horizon=horizon, season=season, frequency=frequency, seed=seed
    )
    channels = range(series[0].values.shape[1])
    ready = [[prepare(rows, encoding, channel, frequency) for rows in series] for channel in channels]
    brief = fit_brief(ready, held, alone=not model.regressions)
    if brief is None:
        return model, note
    group = "series with too few rows for it" if model.regressions else "all series"
    clause = f"a regression of all series on their newest rows and columns has {100 * brief.weight:.0f} % of {group}"
    return replace(model, brief=brief), f"{note}; {clause}"


def _fit_regressions(
    series: Sequence[CovariateRows],
    encoding: Encoding,
    held: HeldOutWindows,
    *,
    horizon: int,
    season: int,
    frequency: Frequency,
    seed: int,
) -> tuple[CovariateModel, str]:
    """The regressions of series with rows enough."""
    channels = series[0].values.shape[1]
    first = {int(number): int(held.rows[held.series == number].min()) for number in np.unique(held.series)}
    share = min((row / len(series[number].values) for number, row in first.items()), default=1.0)
    cuts = [first.get(number, int(share * len(rows.values))) for number, rows in enumerate(series)]
    means = np.full(held.actual.shape, np.nan)
    chosen: list[LagRegressionConfig] = []
    steps = np.unique(np.linspace(0, horizon - 1, FEW_STEPS).round().astype(int)).tolist()
    for channel in range(channels):
        ready = [prepare(rows, encoding, channel, frequency) for rows in series]
        early = [entry.before(cut) for entry, cut in zip(ready, cuts, strict=True)]
        windows = np.flatnonzero(held.channels == channel)
        losses: dict[LagRegressionConfig, float] = {}
        for config in _designs(horizon, season):
            try:
                trial = _at_windows(fit_lag_regression(early, config, steps=steps), ready, held, windows)[:, steps]
            except FernError:  # too few rows for so long a context
                continue
            error = np.abs(trial - held.actual[windows][:, steps]) / held.scale[windows, None]
            bends = 0.0 if config.transform == "none" else CHANCE / held.compare(held.forecast, windows).worth
            losses[config] = (1 + bends) * float(np.nanmean(error)) if np.isfinite(error).any() else inf
        if not losses:
            return CovariateModel(encoding), "covariates: too few rows before the held-out windows to learn from them"
        chosen.append(min(losses, key=lambda config: losses[config]))
        means[windows] = _at_windows(fit_lag_regression(early, chosen[-1]), ready, held, windows)
    usable = np.isfinite(means).all(axis=1)
    if not usable.any():
        return CovariateModel(encoding), "covariates: no held-out window has rows enough to judge them"
    errors = (held.actual - means) / held.scale[:, None]
    spread = np.stack(
        [
            np.sqrt(np.nanmean(np.square(np.clip(errors[held.channels == channel], -50, 50)), axis=0))
            for channel in range(channels)
        ]
    )
    ridge = QuantileForecast.normal(
        means, spread[held.channels] * held.scale[:, None], np.full(means.shape, 0.5) ** np.arange(horizon)
    )
    kernels, trials, forecast = list[KernelPart | None](), list[KernelTrial](), ridge
    for channel in range(channels):
        ready = [prepare(rows, encoding, channel, frequency) for rows in series]
        kernel, forecast, newest = fit_kernel(
            ready, held, forecast, np.flatnonzero((held.channels == channel) & usable), season=season
        )
        kernels.append(kernel)
        trials += newest
    judged = held.compare(forecast, np.flatnonzero(usable))
    blend, losses_by_weight = choose_blend(judged)
    scores = ", ".join(f"{100 * weight:.0f} % {value:.3g}" for weight, value in losses_by_weight.items())
    clause = f"the regression on covariates has a weight of {100 * blend.weight:.0f} %, by held-out windows"
    note = f"{clause} (scaled CRPS of {scores})"
    if blend.weight == 0:
        return CovariateModel(encoding), note
    gain, noise = _measure_gain(judged, blend)
    if gain < noise:  # the calendar, and noise, gain a little by chance
        chance = f"{100 * gain:.1f} % with a standard error of {100 * noise:.1f} %"
        note = f"covariates have no part in the forecast: on held-out windows they gain {chance}"
        return CovariateModel(encoding), note
    if any(kernel is not None for kernel in kernels):
        note += "; a kernel regression learns anew from a series' rows whenever it is forecast"
    else:
        kernels = []
    regressions = tuple(
        fit_lag_regression(
            [prepare(rows, encoding, channel, frequency) for rows in series],
            chosen[channel],
            influences=bool(encoding.known),
        )
        for channel in range(channels)
    )
    model = CovariateModel(encoding, regressions, blend, spread, kernels=tuple(kernels))
    return replace(model, importance=_importance(model, series, held, usable, trials, frequency, seed)), note


def _measure_gain(held: HeldOut, blend: Blend) -> tuple[float, float]:
    """The share of the loss that the regression takes off, and its standard error."""
    losses = losses_of(held, held.classical)
    gains = (losses - losses_of(held, held.combine(blend))) / max(losses.mean(), 1e-12)
    return float(gains.mean()), float(gains.std() / held.worth**0.5)


def _designs(horizon: int, season: int) -> list[LagRegressionConfig]:
    """What is tried: both transforms, each with all features and with few."""
    full = [LagRegressionConfig(horizon=horizon, season=season, transform=transform) for transform in TRANSFORMS]
    lean = [
        replace(config, recent=4, cycles=(1,), reach=min(horizon, 6), memories=(2.0,), lean=True) for config in full
    ]
    return [*full, *lean]


def _at_windows(
    regression: LagRegression, ready: Sequence[RegressionSeries], held: HeldOutWindows, windows: NDArray[np.int64]
) -> Floats:  # (n, H)
    """The regression's forecasts of held-out windows; NaN where a window has too few rows before it."""
    out = np.full((len(windows), regression.config.horizon), np.nan)
    for number in np.unique(held.series[windows]).tolist():
        places = np.flatnonzero(held.series[windows] == number)
        rows = held.rows[windows[places]]
        able = rows >= regression.config.context_length
        if able.any():
            out[places[able]] = regression.predict(ready[number], origins=rows[able])
    return out


def _importance(
    model: CovariateModel,
    series: Sequence[CovariateRows],
    held: HeldOutWindows,
    usable: NDArray[np.bool_],
    trials: Sequence[KernelTrial],
    frequency: Frequency,
    seed: int,
) -> tuple[tuple[str, float, float], ...]:
    """Permutation importance: the growth of the held-out loss where a covariate's rows are shuffled in time.

    With kernel regressions it is judged on the windows of the newest of them.
    """
    rng = np.random.default_rng(seed)
    entries: list[tuple[str, list[int]]] = []
    place = 0
    for column in (*model.encoding.known, *model.encoding.past):
        entries.append((column.name, list(range(place, place + len(column.outputs)))))
        place += len(column.outputs)
    good = np.flatnonzero(usable)
    if trials:
        good = np.intersect1d(good, np.concatenate([trial.places for trial in trials]))

    def judge(rows: Sequence[CovariateRows]) -> float:
        means = np.full(held.actual.shape, np.nan)
        for channel, regression in enumerate(model.regressions):
            windows = np.flatnonzero(held.channels == channel)
            ready = [prepare(entry, model.encoding, channel, frequency) for entry in rows]
            means[windows] = _at_windows(regression, ready, held, windows)
        forecast = QuantileForecast.normal(
            means, model.spread[held.channels] * held.scale[:, None], np.ones_like(held.actual)
        )
        for channel, kernel in enumerate(model.kernels):
            if kernel is not None:
                ready = [prepare(entry, model.encoding, channel, frequency) for entry in rows]
                channel_trials = [trial for trial in trials if held.channels[trial.places[0]] == channel]
                by_kernel, *scaling = forecast_trials(channel_trials, ready, held)
                able = np.asarray(np.isfinite(by_kernel).all(axis=1))
                curved = kernel.distribution(np.nan_to_num(by_kernel), *scaling)
                forecast = choose_rows(able, average(curved, forecast, kernel.share), forecast)
        judged = held.compare(forecast, good)
        return loss(judged, average(judged.model, judged.classical, model.blend.weight))

    base = max(judge(series), 1e-9)  # in units of the series' scale: some are forecast without any error
    table = []
    for name, columns in entries:
        growth = []
        for _ in range(REPEATS):
            shuffled = []
            for rows in series:
                covariates = rows.covariates.copy()
                covariates[:, columns] = covariates[rng.permutation(len(covariates))][:, columns]
                shuffled.append(replace(rows, covariates=covariates))
            growth.append(judge(shuffled) / base - 1)
        table.append((name, float(np.mean(growth)), float(np.std(growth, ddof=1))))
    return tuple(table)

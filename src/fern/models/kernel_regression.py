"""Kernel ridge regression of the whole horizon on lags and covariates (NumPy and SciPy alone).

A window with origin t is the vector f_t of the last cycles of the (transformed) values, the known columns over the
horizon and over earlier cycles, and the calendar of the first step. With standardised features of p columns,

    k(f, g) = a fᵀg / p + exp(-b ‖f - g‖² / p),    ŷ(f) = m + Σ_i k(f, f_i) α_i,    (K + λ W⁻¹) α = Y - m,

so all H steps come from one Cholesky factor (a Gaussian process with a linear and a squared exponential part). W holds
weights that halve every ``half_life`` windows. Where a season has few steps, the windows are those of the origin's own
phase: forecasts at midnight learn from midnights. Beside the forecast stands how volatile the newest windows were:
their leave-one-out errors α_i / (K + λ W⁻¹)⁻¹_ii over those of all windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from fern.errors import FernError, require_whole
from fern.models.lag_regression import Floats, RegressionSeries, Transform, transform_values

MOST_PHASES = 24
FEWEST_WINDOWS = 40
"""Windows of one phase from which it has a regression of its own, and windows at all below which there is none."""

NEWEST, SAMPLED = 10, 60
"""Windows whose leave-one-out errors tell the volatility of late, and those it is compared with."""

FADING = 0.85
"""What a window counts for the volatility beside the one after it."""

MOST_STEPS = 48
"""Steps of a column over the horizon that enter one by one; more are averaged in blocks."""


@dataclass(frozen=True, kw_only=True)
class KernelRegressionConfig:
    """The settings of a kernel regression.

    Parameters:
        horizon: steps to forecast.
        season: rows of a season; 1 for none.
        recent: newest values that enter where there is no season, or a longer one than the horizon.
        cycles: lags in whole seasons; those that reach beyond a quarter of the rows are left out.
        windows: windows that are learnt from, at most; the newest of one phase, or spread evenly over all.
        half_life: windows after which a window counts half.
        penalty: λ; linear: a; width: b.
        transform: ``asinh`` of values in units of their median absolute deviation, or ``none``.
    """

    horizon: int
    season: int = 1
    recent: int = 24
    cycles: tuple[int, ...] = (1, 2, 3, 7)
    windows: int = 1800
    half_life: float = 1000.0
    penalty: float = 0.2
    linear: float = 1.0
    width: float = 0.3
    transform: Transform = "asinh"

    def __post_init__(self) -> None:
        for name in ("horizon", "season", "recent", "windows"):
            require_whole(name, getattr(self, name), 1)
        if min(self.half_life, self.penalty, self.width) <= 0 or self.linear < 0:
            raise FernError("half_life, penalty and width must be above 0, linear at least 0", argument="config")

    @property
    def context_length(self) -> int:
        """Rows that a forecast reads."""
        return max(self.recent, self.season * max(self.cycles, default=1))

    def fitting(self, rows: int) -> "KernelRegressionConfig":
        """With the lags that so many rows allow."""
        reach = rows // 4
        cycles = tuple(k for k in self.cycles if k * self.season <= max(reach, self.season)) or (1,)
        return replace(self, cycles=cycles, recent=max(1, min(self.recent, reach)))


@dataclass(frozen=True, eq=False)
class KernelRegression:
    """A fitted kernel regression: `fit_kernel_regression` makes one.

    ``phase`` is that of the origins it serves; None for all. ``volatility`` is 1 where the newest windows were as hard
    as all others.
    """

    config: KernelRegressionConfig
    phase: int | None
    features: Floats  # (n, p), standardised
    mean: Floats  # (p,)
    unit: Floats  # (p,)
    duals: Floats  # (n, H)
    centre: Floats  # (H,)
    volatility: float
    amplitude: Floats  # (H,): the variance that the data give the Gaussian process, in units of its kernel
    factor: tuple[Floats, bool] | None = None  # of K + λ W⁻¹, where it is kept

    def sample_pair(
        self, first: RegressionSeries, second: RegressionSeries, n: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:  # (n, H) each, transformed
        """Joint draws of what two futures of the same rows lead to, from the Gaussian process given the windows."""
        assert self.factor is not None
        at = np.array([len(first.values)], dtype=np.int64)
        level, unit = first.scale_of(int(at[0]))
        y = transform_values(self.config.transform, (first.values - level) / unit)
        both = np.concatenate([_features(self.config, y, one, at) for one in (first, second)])
        z = (both - self.mean) / self.unit
        across = _kernel(self.config, z, self.features)  # (2, n)
        left = _kernel(self.config, z, z) - across @ cho_solve(self.factor, across.T, check_finite=False)
        values, vectors = np.linalg.eigh(left)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        drawn = (root @ rng.standard_normal((2, n)))[..., None] * np.sqrt(self.amplitude)
        means = self.centre + across @ self.duals
        return means[0] + drawn[0], means[1] + drawn[1]

    def predict(
        self,
        series: RegressionSeries,
        origins: NDArray[np.int64],  # (B,): rows that are known at each
    ) -> Floats:  # (B, H), transformed
        """Forecast the ``horizon`` rows after each origin, in units of the series and transformed.

        NaN where an origin has another phase, or too few rows before it.
        """
        at = np.asarray(origins, dtype=np.int64)
        able = at >= self.config.context_length
        if self.phase is not None:
            able &= (series.phase + at) % self.config.season == self.phase
        out = np.full((len(at), self.config.horizon), np.nan)
        if able.any():
            level, unit = series.scale_of(int(at.min()))
            y = transform_values(self.config.transform, (series.values - level) / unit)
            z = (_features(self.config, y, series, at[able]) - self.mean) / self.unit
            out[able] = self.centre + _kernel(self.config, z, self.features) @ self.duals
        return out


def fit_kernel_regression(
    series: Sequence[RegressionSeries],
    config: KernelRegressionConfig,
    *,
    phase: int | None = None,
    keep_factor: bool = False,
) -> KernelRegression:
    """Fit all series together, each in units of its own level and scale.

    ``phase`` is that of the origins to forecast. Where windows of that phase are too few, those of all phases count.
    With ``keep_factor`` it can draw from its uncertainty.

    Example:
        >>> hours = np.arange(24 * 120.0)
        >>> load = 2 + np.sin(hours / 50)
        >>> price = np.exp(load) * (1 + 0.2 * np.sin(2 * np.pi * hours / 24))
        >>> known = RegressionSeries(price[:-24], load[:, None])
        >>> model = fit_kernel_regression([known], KernelRegressionConfig(horizon=24, season=24), phase=0)
        >>> level, unit = known.scale_of(len(price) - 24)
        >>> ahead = level + unit * np.sinh(model.predict(known, np.array([len(price) - 24]))[0])
        >>> bool(np.abs(ahead - price[-24:]).max() < 0.05 * price.std())
        True
    """
    longest = max((len(one.values) for one in series), default=0)
    config = config.fitting(longest)
    need = config.context_length + config.horizon
    usable = [one for one in series if len(one.values) >= need]
    origins = [np.arange(config.context_length, len(one.values) - config.horizon + 1) for one in usable]
    own = [at[(one.phase + at) % config.season == phase] for one, at in zip(usable, origins, strict=True)]
    if phase is not None and 1 < config.season <= MOST_PHASES and sum(map(len, own)) >= FEWEST_WINDOWS:
        oldest = np.sort(np.concatenate([len(one.values) - at for one, at in zip(usable, own, strict=True)]))
        most = oldest[min(len(oldest), config.windows) - 1]
        origins = [at[len(one.values) - at <= most] for one, at in zip(usable, own, strict=True)]
    else:
        phase = None
        stride = max(1, -(-sum(map(len, origins)) // config.windows))
        origins = [at[::-1][::stride][::-1] for at in origins]
    if sum(map(len, origins)) < FEWEST_WINDOWS:
        raise FernError(
            f"the longest has {longest:,} rows", argument="series", expected=f"{FEWEST_WINDOWS} windows of {need} rows"
        )
    parts, targets, ages = [], [], []
    for one, at in zip(usable, origins, strict=True):
        if not len(at):
            continue
        level, unit = one.scale_of(len(one.values))
        y = transform_values(config.transform, (one.values - level) / unit)
        parts.append(_features(config, y, one, at))
        targets.append(y[at[:, None] + np.arange(config.horizon)])
        ages.append(np.arange(len(at))[::-1])
    features, target, age = (np.concatenate(some) for some in (parts, targets, ages))
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 1e-9 * (1 + np.abs(mean)), spread, np.inf)  # a constant column says nothing
    features = (features - mean) / spread
    kernel = _kernel(config, features, features)
    kernel[np.diag_indices(len(kernel))] += config.penalty * 2.0 ** (age / config.half_life)
    factor = cho_factor(kernel, lower=True, overwrite_a=True, check_finite=False)
    centre = target.mean(axis=0)
    duals = cho_solve(factor, target - centre, check_finite=False)
    amplitude = (duals * (target - centre)).mean(axis=0)
    volatility = _volatility(factor, duals, age)
    kept = factor if keep_factor else None
    return KernelRegression(config, phase, features, mean, spread, duals, centre, volatility, amplitude, kept)


def _volatility(factor: tuple[Floats, bool], duals: Floats, age: NDArray[np.int64]) -> float:
    """Leave-one-out errors of the newest windows over those of windows from all times."""
    newest = np.flatnonzero(age < NEWEST)
    places = np.concatenate([newest, np.linspace(0, len(age) - 1, SAMPLED).astype(np.int64)])
    units = np.zeros((len(age), len(places)))
    units[places, np.arange(len(places))] = 1.0
    inverse = cho_solve(factor, units, check_finite=False)[places, np.arange(len(places))]
    errors = np.sqrt(np.square(duals[places] / inverse[:, None]).mean(axis=1))
    weights = FADING ** age[newest]
    late, usual = float(weights @ errors[: len(newest)] / weights.sum()), float(errors[len(newest) :].mean())
    return late / usual if usual > 0 else 1.0


def _kernel(config: KernelRegressionConfig, left: Floats, right: Floats) -> Floats:  # (n, p), (m, p) -> (n, m)
    size = max(left.shape[1], 1)
    products = left @ right.T
    apart = np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1) - 2 * products
    return np.asarray(config.linear / size * products + np.exp(np.minimum(-config.width / size * apart, 0.0)))


def _features(
    config: KernelRegressionConfig,
    y: Floats,  # (T,)
    series: RegressionSeries,
    at: NDArray[np.int64],  # (B,) rows known at each origin
) -> Floats:  # (B, p)
    """What the windows of these origins are told apart by."""
    season, horizon = config.season, config.horizon
    steps = np.arange(min(season, horizon))
    columns = []
    if season <= 1 or season > horizon:
        columns.append(y[at[:, None] - 1 - np.arange(config.recent)])
    if season > 1:
        columns += [_blocks(y[at[:, None] + steps - season * k]) for k in config.cycles]
    known = series.known
    for column in range(known.shape[1]):
        columns.append(_blocks(known[at[:, None] + np.arange(horizon), column]))
        if season > 1:
            columns += [_blocks(known[at[:, None] + steps - season * k, column]) for k in config.cycles if k in (1, 7)]
    if series.dates.shape[-1]:
        columns.append(series.dates[at])
    if series.past.shape[-1]:
        columns += [series.past[at - 1], series.past[at[:, None] - 1 - np.arange(max(season, 1))].mean(axis=1)]
    if len(series.static):
        columns.append(np.broadcast_to(series.static, (len(at), len(series.static))))
    return np.concatenate(columns, axis=1)


def _blocks(values: Floats) -> Floats:  # (B, steps) -> (B, at most MOST_STEPS)
    """Means of neighbouring steps, where there are more than enter one by one."""
    size = -(-values.shape[1] // MOST_STEPS)
    if size == 1:
        return values
    edges = np.arange(0, values.shape[1], size)
    counts = np.diff([*edges, values.shape[1]])
    return np.asarray(np.add.reduceat(values, edges, axis=1) / counts)

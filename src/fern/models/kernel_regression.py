"""Kernel ridge regression of the whole horizon on lags and covariates of one series (NumPy and SciPy alone).

A window with origin t is told apart by f_t: the last cycles of the values, the known columns over the horizon and their
change since the season before, the calendar of the first step, and the level c_t, by medians of the newest rows. Values
are (y - c_t) / u, transformed: days far above all former ones are learnt from as others are, and u is the usual size
of that. With standardised features of p columns, d² = 3 b ‖f - g‖² / p, and s the time between two windows,

    k(f, g) = (1 + a fᵀg / p + (1 + d) exp(-d)) (1 + c exp(-s / m)),    ŷ(f) = Σ_i k(f, f_i) α_i,    (K + λ I) α = Y,

so all H steps come from one Cholesky factor L (a Gaussian process with a linear part and a Matérn one of order 3/2). A
small part of what is learnt drifts: no window is forgotten, and the newest tell most. Where a season has few steps, the
windows are those of the origin's own phase: forecasts at midnight learn from midnights.

The same factor has every former forecast: what the first s windows alone tell of window t is Σ_{i≤s} L_ti (L⁻¹Y)_i. So
windows of the past are forecast as if the regression had been learnt anew before each, and the sizes of these errors
tell how volatile each step was of late.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from fern.errors import FernError, require_whole
from fern.models.lag_regression import Floats, RegressionSeries, Transform, measure_unit, transform_values

MOST_PHASES = 24
FEWEST_WINDOWS = 40
"""Windows of one phase from which it has a regression of its own, and windows at all below which there is none."""

LEVELS = (1, 6)
"""The level is the mean of two medians, of the rows that a forecast reads and of so many times as many: half of it
follows a jump within days, and what a quiet month says is not forgotten in a week."""

FADING, COMMON = 7.0, 0.3
"""Windows after which an error counts half for the volatility of late, and the part that all steps have in common."""

MOST_STEPS = 48
"""Steps of a column over the horizon that enter one by one; more are averaged in blocks."""

NEAR, FAR = 1.5, 0.5
"""What the newest cycle counts for how alike two windows are, and what the older ones do."""


@dataclass(frozen=True, kw_only=True)
class KernelRegressionConfig:
    """The settings of a kernel regression.

    Parameters:
        horizon: steps to forecast.
        season: rows of a season; 1 for none.
        recent: newest values that enter where there is no season, or a longer one than the horizon.
        cycles: lags in whole seasons; those that reach beyond a quarter of the rows are left out.
        windows: windows that are learnt from, at most; the newest of one phase, or spread evenly over all.
        penalty: λ; linear: a; width: b; drift: c.
        memory: m, in seasons, or in horizons where these are longer.
        transform: ``asinh`` of values about their level, in units of their usual distance from it, or ``none``.
    """

    horizon: int
    season: int = 1
    recent: int = 24
    cycles: tuple[int, ...] = (1, 2, 3, 7)
    windows: int = 1800
    penalty: float = 0.3
    linear: float = 1.0
    width: float = 0.3
    drift: float = 0.02
    memory: float = 45.0
    transform: Transform = "asinh"

    def __post_init__(self) -> None:
        for name in ("horizon", "season", "recent", "windows"):
            require_whole(name, getattr(self, name), 1)
        if min(self.penalty, self.width, self.memory) <= 0 or min(self.linear, self.drift) < 0:
            expected = "penalty, width and memory above 0, linear and drift at least 0"
            raise FernError(argument="config", got=self, expected=expected)

    @property
    def context_length(self) -> int:
        """Rows that a forecast reads."""
        return max(self.recent, self.season * max(self.cycles, default=1))

    def limit_lags(self, rows: int) -> "KernelRegressionConfig":
        """With the lags that so many rows allow."""
        reach = rows // 4
        cycles = tuple(k for k in self.cycles if k * self.season <= max(reach, self.season)) or (1,)
        return replace(self, cycles=cycles, recent=max(1, min(self.recent, reach)))


@dataclass(frozen=True, eq=False)
class KernelRegression:
    """A fitted kernel regression: `fit_kernel_regression` makes one.

    ``phase`` is that of the origins it serves; None for all.
    """

    config: KernelRegressionConfig
    phase: int | None
    unit: float
    features: Floats  # (n, p), standardised
    mean: Floats  # (p,)
    spread: Floats  # (p,)
    duals: Floats  # (n, H)
    origins: NDArray[np.int64]  # (n,)
    sizes: Floats  # (n, H): of the errors of each window, learnt from those that had ended before it
    amplitude: Floats  # (H,): the variance that the data give the Gaussian process, in units of its kernel
    factor: Floats | None = None  # (n, n): L, where it is kept

    def sample_pair(
        self, first: RegressionSeries, second: RegressionSeries, n: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:  # (n, H) each, transformed
        """Joint draws of what two futures of the same rows lead to, from the Gaussian process given the windows."""
        assert self.factor is not None
        at = np.array([len(first.values)], dtype=np.int64)
        z, at = np.concatenate([self._standardise(series, at) for series in (first, second)]), np.repeat(at, 2)
        across = _kernel(self.config, z, at, self.features, self.origins)  # (2, n)
        covariance = _kernel(self.config, z, at, z, at) - across @ cho_solve(
            (self.factor, True), across.T, check_finite=False
        )
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        drawn = (root @ rng.standard_normal((2, n)))[..., None] * np.sqrt(self.amplitude)
        means = across @ self.duals
        return means[0] + drawn[0], means[1] + drawn[1]

    def predict(
        self,
        series: RegressionSeries,
        origins: NDArray[np.int64],  # (B,): rows that are known at each
    ) -> tuple[Floats, Floats]:  # (B, H), transformed; (B,)
        """Forecast the ``horizon`` rows after each origin, transformed and about the level, which is given beside it.

        NaN where an origin has another phase, or too few rows before it.
        """
        return self._fill(series, origins, lambda at: self._across(series, at) @ self.duals)

    def hindcast(
        self,
        series: RegressionSeries,
        origins: NDArray[np.int64],  # (B,)
    ) -> tuple[Floats, Floats]:  # (B, H), transformed; (B,)
        """As `predict`, each learnt from the windows that had ended by its origin alone, if these are not too few."""
        factor = self.factor
        assert factor is not None
        solved = factor.T @ self.duals

        def forecast(at: NDArray[np.int64]) -> Floats:
            rows = solve_triangular(factor, self._across(series, at).T, lower=True, check_finite=False).T
            return np.asarray(np.where(self._find_ended(at), rows, 0.0) @ solved)

        return self._fill(series, np.where(self.count_ended(origins) < FEWEST_WINDOWS, 0, origins), forecast)

    def count_ended(self, origins: NDArray[np.int64]) -> NDArray[np.int64]:  # (B,)
        """The windows that had ended by these origins."""
        return np.asarray(self._find_ended(origins).sum(axis=1))

    def volatility(self, origins: NDArray[np.int64]) -> Floats:  # (B, H)
        """The size of the errors of late over that of all; 1 where the newest windows were as hard as others."""
        usual = self.sizes[len(self.sizes) // 2 :].mean(axis=0)  # the first were learnt from few
        spacing = max(1.0, float(np.median(np.diff(self.origins))))
        gap = max(spacing, self.config.horizon)
        age = (origins[:, None] - self.origins - self.config.horizon) / gap
        weights = np.where(self._find_ended(origins), 0.5 ** (np.maximum(age, 0.0) / FADING), 0.0) * spacing / gap
        late = (weights @ self.sizes + usual) / (weights.sum(axis=1, keepdims=True) + 1)
        ratio = np.divide(late, usual, out=np.ones_like(late), where=usual > 0)
        common = late.mean(axis=1, keepdims=True) / (usual.mean() or 1.0)
        return np.asarray((1 - COMMON) * ratio + COMMON * common)

    def _fill(
        self, series: RegressionSeries, origins: NDArray[np.int64], forecast: Callable[[NDArray[np.int64]], Floats]
    ) -> tuple[Floats, Floats]:
        at = np.asarray(origins, dtype=np.int64)
        usable = at >= self.config.context_length
        if self.phase is not None:
            usable &= (series.phase + at) % self.config.season == self.phase
        out, levels = np.full((len(at), self.config.horizon), np.nan), np.full(len(at), np.nan)
        if usable.any():
            out[usable], levels[usable] = forecast(at[usable]), _levels(self.config, series.values, at[usable])
        return out, levels

    def _find_ended(self, origins: NDArray[np.int64]) -> NDArray[np.bool_]:  # (B, n)
        return np.asarray(self.origins + self.config.horizon <= origins[:, None])

    def _across(self, series: RegressionSeries, at: NDArray[np.int64]) -> Floats:  # (B, n)
        return _kernel(self.config, self._standardise(series, at), at, self.features, self.origins)

    def _standardise(self, series: RegressionSeries, at: NDArray[np.int64]) -> Floats:  # (B, p)
        level = _levels(self.config, series.values, at)
        return (_features(self.config, series, self.unit, at, level) - self.mean) / self.spread


def fit_kernel_regression(
    series: RegressionSeries, config: KernelRegressionConfig, *, phase: int | None = None, keep_factor: bool = False
) -> KernelRegression:
    """Learn from the rows of a series.

    ``phase`` is that of the origins to forecast. Where windows of that phase are too few, those of all phases count.
    With ``keep_factor`` it can draw from its uncertainty, and forecast its own past.

    Example:
        >>> hours = np.arange(24 * 120.0)
        >>> load = 2 + np.sin(hours / 50)
        >>> price = np.exp(load) * (1 + 0.2 * np.sin(2 * np.pi * hours / 24))
        >>> known = RegressionSeries(price[:-24], load[:, None])
        >>> model = fit_kernel_regression(known, KernelRegressionConfig(horizon=24, season=24), phase=0)
        >>> forecast, level = model.predict(known, np.array([len(price) - 24]))
        >>> bool(np.abs(level + model.unit * np.sinh(forecast[0]) - price[-24:]).max() < 0.05 * price.std())
        True
    """
    rows = len(series.values)
    config = config.limit_lags(rows)
    origins = np.arange(config.context_length, rows - config.horizon + 1)
    same_phase = origins[(series.phase + origins) % config.season == phase]
    if phase is not None and 1 < config.season <= MOST_PHASES and len(same_phase) >= FEWEST_WINDOWS:
        origins = same_phase[-config.windows :]
    else:
        phase = None
        origins = origins[::-1][:: max(1, -(-len(origins) // config.windows))][::-1]
    if len(origins) < FEWEST_WINDOWS:
        need = config.context_length + config.horizon
        expected = f"{FEWEST_WINDOWS} windows of {need} rows"
        raise FernError(f"has {rows:,} rows", argument="series", expected=expected)
    away = series.values[origins[:, None] + np.arange(config.horizon)]
    level = _levels(config, series.values, origins)
    away = away - level[:, None]
    unit = measure_unit(away)
    target = transform_values(config.transform, away / unit)
    features = _features(config, series, unit, origins, level)
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 1e-9 * (1 + np.abs(mean)), spread, np.inf)  # a constant column says nothing
    spread /= _emphases(config, features.shape[1])
    features = (features - mean) / spread
    kernel = _kernel(config, features, origins, features, origins)
    kernel[np.diag_indices(len(kernel))] += config.penalty
    factor = cholesky(kernel, lower=True, overwrite_a=True, check_finite=False)
    solved = solve_triangular(factor, target, lower=True, check_finite=False)
    duals = solve_triangular(factor, solved, lower=True, trans=1, check_finite=False)
    ended = origins + config.horizon <= origins[:, None]
    sizes = np.abs(target - np.where(ended, factor, 0.0) @ solved)
    amplitude = (duals * target).mean(axis=0)
    kept = factor if keep_factor else None
    return KernelRegression(config, phase, unit, features, mean, spread, duals, origins, sizes, amplitude, kept)


def _kernel(
    config: KernelRegressionConfig,
    left: Floats,  # (n, p)
    left_at: NDArray[np.int64],  # (n,): their origins
    right: Floats,  # (m, p)
    right_at: NDArray[np.int64],  # (m,)
) -> Floats:  # (n, m)
    size = max(left.shape[1], 1)
    products = left @ right.T
    distances = np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1) - 2 * products
    distances = np.sqrt(np.maximum(3 * config.width / size * distances, 0.0))
    similarity = 1 + config.linear / size * products + (1 + distances) * np.exp(-distances)
    gaps = np.abs(left_at[:, None] - right_at) / max(config.season, config.horizon)
    return np.asarray(similarity * (1 + config.drift * np.exp(-gaps / config.memory)))


def _levels(config: KernelRegressionConfig, values: Floats, at: NDArray[np.int64]) -> Floats:  # (T,), (B,) -> (B,)
    """Single spikes do not move them."""
    reaches = [times * config.context_length for times in LEVELS]
    return np.array([np.mean([np.median(values[max(0, t - rows) : t]) for rows in reaches]) for t in at.tolist()])


def _emphases(config: KernelRegressionConfig, size: int) -> Floats:  # (p,)
    """By how much each feature is multiplied beyond its standard unit; `_features` begins with the cycles."""
    emphases = np.ones(size)
    if config.season > 1 and len(config.cycles) > 1:
        width = _blocks(np.empty((1, min(config.season, config.horizon)))).shape[1]
        emphases[: width * len(config.cycles)] = np.repeat([NEAR, *[FAR] * (len(config.cycles) - 1)], width)
    return emphases


def _features(
    config: KernelRegressionConfig,
    series: RegressionSeries,
    unit: float,
    at: NDArray[np.int64],  # (B,) rows known at each origin
    level: Floats,  # (B,)
) -> Floats:  # (B, p)
    """What the windows of these origins are told apart by."""
    season, horizon = config.season, config.horizon
    ahead = np.arange(horizon)
    cycle = at[:, None] + np.arange(min(season, horizon)) - season

    def lag(rows: NDArray[np.int64]) -> Floats:
        return transform_values(config.transform, (series.values[rows] - level[:, None]) / unit)

    columns = [_blocks(lag(cycle - season * (k - 1))) for k in config.cycles] if season > 1 else []
    if season <= 1 or season > horizon:
        columns.append(lag(at[:, None] - 1 - np.arange(config.recent)))
    columns.append(level[:, None])
    for known in series.known.T:
        now = known[at[:, None] + ahead]
        columns.append(_blocks(now))
        if season > 1:
            columns.append(_blocks(now - known[at[:, None] + ahead % season - season]))
    if series.dates.shape[-1]:
        columns.append(series.dates[at])
    if series.past.shape[-1]:
        columns += [series.past[at - 1], series.past[at[:, None] - 1 - np.arange(max(season, 1))].mean(axis=1)]
    return np.concatenate(columns, axis=1)


def _blocks(values: Floats) -> Floats:  # (B, steps) -> (B, at most MOST_STEPS)
    """Means of neighbouring steps, where there are more than enter one by one."""
    size = -(-values.shape[1] // MOST_STEPS)
    if size == 1:
        return values
    edges = np.arange(0, values.shape[1], size)
    counts = np.diff([*edges, values.shape[1]])
    return np.asarray(np.add.reduceat(values, edges, axis=1) / counts)

"""Direct regression on lags and covariates, one ridge regression for each step ahead (NumPy alone).

For step h after origin t, with c_t the mean of the newest season of the (transformed) values y,

    y_{t+h} - c_t = b_h + w_hᵀ [c_t; y_{t-i} - c_t; y_{t+h-kS+d} - c_t; x_{t+h+d}; x_{t+h-kS}; m_t; z_t],

where S is the season, x are known columns, m their mean, least and greatest values over the horizon, and z the calendar
of the target step, columns of the past and of the series itself. It is LEAR (Lago et al., 2021) with neighbours of the
target step in place of all hours of the day, a ridge in place of the LASSO, and exponential forgetting: the weights are
means over several memories, and the penalty of each is the one with the least leave-one-out error. Where a season has
few enough steps, each phase has weights of its own, as LEAR has for each hour of the day.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError, require_whole

Floats = NDArray[np.float64]
Transform = Literal["none", "asinh"]
TRANSFORMS: tuple[Transform, ...] = get_args(Transform)

_NEIGHBOURS = (-1, 0, 1)  # steps around a lag of whole seasons
_SURE = 1e-3  # windows of less weight are left out
_MOST_PHASES = 24
_WINDOWS_PER_PHASE = 300  # fewer windows than this share one set of weights
_PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 30000.0)
_LEAST_MEMORY = 1.5  # windows of a half-life for each feature, at least
_MOST_WINDOWS = 20_000  # of one regression; more are thinned evenly
_BLOCKS = 20  # stretches of time, each left out once for the uncertainty of the weights


@dataclass(frozen=True, kw_only=True)
class LagRegressionConfig:
    """The settings of a lag regression.

    Parameters:
        horizon: steps to forecast.
        season: rows of a season; 1 for none.
        recent: newest values that enter as they are.
        cycles: lags in whole seasons; those that reach beyond a quarter of the rows are left out.
        reach: known columns enter from so many steps before the target to so many after it.
        lean: leave out what long series alone can weigh: steps after the target, least and greatest values.
        memories: half-lives of a window's weight, as shares of the rows; never so short that features outnumber the
            windows that count.
        transform: ``asinh`` of values in units of their median absolute deviation, or ``none``.
    """

    horizon: int
    season: int = 1
    recent: int = 24
    cycles: tuple[int, ...] = (1, 2, 3, 7)
    reach: int = 3
    memories: tuple[float, ...] = (0.06, 0.17, 0.5)
    transform: Transform = "none"
    lean: bool = False

    def __post_init__(self) -> None:
        for name in ("horizon", "season", "recent"):
            require_whole(name, getattr(self, name), 1)
        if not self.memories or min(self.memories) <= 0:
            raise FernError(argument="memories", got=self.memories, expected="at least one number above 0")
        if self.transform not in TRANSFORMS:
            raise FernError(argument="transform", got=self.transform, expected="'none' or 'asinh'")

    @property
    def context_length(self) -> int:
        """Rows that a forecast reads: the longest lag, and its neighbour before it."""
        return max(self.recent, self.season * max(self.cycles, default=1) + 1)


@dataclass(frozen=True, eq=False)
class RegressionSeries:
    """A series with its covariates.

    Parameters:
        values: the target.
        known: known columns, for the rows of ``values`` and, where it is forecast, the ``horizon`` rows after them.
        past: columns that are known up to the origin alone.
        dates: calendar features, known as ``known`` is; only those of the target step enter.
        static: numbers that belong to the series.
        phase: the phase of the first row within the season.
        scale: the level and the unit of the values; by default their median and median absolute deviation.
    """

    values: Floats  # (T,)
    known: Floats  # (T or T + H, K)
    past: Floats = field(default_factory=lambda: np.empty((0, 0)))  # (T, P)
    static: Floats = field(default_factory=lambda: np.empty(0))  # (Q,)
    phase: int = 0
    scale: tuple[float, float] | None = None
    dates: Floats = field(default_factory=lambda: np.empty((0, 0)))  # (T or T + H, Q)

    def scale_of(self, rows: int) -> tuple[float, float]:
        """The level and the unit, from the first ``rows`` values where they are not given."""
        if self.scale is not None:
            return self.scale
        level = float(np.median(self.values[:rows]))
        return level, measure_unit(self.values[:rows] - level)

    def before(self, rows: int) -> "RegressionSeries":
        """The first rows alone."""
        cut = {name: getattr(self, name)[:rows] for name in ("values", "known", "past", "dates")}
        return replace(self, **cut)


@dataclass(frozen=True, eq=False)
class Influence:
    """What the weights of known columns are worth: F Fᵀ is their covariance, by leaving out stretches of time."""

    places: NDArray[np.int64]  # (q,) the features that known columns enter
    centre: Floats  # (phases, q): their means, about which weights turn
    shrunk: Floats  # (phases, q): about what the penalty has taken off
    factors: Floats  # (phases, q, blocks)


@dataclass(frozen=True, eq=False)
class LagRegression:
    """A fitted lag regression: `fit_lag_regression` makes one.

    ``weights`` are those of unscaled features, the intercept last; a single phase serves every origin.
    """

    config: LagRegressionConfig
    weights: tuple[Floats | None, ...]  # by step: (phases, p_h + 1); None for steps that were not fitted
    influences: tuple[Influence, ...] = ()  # by step; none where they were not asked for

    def predict(
        self,
        series: RegressionSeries,
        *,
        origins: NDArray[np.int64] | None = None,  # (B,): rows that are known at each; default: all of them
    ) -> Floats:  # (B, H)
        """Forecast the ``horizon`` rows after each origin.

        Example:
            >>> t = np.arange(400.0)
            >>> price = np.sin(t / 9)
            >>> load = RegressionSeries(3 * price[:388], price[:, None])
            >>> model = fit_lag_regression([load], LagRegressionConfig(horizon=12, recent=4))
            >>> bool(np.abs(model.predict(load)[0] - 3 * price[388:]).max() < 0.1)
            True
        """
        at = np.array([len(series.values)], dtype=np.int64) if origins is None else np.asarray(origins, dtype=np.int64)
        level, unit = series.scale_of(int(at.min()))
        y = transform_values(self.config.transform, (series.values - level) / unit)
        out = np.full((len(at), self.config.horizon), np.nan)
        for h, by_phase in enumerate(self.weights):
            if by_phase is None:
                continue
            features, centre = _features(self.config, y, series, at, h)
            weights = by_phase[(series.phase + at) % len(by_phase)]
            out[:, h] = centre + (features * weights[:, :-1]).sum(axis=1) + weights[:, -1]
        return level + unit * invert_values(self.config.transform, out)

    def influence_parts(self) -> dict[str, NDArray[Any]]:
        """The influences as arrays, in single precision; `read_influences` puts them together."""
        parts: dict[str, NDArray[Any]] = {}
        for h, influence in enumerate(self.influences):
            parts[f"places.{h}"] = influence.places
            parts |= {
                f"{name}.{h}": getattr(influence, name).astype(np.float32) for name in ("centre", "shrunk", "factors")
            }
        return parts

    def sample_effects(
        self, first: RegressionSeries, second: RegressionSeries, n: int, rng: np.random.Generator
    ) -> Floats:  # (n, H)
        """Draws of the effect of known columns, ``first``'s less ``second``'s, from the uncertainty of their weights.

        Both have the same rows and their own known columns for the steps ahead. What the penalty took off the weights
        is given back, so draws are centred on the effect, not on the difference of the forecasts. Without influences
        all draws are that difference.
        """
        at = np.array([len(first.values)], dtype=np.int64)
        level, unit = first.scale_of(int(at[0]))
        y = transform_values(self.config.transform, (first.values - level) / unit)
        df = _BLOCKS - 1
        noise = rng.standard_normal((_BLOCKS, n)) * np.sqrt(df / rng.chisquare(df, n))
        out = np.empty((n, self.config.horizon))
        for h, by_phase in enumerate(self.weights):
            assert by_phase is not None
            weights, ends = by_phase[(first.phase + at[0]) % len(by_phase)], []
            for series in (first, second):
                (features,), (centre,) = _features(self.config, y, series, at, h)
                drawn = np.full(n, centre + features @ weights[:-1] + weights[-1])
                if self.influences:
                    known = self.influences[h]
                    phase = (first.phase + at[0]) % len(known.factors)
                    about = features[known.places] - known.centre[phase]
                    drawn += about @ (known.shrunk[phase][:, None] + known.factors[phase] @ noise)
                ends.append(invert_values(self.config.transform, drawn))
            out[:, h] = unit * (ends[0] - ends[1])
        return out


def read_influences(
    arrays: Mapping[str, NDArray[Any]],  # as "factors.0"
    weights: Sequence[Floats],  # by step: (phases, p_h + 1)
) -> tuple[Influence, ...]:
    """What `LagRegression.influence_parts` took apart; none where there were none."""
    if "factors.0" not in arrays:
        return ()
    influences = []
    for h, by_phase in enumerate(weights):
        places = np.asarray(arrays[f"places.{h}"])
        centre, shrunk, factors = (
            np.asarray(arrays[f"{name}.{h}"], dtype=np.float64) for name in ("centre", "shrunk", "factors")
        )
        shape = (len(by_phase), len(places))
        well_formed = places.dtype.kind == "i" and places.ndim == 1 and shrunk.shape == centre.shape == shape
        inside = well_formed and (places >= 0).all() and (places < by_phase.shape[1] - 1).all()
        if not inside or factors.shape != (*shape, _BLOCKS) or not np.isfinite(factors).all():
            raise FernError("influences of the wrong shape, or not finite", argument="covariates")
        influences.append(Influence(places, centre, shrunk, factors))
    return tuple(influences)


def fit_lag_regression(
    series: Sequence[RegressionSeries],
    config: LagRegressionConfig,
    *,
    steps: Sequence[int] | None = None,
    influences: bool = False,
) -> LagRegression:
    """Fit one set of weights to all series, each in units of its own level and scale.

    Every row whose context and horizon lie within the series is an origin. Rows of different series never enter one
    forecast. With ``steps`` (from 0) only these are fitted, and others are forecast as NaN. With ``influences`` the
    uncertainty of the weights of known columns is kept, for `LagRegression.sample_effects`.
    """
    lengths = [len(item.values) for item in series]
    reach = max(lengths, default=0) // 4
    cycles = tuple(k for k in config.cycles if k * config.season <= max(reach, config.season)) or (1,)
    config = replace(config, cycles=cycles, recent=max(1, min(config.recent, reach)))
    need = config.context_length + config.horizon
    usable = [item for item in series if len(item.values) >= need]
    if not usable:
        raise FernError(
            f"the longest has {max(lengths, default=0)} rows", argument="series", expected=f"at least {need}"
        )
    scaled = []
    for item in usable:
        level, unit = item.scale_of(len(item.values))
        scaled.append(transform_values(config.transform, (item.values - level) / unit))
    origins = [np.arange(config.context_length, len(item.values) - config.horizon + 1) for item in usable]
    total = sum(map(len, origins))
    by_phase = 1 < config.season <= _MOST_PHASES and total // config.season >= _WINDOWS_PER_PHASE
    stride = 1 if by_phase else max(1, total // _MOST_WINDOWS)
    origins = [at[::stride] for at in origins]
    age = np.concatenate([len(item.values) - at for item, at in zip(usable, origins, strict=True)]).astype(np.float64)
    phase = np.concatenate([(item.phase + at) % config.season for item, at in zip(usable, origins, strict=True)])
    groups = [np.flatnonzero(phase == p) for p in range(config.season)] if by_phase else [np.arange(len(age))]
    span, spacing = float(max(lengths)), (config.season if by_phase else stride) / len(usable)
    weights: list[Floats | None] = []
    kept_influences: list[Influence] = []
    blocks = _blocks_of_time(age, span, config) if influences else np.empty(0, dtype=np.int64)
    penalties: dict[float, float] = {}
    for h in range(config.horizon):
        if steps is not None and h not in steps:
            weights.append(None)
            continue
        parts = [_features(config, y, item, at, h) for item, y, at in zip(usable, scaled, origins, strict=True)]
        features = np.concatenate([part for part, _ in parts])
        target = np.concatenate([y[at + h] - centre for y, at, (_, centre) in zip(scaled, origins, parts, strict=True)])
        rows = []
        places = _places_of_known(config, usable[0], scaled[0], origins[0][:1], h) if influences else np.empty(0, int)
        moves = np.zeros((len(groups), len(places), 2 + _BLOCKS))
        for number, group in enumerate(groups):
            fits = []
            for memory in config.memories:
                half = max(memory * span, _LEAST_MEMORY * features.shape[1] * spacing)
                weight = 0.5 ** (age[group] / half)
                kept = group[weight > _SURE]
                fitted, penalty = _ridge(features[kept], target[kept], weight[weight > _SURE], penalties.get(memory))
                penalties.setdefault(memory, penalty)
                fits.append(fitted)
                if len(places):
                    moved = _influences(features[kept], target[kept], weight[weight > _SURE], penalty, blocks[kept])
                    moves[number] += moved[places] / len(config.memories)
            rows.append(np.mean(fits, axis=0))
        weights.append(np.stack(rows))
        if influences:
            kept_influences.append(Influence(places, moves[..., 0], moves[..., 1], moves[..., 2:]))
        if h + 1 in (1, config.horizon // 2):  # the best penalty moves with the step: choose it anew half-way
            penalties.clear()
    return LagRegression(config, tuple(weights), tuple(kept_influences))


def _blocks_of_time(age: Floats, span: float, config: LagRegressionConfig) -> NDArray[np.int64]:  # (n,)
    """The stretch of time of each window, from 0: all count alike, and none is shorter than the horizon."""
    rows = np.arange(1.0, span + 1)
    weights = [0.5 ** (rows / (memory * span)) for memory in config.memories]
    share = np.mean([weight / weight.sum() for weight in weights], axis=0)
    share = np.minimum(share, 1.0 / (_BLOCKS * config.horizon))
    blocks = (_BLOCKS * np.cumsum(share) / share.sum()).astype(np.int64)
    return np.asarray(np.minimum(blocks, _BLOCKS - 1)[age.astype(np.int64) - 1])


def _places_of_known(
    config: LagRegressionConfig, series: RegressionSeries, y: Floats, at: NDArray[np.int64], h: int
) -> NDArray[np.int64]:  # (q,)
    """The features that depend on known columns."""
    moved = replace(series, known=series.known + 1.0 + np.abs(series.known))
    return np.flatnonzero(_features(config, y, series, at, h)[0][0] != _features(config, y, moved, at, h)[0][0])


def _influences(
    features: Floats,  # (n, p)
    target: Floats,  # (n,)
    weight: Floats,  # (n,)
    penalty: float,
    blocks: NDArray[np.int64],  # (n,)
) -> Floats:  # (p, 2 + blocks)
    """The features' means; what the penalty of `_ridge` takes off the slopes, to first order; and what each stretch of
    time adds to them.

    The last is a jackknife over stretches: errors of overlapping windows, and of series at the same time, are
    dependent within one. Its outer products sum to the covariance of the slopes.
    """
    x, y, (mean, _), unit, live = _standardise(features, target, weight)
    gram, moment = penalty * np.eye(x.shape[1]), x.T @ y
    grams, moments = np.zeros((_BLOCKS, *gram.shape)), np.zeros((_BLOCKS, len(moment)))
    used = np.unique(blocks)
    for block in used.tolist():
        inside = blocks == block
        grams[block], moments[block] = x[inside].T @ x[inside], x[inside].T @ y[inside]
    gram += grams.sum(axis=0)
    slopes = np.linalg.solve(gram, moment)
    without = np.linalg.solve(gram - grams[used], (moment - moments[used])[..., None])[..., 0]
    moves = np.zeros((len(slopes), 1 + _BLOCKS))
    moves[:, 1 + used] = (slopes - without).T * ((len(used) - 1) / len(used)) ** 0.5
    moves += penalty * np.linalg.solve(gram, moves)
    moves[:, 0] = penalty * np.linalg.solve(gram, slopes)
    return np.concatenate((mean[:, None], (live / unit)[:, None] * moves), axis=1)


def _standardise(
    features: Floats, target: Floats, weight: Floats
) -> tuple[Floats, Floats, tuple[Floats, float], Floats, NDArray[np.bool_]]:
    """Weighted features and target about their means; the means, the features' units, and which of them vary."""
    share = weight / weight.sum()
    mean = share @ features
    spread = np.sqrt(share @ (features - mean) ** 2)
    live = spread > 1e-9 * (1.0 + np.abs(mean))  # a constant column says nothing
    unit = np.where(live, spread, 1.0)
    centre = float(share @ target)
    root = np.sqrt(share * len(share))
    return root[:, None] * ((features - mean) / unit * live), root * (target - centre), (mean, centre), unit, live


def measure_unit(values: Floats) -> float:
    """The median size, as a standard deviation; that itself where most values are 0."""
    return 1.4826 * float(np.median(np.abs(values))) or float(values.std()) or 1.0


def transform_values(transform: Transform, values: Floats) -> Floats:
    """Values as a regression sees them."""
    return np.arcsinh(values) if transform == "asinh" else values


def invert_values(transform: Transform, values: Floats) -> Floats:
    """The inverse of `transform_values`."""
    return np.sinh(np.clip(values, -12.0, 12.0)) if transform == "asinh" else values


def _features(
    config: LagRegressionConfig,
    y: Floats,  # (T,)
    series: RegressionSeries,
    at: NDArray[np.int64],  # (B,) rows known at each origin
    h: int,  # steps ahead, from 0
) -> tuple[Floats, Floats]:  # (B, p), (B,)
    """What step ``h`` is regressed on, and the level that is taken off values."""
    season, horizon = config.season, config.horizon
    newest = y[at[:, None] - 1 - np.arange(max(season, config.recent) if season <= config.context_length else 1)]
    cycle = newest[:, :season] if season > 1 else newest
    centre = cycle.mean(axis=1)
    columns = [newest[:, : config.recent] - centre[:, None], centre[:, None]]  # the latter pulls back to the level
    lags = [k for k in config.cycles if season * k > h] if season > 1 else []
    for k in lags:
        near = [d for d in _NEIGHBOURS if h - season * k + d < 0]
        columns.append(y[at[:, None] + h - season * k + np.array(near)] - centre[:, None])
    if not config.lean:
        columns += [cycle.min(axis=1)[:, None] - centre[:, None], cycle.max(axis=1)[:, None] - centre[:, None]]
    known = series.known
    if known.shape[1]:
        after = 0 if config.lean else config.reach
        steps = np.unique(np.clip(h + np.arange(-config.reach, after + 1), 0, horizon - 1))
        columns.append(known[at[:, None] + steps].reshape(len(at), -1))
        columns += [known[at + h - season * k] for k in (lags if season > 1 else ()) if season * k > h]
        if horizon > 1 and not config.lean:
            ahead = known[at[:, None] + np.arange(horizon)]
            columns += [ahead.mean(axis=1), ahead.min(axis=1), ahead.max(axis=1)]
            columns.append(known[at[:, None] - 1 - np.arange(min(season, config.context_length))].mean(axis=1))
    if series.dates.shape[-1]:
        columns.append(series.dates[at + h])
    if series.past.shape[-1]:
        columns += [series.past[at - 1], series.past[at[:, None] - 1 - np.arange(cycle.shape[1])].mean(axis=1)]
    if len(series.static):
        columns.append(np.broadcast_to(series.static, (len(at), len(series.static))))
    return np.concatenate(columns, axis=1), centre


def _ridge(
    features: Floats,  # (n, p)
    target: Floats,  # (n,)
    weight: Floats,  # (n,)
    penalty: float | None,
) -> tuple[Floats, float]:  # (p + 1,), the penalty
    """Weighted ridge on standardised features; without a penalty, that of the least leave-one-out absolute error."""
    x, y, (mean, centre), unit, live = _standardise(features, target, weight)
    share = weight / weight.sum()
    root = np.sqrt(share * len(share))
    gram, moment = x.T @ x, x.T @ y
    if penalty is None:
        values, vectors = np.linalg.eigh(gram)
        values, turned, scores = np.maximum(values, 0.0), vectors.T @ moment, x @ vectors
        errors = {}
        for candidate in _PENALTIES:
            leverage = np.minimum((scores**2 / (values + candidate)).sum(axis=1) + share, 0.95)
            left_out = (y - scores @ (turned / (values + candidate))) / (1 - leverage)
            errors[candidate] = float(np.abs(root * left_out).sum())
        penalty = min(errors, key=lambda candidate: errors[candidate])
    gram[np.diag_indices(len(gram))] += penalty
    slopes = live * np.linalg.solve(gram, moment) / unit
    return np.append(slopes, centre - mean @ slopes), penalty

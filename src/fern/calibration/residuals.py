"""What calibration keeps of held-out windows and takes from them: their residuals under the distribution, how many
independent windows they are worth, and conformal quantiles of scores on a grid of levels.

Where data are too few, the radii of a Gaussian stand in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, sqrt
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special

from fern.errors import FernError
from fern.metrics.point import WINDOWS, Array, require_finite, to_tensor, wide
from fern.metrics.probabilistic import CHANNEL_FIRST, require_distribution_fits
from fern.transport import Ellipsoid

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Residuals:
    """Residuals of n windows under their distributions N(μ, aA²), free of the unit and level of the series.

    ``whitened`` is z = A⁻¹(y − μ)/√a, standard normal in every direction under the distribution; ``standardised`` is
    (y − μ)/σ, step by step. ``origins`` are the row positions of the windows in their series, ``series`` names the
    series. Windows of different series count as exchangeable, windows of one series as dependent in time, and the
    channels of one window as dependent on each other as their residuals show.

    The distribution itself is not kept, so many windows can be gone through in batches and joined:

    Example:
        >>> import torch
        >>> distribution = Ellipsoid(torch.ones(5, 1, 2, 3), torch.zeros(5, 1, 2, 3), torch.zeros(5, 1, 2, 0, 3))
        >>> batch = Residuals.of(distribution, torch.ones(5, 6, 1), origins=range(5))
        >>> joined = Residuals.joined([batch, Residuals.of(distribution, torch.ones(5, 6, 1), origins=range(5, 10))])
        >>> len(joined), joined.channels, joined.horizon, joined.patches
        (10, 1, 6, 2)
    """

    whitened: Floats  # (n, C, H)
    standardised: Floats  # (n, C, H)
    origins: NDArray[np.int64]  # (n,)
    series: NDArray[Any]  # (n,)
    patch_size: int

    @classmethod
    def of(
        cls,
        distribution: Ellipsoid,  # batch (n, C), event (H,)
        y: Array,  # (n, H, C)
        *,
        origins: Iterable[int],  # (n,)
        series: Sequence[int] | Sequence[str] | NDArray[Any] | None = None,  # (n,)
    ) -> Self:
        """The residuals of the truth under the distributions; without ``series`` all windows are of one."""
        truth = to_tensor("y", y, WINDOWS)
        rows = np.asarray(list(origins), dtype=np.int64)
        names = np.zeros(len(rows), dtype=np.int64) if series is None else np.asarray(series)
        for name, values in (("origins", rows), ("series", names)):
            if values.shape != (len(truth),):
                raise FernError(f"{len(values)} for {len(truth)} windows", argument=name, expected="one for each")
        whitened, standardised = compute_residuals(distribution, truth)
        return cls(whitened, standardised, rows, names, distribution.patch_size)._in_order()

    @classmethod
    def none(cls, *, channels: int, horizon: int, patch_size: int) -> Self:
        """No window at all: what is calibrated on it says that it is not."""
        empty = np.zeros((0, channels, horizon))
        return cls(empty, empty, np.zeros(0, np.int64), np.zeros(0, np.int64), patch_size)

    @classmethod
    def joined(cls, batches: Iterable[Self]) -> Self:
        """All windows of the batches, in order of series and time."""
        parts = list(batches)
        if not parts:
            raise FernError("got none", argument="batches", expected="at least one")
        for part in parts[1:]:
            part.require_like(parts[0])
        names = ("whitened", "standardised", "origins", "series")
        joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return replace(parts[0], **joined)._in_order()

    def __len__(self) -> int:
        return len(self.origins)

    @property
    def channels(self) -> int:
        """C."""
        return int(self.standardised.shape[1])

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.standardised.shape[2])

    @property
    def patches(self) -> int:
        """g."""
        return ceil(self.horizon / self.patch_size)

    def require_like(self, other: "Residuals") -> None:
        """Refuse residuals with other channels, horizon or patches."""
        ours, theirs = (self.channels, self.horizon, self.patch_size), (other.channels, other.horizon, other.patch_size)
        if ours != theirs:
            problem = f"channels, horizon and patch size are {ours} in one set and {theirs} in another; they must agree"
            raise FernError(problem, argument="residuals")

    def take(self, rows: NDArray[Any]) -> Self:
        """These windows only."""
        return type(self)(
            self.whitened[rows], self.standardised[rows], self.origins[rows], self.series[rows], self.patch_size
        )

    def thinned(self, most: int) -> Self:
        """Every k-th window, so that at most ``most`` are left."""
        return self if len(self) <= most else self.take(np.arange(0, len(self), ceil(len(self) / most)))

    def codes(self) -> NDArray[np.int64]:  # (n,)
        """The series as numbers 0, 1, …"""
        return np.unique(self.series, return_inverse=True)[1].astype(np.int64)

    def disjoint(self) -> int:
        """How many windows have targets that do not overlap, as many as can be found from the first on."""
        count, series, free = 0, None, 0
        for name, origin in zip(self.series.tolist(), self.origins.tolist(), strict=True):
            if name != series or origin >= free:
                count, series, free = count + 1, name, origin + self.horizon
        return count

    def apart_from(self, later: "Residuals") -> Self:
        """The windows whose targets share no row with a target of ``later`` (in the same series)."""
        keep = np.ones(len(self), dtype=bool)
        for name in np.intersect1d(self.series, later.series):
            places = np.flatnonzero(self.series == name)
            origins = np.sort(later.origins[later.series == name])
            after = np.searchsorted(origins, self.origins[places] - self.horizon, side="right")
            nearest = origins[np.minimum(after, len(origins) - 1)]
            keep[places] = (after == len(origins)) | (nearest >= self.origins[places] + self.horizon)
        return self.take(np.flatnonzero(keep))

    def halves(self) -> tuple[Self, Self]:
        """The earlier and the later half, without overlap of targets: in time, or by series if there are many."""
        names = np.unique(self.series)
        if len(names) >= 20:  # exchangeable: whole series, alternating, so that both halves are alike
            first = np.isin(self.series, names[::2])
            return self.take(np.flatnonzero(first)), self.take(np.flatnonzero(~first))
        early = np.zeros(len(self), dtype=bool)
        for name in names:
            rows = np.flatnonzero(self.series == name)
            early[rows[: len(rows) // 2]] = True
        later = self.take(np.flatnonzero(~early))
        return self.take(np.flatnonzero(early)).apart_from(later), later

    def _in_order(self) -> Self:
        order = np.lexsort((self.origins, np.unique(self.series, return_inverse=True)[1]))
        return self if np.array_equal(order, np.arange(len(self))) else self.take(order)


def compute_residuals(
    distribution: Ellipsoid,  # batch (n, C), event (H,)
    truth: torch.Tensor,  # (n, H, C)
) -> tuple[Floats, Floats]:  # (n, C, H) twice
    """The whitened and the standardised residuals, in the distribution's own precision."""
    if not isinstance(distribution, Ellipsoid):
        raise FernError(argument="distribution", got=distribution, expected="a fern.transport.Ellipsoid")
    with torch.no_grad():
        mean, stddev = distribution.mean, distribution.stddev
        require_distribution_fits(distribution, truth.to(mean.device))
        target = truth.to(mean.device).transpose(1, 2)
        standardised = (wide(target) - wide(mean)) / wide(stddev)
        require_finite("distribution or y: standardised residual", standardised, CHANNEL_FIRST)
        whitened = distribution.inverse(target.to(mean.dtype)) / sqrt(distribution.base_variance)
        require_finite("distribution or y: whitened residual", whitened, CHANNEL_FIRST)
    return whitened.cpu().numpy(), standardised.to(mean.dtype).cpu().numpy()


Values = NDArray[np.float64]

LEVELS: Values = np.concatenate([[0.0, 0.1], np.arange(0.5, 99.75, 0.5), [99.9]])
"""The levels (percent) for which radii are kept; between them they are interpolated."""


LEAST_SIZE = 4.0
"""The n_eff that any level asks for: what an 80 % level needs."""


def least_size_for(level: float) -> int:
    """The least n_eff with which a level can be calibrated: the corrected quantile must not lie beyond the data."""
    return ceil(round(_size_needed(level), 9))


@dataclass(frozen=True)
class Gaussian:
    """The distribution of a score if the forecast's distribution is right: the largest of ``count`` independent χ_m /
    √m.
    """

    freedom: int  # m
    count: int = 1

    def radius(self, level: float) -> float:
        """Its quantile at the level."""
        return float(self._radii(np.array([level]))[0])

    @lru_cache(maxsize=64)  # noqa: B019 - a frozen value of two integers, kept for good
    def radii(self) -> Values:  # (levels,)
        """Its quantiles at all `LEVELS`."""
        return np.where(LEVELS > 0, self._radii(LEVELS), 0.0)

    def _radii(self, levels: Values) -> Values:
        squared = 2 * special.gammaincinv(self.freedom / 2, (levels / 100) ** (1 / self.count))
        return np.asarray(np.sqrt(squared / self.freedom))


@dataclass(frozen=True)
class RadiusTable:
    """Radii of several units (channels, patches, …) at each of `LEVELS`, not decreasing in the level.

    ``spread`` widens the Gaussian radii that stand in for levels which n_eff cannot support.

    Example:
        >>> scores = np.arange(1.0, 100.0).reshape(-1, 1)   # 99 windows, one value each
        >>> table = RadiusTable.join([conformal_radii(scores, 99.0)], [99.0], [1.0], n=99, gaussian=[Gaussian(1)])
        >>> table.at(90)       # the 90th of 99: ⌈(n + 1) · 0.9⌉
        array([90.])
        >>> table.supports(90), table.supports(99.5)
        (True, False)
    """

    values: Values  # (units, levels)
    n_eff: Values  # (units,)
    spread: Values  # (units,)
    freedom: NDArray[np.int64]  # (units,)
    count: NDArray[np.int64]  # (units,)
    n: int

    @classmethod
    def join(
        cls,
        radii: list[Values],  # (levels,) each, NaN where n_eff does not support the level
        sizes: list[float],
        spreads: list[float],
        *,
        n: int,
        gaussian: list[Gaussian],
    ) -> "RadiusTable":
        """The table of these units: Gaussian radii where there are no others, then nested by the running maximum."""
        filled = [
            np.where(np.isnan(radius), spread * distribution.radii(), radius)
            for radius, spread, distribution in zip(radii, spreads, gaussian, strict=True)
        ]
        return cls(
            np.maximum.accumulate(np.stack(filled), axis=-1),
            np.asarray(sizes, dtype=np.float64),
            np.asarray(spreads, dtype=np.float64),
            np.array([distribution.freedom for distribution in gaussian], dtype=np.int64),
            np.array([distribution.count for distribution in gaussian], dtype=np.int64),
            n,
        )

    def at(self, level: float) -> Values:  # (units,)
        """The radius of each unit at a level in (0, 100)."""
        above = int(np.searchsorted(LEVELS, level))
        if above == len(LEVELS):
            beyond = [
                scale * Gaussian(int(m), int(k)).radius(level)
                for scale, m, k in zip(self.spread, self.freedom, self.count, strict=True)
            ]
            return np.asarray(np.maximum(self.values[:, -1], beyond))
        if LEVELS[above] == level:
            return self.values[:, above]
        share = (level - LEVELS[above - 1]) / (LEVELS[above] - LEVELS[above - 1])
        return np.asarray(self.values[:, above - 1] + share * (self.values[:, above] - self.values[:, above - 1]))

    @property
    def least(self) -> float:
        """The least n_eff of the units."""
        return float(self.n_eff.min())

    def supports(self, level: float) -> bool:
        """Whether every unit's n_eff suffices for the level."""
        return level <= LEVELS[-1] and self.least >= _size_needed(level) - 1e-9

    def scale(self, factors: Values) -> "RadiusTable":  # (n, units, levels) -> n times the units
        """Each radius times its factor, nested again."""
        values = np.maximum.accumulate(self.values * factors, axis=-1).reshape(-1, factors.shape[-1])
        n = len(factors)
        sizes, spreads = np.tile(self.n_eff, n), np.tile(self.spread, n)
        freedom, count = np.tile(self.freedom, n), np.tile(self.count, n)
        return replace(self, values=values, n_eff=sizes, spread=spreads, freedom=freedom, count=count)


def _size_needed(level: float) -> float:
    """1/α − 1, the n_eff a level asks for, before rounding up; for any level at least `LEAST_SIZE`."""
    return max(LEAST_SIZE, 1 / (1 - level / 100) - 1)


def conformal_radii(
    scores: NDArray[np.floating[Any]],  # (n, members)
    n_eff: float,
) -> Values:  # (levels,)
    """The order statistic at the share (n_eff + 1)/n_eff · s of the scores, s = level/100; NaN where that exceeds 1.

    With n independent scores this is the ⌈(n + 1) s⌉-th smallest, whose coverage is at least s (Vovk et al. 2005). With
    fewer effective than real scores the correction is that of the effective ones; the share is not rounded up to a
    multiple of 1/n_eff, which would overcover (by up to 3 points at n_eff = 30). Below `LEAST_SIZE` all are NaN: the
    largest of one or two errors would be the radius of every level.
    """
    if not len(scores) or n_eff < LEAST_SIZE:
        return np.full(len(LEVELS), np.nan)
    shares = LEVELS / 100 * (n_eff + 1) / n_eff
    radii = order_statistics(scores, shares)
    radii[shares > 1 + 1e-9] = np.nan
    radii[0] = 0.0
    return radii


def order_statistics(scores: NDArray[np.floating[Any]], shares: Values) -> Values:  # (n, members), (k,) -> (k,)
    """The smallest scores below or at which these shares of them lie."""
    values = np.sort(scores, axis=None).astype(np.float64)
    place = np.ceil(shares * len(values) - 1e-9).astype(np.int64) - 1
    return np.asarray(values[np.clip(place, 0, len(values) - 1)])


EXCEEDED = (0.5, 0.8)
"""The quantiles whose exceedances n_eff is measured by."""

FULLY_CORRELATED_WINDOWS = 4.0
"""That values pooled within a window tell the same is believed as if so many windows had shown it."""


def longest_lag(residuals: Residuals) -> int:
    """Beyond twice the horizon exceedances are taken as independent: 2H over the usual step between windows."""
    steps = np.diff(residuals.origins)[np.diff(residuals.codes()) == 0]
    steps = steps[steps > 0]
    return ceil(2 * residuals.horizon / max(1.0, float(np.median(steps)))) if len(steps) else 0


def effective_size(
    scores: NDArray[np.floating[Any]],  # (n, members)
    *,
    series: NDArray[np.int64],  # (n,) ascending
    lags: int,
) -> float:
    """The n_eff of scores: of the share that exceeds their own 50 % or 80 % quantile, the lesser of the two.

    The quantile of a level is as uncertain as the share that exceeds it. That share's n_eff hardly depends on the
    level, but its estimate does: 5 to 10 exceedances in a row or two look independent (simulated maxima over 48 steps,
    117 windows: true n_eff 9.5 at the 50, 90 and 95 % quantiles, estimated 10, 18 and 51). So it is measured where
    exceedances are many; 80 % as well as 50 % because large errors may cluster more than others (volatility).
    """
    if not len(scores):
        return 0.0
    thresholds = order_statistics(scores, np.array(EXCEEDED))
    exceeding = np.stack([(scores > threshold).mean(axis=1) for threshold in thresholds], axis=1)
    return float(share_sizes(exceeding, members=scores.shape[1], series=series, lags=lags).min(initial=np.inf))


def share_sizes(
    shares: NDArray[np.floating[Any]],  # (n, units) the share of each window's pooled values that exceed
    *,
    members: int,
    series: NDArray[np.int64],  # (n,) ascending
    lags: int,
) -> NDArray[np.float64]:  # (units,)
    """The n_eff of the share of exceedances p̂ over n windows of ``members`` pooled values each.

    ::

        n_eff = p̂(1 − p̂) / Var(p̂),   Var(p̂) = (γ_0 + 2 Σ_k γ_k) / n

    γ_k is the autocovariance of the windows' mean exceedances at lag k within a series, summed up to its first
    negative value (and at most ``lags``). With one value a window this is the usual n / (1 + 2 Σ ρ_k); with several
    (channels, steps) γ_0 shows how far they go together: n if they exceed all at once, n · members if independently.
    Because a few windows cannot show independence, γ_0 is pulled towards "all at once" as by
    `FULLY_CORRELATED_WINDOWS` windows. Autocovariances about an estimated mean are too small by Var(p̂), which a
    second pass adds. Never above n · members; and windows that all overlap, of one series, count as one: three or four
    in a row have no autocorrelation to be measured and would count as three or four. (``lags`` spans two horizons.)
    """
    n = len(shares)
    share = shares.mean(axis=0)
    single = share * (1 - share)
    away = shares - share
    observed = np.einsum("nu,nu->u", away, away) / n
    pulled = (n * observed + FULLY_CORRELATED_WINDOWS * single) / (n + FULLY_CORRELATED_WINDOWS)
    inflation = np.ones_like(observed)
    for _ in range(2):
        lost = observed * np.minimum(inflation / n, 0.5)  # nothing to speak of in the first pass
        inflation = np.ones_like(observed)
        going = observed > 1e-12 * np.maximum(single, 1e-12)
        for lag in range(1, min(lags, n - 1) + 1):
            same = (series[lag:] == series[:-lag]).astype(np.float64)
            if not going.any() or not same.any():
                break
            covariance = np.einsum("nu,nu,n->u", away[lag:], away[:-lag], same) / n + lost * same.sum() / n
            going &= covariance > 0
            inflation[going] += 2 * covariance[going] / (observed + lost)[going]
    size = n * np.divide(single, pulled * inflation, out=np.ones_like(single), where=pulled > 0)
    alone = n <= max(1.0, lags / 2) and series[0] == series[-1]
    return np.asarray(np.minimum(np.maximum(size, 1.0), 1.0 if alone else n * members))

"""Conformal quantiles of scores on a grid of levels, and the Gaussian radii that stand in where data are too few."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Values = NDArray[np.float64]

LEVELS: Values = np.concatenate([[0.0, 0.1], np.arange(0.5, 99.75, 0.5), [99.9]])
"""The levels (percent) for which radii are kept; between them they are interpolated."""


LEAST_SIZE = 4.0
"""The n_eff that any level asks for: what an 80 % level needs."""


def least_size_for(level: float, *, tails: int = 1) -> int:
    """The least n_eff with which a level can be calibrated: the corrected quantile must not lie beyond the data."""
    return ceil(round(_size_needed(level, tails), 9))


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
        result: Values = np.sqrt(squared / self.freedom)
        return result


@dataclass(frozen=True)
class RadiusTable:
    """Radii of several units (channels, patches, …) at each of `LEVELS`, not decreasing in the level.

    ``spread`` widens the Gaussian radii that stand in for levels which n_eff cannot support. ``tails``
    is 2 for one end of an interval (its miss is half of 1 − level).

    Example:
        >>> scores = np.arange(1.0, 100.0).reshape(-1, 1)   # 99 windows, one value each
        >>> table = RadiusTable.join([conformal_radii(scores, np.ones(99), 99.0)], [99.0], [1.0], n=99,
        ...                          gaussian=[Gaussian(1)])
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
    tails: int = 1

    @classmethod
    def join(
        cls,
        radii: list[Values],  # (levels,) each, NaN where n_eff does not support the level
        sizes: list[float],
        spreads: list[float],
        *,
        n: int,
        gaussian: list[Gaussian],
        tails: int = 1,
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
            tails,
        )

    def at(self, level: float) -> Values:  # (units,)
        """The radius of each unit at a level in (0, 100)."""
        above = int(np.searchsorted(LEVELS, level))
        if above == len(LEVELS):
            beyond = [
                scale * Gaussian(int(m), int(k)).radius(level)
                for scale, m, k in zip(self.spread, self.freedom, self.count, strict=True)
            ]
            result: Values = np.maximum(self.values[:, -1], beyond)
            return result
        if LEVELS[above] == level:
            return self.values[:, above]
        share = (level - LEVELS[above - 1]) / (LEVELS[above] - LEVELS[above - 1])
        between: Values = self.values[:, above - 1] + share * (self.values[:, above] - self.values[:, above - 1])
        return between

    @property
    def least(self) -> float:
        """The least n_eff of the units."""
        return float(self.n_eff.min())

    def supports(self, level: float) -> bool:
        """Whether every unit's n_eff suffices for the level."""
        return level <= LEVELS[-1] and self.least >= _size_needed(level, self.tails) - 1e-9

    def scaled(self, factors: Values) -> "RadiusTable":  # (units, levels) -> the same units
        """Each radius times its factor, nested again."""
        return replace(self, values=np.maximum.accumulate(self.values * factors, axis=-1))


def _size_needed(level: float, tails: int) -> float:
    """tails/α − 1, the n_eff a level asks for, before rounding up; for any level at least `LEAST_SIZE`."""
    return max(LEAST_SIZE, tails / (1 - level / 100) - 1)


def conformal_radii(
    scores: NDArray[np.floating[Any]],  # (n, members)
    weights: Values,  # (n,)
    n_eff: float,
    *,
    tails: int = 1,
) -> Values:  # (levels,)
    """The weighted order statistic at the share (n_eff + 1)/n_eff · s of the scores; NaN where that exceeds 1.

    s is the level as a share (tails = 1), or (1 + level)/2 for one end of a central interval (tails = 2). With n
    independent scores this is the ⌈(n + 1) s⌉-th smallest, whose coverage is at least s (Vovk et al. 2005). With
    fewer effective than real scores the correction is that of the effective ones; the share is not rounded up to a
    multiple of 1/n_eff, which would overcover (by up to 3 points at n_eff = 30). Below `LEAST_SIZE` all are NaN: the
    largest of one or two errors would be the radius of every level.
    """
    if not len(scores) or n_eff < LEAST_SIZE:
        return np.full(len(LEVELS), np.nan)
    wanted = (LEVELS / 100 if tails == 1 else (1 + LEVELS / 100) / 2) * (n_eff + 1) / n_eff
    radii = weighted_quantiles(scores, weights, wanted)
    radii[wanted > 1 + 1e-9] = np.nan
    if tails == 1:
        radii[0] = 0.0
    return radii


def weighted_quantiles(
    scores: NDArray[np.floating[Any]],  # (n, members)
    weights: Values,  # (n,)
    shares: Values,  # (k,)
) -> Values:  # (k,)
    """The smallest scores below or at which these shares of the weight lie."""
    values = scores.reshape(-1).astype(np.float64)
    if weights.min() == weights.max():
        values.sort()
        place = np.ceil(shares * len(values) - 1e-9).astype(np.int64) - 1
    else:
        order = np.argsort(values, kind="stable")
        values = values[order]
        total = np.repeat(weights, scores.shape[1])[order].cumsum()
        place = np.searchsorted(total, shares * total[-1] - 1e-12 * total[-1])
    result: Values = values[np.clip(place, 0, len(values) - 1)]
    return result

"""Whether one forecaster is significantly better than another: rank tests and critical differences."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fern.errors import FernError, require_number, require_whole

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EqualAccuracy:
    """The mean difference with its interval, the Diebold-Mariano statistic and its two-sided p-value."""

    difference: float
    low: float
    high: float
    statistic: float
    p_value: float
    degrees: float
    lag: int


@dataclass(frozen=True)
class Ranks:
    """The Friedman test over N scenarios and k models, and each model's average rank (1 is best).

    ``p_value`` is of the chi-squared statistic, ``f_p_value`` of Iman and Davenport's less conservative F; where all
    scenarios order the models alike it is exact.
    """

    average: tuple[float, ...]
    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    scenarios: int


def diebold_mariano(
    first: ArrayLike,  # (n,)
    second: ArrayLike,  # (n,)
    *,
    horizon: int,
    lag: int | None = None,
    level: float = 95.0,
) -> EqualAccuracy:
    """The test that two forecasters are equally accurate (Diebold and Mariano, 1995), for overlapping windows.

    The variance of the mean difference is Newey and West's, with Bartlett's weights up to ``lag`` (at least
    horizon - 1; default 2 horizons - 1). The statistic is shrunk by the factor of Harvey, Leybourne and Newbold (1997),
    sqrt((n + 1 - 2h + h(h-1)/n) / n), and compared with Student's t at 3n / 2(lag + 1) degrees of freedom, those of
    Bartlett's variance estimate, not n - 1: long lags leave few. Bartlett's weights also lose a known share of the
    variance that overlap alone makes (1/3 at lag horizon - 1, 1/6 at the default); it is put back. The interval at
    ``level`` percent holds the differences that the test would not reject.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.normal(size=(2, 400))
        >>> diebold_mariano(a + 1.0, b, horizon=1).p_value < 1e-6, diebold_mariano(a, a, horizon=1).p_value
        (True, 1.0)
    """
    differences = _differences(first, second, horizon=horizon)
    count = len(differences)
    if lag is None:  # two horizons where four stretches of that length fit, else one
        lag = (2 * horizon if count >= 8 * horizon else horizon) - 1
    if not horizon - 1 <= lag < count:
        raise FernError(argument="lag", got=lag, expected=f"from {horizon - 1} (horizon - 1) to {count - 1:,}")
    require_number("level", level, "a percentage of 1 to below 100", lambda value: 1 <= value < 100)
    # Degrees of freedom of Bartlett's variance estimate: n / ((lag + 1) ∫k²) with ∫k² = 2/3, at most n - 1.
    degrees = max(1.0, min(count - 1.0, 1.5 * count / (lag + 1)))
    mean = float(differences.mean())
    small_sample = math.sqrt((count + 1 - 2 * horizon + horizon * (horizon - 1) / count) / count)
    factor = small_sample * _share_kept(horizon, lag + 1)
    error = math.sqrt(long_run_variance(differences, lag) / count) / factor
    certain = math.copysign(math.inf, mean) if mean else 0.0  # where the difference is the same in every window
    statistic = mean / error if error > 0.0 else certain
    p_value = 2.0 * float(special.stdtr(degrees, -abs(statistic)))
    half = error * float(special.stdtrit(degrees, 0.5 + level / 200.0))
    return EqualAccuracy(mean, mean - half, mean + half, statistic, p_value, degrees, lag)


def long_run_variance(
    values: Floats,  # (n,)
    lag: int,
) -> float:
    """Newey and West's sum of autocovariances: γ0 + 2 Σ (1 - k / (lag + 1)) γk, never negative.

    Example:
        >>> long_run_variance(np.array([1.0, -1.0, 1.0, -1.0]), 0)
        1.0
    """
    centred = values - values.mean()
    count = len(centred)
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    covariances = np.fft.irfft(np.abs(spectrum) ** 2, size)[: lag + 1] / count
    weights = 1.0 - np.arange(lag + 1) / (lag + 1)
    total = float(2.0 * (weights * covariances).sum() - covariances[0])
    scale = float(np.abs(values).max()) ** 2
    return total if total > 1e-20 * scale else 0.0  # below is rounding of the transform


def friedman(
    errors: ArrayLike,  # (N, k), lower is better
) -> Ranks:
    """Whether k models differ over N scenarios, by their ranks within each scenario (ties share ranks).

    Example:
        >>> friedman([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.1, 0.2, 0.3]]).average
        (1.0, 2.0, 3.0)
    """
    table = np.asarray(errors, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 2:
        raise FernError(
            f"got shape {table.shape}", argument="errors", expected="at least 2 scenarios of at least 2 models"
        )
    if np.isnan(table).any():
        raise FernError("holds NaN; leave out scenarios that not every model has", argument="errors")
    scenarios, models = table.shape
    ranks = np.array([tied_ranks(row) for row in table])
    average = ranks.mean(axis=0)
    ties = sum(float((counts**3 - counts).sum()) for counts in (np.unique(row, return_counts=True)[1] for row in table))
    correction = 1.0 - ties / (scenarios * models * (models**2 - 1))
    spread = float(((average - (models + 1) / 2) ** 2).sum())
    statistic = 0.0 if correction == 0.0 else 12 * scenarios / (models * (models + 1)) * spread / correction
    most = scenarios * (models - 1)
    full = most - statistic <= 1e-12 * most
    f_statistic = math.inf if full else (scenarios - 1) * statistic / (most - statistic)
    f_p_value = float(special.fdtrc(models - 1, (models - 1) * (scenarios - 1), f_statistic))
    if full:  # F has no finite value: the chance that all scenarios order the models as the first one does
        counts = np.unique(table[0], return_counts=True)[1]
        orders = math.factorial(models) / math.prod(math.factorial(int(count)) for count in counts)
        f_p_value = orders ** (1 - scenarios)
    return Ranks(
        average=tuple(float(rank) for rank in average),
        statistic=statistic,
        p_value=float(special.chdtrc(models - 1, statistic)),
        f_statistic=f_statistic,
        f_p_value=f_p_value,
        scenarios=scenarios,
    )


def tied_ranks(
    values: ArrayLike,  # (k,)
) -> Floats:  # (k,)
    """Ranks from 1 for the smallest; equal values share the mean of their ranks.

    Example:
        >>> tied_ranks([3.0, 1.0, 3.0]).tolist()
        [2.5, 1.0, 2.5]
    """
    row = np.asarray(values, dtype=np.float64)
    below = (row[:, None] > row[None, :]).sum(axis=1)
    equal = (row[:, None] == row[None, :]).sum(axis=1)
    ranks: Floats = below + (equal + 1) / 2
    return ranks


def nemenyi(*, models: int, scenarios: int, alpha: float = 0.05) -> float:
    """The critical difference: average ranks farther apart than this differ, any pair of models at ``alpha``.

    CD = q sqrt(k (k + 1) / 6N).

    Example:
        >>> round(nemenyi(models=7, scenarios=23), 3)
        1.878
    """
    require_number("alpha", alpha, "a number between 0 and 1", lambda value: 0 < value < 1)
    require_whole("models", models, 2)
    require_whole("scenarios", scenarios, 1)
    return _range_quantile(models, alpha) * math.sqrt(models * (models + 1) / (6 * scenarios))


@cache
def _range_quantile(models: int, alpha: float) -> float:
    """The quantile q: of the studentised range, for infinitely many degrees of freedom, over √2."""
    from scipy import stats  # slow to import, and needed here only

    return float(stats.studentized_range.ppf(1.0 - alpha, models, math.inf)) / math.sqrt(2.0)


def _differences(first: ArrayLike, second: ArrayLike, *, horizon: int) -> Floats:
    if horizon < 1:
        raise FernError(argument="horizon", got=horizon, expected="at least 1")
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise FernError(
            f"got shapes {a.shape} and {b.shape}", argument="errors", expected="one error for each of the same windows"
        )
    if len(a) < 2 * horizon:
        problem = f"got {len(a):,} windows, too few to tell anything at horizon {horizon}: needs at least"
        raise FernError(f"{problem} {2 * horizon:,}", argument="errors")
    differences: Floats = a - b
    if not np.isfinite(differences).all():
        raise FernError("some are not finite", argument="errors")
    return differences


def _share_kept(horizon: int, length: int) -> float:
    """The share of the standard deviation that weights 1 - k / length keep of means over ``horizon`` fresh values.

    Such means have autocovariances in proportion to 1 - k / horizon.
    """
    lags = np.arange(1, horizon)
    correlations = 1.0 - lags / horizon
    kept = correlations * (1.0 - lags / length)
    return math.sqrt((1.0 + 2.0 * float(kept.sum())) / (1.0 + 2.0 * float(correlations.sum())))

"""Whether one forecaster is significantly better than another: rank tests and critical differences."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fern.errors import FernError

_TINY = 1e-300
_ENOUGH = 1e-15
_MOST_TERMS = 10_000


def normal_quantile(probability: float) -> float:
    """The standard normal quantile.

    Example:
        >>> round(normal_quantile(0.975), 4)
        1.96
    """
    return NormalDist().inv_cdf(probability)


def student_tail(value: float, degrees: float) -> float:
    """P(T > value) of Student's t; degrees of freedom may be fractional.

    Example:
        >>> round(student_tail(2.228, 10), 4)
        0.025
    """
    if value < 0.0:
        return 1.0 - student_tail(-value, degrees)
    if math.isinf(value):
        return 0.0
    return 0.5 * incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + value * value))


def student_quantile(probability: float, degrees: float) -> float:
    """The quantile of Student's t.

    Example:
        >>> round(student_quantile(0.975, 10), 3)
        2.228
    """
    if not 0.0 < probability < 1.0:
        raise FernError(argument="probability", got=probability, expected="a number between 0 and 1")
    if probability < 0.5:
        return -student_quantile(1.0 - probability, degrees)
    return _root(lambda value: student_tail(value, degrees) - (1.0 - probability))


def chi_squared_tail(value: float, degrees: float) -> float:
    """P(X > value) of the chi-squared distribution.

    Example:
        >>> round(chi_squared_tail(5.991, 2), 3)
        0.05
    """
    return 1.0 if value <= 0.0 else incomplete_gamma_tail(degrees / 2.0, value / 2.0)


def f_tail(value: float, numerator: float, denominator: float) -> float:
    """P(X > value) of Fisher's F.

    Example:
        >>> round(f_tail(4.103, 2, 10), 3)
        0.05
    """
    if value <= 0.0:
        return 1.0
    if math.isinf(value):
        return 0.0
    return incomplete_beta(denominator / 2.0, numerator / 2.0, denominator / (denominator + numerator * value))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b).

    Example:
        >>> round(incomplete_beta(2.0, 3.0, 0.5), 4)
        0.6875
    """
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # the fraction converges fast on the other side
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)

    def terms() -> Iterator[tuple[float, float]]:
        yield 1.0, 1.0
        for m in range(1, _MOST_TERMS):
            yield -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1)), 1.0
            yield m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), 1.0

    return math.exp(logarithm) / a * _continued_fraction(terms())


def incomplete_gamma_tail(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function Q(a, x).

    Example:
        >>> round(incomplete_gamma_tail(1.0, 2.0), 6), round(math.exp(-2.0), 6)
        (0.135335, 0.135335)
    """
    if x <= 0.0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        term = total = 1.0 / a
        for m in range(1, _MOST_TERMS):
            term *= x / (a + m)
            total += term
            if term < total * _ENOUGH:
                break
        return 1.0 - front * total

    def terms() -> Iterator[tuple[float, float]]:
        yield 1.0, x + 1.0 - a
        for m in range(1, _MOST_TERMS):
            yield m * (a - m), x + 2.0 * m + 1.0 - a

    return front * _continued_fraction(terms())


def _continued_fraction(terms: Iterator[tuple[float, float]]) -> float:
    """a1 / (b1 + a2 / (b2 + …)) of the terms (a, b)."""
    value = c = _TINY
    d = 0.0
    for a, b in terms:
        d = b + a * d or _TINY
        c = b + a / c or _TINY
        d = 1.0 / d
        change = c * d
        value *= change
        if abs(change - 1.0) < _ENOUGH:
            break
    return value


def _root(falling: Callable[[float], float]) -> float:
    """The place from 0 up at which a falling function is 0, by bisection to the last bit."""
    low, high = 0.0, 1.0
    while falling(high) > 0.0:
        low, high = high, 2.0 * high
    while True:
        middle = (low + high) / 2.0
        if middle in (low, high):
            return middle
        low, high = (middle, high) if falling(middle) > 0.0 else (low, middle)


Floats = NDArray[np.float64]

BLOCK_HORIZONS = 2
"""Blocks and lags reach over so many horizons, where the series is long enough."""

_CHUNK = 2_000_000  # places gathered at a time by the bootstrap: 16 MB


@dataclass(frozen=True)
class Interval:
    """The mean difference, and the interval that holds it at ``level``.

    ``block`` is the windows in a block; ``blocks`` how many such the series holds.
    """

    difference: float
    low: float
    high: float
    level: float
    block: int
    blocks: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0.0 or self.high < 0.0


@dataclass(frozen=True)
class EqualAccuracy:
    """The Diebold-Mariano statistic, its degrees of freedom and its two-sided p-value."""

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


def block_bootstrap(
    first: ArrayLike,  # (n,) errors of successive windows
    second: ArrayLike,  # (n,) of another forecaster on the same windows
    *,
    horizon: int,
    generator: np.random.Generator,
    block: int | None = None,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """An interval for the mean of ``first - second``: circular blocks (Politis and Romano, 1992), paired by window.

    ``block`` defaults to two horizons, one where the series holds fewer than four of those. Few blocks make a plain
    percentile interval too short. Its arms are therefore stretched by what `diebold_mariano` allows for: Student's
    quantile over the normal one at 3n / 2·block degrees of freedom, and the two factors on its statistic.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> noise = rng.normal(size=500)
        >>> found = block_bootstrap(noise + 0.5, rng.normal(size=500), horizon=4, generator=rng)
        >>> found.excludes_zero, found.block
        (True, 8)
    """
    differences = _differences(first, second, horizon=horizon)
    count = len(differences)
    length = _block_length(count, horizon) if block is None else block
    if not horizon <= length <= count:
        raise FernError(
            argument="block", got=length, expected=f"from {horizon} (the horizon) to {count:,} (the windows)"
        )
    if resamples < 100:
        raise FernError(argument="resamples", got=resamples, expected="at least 100")
    if not 0.0 < level < 1.0:
        raise FernError(argument="level", got=level, expected="a number between 0 and 1")
    mean = float(differences.mean())
    tail = (1.0 - level) / 2.0
    means = _resampled_means(differences, length, resamples, generator)
    low, high = np.quantile(means, [tail, 1.0 - tail])
    stretch = student_quantile(1.0 - tail, _degrees(count, length)) / normal_quantile(1.0 - tail)
    stretch /= _small_sample_factor(count, horizon) * _share_kept(horizon, length)
    return Interval(
        difference=mean,
        low=mean - stretch * (mean - float(low)),
        high=mean + stretch * (float(high) - mean),
        level=level,
        block=length,
        blocks=count / length,
    )


def diebold_mariano(
    first: ArrayLike,  # (n,)
    second: ArrayLike,  # (n,)
    *,
    horizon: int,
    lag: int | None = None,
) -> EqualAccuracy:
    """The test that two forecasters are equally accurate (Diebold and Mariano, 1995), for overlapping windows.

    The variance of the mean difference is Newey and West's, with Bartlett's weights up to ``lag`` (at least
    horizon - 1; default 2 horizons - 1). The statistic is shrunk by the factor of Harvey, Leybourne and Newbold (1997),
    sqrt((n + 1 - 2h + h(h-1)/n) / n), and compared with Student's t at 3n / 2(lag + 1) degrees of freedom, those of
    Bartlett's variance estimate, not n - 1: long lags leave few. Bartlett's weights also lose a known share of the
    variance that overlap alone makes (1/3 at lag horizon - 1, 1/6 at the default); it is put back.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.normal(size=(2, 400))
        >>> diebold_mariano(a + 1.0, b, horizon=1).p_value < 1e-6, diebold_mariano(a, a, horizon=1).p_value
        (True, 1.0)
    """
    differences = _differences(first, second, horizon=horizon)
    count = len(differences)
    lag = _block_length(count, horizon) - 1 if lag is None else lag
    if not horizon - 1 <= lag < count:
        raise FernError(argument="lag", got=lag, expected=f"from {horizon - 1} (horizon - 1) to {count - 1:,}")
    degrees = _degrees(count, lag + 1)
    mean = float(differences.mean())
    variance = long_run_variance(differences, lag) / count
    if variance <= 0.0:  # the difference is the same in every window
        statistic = math.copysign(math.inf, mean) if mean else 0.0
    else:
        factor = _small_sample_factor(count, horizon) * _share_kept(horizon, lag + 1)
        statistic = mean / math.sqrt(variance) * factor
    p_value = 1.0 if statistic == 0.0 else 2.0 * student_tail(abs(statistic), degrees)
    return EqualAccuracy(statistic, p_value, degrees, lag)


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
    f_p_value = f_tail(f_statistic, models - 1, (models - 1) * (scenarios - 1))
    if full:  # F has no finite value: the chance that all scenarios order the models as the first one does
        counts = np.unique(table[0], return_counts=True)[1]
        orders = math.factorial(models) / math.prod(math.factorial(int(count)) for count in counts)
        f_p_value = orders ** (1 - scenarios)
    return Ranks(
        average=tuple(float(rank) for rank in average),
        statistic=statistic,
        p_value=chi_squared_tail(statistic, models - 1),
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


# Studentised range quantiles for infinitely many degrees of freedom over sqrt(2), k = 2 … 20 models (Demšar, 2006,
# table 5, carried on to 20; the tests compare each with SciPy's).
_QUANTILES = {
    0.05: "1.960 2.344 2.569 2.728 2.850 2.948 3.031 3.102 3.164 3.219 3.268 3.313 3.354 3.391 3.426 3.458 3.489 3.517 "
    "3.544",
    0.10: "1.645 2.052 2.291 2.460 2.589 2.693 2.780 2.855 2.920 2.978 3.030 3.077 3.120 3.159 3.196 3.230 3.261 3.291 "
    "3.319",
}
_Q = {alpha: tuple(map(float, text.split())) for alpha, text in _QUANTILES.items()}


def nemenyi(*, models: int, scenarios: int, alpha: float = 0.05) -> float:
    """The critical difference: average ranks farther apart than this differ, any pair of models at ``alpha``.

    CD = q sqrt(k (k + 1) / 6N).

    Example:
        >>> round(nemenyi(models=7, scenarios=23), 3)
        1.878
    """
    if alpha not in _Q:
        raise FernError(argument="alpha", got=alpha, expected=f"one of {', '.join(map(str, _Q))}")
    if not 2 <= models <= len(_Q[alpha]) + 1:
        raise FernError(argument="models", got=models, expected=f"from 2 to {len(_Q[alpha]) + 1}")
    if scenarios < 1:
        raise FernError(argument="scenarios", got=scenarios, expected="at least 1")
    return _Q[alpha][models - 2] * math.sqrt(models * (models + 1) / (6 * scenarios))


def _differences(first: ArrayLike, second: ArrayLike, *, horizon: int) -> Floats:
    if horizon < 1:
        raise FernError(argument="horizon", got=horizon, expected="at least 1")
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise FernError(
            f"got shapes {a.shape} and {b.shape}", argument="errors", expected="one error for each of the same windows"
        )
    if len(a) < 2 * horizon or len(a) < 2:
        raise FernError(
            (
                f"got {len(a):,} windows, too few to tell anything at horizon {horizon}: needs at least "
                f"{max(2 * horizon, 2):,}"
            ),
            argument="errors",
        )
    found: Floats = a - b
    if not np.isfinite(found).all():
        raise FernError("some are not finite", argument="errors")
    return found


def _block_length(count: int, horizon: int) -> int:
    """Two horizons where four such blocks fit, else one."""
    return BLOCK_HORIZONS * horizon if count >= 4 * BLOCK_HORIZONS * horizon else horizon


def _degrees(count: int, length: int) -> float:
    """Degrees of freedom of Bartlett's variance estimate: n / (length ∫k²) with ∫k² = 2/3, at most n - 1."""
    return max(1.0, min(count - 1.0, 1.5 * count / length))


def _small_sample_factor(count: int, horizon: int) -> float:
    return math.sqrt((count + 1 - 2 * horizon + horizon * (horizon - 1) / count) / count)


def _share_kept(horizon: int, length: int) -> float:
    """The share of the standard deviation that weights 1 - k / length keep of means over ``horizon`` fresh values.

    Such means have autocovariances in proportion to 1 - k / horizon.
    """
    lags = np.arange(1, horizon)
    made = 1.0 - lags / horizon
    kept = made * (1.0 - lags / length)
    return math.sqrt((1.0 + 2.0 * float(kept.sum())) / (1.0 + 2.0 * float(made.sum())))


def _resampled_means(differences: Floats, length: int, resamples: int, generator: np.random.Generator) -> Floats:
    """Means of series put together from circular blocks; the last block is cut so that all are equally long."""
    count = len(differences)
    whole, rest = divmod(count, length)
    running = np.concatenate([[0.0], np.cumsum(np.concatenate([differences, differences[:length]]))])
    blocks = whole + (rest > 0)
    means: list[Floats] = []
    step = max(1, _CHUNK // blocks)
    for done in range(0, resamples, step):
        starts = generator.integers(0, count, size=(min(step, resamples - done), blocks))
        ends = starts + length
        if rest:
            ends[:, -1] = starts[:, -1] + rest
        means.append((running[ends] - running[starts]).sum(axis=1) / count)
    return np.concatenate(means)

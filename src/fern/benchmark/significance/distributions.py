"""The few distribution functions that significance tests need, without SciPy.

Both incomplete functions are evaluated by the continued fractions and series of Abramowitz and Stegun (6.5.29, 6.5.31,
26.5.8), by the modified Lentz method, to about 12 digits.
"""

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist

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
        raise FernError(f"probability: got {probability}, needs a number between 0 and 1")
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

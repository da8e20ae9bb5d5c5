"""What a stress test demands of a forecaster: ``regret<0.5``, ``ept>=100``."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fern.benchmark.results import QUANTITIES, Better
from fern.errors import FernError, require_number, unknown_name

DEMANDED: Mapping[str, Better] = MappingProxyType(
    {
        name: better
        for name in ("mse", "mae", "wd", "regret", "excess_mse", "ept", "skill")
        if (better := QUANTITIES[name].better) is not None
    }
)
"""The metrics that can be required, and which way is better; `fern.benchmark.stress.run.StressFigures` defines them."""

_COMPARE: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
)
_OPERATORS: Mapping[Better, tuple[str, str]] = MappingProxyType({"lower": ("<", "<="), "higher": (">", ">=")})
_WRITTEN = re.compile(r"\s*([^\s<>=!]*)\s*([<>=!]+)\s*(\S*)\s*")


@dataclass(frozen=True)
class Requirement:
    """A bound on a metric.

    The sign must point the way that is better: a gate with ``regret>0.5`` would let only bad forecasters through, so it
    is refused.

    Example:
        >>> ept = parse_requirement("ept >= 100")
        >>> ept, str(ept), ept.holds(99.0), ept.miss(99.0)
        (Requirement(metric='ept', sign='>=', bound=100.0), 'ept>=100', False, 1.0)
    """

    metric: str
    sign: str
    bound: float

    def __post_init__(self) -> None:
        if self.metric not in DEMANDED:
            raise unknown_name("metric", self.metric, DEMANDED)
        better = DEMANDED[self.metric]
        if self.sign not in _OPERATORS[better]:
            needs = " or ".join(_OPERATORS[better])
            raise FernError(f"{self.metric}{self.sign}{self.bound:g}: {better} {self.metric} is better", expected=needs)
        require_number(f"bound of {self.metric}", self.bound, "a finite number", lambda _: True)

    def __str__(self) -> str:
        return f"{self.metric}{self.sign}{self.bound:g}"

    def holds(self, value: float) -> bool:
        """Whether a value is within the bound; NaN never is."""
        return _COMPARE[self.sign](value, self.bound)

    def miss(self, value: float) -> float:
        """How far a value lies from the bound."""
        return abs(value - self.bound)


def parse_requirement(text: str) -> Requirement:
    """The requirement that a text states.

    Example:
        >>> parse_requirement("regert<0.5")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: regert<0.5: unknown metric 'regert': did you mean 'regret'? Known: ...
    """
    match = _WRITTEN.fullmatch(text)
    if match is None or not match[1] or match[2] not in _COMPARE:
        expected = "a metric, one of < <= > >= and a number, such as regret<0.5"
        raise FernError(argument="requirement", got=text, expected=expected)
    metric, sign, number = match.groups()
    try:
        bound = float(number)
    except ValueError:
        raise FernError(f"got {text!r}, where {number!r} is not a number", argument="requirement") from None
    try:
        return Requirement(metric, sign, bound)
    except FernError as error:
        raise FernError(f"{text}: {error}" if metric not in DEMANDED else str(error)) from None


def parse_requirements(texts: Iterable[str]) -> tuple[Requirement, ...]:
    """Several of them; none twice."""
    requirements = [parse_requirement(text) for text in texts]
    for place, requirement in enumerate(requirements):
        if requirement in requirements[:place]:
            raise FernError(f"{requirement} is given twice", argument="requirement")
    return tuple(requirements)


def requirements_from(bounds: Mapping[str, float], *, options: Iterable[str] = ()) -> tuple[Requirement, ...]:
    """The requirements of keywords: an upper bound where lower is better, a lower bound where higher is.

    ``options`` are further names that a misspelt keyword may have meant.

    Example:
        >>> [str(requirement) for requirement in requirements_from({"regret": 0.5, "ept": 100})]
        ['regret<=0.5', 'ept>=100']
    """
    for name in bounds:
        if name not in DEMANDED:
            raise unknown_name("metric", name, [*DEMANDED, *options])
    return tuple(Requirement(name, _OPERATORS[DEMANDED[name]][1], bound) for name, bound in bounds.items())

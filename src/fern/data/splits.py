"""Chronological splits: which rows train a model, which choose it and which judge it."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from numbers import Integral
from types import MappingProxyType

from fern.errors import FernError, unknown_name


def require_rows(what: str, *rows: object) -> None:
    """Refuse what is not a whole number, NumPy's included: a border between two rows is no border."""
    for row in rows:
        if isinstance(row, bool) or not isinstance(row, Integral):
            raise FernError(argument=what, got=row, expected="whole numbers")


@dataclass(frozen=True)
class Part:
    """The rows ``start`` (included) to ``stop`` (not included) of a series; its windows forecast these.

    Example:
        >>> len(Part(8640, 11520))
        2880
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        require_rows("part", self.start, self.stop)
        if not 0 <= self.start <= self.stop:
            raise FernError(f"got rows {self.start} to {self.stop}", argument="part", expected="0 <= start <= stop")

    def __len__(self) -> int:
        return self.stop - self.start

    def rows(self, *, context_length: int, lookback: bool) -> "Part":
        """The rows that this part's windows may read: with ``lookback`` the context reaches into the part before.

        Example:
            >>> Part(11520, 14400).rows(context_length=336, lookback=True)
            Part(start=11184, stop=14400)
        """
        return Part(max(0, self.start - context_length) if lookback else self.start, self.stop)


@dataclass(frozen=True)
class Split:
    """Three parts in the order of time; they never overlap.

    Example:
        >>> split(1000, "shock").validation
        Part(start=700, stop=900)
    """

    train: Part
    validation: Part
    test: Part

    def __post_init__(self) -> None:
        if self.train.stop > self.validation.start or self.validation.stop > self.test.start:
            parts = f"train {self.train}, validation {self.validation}, test {self.test}"
            raise FernError(f"parts overlap or are out of order: {parts}", argument="split")


@dataclass(frozen=True)
class Shares:
    """Percentages of the rows, in the order of time; the validation part takes the rounding.

    Percentages are whole numbers, so that borders do not depend on floating-point rounding.

    Example:
        >>> Shares(train=70, validation=20, test=10).split(25)
        Split(train=Part(start=0, stop=17), validation=Part(start=17, stop=23), test=Part(start=23, stop=25))
    """

    train: int
    validation: int
    test: int

    def __post_init__(self) -> None:
        shares = astuple(self)
        require_rows("split shares", *shares)
        if min(shares) < 0 or sum(shares) != 100:
            raise FernError(f"split shares: got {shares}", expected="three percentages >= 0 that sum to 100")

    def split(self, length: int) -> Split:
        """The borders for a series of ``length`` rows."""
        first = length * self.train // 100
        second = length - length * self.test // 100
        return Split(Part(0, first), Part(first, second), Part(second, length))


@dataclass(frozen=True)
class Counts:
    """Row counts from the start of the series; rows after them are left out (as ETT's usual borders do).

    Example:
        >>> ETT_HOURLY.split(17_420).test
        Part(start=11520, stop=14400)
    """

    train: int
    validation: int
    test: int

    def __post_init__(self) -> None:
        counts = astuple(self)
        require_rows("split counts", *counts)
        if min(counts) < 0:
            raise FernError(f"split counts: got {counts}", expected="three numbers of rows >= 0")

    def split(self, length: int) -> Split:
        """The borders for a series of ``length`` rows, which must hold them all."""
        first, second = self.train, self.train + self.validation
        total = second + self.test
        if length < total:
            raise FernError(f"the series has {length:,} rows, these borders need {total:,}", argument="split")
        return Split(Part(0, first), Part(first, second), Part(second, total))


SplitRule = Shares | Counts

SHOCK = Shares(train=70, validation=20, test=10)
DETAILED = Shares(train=70, validation=10, test=20)
_MONTH = 30 * 24
ETT_HOURLY = Counts(12 * _MONTH, 4 * _MONTH, 4 * _MONTH)
ETT_MINUTELY = Counts(12 * _MONTH * 4, 4 * _MONTH * 4, 4 * _MONTH * 4)

PRESETS: Mapping[str, SplitRule] = MappingProxyType(
    {"shock": SHOCK, "detailed": DETAILED, "ett_hourly": ETT_HOURLY, "ett_minutely": ETT_MINUTELY}
)
"""``shock`` and ``detailed`` are the paper's protocols; the ETT ones are 12/4/4 months of 30 days."""


def split(length: int, rule: str | SplitRule) -> Split:
    """Cut a series of ``length`` rows by a preset's name or a rule.

    Example:
        >>> split(17_420, "detailed").test
        Part(start=13936, stop=17420)
    """
    require_rows("split", length)
    if length < 1:
        raise FernError(f"the series has {length} rows", argument="split", expected="at least 1")
    if isinstance(rule, str):
        if rule not in PRESETS:
            raise unknown_name("split", rule, PRESETS)
        rule = PRESETS[rule]
    return rule.split(length)

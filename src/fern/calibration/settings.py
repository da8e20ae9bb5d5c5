"""The settings of calibration."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal, get_args

from fern.errors import FernError, require_choice
from fern.settings import STRICT

Correlation = Literal["auto", "none"]

UNSEEN_VARIANCE = 3.0
"""What the squared errors of a distribution trained on few rows are beyond its training, in units of its own
variance: about that on simulated series of 10 horizons (docs/decisions.md)."""

FEW_HORIZONS = 10.0
"""A series of at most so many horizons is one of few rows."""


def expect_unseen_variance(horizons: float) -> float:
    """What the squared errors of a distribution are beyond its training, in units of its own variance.

    `UNSEEN_VARIANCE` where it was trained on a series of `FEW_HORIZONS` horizons or fewer; what exceeds 1 falls with
    the length. Series that are trained together count once, since what moves slowly moves them alike.

    Example:
        >>> expect_unseen_variance(4), expect_unseen_variance(40)
        (3.0, 1.5)
    """
    return 1 + (UNSEEN_VARIANCE - 1) * min(1.0, FEW_HORIZONS / max(horizons, 1.0))


@dataclass(frozen=True, kw_only=True)
class CalibrationSettings:
    """How a distribution is calibrated on held-out windows.

    Arguments:
        correlation: ``auto`` refits the correlation of errors within a patch where the windows suffice
            (n_eff >= 2 p); ``none`` refits scales alone.
        distribution_windows: where held-out windows are worth fewer than four, the distribution's own scale counts as
            so many windows; 0 for a distribution whose scale says nothing, such as a ball around a point forecast.
        unseen_variance: the squared errors expected beyond training, in units of the distribution's own variance,
            there; `FernForecaster` takes `expect_unseen_variance` of the rows it trained on.

    Example:
        >>> CalibrationSettings(distribution_windows=-1)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: distribution_windows: got -1, needs a number of windows, 0 or more
    """

    __pydantic_config__ = STRICT

    correlation: Correlation = "auto"
    distribution_windows: float = 4.0
    unseen_variance: float = UNSEEN_VARIANCE

    def __post_init__(self) -> None:
        require_choice("correlation", self.correlation, get_args(Correlation))
        if not 0 <= self.distribution_windows < inf:
            needs = "a number of windows, 0 or more"
            raise FernError(argument="distribution_windows", got=self.distribution_windows, expected=needs)
        if not 0 < self.unseen_variance < inf:
            raise FernError(argument="unseen_variance", got=self.unseen_variance, expected="a positive number")


@dataclass(frozen=True, kw_only=True)
class OnlineSettings:
    """How radii follow what comes in.

    Arguments:
        levels: the levels that are followed; levels between them take the factor between theirs.
        rates: the steps η of the experts, from steady to quick.
        stride: rows between two windows given to ``update``.
        memory: so many past losses set how sharply experts are weighed (DtACI's interval length).
        mixing: the share of weight spread evenly over experts at each step, so that none dies out.

    Example:
        >>> OnlineSettings(levels=(80, 95)).levels
        (80, 95)
    """

    __pydantic_config__ = STRICT

    levels: tuple[float, ...] = (50.0, 80.0, 90.0, 95.0)
    rates: tuple[float, ...] = (0.02, 0.08, 0.32, 1.28, 5.12)
    stride: int = 1
    memory: int = 500
    mixing: float = 0.001

    def __post_init__(self) -> None:
        if not self.levels or list(self.levels) != sorted(set(self.levels)):
            raise FernError(argument="levels", got=self.levels, expected="at least one, ascending")
        if self.levels[0] <= 0 or self.levels[-1] >= 100:
            raise FernError(argument="levels", got=self.levels, expected="percentages between 0 and 100, such as 90")
        if not self.rates or not all(isfinite(rate) and rate > 0 for rate in self.rates):
            raise FernError(argument="rates", got=self.rates, expected="positive numbers")
        if self.stride < 1 or self.memory < 1:
            raise FernError(f"got {self.stride}, {self.memory}, need at least 1", argument="stride, memory")
        if not 0 <= self.mixing < 1:
            raise FernError(argument="mixing", got=self.mixing, expected="0 to 1")

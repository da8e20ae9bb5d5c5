"""The settings of calibration."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal, get_args

from fern.errors import FernError, unknown_name
from fern.settings import STRICT

Pooling = Literal["auto", "channel", "all"]
OneSet = Literal["auto", "split", "share"]
Correlation = Literal["auto", "none"]


@dataclass(frozen=True, kw_only=True)
class CalibrationSettings:
    """How a distribution is calibrated on held-out windows.

    Arguments:
        pooling: ``channel``: each channel has radii of its own; ``all``: one set of radii for all channels (their
            scales stay their own); ``auto``: ``channel`` where one channel's windows are worth at least
            ``rows_per_channel`` independent ones, else ``all``.
        rows_per_channel: see ``pooling``. A 95 % level needs 19, and twice as many before it is steady.
        pooled_steps: margins of so many steps that follow each other share one quantile (after each step has been
            scaled by its own error); 1 is a quantile for each step.
        symmetric: margins are μ ± r; False gives the two ends quantiles of their own (for skewed series; each tail
            then needs twice the windows).
        correlation: ``auto`` refits the correlation of errors within a patch where the windows suffice
            (n_eff >= 2 p); ``none`` refits scales alone.
        forgetting: λ of the weights λ^(age/H); below 1 old windows count less.
        one_set: with one held-out set only: ``split`` refits shapes on its first half and takes quantiles on its
            second; ``share`` uses all of it for both, and then refits scales alone; ``auto`` splits where it holds at
            least ``split_from`` windows with disjoint targets.
        split_from: see ``one_set``.
        distribution_windows: where held-out windows are worth fewer than four, the distribution's own scale counts as
            so many windows, widened as distributions trained on few rows need it; 0 for a distribution whose scale
            says nothing, such as a ball around a point forecast.
        most_windows: more windows than this are thinned evenly (overlapping windows hold little news).
        most_paths: so many windows' residuals are kept for paths and functionals.

    Example:
        >>> CalibrationSettings(symmetric=False).pooling
        'auto'
        >>> CalibrationSettings(forgetting=1.5)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: forgetting: got 1.5, needs more than 0 and at most 1
    """

    __pydantic_config__ = STRICT

    pooling: Pooling = "auto"
    rows_per_channel: int = 40
    pooled_steps: int = 24
    symmetric: bool = True
    correlation: Correlation = "auto"
    forgetting: float = 1.0
    one_set: OneSet = "auto"
    split_from: int = 40
    distribution_windows: float = 4.0
    most_windows: int = 4000
    most_paths: int = 1000

    def __post_init__(self) -> None:
        for name, kind in (("pooling", Pooling), ("one_set", OneSet), ("correlation", Correlation)):
            if getattr(self, name) not in get_args(kind):
                raise unknown_name(name, getattr(self, name), get_args(kind))
        if not 0 < self.forgetting <= 1:
            raise FernError(argument="forgetting", got=self.forgetting, expected="more than 0 and at most 1")
        if not 0 <= self.distribution_windows < inf:
            raise FernError(
                argument="distribution_windows",
                got=self.distribution_windows,
                expected="a number of windows, 0 or more",
            )
        for name in ("rows_per_channel", "pooled_steps", "split_from", "most_windows", "most_paths"):
            if getattr(self, name) < 1:
                raise FernError(f"got {getattr(self, name)}", argument=name, expected="at least 1")


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

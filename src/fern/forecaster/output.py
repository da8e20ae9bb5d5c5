"""Frames out: levels and quantiles as asked for, and the names of their columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """What to give beside the point forecast: central intervals (percent) or quantiles (probabilities), not both.

    Example:
        >>> Asked.of(level=[80, 97.5], quantiles=None).columns("Fern")
        ['Fern', 'Fern-lo-80', 'Fern-hi-80', 'Fern-lo-97.5', 'Fern-hi-97.5']
        >>> Asked.of(level=None, quantiles=[0.1]).columns("Fern")
        ['Fern', 'Fern-ql0.1']
    """

    levels: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()

    @classmethod
    def of(cls, *, level: Sequence[float] | float | None, quantiles: Sequence[float] | float | None) -> "Asked":
        """What a user gave, checked."""
        if level is not None and quantiles is not None:
            raise FernError("got both, give one of them", argument="level, quantiles")
        levels = _numbers("level", level, low=0.0, high=100.0, example="80 for an 80 % interval")
        shares = _numbers("quantiles", quantiles, low=0.0, high=1.0, example="0.9")
        return cls(levels, shares)

    def columns(self, name: str) -> list[str]:
        """The names of the columns, the point forecast's first."""
        ends = [f"{name}-{end}-{_short(level)}" for level in self.levels for end in ("lo", "hi")]
        return [name, *ends, *(f"{name}-ql{_short(share)}" for share in self.quantiles)]

    @property
    def shares(self) -> list[float]:
        """The probabilities of the columns after the point forecast, in their order."""
        ends = [0.5 + side * level / 200 for level in self.levels for side in (-1, 1)]
        return [*ends, *self.quantiles]


def named(
    asked: Asked,
    name: str,
    mean: Floats,  # (n,)
    others: Sequence[Floats],  # (n,) for each of the other columns
) -> Mapping[str, Floats]:
    """The columns of one forecast by their names."""
    return dict(zip(asked.columns(name), [mean, *others], strict=True))


def _numbers(
    name: str, given: Sequence[float] | float | None, *, low: float, high: float, example: str
) -> tuple[float, ...]:
    if given is None:
        return ()
    values = [given] if isinstance(given, int | float) and not isinstance(given, bool) else given
    if not isinstance(values, list | tuple | np.ndarray) or len(values) == 0:
        raise FernError(
            argument=name, got=given, expected=f"a list of numbers between {low:g} and {high:g}, as {example}"
        )
    for value in values:
        real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        spare = 1e-9 * (high - low)  # nearer to the ends, rounding makes it one of them
        if not real or not low + spare < value < high - spare:
            raise FernError(argument=name, got=value, expected=f"numbers between {low:g} and {high:g}, as {example}")
    found = tuple(float(value) for value in values)
    if len(set(found)) < len(found):
        raise FernError(f"{list(values)} contains duplicates", argument=name)
    return found


def _short(number: float) -> str:
    """80 for 80.0, 97.5 for 97.5: as people write it."""
    return f"{number:.10g}"

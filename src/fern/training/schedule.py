"""The learning rate of each step: a pure function of the step, so a resumed run has nothing to restore."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from fern.checks import require_number
from fern.errors import unknown_name

Shape = Literal["constant", "cosine", "one-cycle"]
SHAPES: tuple[str, ...] = get_args(Shape)

FIRST = 1 / 25
"""Where a warm-up starts, as a share of the peak."""

LAST = {"cosine": 0.0, "one-cycle": 1e-4}
"""Where the decay ends, as a share of the peak."""


@dataclass(frozen=True)
class Schedule:
    """The learning rate over ``steps`` steps.

    ``constant`` is the peak, after the warm-up. ``cosine`` and ``one-cycle`` fall from the peak along half a cosine.
    The warm-up takes the share ``warmup`` of the steps: linear, but along half a cosine for ``one-cycle`` (Smith and
    Topin 2019, in two phases as is common today).

    Example:
        >>> schedule = Schedule("one-cycle", peak=1e-3, warmup=0.25, steps=101)
        >>> [round(schedule.rate(step), 6) for step in (0, 25, 100)]
        [4e-05, 0.001, 0.0]
    """

    shape: Shape
    peak: float
    warmup: float
    steps: int

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise unknown_name("schedule", self.shape, SHAPES)
        needs = "a fraction of the steps, at least 0 and below 1"
        require_number("warmup", self.warmup, needs, lambda share: 0.0 <= share < 1.0)

    def rate(self, step: int) -> float:
        """The learning rate of step 0, 1, … ``steps`` - 1."""
        last = max(1, self.steps - 1)
        top = self.warmup * last
        if step < top:
            share = step / top
            rising = share if self.shape != "one-cycle" else _eased(share)
            return self.peak * (FIRST + (1 - FIRST) * rising)
        if self.shape == "constant":
            return self.peak
        falling = _eased(min(1.0, (step - top) / max(1.0, last - top)))
        return self.peak * (1 - (1 - LAST[self.shape]) * falling)


def _eased(share: float) -> float:
    """From 0 to 1 along half a cosine."""
    return 0.5 * (1 - math.cos(math.pi * share))

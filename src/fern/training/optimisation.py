"""The learning rate of each step, and the exponential moving average of the weights."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from fern.checks import require_number
from fern.errors import FernError, unknown_name

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


class AveragedWeights:
    """w̄ ← d·w̄ + (1 - d)·w after each step, d = min(decay, (1 + n)/(10 + n)) at step n, so that it starts quickly.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> average = AveragedWeights(layer, decay=0.9)
        >>> _ = layer.weight.data.add_(1.0)
        >>> average.update()
        >>> with average.applied():
        ...     inside = layer.weight.item()
        >>> round(layer.weight.item() - inside, 6)        # d = 1/10 at step 0
        0.1
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # At least in float32: a step of 1 - d is lost in the 8 bits of bfloat16.
        wide = [torch.promote_types(parameter.dtype, torch.float32) for parameter in self._parameters]
        self.values = [p.detach().to(dtype, copy=True) for p, dtype in zip(self._parameters, wide, strict=True)]

    def update(self) -> None:
        """Take the present weights into the mean."""
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        own = [p.detach().to(mean.dtype) for p, mean in zip(self._parameters, self.values, strict=True)]
        torch._foreach_lerp_(self.values, own, 1.0 - decay)
        self.steps += 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block the model holds the mean; its own weights come back after it, to the bit."""
        own = [parameter.data for parameter in self._parameters]
        for parameter, mean in zip(self._parameters, self.values, strict=True):
            parameter.data = mean.to(parameter.dtype)
        try:
            yield
        finally:
            for parameter, value in zip(self._parameters, own, strict=True):
                parameter.data = value

    def state(self) -> dict[str, Tensor]:
        """The mean as tensors by position; the number of steps is the run's."""
        return {str(position): value for position, value in enumerate(self.values)}

    def restore(self, tensors: dict[str, Tensor], *, steps: int) -> None:
        """Take over what `state` gave."""
        shapes = {name: tuple(value.shape) for name, value in tensors.items()}
        needed = {name: tuple(value.shape) for name, value in self.state().items()}
        if shapes != needed:
            raise FernError("the averaged weights have other names or shapes than the model's", argument="resume")
        self.steps = steps
        for position, value in enumerate(self.values):
            value.copy_(tensors[str(position)])

"""An exponential mean of the weights, which a run evaluates and keeps in place of the last step's."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fern.errors import FernError


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
        found = {name: tuple(value.shape) for name, value in tensors.items()}
        needed = {name: tuple(value.shape) for name, value in self.state().items()}
        if found != needed:
            raise FernError("resume: the averaged weights have other names or shapes than the model's")
        self.steps = steps
        for position, value in enumerate(self.values):
            value.copy_(tensors[str(position)])

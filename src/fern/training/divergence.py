"""A run that diverges: the error that says where, and the check that finds it."""

from collections.abc import Iterable
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from fern.errors import FernError

Named = Iterable[tuple[str, nn.Parameter]]


class Diverged(FernError):  # noqa: N818 - what happened to the run, which is what the benchmark records
    """A loss, gradient, weight or forecast of a run became NaN or infinite.

    ``epoch`` and ``step`` (within the epoch) count from 1; ``step`` is None when validation showed it. ``group`` is
    the part of the model where the first bad number was found, None when only the loss is bad.

    Example:
        >>> raise Diverged("the loss is nan", epoch=2, step=17, group=None)
        Traceback (most recent call last):
            ...
        fern.training.divergence.Diverged: diverged at epoch 2, step 17: the loss is nan
    """

    def __init__(self, what: str, *, epoch: int, step: int | None, group: str | None, remedy: str = "") -> None:
        place = f"epoch {epoch}" if step is None else f"epoch {epoch}, step {step}"
        super().__init__(f"diverged at {place}: {what}{remedy}")
        self.what, self.epoch, self.step, self.group, self.remedy = what, epoch, step, group, remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """What a copy in another process is made of."""
        return _again, (self.what, self.epoch, self.step, self.group, self.remedy)


class NotFinite(FernError):  # noqa: N818 - what was found, of which `Diverged` is made
    """A forecast of an evaluation is NaN or infinite."""


def _again(what: str, epoch: int, step: int | None, group: str | None, remedy: str) -> Diverged:
    return Diverged(what, epoch=epoch, step=step, group=group, remedy=remedy)


def of_gradients(named: Named, *, loss: float, epoch: int, step: int, remedy: str) -> Diverged:
    """The error for a step whose loss, or the norm of whose gradient, is not finite."""
    found = _first_bad(((name, p.grad) for name, p in named if p.grad is not None), "gradient")
    group, what = found or (None, "the norm of the gradient overflows" if isfinite(loss) else "")
    parts = [part for part in ("" if isfinite(loss) else f"the loss is {loss}", what) if part]
    return Diverged(", ".join(parts), epoch=epoch, step=step, group=group, remedy=remedy)


def of_weights(named: Named, *, epoch: int, step: int, remedy: str) -> Diverged:
    """The error for weights whose norm is not finite."""
    found = _first_bad(((name, p.detach()) for name, p in named), "weight")
    group, what = found or (None, "the norm of the weights overflows")
    return Diverged(what, epoch=epoch, step=step, group=group, remedy=remedy)


def group_of(name: str) -> str:
    """The parameter group of a parameter: the part of the model it belongs to.

    Example:
        >>> group_of("heads_x.0.linear.weight"), group_of("scale")
        ('heads_x.0.linear', 'scale')
    """
    return name.rsplit(".", 1)[0]


def _first_bad(tensors: Iterable[tuple[str, Tensor | None]], kind: str) -> tuple[str, str] | None:
    bad = [(name, value) for name, value in tensors if value is not None and not bool(torch.isfinite(value).all())]
    if not bad:
        return None
    name, value = bad[0]
    number = value[~torch.isfinite(value)][0].item()
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return group_of(name), f"the {kind} of {name}{more}, parameter group {group_of(name)!r}, holds {number}"

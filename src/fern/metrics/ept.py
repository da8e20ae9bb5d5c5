"""Effective prediction time: how many steps a forecast holds before its error leaves the 1σ envelope."""

import math
from collections.abc import Sequence
from typing import TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from fern.errors import FernError
from fern.metrics.arrays import Array, NumpyArray, Scalar, as_kind, blockwise, read_pair, to_tensor, wide

S = TypeVar("S", Tensor, float)


@blockwise
def exceeded_steps(
    pred: Tensor,  # (B, H, C)
    true: Tensor,  # (B, H, C)
    std: Tensor,  # (C,)
) -> Tensor:  # (B, C)
    """The first step, counted from 1, whose absolute error exceeds ``std``; H where none does."""
    horizon = true.shape[1]
    exceeds = (wide(pred) - wide(true)).abs() > std
    first = exceeds.to(torch.uint8).argmax(dim=1) + 1  # argmax gives the first of equals
    return wide(torch.where(exceeds.any(dim=1), first, horizon))


def read_std(std: Array | Sequence[float]) -> Tensor:  # (C,)
    """Standard deviations as a tensor, checked: finite, not negative."""
    values = std if isinstance(std, Tensor | np.ndarray) else np.asarray(std)
    deviations = wide(to_tensor("std", values, ("channels",)).detach())
    negative = (deviations < 0).nonzero()
    if len(negative):
        channel = int(negative[0])
        raise FernError(f"{deviations[channel]:.6g} for channel {channel}", argument="std", expected="0 or more")
    return deviations


def channel_std(
    std: Array | Sequence[float],  # (C,)
    true: Tensor,  # (B, H, C)
) -> Tensor:  # (C,)
    """The standard deviation of each channel of the truth, on its device."""
    deviations = read_std(std)
    channels = true.shape[-1]
    if len(deviations) != channels:
        raise FernError(
            f"got {len(deviations)} values for {channels} channels", argument="std", expected="one for each channel"
        )
    return wide(deviations, true.device)


@overload
def ept(pred: Tensor, true: Tensor, std: Array | Sequence[float]) -> Tensor: ...
@overload
def ept(pred: NumpyArray, true: NumpyArray, std: Array | Sequence[float]) -> np.float64: ...
def ept(
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
    std: Array | Sequence[float],  # (C,)
) -> Scalar:
    """Effective prediction time in steps, averaged over windows and channels; higher is better.

    With ε_d the standard deviation of channel d over the training data (paper, appendix "Distributional
    metrics")::

        EPT_bd = min{ s ∈ 1…H : |pred_bsd − true_bsd| > ε_d },   H if there is no such s.

    An error of exactly ε_d does not exceed it. EPT lies in 1…H: H means both "never" and "only at the last
    step". It has no gradient. ``lyapunov_times`` turns it into the system's own unit of time.

    Example: the error passes 0.5 at the third step.
        >>> import numpy as np
        >>> pred = np.array([[[0.0], [0.5], [0.9], [0.0]]])
        >>> float(ept(pred, np.zeros_like(pred), std=[0.5]))
        3.0
    """
    forecast, truth = read_pair(pred, true)
    with torch.no_grad():
        return as_kind("ept", exceeded_steps(forecast, truth, channel_std(std, truth)).mean(), true)


def lyapunov_times(steps: S, *, dt: float, lyapunov_exponent: float) -> S:
    """A number of steps in Lyapunov times, ``steps · dt · λ``: how often errors had time to grow by e.

    ``dt`` is the time between two steps and λ the system's largest Lyapunov exponent per unit of that time.
    The conversion is linear, so it holds for a mean EPT as for a single one.

    Example: the paper's horizon of 720 steps on Lorenz-63.
        >>> round(lyapunov_times(720.0, dt=0.01, lyapunov_exponent=0.9056), 2)
        6.52
    """
    for name, value in (("dt", dt), ("lyapunov_exponent", lyapunov_exponent)):
        if not (math.isfinite(value) and value > 0):
            raise FernError(argument=name, got=value, expected="a positive number")
    return steps * dt * lyapunov_exponent

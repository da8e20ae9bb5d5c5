"""Errors of single values: mean squared and mean absolute error."""

from typing import overload

import numpy as np
from torch import Tensor

from fern.metrics.arrays import Array, NumpyArray, Scalar, as_kind, blockwise, read_pair, wide


@blockwise
def squared_errors(
    pred: Tensor,  # (B, H, C)
    true: Tensor,  # (B, H, C)
) -> Tensor:  # (B, C)
    """The mean squared error of each window and channel."""
    return (wide(pred) - wide(true)).square().mean(dim=1)


@blockwise
def absolute_errors(
    pred: Tensor,  # (B, H, C)
    true: Tensor,  # (B, H, C)
) -> Tensor:  # (B, C)
    """The mean absolute error of each window and channel."""
    return (wide(pred) - wide(true)).abs().mean(dim=1)


@overload
def mse(pred: Tensor, true: Tensor) -> Tensor: ...
@overload
def mse(pred: NumpyArray, true: NumpyArray) -> np.float64: ...
def mse(
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
) -> Scalar:
    """Mean squared error over windows, steps and channels.

    Example:
        >>> import torch
        >>> mse(torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[1.0], [4.0]]])).item()
        2.0
    """
    return as_kind("mse", squared_errors(*read_pair(pred, true)).mean(), true)


@overload
def mae(pred: Tensor, true: Tensor) -> Tensor: ...
@overload
def mae(pred: NumpyArray, true: NumpyArray) -> np.float64: ...
def mae(
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
) -> Scalar:
    """Mean absolute error over windows, steps and channels.

    Example:
        >>> import numpy as np
        >>> float(mae(np.array([[[1.0], [2.0]]]), np.array([[[1.0], [4.0]]])))
        1.0
    """
    return as_kind("mae", absolute_errors(*read_pair(pred, true)).mean(), true)

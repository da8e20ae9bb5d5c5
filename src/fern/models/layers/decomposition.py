"""Moving averages, and the trend and seasonal part they make."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from fern.checks import is_whole
from fern.errors import FernError


def require_kernel(name: str, value: object) -> None:
    """Refuse the length of a moving average that has no middle."""
    if not is_whole(value, least=1) or value % 2 == 0:
        raise FernError(f"{name}: got {value!r}, needs an odd whole number, so that each average has a middle")


def moving_average(
    x: Tensor,  # (..., T)
    kernel: int,  # odd
) -> Tensor:  # (..., T)
    """The mean of each value and its (kernel - 1) / 2 neighbours on either side; the ends are repeated beyond them.

    It is what average pooling with edge padding computes, in log2(kernel) additions instead of kernel of them.

    Example:
        >>> moving_average(torch.tensor([0.0, 3.0, 6.0]), 3)
        tensor([1., 3., 5.])
    """
    averaged: Tensor = _MovingAverage.apply(x, kernel)  # type: ignore[no-untyped-call]
    return averaged


def weights_on_average(
    weight: Tensor,  # (outputs, T), of a linear map
    kernel: int,
) -> Tensor:  # (outputs, T)
    """The weights that do to a series what ``weight`` does to its moving average: many series need not be averaged.

    Example:
        >>> x, weight = torch.randn(5, 8), torch.randn(2, 8)
        >>> torch.allclose(x @ weights_on_average(weight, 3).T, moving_average(x, 3) @ weight.T, atol=1e-5)
        True
    """
    transposed: Tensor = _TransposedAverage.apply(weight, kernel)  # type: ignore[no-untyped-call]
    return transposed


def decompose(
    x: Tensor,  # (..., T)
    kernel: int,
) -> tuple[Tensor, Tensor]:  # (..., T), (..., T)
    """The seasonal part and the trend: what is left over by the moving average, and the moving average.

    Example:
        >>> decompose(torch.tensor([0.0, 3.0, 6.0]), 3)
        (tensor([-1.,  0.,  1.]), tensor([1., 3., 5.]))
    """
    trend = moving_average(x, kernel)
    return x - trend, trend


class _MovingAverage(torch.autograd.Function):
    """The average and its transpose, which autograd would otherwise assemble from the many slices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: int) -> Tensor:
        ctx.kernel = kernel
        return _average(x, kernel)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _transposed_average(gradients[0], ctx.kernel), None


class _TransposedAverage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: int) -> Tensor:
        ctx.kernel = kernel
        return _transposed_average(x, kernel)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _average(gradients[0], ctx.kernel), None


def _average(x: Tensor, kernel: int) -> Tensor:
    side = (*x.shape[:-1], kernel // 2)
    padded = torch.cat((x[..., :1].expand(side), x, x[..., -1:].expand(side)), dim=-1)
    return _moving_sum(padded, kernel).div_(kernel)


def _transposed_average(x: Tensor, kernel: int) -> Tensor:
    half = kernel // 2
    # Of the padded series first; then what fell on the repeated ends goes to the values they repeat.
    padded = _moving_sum(pad(x, (2 * half, 2 * half)), kernel).div_(kernel)
    inner = padded[..., half : padded.shape[-1] - half].clone()
    inner[..., 0] += padded[..., :half].sum(dim=-1)
    inner[..., -1] += padded[..., padded.shape[-1] - half :].sum(dim=-1)
    return inner


def _moving_sum(
    x: Tensor,  # (..., T)
    size: int,
) -> Tensor:  # (..., T - size + 1)
    """The sum of each ``size`` neighbours, put together from sums of 1, 2, 4, … neighbours."""
    length = x.shape[-1] - size + 1
    parts, start = [], 0
    block, width = x, 1  # sums of ``width`` neighbours
    while width <= size:
        if size & width:
            parts.append(block[..., start : start + length])
            start += width
        if 2 * width <= size:
            block = block[..., width:] + block[..., :-width]
        width *= 2
    total = parts[0].clone() if len(parts) == 1 else parts[0] + parts[1]
    for part in parts[2:]:
        total += part
    return total

"""Small layers: activations by name, blocks of a batch, patches, moving averages, reversible instance normalisation."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from fern.checks import is_whole
from fern.errors import FernError, unknown_name

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "tanh": torch.tanh_,
    "elu": partial(nn.functional.elu, inplace=True),
    "logsigmoid": nn.functional.logsigmoid,
    "identity": nn.Identity(),
}
"""Activations by name. Each may overwrite its argument, so hand it a fresh tensor."""


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation of this name.

    Example:
        >>> activation("relu")(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
        >>> activation("relo")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        fern.errors.FernError: unknown activation 'relo': did you mean 'relu'? Known: ...
    """
    if name not in ACTIVATIONS:
        raise unknown_name("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


ROWS_AT_ONCE = 256
"""Series of one channel that are computed together. A few hundred are fastest on a CPU, and bound the memory."""


def in_blocks(
    predict: Callable[[Tensor], Tensor],
    past: Tensor,  # (B, L, C)
    *,
    rows: int = ROWS_AT_ONCE,
) -> Tensor:  # (B, H, C)
    """``predict(past)``, as many windows at a time as make about ``rows`` series.

    Only for a model in which windows do not influence each other, so not for one that normalises by the batch in
    training. On other devices than the CPU the batch is not cut.

    Example:
        >>> seen = []
        >>> in_blocks(lambda part: (seen.append(len(part)), part)[1], torch.zeros(5, 4, 3), rows=6).shape, seen
        (torch.Size([5, 4, 3]), [2, 2, 1])
    """
    windows = max(1, rows // past.shape[2])
    if past.shape[0] <= windows or past.device.type != "cpu":
        return predict(past)
    return torch.cat([predict(part) for part in torch.split(past, windows)])


def end_padded_patches(
    x: Tensor,  # (..., T)
    *,
    size: int,
    stride: int,
) -> Tensor:  # (..., (T - size) // stride + 2, size), a view of the padded series
    """Overlapping patches, after the last value was repeated ``stride`` times (PatchTST's rule).

    Example:
        >>> end_padded_patches(torch.arange(5.0), size=4, stride=2)
        tensor([[0., 1., 2., 3.],
                [2., 3., 4., 4.]])
    """
    padded = torch.cat((x, x[..., -1:].expand(*x.shape[:-1], stride)), dim=-1)
    return padded.unfold(-1, size, stride)


def require_kernel(name: str, value: object) -> None:
    """Refuse the length of a moving average that has no middle."""
    if not is_whole(value, least=1) or value % 2 == 0:
        raise FernError(argument=name, got=value, expected="an odd whole number, so that each average has a middle")


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


class Statistics(NamedTuple):
    """The level and the spread of each series, as `RevIN` took them off."""

    mean: Tensor  # (B, C, 1)
    stddev: Tensor  # (B, C, 1)


class RevIN(nn.Module):
    """Reversible instance normalisation (Kim 2022): each series of a window loses its mean and standard deviation.

    z = w (x - mean) / stddev + b and back, with stddev = √(variance + 1e-5) over the window's own time steps. No
    gradient passes the statistics. Without ``affine``, w = 1 and b = 0; with it they are learnt for each channel.
    Time is the last dimension here, as in all channel-wise layers.

    Example:
        >>> layer = RevIN(1)
        >>> z, statistics = layer.normalise(torch.tensor([[[1.0, 3.0]]]))
        >>> z
        tensor([[[-1.0000,  1.0000]]])
        >>> layer.restore(z, statistics)
        tensor([[[1., 3.]]])
    """

    EPSILON = 1e-5

    def __init__(self, channels: int, *, affine: bool = False) -> None:
        super().__init__()
        self.affine = affine
        if affine:
            self.weight = nn.Parameter(torch.ones(channels))
            self.bias = nn.Parameter(torch.zeros(channels))

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Start as the plain normalisation; nothing is drawn."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def normalise(
        self,
        x: Tensor,  # (B, C, T)
    ) -> tuple[Tensor, Statistics]:  # (B, C, T)
        """The series without level and spread, and what `restore` needs to give them back."""
        variance, mean = torch.var_mean(x.detach(), dim=-1, correction=0, keepdim=True)
        statistics = Statistics(mean, variance.add_(self.EPSILON).sqrt_())
        z = (x - mean) / statistics.stddev
        if self.affine:
            z = torch.addcmul(self.bias[:, None], z, self.weight[:, None])
        return z, statistics

    def restore(
        self,
        z: Tensor,  # (B, C, any length)
        statistics: Statistics,
    ) -> Tensor:  # (B, C, any length)
        """A forecast of normalised series in the units of the series."""
        if self.affine:
            # The published form keeps a weight of 0 from dividing by 0.
            z = (z - self.bias[:, None]) / (self.weight[:, None] + self.EPSILON**2)
        return torch.addcmul(statistics.mean, z, statistics.stddev)

"""Layers that several models use: activations, patches, moving averages, RevIN, dropout, attention, perceptrons."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from fern.errors import FernError, is_whole, unknown_name
from fern.models import _dropout as kernels
from fern.transport._compiled import fits_kernels

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


def find_activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation of this name."""
    if name not in ACTIVATIONS:
        raise unknown_name("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


ROWS_AT_ONCE = 256
"""Series of one channel that are computed together. A few hundred are fastest on a CPU, and bound the memory."""


def predict_in_blocks(
    predict: Callable[[Tensor], Tensor],
    past: Tensor,  # (B, L, C)
    *,
    rows: int = ROWS_AT_ONCE,
) -> Tensor:  # (B, H, C)
    """``predict(past)``, as many windows at a time as make about ``rows`` series.

    Only for a model in which windows do not influence each other, so not for one that normalises by the batch in
    training. On other devices than the CPU the batch is not cut.
    """
    windows = max(1, rows // past.shape[2])
    if past.shape[0] <= windows or past.device.type != "cpu":
        return predict(past)
    return torch.cat([predict(part) for part in torch.split(past, windows)])


def cut_patches(
    x: Tensor,  # (..., T)
    *,
    size: int,
    stride: int,
) -> Tensor:  # (..., (T - size) // stride + 2, size), a view of the padded series
    """Overlapping patches, after the last value was repeated ``stride`` times (PatchTST's rule)."""
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
    """
    averaged: Tensor = _MovingAverage.apply(x, kernel, False)  # type: ignore[no-untyped-call]
    return averaged


def weights_on_average(
    weight: Tensor,  # (outputs, T), of a linear map
    kernel: int,
) -> Tensor:  # (outputs, T)
    """The weights that do to a series what ``weight`` does to its moving average: many series need not be averaged."""
    transposed: Tensor = _MovingAverage.apply(weight, kernel, True)  # type: ignore[no-untyped-call]
    return transposed


def decompose(
    x: Tensor,  # (..., T)
    kernel: int,
) -> tuple[Tensor, Tensor]:  # (..., T), (..., T)
    """The seasonal part and the trend: what is left over by the moving average, and the moving average."""
    trend = moving_average(x, kernel)
    return x - trend, trend


class _MovingAverage(torch.autograd.Function):
    """The average or its transpose, each the other's slope: autograd would assemble it from the many slices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: int, transposed: bool) -> Tensor:
        ctx.kernel, ctx.transposed = kernel, transposed
        return (_average_adjoint if transposed else _average)(x, kernel)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return (_average if ctx.transposed else _average_adjoint)(gradients[0], ctx.kernel), None, None


def _average(x: Tensor, kernel: int) -> Tensor:
    side = (*x.shape[:-1], kernel // 2)
    padded = torch.cat((x[..., :1].expand(side), x, x[..., -1:].expand(side)), dim=-1)
    return _moving_sum(padded, kernel).div_(kernel)


def _average_adjoint(x: Tensor, kernel: int) -> Tensor:
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

    def normalise(self, x: Tensor) -> tuple[Tensor, Statistics]:  # (B, C, T) -> (B, C, T)
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


Keys = tuple[np.uint32, np.uint32, np.uint32, np.float32]
"""Two random keys, the last of 2¹⁶ values that is kept, and the scale of what is kept."""

_WHOLE = 1 << 16


def require_rate(name: str, value: float) -> None:
    """Refuse a share of dropped numbers that is not at least 0 and below 1."""
    if not 0.0 <= value < 1.0:
        raise FernError(argument=name, got=value, expected="a rate of at least 0 and below 1")


class Dropout(nn.Module):
    """Dropout that draws from a generator which is passed, not from torch's global one.

    A `Forecaster` hands the generator of its call to every Dropout inside it (`draw_from`), so a training run is
    a function of the generators it was given.

    In float32 on the CPU a call draws two keys, and number n is kept where a hash of n under the keys is small
    enough: the mask is never stored, and costs less than a pass over memory. Elsewhere the mask is drawn itself.

    Example:
        >>> layer = Dropout(0.5)
        >>> layer.generator = torch.Generator().manual_seed(7)
        >>> sorted(set(layer(torch.ones(100)).tolist()))
        [0.0, 2.0]
        >>> layer.eval()(torch.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        require_rate("dropout", rate)
        self.rate = rate
        self.generator: Generator | None = None

    @property
    def active(self) -> bool:
        """Whether anything is dropped."""
        return self.training and self.rate > 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Zero each number with the given rate and scale the rest up, in training; the identity otherwise."""
        if not self.active:
            return x
        if x.dtype == torch.float32 and fits_kernels(x):
            dropped: Tensor = _DropoutMask.apply(x, self._keys())  # type: ignore[no-untyped-call]
            return dropped
        return x * _draw_mask(x, self.rate, self.generator)

    def of_attention(self, weights: Tensor, heads: int) -> Tensor:  # (N·heads, P, P)
        """`forward` on the weights of attention, which have masks of their own."""
        if not self.active or weights.dtype != torch.float32 or not fits_kernels(weights):
            return self.forward(weights)
        kept = torch.empty_like(weights, memory_format=torch.contiguous_format).detach()
        kernels.attention_mask(heads, self._keys(), kept.numpy())
        return weights * kept

    def _keys(self) -> Keys:
        """What the masks of one call are computed from.

        The share that is kept is rounded to a multiple of 2⁻¹⁶, and the scale is that of the rounded share: the mean
        stays exact.
        """
        keep = _count_kept(self.rate)
        first, second = torch.randint(1 << 32, (2,), generator=self.generator).tolist()
        return np.uint32(first), np.uint32(second), np.uint32(keep - 1), np.float32(_WHOLE / keep)

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"rate={self.rate}"


class _DropoutMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keys: Keys) -> Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        kernels.mask(x.detach().view(-1).numpy(), keys, out.view(-1).numpy())
        ctx.keys = keys
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _DropoutMask.apply(grad, ctx.keys), None  # type: ignore[no-untyped-call]


def _count_kept(rate: float) -> int:
    return max(1, round((1.0 - rate) * _WHOLE))


def _draw_mask(x: Tensor, rate: float, generator: Generator | None) -> Tensor:
    """0 for about ``rate`` of the numbers and 1 / (1 - rate) for the rest; four are decided by each 64-bit draw."""
    keep = _count_kept(rate)
    drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)
    drawn.random_(-(1 << 63), None, generator=generator)
    chosen = drawn.view(torch.int16)[: x.numel()] <= keep - 1 - _WHOLE // 2
    return chosen.view(x.shape).to(x.dtype).mul_(_WHOLE / keep)


@contextmanager
def draw_from(model: nn.Module, generator: Generator | None) -> Iterator[None]:
    """Within the block, every `Dropout` in the model draws from this generator."""
    layers = [part for part in model.modules() if isinstance(part, Dropout)] if model.training else []
    for layer in layers:
        layer.generator = generator
    try:
        yield
    finally:
        for layer in layers:
            layer.generator = None


def attend(
    qkv: Tensor,  # (N, P, 3·W): queries, keys and values, each with the heads one after the other
    before: Tensor | None = None,  # (N·heads, P, P)
    *,
    heads: int,
    dropout: Dropout,
    residual: bool = False,
) -> tuple[Tensor, Tensor | None]:  # (N, P, W), (N·heads, P, P)
    """dropout(softmax(Q Kᵀ / √d + before)) V for each head of width d, and with ``residual`` the scores.

    The scores are those before the softmax, for the ``before`` of the next layer (He 2020, RealFormer).
    """
    rows, tokens, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    parts = qkv.view(rows, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4).flatten(1, 2)
    query, key, value = parts.unbind()  # (N·heads, P, d)
    scores = None
    if residual or dropout.active:
        scaled, transposed = query * query.shape[-1] ** -0.5, key.transpose(1, 2)
        scores = torch.bmm(scaled, transposed) if before is None else torch.baddbmm(before, scaled, transposed)
        attended = torch.bmm(dropout.of_attention(scores.softmax(dim=-1), heads), value)
    else:
        attended = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    joined = attended.view(rows, heads, tokens, -1).transpose(1, 2).reshape(rows, tokens, width)
    return joined, scores if residual else None


class Perceptron(nn.Module):
    """Linear maps between the given widths, with an activation and dropout after each but the last.

    Example:
        >>> Perceptron((3, 8, 2), activation="relu")(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """

    def __init__(self, widths: Sequence[int], *, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths))
        self.activate = find_activation(activation)
        self.dropout = Dropout(dropout)

    @property
    def linear_maps(self) -> list[nn.Linear]:
        """The maps in order."""
        return [part for part in self.maps if isinstance(part, nn.Linear)]

    def forward(self, x: Tensor) -> Tensor:  # (..., first width) -> (..., last width)
        """The maps in turn."""
        rows = x.reshape(-1, x.shape[-1])  # in place on a view of more dimensions, an activation makes autograd copy
        for linear in self.maps[:-1]:
            rows = self.dropout(self.activate(linear(rows)))
        last: Tensor = self.maps[-1](rows)
        return last.view(*x.shape[:-1], -1)

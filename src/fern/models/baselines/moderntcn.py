"""ModernTCN (Luo and Wang, ICLR 2024): patches under a large depthwise convolution, then mixed twice."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from fern.errors import FernError, require_at_most, require_whole
from fern.models.base import ModelConfig, PointForecaster, Sees
from fern.models.layers import Dropout, RevIN, require_kernel, require_rate
from fern.models.registry import register_model


@dataclass(frozen=True, kw_only=True)
class ModernTCNConfig(ModelConfig):
    """The settings of `ModernTCN`. Defaults are those published for ETTh1.

    ``patch_size``    time steps of a patch.
    ``patch_stride``  time steps from one patch to the next; at most ``patch_size``. Every step must lie in a patch.
    ``blocks``        blocks, each with its own convolution and its own two mixings.
    ``large_kernel``  patches under the large convolution, odd.
    ``small_kernel``  patches under the small convolution beside it, odd, at most ``large_kernel``.
    ``width``         D, the features of a patch.
    ``ffn_ratio``     how much wider the mixings are inside.
    ``dropout``       in the mixings, while training.
    ``head_dropout``  on the forecast, while training.
    """

    patch_size: int = 8
    patch_stride: int = 4
    blocks: int = 1
    large_kernel: int = 51
    small_kernel: int = 5
    width: int = 64
    ffn_ratio: int = 1
    dropout: float = 0.3
    head_dropout: float = 0.0
    _sees: ClassVar[Sees] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("patch_size", "patch_stride", "blocks", "width", "ffn_ratio"):
            require_whole(name, getattr(self, name), 1)
        for name in ("large_kernel", "small_kernel"):
            require_kernel(name, getattr(self, name))
        require_at_most("small_kernel", self.small_kernel, self.large_kernel, "large_kernel")
        for name in ("dropout", "head_dropout"):
            require_rate(name, getattr(self, name))
        size, stride, length = self.patch_size, self.patch_stride, self.context_length
        require_at_most("patch_stride", stride, size, "patch_size")
        require_at_most("patch_stride", stride, length, "context_length")
        unseen = length % stride - (size - stride)
        if unseen > 0:
            raise FernError(
                f"got {stride} with patch_size {size}, which leaves the last {unseen} of {length} time steps unseen; "
                "needs a stride that divides context_length, or larger patches",
                argument="patch_stride",
            )

    @property
    def patches(self) -> int:
        """N, the patches of a context."""
        return self.context_length // self.patch_stride


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"blocks": 1, "ffn_ratio": 1, "dropout": 0.3},
    "etth1": {"blocks": 1, "ffn_ratio": 1, "dropout": 0.3},
    "etth2": {"blocks": 1, "ffn_ratio": 1, "dropout": 0.3},
    "etth2-720": {"blocks": 1, "ffn_ratio": 1, "dropout": 0.8, "head_dropout": 0.5},
    "ettm1-96": {"blocks": 3, "ffn_ratio": 8, "dropout": 0.3},
    "ettm1": {"blocks": 3, "ffn_ratio": 8, "dropout": 0.3, "head_dropout": 0.1},
    "ettm2": {"blocks": 3, "ffn_ratio": 8, "dropout": 0.3, "head_dropout": 0.2},
    "ettm2-336": {"blocks": 3, "ffn_ratio": 8, "dropout": 0.8, "head_dropout": 0.2},
    "ettm2-720": {"blocks": 3, "ffn_ratio": 8, "dropout": 0.3, "head_dropout": 0.1},
    "weather": {"blocks": 1, "ffn_ratio": 8, "dropout": 0.4},
    "electricity": {"blocks": 1, "ffn_ratio": 8, "dropout": 0.9},
    "traffic": {"blocks": 1, "ffn_ratio": 8, "dropout": 0.9},
    "exchange": {"patch_size": 1, "patch_stride": 1, "ffn_ratio": 1, "dropout": 0.2, "head_dropout": 0.6},
}
"""The comparison's setting, and those of the project's scripts; a number is the horizon they hold for alone."""


class ModernTCN(PointForecaster):
    """Each channel in overlapping patches, a convolution over time, a mixing of features, a mixing of channels.

    The normalised context of each channel, its last value repeated ``patch_size - patch_stride`` times, becomes N
    patches of D features (one strided convolution, normalised over the batch). A block adds to its input

        mix_channels(mix_features(norm(large(x) + small(x))))

    where ``large`` and ``small`` convolve every feature of every channel on its own, and each mixing is a linear map,
    GELU and a linear map: over the D features of one channel, then over the C channels of one feature. One linear map
    makes the forecast of a channel from all its D·N numbers.

    Inside, a batch is (C, D, B, N): features first, so that every part is a product of matrices.

    Correspondence with luodhhh/ModernTCN, one layer each and of the same shape: ``stem`` is ``downsample_layers.0.0``
    and ``stem_norm`` is ``downsample_layers.0.1``; in block i (``stages.0.blocks.i``), ``large`` and ``small`` are
    ``dw.lkb_origin.conv`` and ``dw.small_conv.conv``, ``large_norm`` and ``small_norm`` are the ``bn`` beside them,
    ``norm`` is ``norm``, ``features.widen`` and ``features.narrow`` are ``ffn1pw1`` and ``ffn1pw2``, ``channels.*``
    are ``ffn2pw*``; ``head`` is ``head.linear``. Layers that its forecast never uses (time embedding, upsampling,
    further downsampling) are left out: every published forecasting script has one stage.

    Example:
        >>> model = ModernTCN(ModernTCNConfig(context_length=48, horizon=24, channels=2)).eval()
        >>> model(torch.randn(4, 48, 2)).mean.shape
        torch.Size([4, 24, 2])
    """

    config: ModernTCNConfig

    def __init__(self, config: ModernTCNConfig) -> None:
        super().__init__(config)
        self.revin = RevIN(config.channels)
        self.stem = nn.Conv1d(1, config.width, config.patch_size, config.patch_stride)
        self.stem_norm = nn.BatchNorm1d(config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.head = nn.Linear(config.width * config.patches, config.horizon)
        self.head_dropout = Dropout(config.head_dropout)

    def predict(self, past: Tensor) -> Tensor:
        """The forecast of each channel, in the units of the series."""
        series, statistics = self.revin.normalise(past.transpose(1, 2))
        x = self._embed(series)
        for block in self.blocks:
            x = block(x)
        forecast = self.head_dropout(self.head(x.permute(2, 0, 1, 3).flatten(2)))
        return self.revin.restore(forecast, statistics).transpose(1, 2)

    def _embed(self, series: Tensor) -> Tensor:  # (B, C, L) -> (C, D, B, N)
        size, stride = self.config.patch_size, self.config.patch_stride
        batch, channels, _ = series.shape
        padded = torch.cat((series, series[..., -1:].expand(-1, -1, size - stride)), dim=-1)
        patches = padded.unfold(-1, size, stride).permute(1, 3, 0, 2).reshape(channels, size, -1)
        kernel, bias = self.stem.weight.squeeze(1), self.stem.bias
        assert bias is not None
        x: Tensor = self.stem_norm(torch.baddbmm(bias[:, None], kernel.expand(channels, -1, -1), patches))
        return x.view(channels, -1, batch, self.config.patches)


class Block(nn.Module):
    """x + mix_channels(mix_features(norm(large(x) + small(x)))), see `ModernTCN`."""

    def __init__(self, config: ModernTCNConfig) -> None:
        super().__init__()
        rows, inside = config.channels * config.width, config.channels * config.width * config.ffn_ratio
        self.large = DepthwiseConv(rows, config.large_kernel)
        self.large_norm = nn.BatchNorm1d(rows)
        self.small = DepthwiseConv(rows, config.small_kernel)
        self.small_norm = nn.BatchNorm1d(rows)
        self.norm = nn.BatchNorm1d(config.width)
        self.features = Mixing(rows, inside, groups=config.channels, dropout=config.dropout)
        self.channels = Mixing(rows, inside, groups=config.width, dropout=config.dropout)

    def forward(self, x: Tensor) -> Tensor:  # (C, D, B, N) -> (C, D, B, N)
        """The block's output."""
        channels, width, batch, patches = x.shape
        rows = x.reshape(channels * width, batch, patches)
        moved = self.convolve(rows) if self.training else self.convolve_merged(rows)
        mixed: Tensor = self.features(self.norm(moved.view(channels, width, -1)))
        mixed = self.channels(mixed.transpose(0, 1)).transpose(0, 1)
        return x + mixed.reshape(x.shape)

    def convolve(self, rows: Tensor) -> Tensor:  # (C·D, B, N) -> (C·D, B, N)
        """Both convolutions, each normalised over the batch."""
        large = self.large_norm(self.large(rows).view(1, rows.shape[0], -1))
        small = self.small_norm(self.small(rows).view(1, rows.shape[0], -1))
        both: Tensor = large + small
        return both.view(rows.shape)

    def convolve_merged(self, rows: Tensor) -> Tensor:  # (C·D, B, N) -> (C·D, B, N)
        """The same in evaluation mode by one convolution: there a normalisation is a scale and a shift."""
        large, large_shift = _fold_norm(self.large.weight, self.large_norm)
        small, small_shift = _fold_norm(self.small.weight, self.small_norm)
        side = (large.shape[-1] - small.shape[-1]) // 2
        shift = large_shift + small_shift
        return depthwise(rows, large + pad(small, (side, side))) + shift[:, None, None]


class DepthwiseConv(nn.Conv1d):
    """A convolution over time of each row by its own kernel, zeros beyond the ends, no bias."""

    def __init__(self, rows: int, kernel: int) -> None:
        super().__init__(rows, rows, kernel, padding=kernel // 2, groups=rows, bias=False)

    def forward(self, rows: Tensor) -> Tensor:  # (rows, B, N) -> (rows, B, N)
        """The convolved rows."""
        return depthwise(rows, self.weight)


class Mixing(nn.Module):
    """A linear map, GELU and a linear map within each group, with dropout on what the maps give."""

    def __init__(self, rows: int, inside: int, *, groups: int, dropout: float) -> None:
        super().__init__()
        self.widen = nn.Conv1d(rows, inside, 1, groups=groups)
        self.narrow = nn.Conv1d(inside, rows, 1, groups=groups)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # (groups, rows / groups, T) -> the same
        """The mixed rows."""
        inside = gelu(self.dropout(grouped_linear(x, self.widen)))
        mixed: Tensor = self.dropout(grouped_linear(inside, self.narrow))
        return mixed


def grouped_linear(
    x: Tensor,  # (groups, inputs, T)
    layer: nn.Conv1d,  # of kernel 1
) -> Tensor:  # (groups, outputs, T)
    """What a grouped convolution of kernel 1 computes, as one batched product."""
    groups, inputs, _ = x.shape
    assert layer.bias is not None
    return torch.baddbmm(layer.bias.view(groups, -1, 1), layer.weight.view(groups, -1, inputs), x)


def depthwise(
    rows: Tensor,  # (R, B, N)
    kernels: Tensor,  # (R, 1, k), k odd
) -> Tensor:  # (R, B, N)
    """Each row convolved with its own kernel, zeros beyond the ends: y_i = Σ_j w_j x_{i + j - (k - 1) / 2}.

    It is a product with the banded N×N matrix of each kernel: N/k times the multiply-adds of a depthwise
    `torch.nn.Conv1d`, but at the speed of matrix products, on a CPU several times faster for k = 51, N = 84.
    """
    length, half = rows.shape[-1], kernels.shape[-1] // 2
    reach = length - 1 - half  # negative where the kernel is longer than the row: its far ends meet only zeros
    weights = pad(kernels.squeeze(1), (reach, reach))  # (R, 2N - 1), entry N - 1 + d is the weight of distance d
    banded = weights.unfold(-1, length, 1).flip(1)  # (R, N, N), entry (i, j) is the weight of distance j - i
    return torch.bmm(rows, banded.mT)


def _fold_norm(weight: Tensor, norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """The kernel and the shift of a bias-free convolution followed by this normalisation, in evaluation mode."""
    assert norm.running_mean is not None and norm.running_var is not None
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    return weight * scale[:, None, None], norm.bias - norm.running_mean * scale


register_model("moderntcn", ModernTCNConfig, ModernTCN, presets=PRESETS)

"""PatchTST: a transformer over patches of each channel (Nie 2023, arXiv 2211.14730)."""

from dataclasses import dataclass
from math import log
from typing import Any, Literal, get_args

import torch
from torch import Generator, Tensor, nn

from fern.errors import FernError, require_at_most, require_choice, require_whole
from fern.models.base import ModelConfig, PointForecaster
from fern.models.layers import (
    Dropout,
    Perceptron,
    RevIN,
    attend,
    cut_patches,
    find_activation,
    predict_in_blocks,
    require_rate,
)
from fern.models.registry import register_model

Variant = Literal["official", "tslib"]


@dataclass(frozen=True, kw_only=True)
class PatchTSTConfig(ModelConfig):
    """The settings of `PatchTST`.

    ``variant``            ``official``, the authors' model, or ``tslib``, the Time-Series-Library's; see `PatchTST`.
    ``patch_size``         p, the time steps of a patch; at most the context.
    ``stride``             time steps from one patch to the next.
    ``layers``             encoder layers.
    ``hidden``             width of a patch's vector; a multiple of ``heads``.
    ``feedforward``        width inside the feed-forward part of a layer.
    ``heads``              attention heads.
    ``dropout``            of vectors; ``attention_dropout`` of attention weights; ``head_dropout`` of the forecast.
    ``activation``         of the feed-forward part: relu, gelu, silu or tanh.
    """

    variant: Variant = "official"
    patch_size: int = 16
    stride: int = 8
    layers: int = 3
    hidden: int = 128
    feedforward: int = 256
    heads: int = 16
    dropout: float = 0.2
    attention_dropout: float = 0.0
    head_dropout: float = 0.0
    activation: str = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("patch_size", "stride", "layers", "hidden", "feedforward", "heads"):
            require_whole(name, getattr(self, name), 1)
        for name in ("stride", "patch_size"):
            require_at_most(name, getattr(self, name), self.context_length, "context_length")
        for name in ("dropout", "attention_dropout", "head_dropout"):
            require_rate(name, getattr(self, name))
        require_choice("variant", self.variant, get_args(Variant))
        if self.hidden % self.heads:
            raise FernError(argument="hidden", got=self.hidden, expected=f"a multiple of heads, which is {self.heads}")
        find_activation(self.activation)

    @property
    def context_patches(self) -> int:
        """Patches of the context, the one at the padded end included."""
        return (self.context_length - self.patch_size) // self.stride + 2


_SMALL: dict[str, Any] = {"layers": 3, "hidden": 16, "feedforward": 128, "heads": 4, "dropout": 0.3}
_LARGE: dict[str, Any] = {"layers": 3, "hidden": 128, "feedforward": 256, "heads": 16, "dropout": 0.2}

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "variant": "tslib",
        "layers": 2,
        "hidden": 128,
        "feedforward": 128,
        "heads": 8,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "head_dropout": 0.1,
    },
    **dict.fromkeys(("etth1", "etth2"), _SMALL),
    **dict.fromkeys(("ettm1", "ettm2", "weather", "electricity", "traffic"), _LARGE),
    "illness": {**_SMALL, "patch_size": 24, "stride": 2},
}
"""Fern's comparison, and the authors' scripts by dataset (``official``, patch 16, stride 8 where not said)."""


class PatchTST(PointForecaster):
    """Each channel on its own: RevIN, patches, a transformer encoder, one linear map of all patches to the horizon.

    A layer is x ← norm(x + attention(x)), x ← norm(x + feedforward(x)). The two published forms differ in:

    ==================  =====================================  ==========================================
    part                ``official`` (yuqinie98/PatchTST)      ``tslib`` (thuml/Time-Series-Library)
    ==================  =====================================  ==========================================
    attention           residual: the scores of a layer are    plain
                        added to those of the one before
    norm                BatchNorm                              LayerNorm, and a BatchNorm after the last
    positions           learnt                                 sines and cosines
    patch embedding     with bias                              without
    dropout             twice after the attention              once
    ==================  =====================================  ==========================================

    Where the weights of either are found here (``i`` counts layers):

    ==============================================  ==============================================================
    here                                            ``official`` | ``tslib``
    ==============================================  ==============================================================
    ``embedding.linear``                            ``backbone.W_P`` | ``patch_embedding.value_embedding``
    ``embedding.positions``                         ``backbone.W_pos`` | (a constant)
    ``encoder.i.attention.{query,key,value}``       ``W_Q, W_K, W_V`` | ``query_projection``, …
    ``encoder.i.attention.out``                     ``to_out.0`` | ``out_projection``
    ``encoder.i.norm_attention``                    ``norm_attn.1`` | ``norm1``
    ``encoder.i.feedforward.maps.{0,1}``            ``ff.{0,3}`` | ``conv{1,2}``, their last axis of 1 dropped
    ``encoder.i.norm_feedforward``                  ``norm_ffn.1`` | ``norm2``
    ``norm``                                        (none) | ``encoder.norm.1``
    ``head``                                        ``head.linear`` | ``head.linear``
    ==============================================  ==============================================================

    Example:
        >>> model = PatchTST(PatchTSTConfig(context_length=48, horizon=12, channels=3, hidden=16, heads=4))
        >>> model(torch.randn(2, 48, 3)).mean.shape
        torch.Size([2, 12, 3])
    """

    config: PatchTSTConfig

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__(config)
        self.revin = RevIN(config.channels)
        self.embedding = PatchEmbedding(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.norm = TokenBatchNorm(config.hidden) if config.variant == "tslib" else nn.Identity()
        self.head = nn.Linear(config.hidden * config.context_patches, config.horizon)
        self.dropout = Dropout(config.head_dropout)

    def predict(self, past: Tensor) -> Tensor:
        """The forecast, in the units of ``past``."""
        return self._predict(past) if self.training else predict_in_blocks(self._predict, past)

    def _predict(self, past: Tensor) -> Tensor:
        rows, statistics = self.revin.normalise(past.transpose(1, 2).contiguous())
        x = self.embedding(rows.flatten(0, 1))
        scores = None
        for layer in self.encoder:
            x, scores = layer(x, scores)
        x = self.norm(x).transpose(1, 2).flatten(1)  # a row's features vary slower than its patches
        future = self.dropout(self.head(x)).view(*past.shape[::2], -1)
        return self.revin.restore(future, statistics).transpose(1, 2)


class PatchEmbedding(nn.Module):
    """Patches of each row as vectors, with their positions added."""

    positions: Tensor  # (patches, hidden)

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        self.size, self.stride = config.patch_size, config.stride
        self.learnt = config.variant == "official"
        self.linear = nn.Linear(config.patch_size, config.hidden, bias=self.learnt)
        if self.learnt:
            self.positions = nn.Parameter(torch.empty(config.context_patches, config.hidden))
            self.initialise_parameters(None)
        else:
            waves = sinusoidal_positions(config.context_patches, config.hidden)
            self.register_buffer("positions", waves, persistent=False)
        self.dropout = Dropout(config.dropout)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Learnt positions start uniform within ±0.02."""
        with torch.no_grad():
            self.positions.uniform_(-0.02, 0.02, generator=generator)

    def forward(self, rows: Tensor) -> Tensor:  # (N, L) -> (N, patches, hidden)
        """W patch + position."""
        patches = cut_patches(rows, size=self.size, stride=self.stride)
        embedded: Tensor = self.dropout(self.linear(patches) + self.positions)
        return embedded


def sinusoidal_positions(count: int, width: int) -> Tensor:  # (count, width)
    """sin(k / 10000^(2i / width)) at 2i and the cosine at 2i + 1, for position k (Vaswani 2017)."""
    angles = torch.arange(count)[:, None] * torch.exp(torch.arange(0, width, 2) * (-log(10000.0) / width))
    waves = torch.empty(count, width)
    waves[:, 0::2] = angles.sin()
    waves[:, 1::2] = angles.cos()[:, : width // 2]
    return waves


class EncoderLayer(nn.Module):
    """Attention over a row's patches, then the same small perceptron for each; norms after the additions."""

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        official = config.variant == "official"
        norm = TokenBatchNorm if official else nn.LayerNorm
        # Two dropouts in a row of rate r are one of rate 1 - (1 - r)².
        after_attention = 1.0 - (1.0 - config.dropout) ** 2 if official else config.dropout
        self.attention = SelfAttention(config.hidden, config.heads, dropout=config.attention_dropout, residual=official)
        self.dropout_attention = Dropout(after_attention)
        self.norm_attention = norm(config.hidden)
        self.feedforward = Perceptron(
            (config.hidden, config.feedforward, config.hidden), activation=config.activation, dropout=config.dropout
        )
        self.dropout_feedforward = Dropout(config.dropout)
        self.norm_feedforward = norm(config.hidden)

    def forward(
        self,
        x: Tensor,  # (N, patches, hidden)
        scores: Tensor | None,  # of the layer before
    ) -> tuple[Tensor, Tensor | None]:
        """The layer's vectors and, where attention is residual, its scores."""
        attended, scores = self.attention(x, scores)
        x = self.norm_attention(x + self.dropout_attention(attended))
        x = self.norm_feedforward(x + self.dropout_feedforward(self.feedforward(x)))
        return x, scores


class SelfAttention(nn.Module):
    """Multi-head attention of patches on patches: softmax(Q Kᵀ / √d + S) V, then a linear map.

    S is 0, or with ``residual`` the scores before the softmax of the layer before (He 2020, RealFormer).
    """

    def __init__(self, hidden: int, heads: int, *, dropout: float, residual: bool) -> None:
        super().__init__()
        self.heads, self.residual = heads, residual
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, hidden)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,  # (N, patches, hidden)
        scores: Tensor | None = None,  # of the layer before, as it returned them
    ) -> tuple[Tensor, Tensor | None]:
        """The attended vectors and, with ``residual``, the scores for the next layer."""
        parts = (self.query, self.key, self.value)
        weight = torch.cat([part.weight for part in parts])
        bias = torch.cat([part.bias for part in parts])
        qkv = nn.functional.linear(x, weight, bias)  # one product for the three: wider ones are faster
        attended, scores = attend(qkv, scores, heads=self.heads, dropout=self.dropout, residual=self.residual)
        return self.out(attended), scores


class TokenBatchNorm(nn.BatchNorm1d):
    """BatchNorm of each feature over rows and patches, on ``(N, patches, hidden)`` as it lies in memory."""

    def forward(self, x: Tensor) -> Tensor:
        """The normalised vectors."""
        return super().forward(x.flatten(0, 1)).view_as(x)


register_model("patchtst", PatchTSTConfig, PatchTST, presets=PRESETS)

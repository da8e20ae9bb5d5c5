"""Fern: a bidirectional coupling encoder and a head that transports noise to ellipsoids (paper, Alg. 1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil, sqrt
from typing import Any, Literal, get_args

import torch
from torch import Generator, Tensor, nn

from fern.checks import require_number, require_whole
from fern.errors import FernError
from fern.models.base import ChannelsSeen, Criterion, Forecast, Forecaster, ModelConfig, Sees
from fern.models.fern_parts import few_rows
from fern.models.fern_parts.heads import ContextMap, CouplingHead, TransportHead, in_patches
from fern.models.fern_parts.normalise import Frame, Normalisation, Normaliser
from fern.models.fern_parts.smoothing import smoothed
from fern.models.layers import activation
from fern.models.registry import register_model
from fern.transport import Ellipsoid

Mean = Literal["transported", "direct"]
Skip = Literal["none", "linear"]

ROWS_AT_ONCE = 4096
"""Series that are encoded together when paths are drawn: bounds the memory, not the number of paths."""


@dataclass(frozen=True, kw_only=True)
class FernConfig(ModelConfig):
    """The settings of `Fern`.

    ``patch_size``   p. None makes the horizon one patch. A patch larger than the horizon becomes the horizon.
    ``reflections``  R, from 0 (no rotation) to ``patch_size`` (any rotation). More than ``patch_size`` is refused;
                     where the horizon is shorter than the patch, R is cut to it as the patch is.
    ``hidden``       d_h, the width of the features H_x and H_z.
    ``latent``       d_z, the size of z. Smaller often generalises better (12 to 32 on Lorenz-63).
    ``layers``       K, the coupling layers. 0 switches the encoder off: the forecast then ignores the past.
    ``noise``        a, the *variance* of z and of y0.
    ``activation``   of the features: relu, gelu, silu or tanh.
    ``mean``         ``transported``: y = A(y0 + t), so the mean is At. ``direct``: y = A·y0 + μ, see `Fern`.
    ``normalise``    what is taken off each context of each channel and given back to the distribution: nothing, its
                     mean and deviation (``instance``), or its last value and deviation (``last``). See `Normaliser`.
    ``skip``         ``linear`` adds a linear map of the (normalised) context to the mean, shared over channels.
    ``channels_seen``  ``own``: a channel's forecast sees its own context. ``all``: one encoder reads the contexts of
                     all channels together and its head has a distribution for each; the number of channels is then
                     part of the weights. The skip reads the channel's own context either way.
    ``smoothing``    the width (odd) of two moving averages that the mean path takes in evaluation, over the borders
                     of patches; 1 leaves it as it is. The distribution keeps its shape and is moved. Rotations mix
                     the steps of a patch, and what they mix is not smooth by itself; see docs/method.md.
    ``head_spread``  of the starting weights of φ and of Λ and t in ψ, relative to PyTorch's default. The paper's small
                     one starts near the identity, so as a function that is nearly linear in the context: what is left
                     of a fit by polynomials it finds late (`fern.models.rolled`).
    """

    patch_size: int | None = 24
    reflections: int = 8
    hidden: int = 128
    latent: int = 96
    layers: int = 5
    noise: float = 0.1
    activation: str = "relu"
    mean: Mean = "transported"
    normalise: Normalisation = "none"
    skip: Skip = "none"
    channels_seen: ChannelsSeen = "own"
    smoothing: int = 1
    head_spread: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "latent"):
            require_whole(name, getattr(self, name), 1)
        for name in ("reflections", "layers"):
            require_whole(name, getattr(self, name), 0)
        require_whole("smoothing", self.smoothing, 1)
        if self.smoothing % 2 == 0:
            raise FernError(
                argument="smoothing", got=self.smoothing, expected="an odd number: a step and as many on either side"
            )
        if self.patch_size is not None:
            require_whole("patch_size", self.patch_size, 1)
            if self.reflections > self.patch_size:
                raise FernError(
                    argument="reflections",
                    got=self.reflections,
                    expected=f"at most patch_size, which is {self.patch_size}: that many reach every rotation",
                )
        require_number("head_spread", self.head_spread, "a number above 0", lambda value: value > 0)
        if not 0.0 < self.noise < float("inf"):
            raise FernError(argument="noise", got=self.noise, expected="a variance above 0")
        for name, kind in (
            ("mean", Mean),
            ("normalise", Normalisation),
            ("skip", Skip),
            ("channels_seen", ChannelsSeen),
        ):
            if getattr(self, name) not in get_args(kind):
                needs = " or ".join(map(repr, get_args(kind)))
                raise FernError(argument=name, got=getattr(self, name), expected=needs)
        activation(self.activation)

    @property
    def sees(self) -> Sees:
        """As ``channels_seen`` says."""
        return self.channels_seen

    @property
    def used_patch_size(self) -> int:
        """p after the rule for short horizons."""
        return min(self.patch_size or self.horizon, self.horizon)

    @property
    def used_reflections(self) -> int:
        """R after the rule for short horizons."""
        return min(self.reflections, self.used_patch_size)

    @property
    def patches(self) -> int:
        """g."""
        return ceil(self.horizon / self.used_patch_size)

    @property
    def series_in_a_row(self) -> int:
        """How many channels the encoder reads together."""
        return self.channels if self.channels_seen == "all" else 1


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "patch_size": 24,
        "reflections": 8,
        "hidden": 128,
        "latent": 96,
        "layers": 5,
        "noise": 0.1,
        "activation": "relu",
    },
    "no-encoder": {"layers": 0, "mean": "direct"},
    "only-encoder": {"mean": "direct"},
    "no-rotation": {"reflections": 0},
    "no-patching": {"patch_size": None},
    "reflections-2": {"reflections": 2},
    "reflections-24": {"reflections": 24},
    "level": {"normalise": "last", "skip": "linear", "mean": "direct"},
    "state": {"mean": "direct"},
}
"""The paper's model, its six ablations (``tab:ablations-192-main``), and two for people's own data: ``level`` takes
each context relative to its last value and spread and carries it on by a linear map, for series whose level drifts;
``state`` takes values as they are, for systems whose level is part of their state (chaotic ones)."""


@dataclass(frozen=True)
class _Seen:
    """What the model reads of a batch of windows."""

    rows: Tensor  # (N, L), or (B, C·L) where all channels are read together
    size: tuple[int, int]  # (B, C)
    frame: Frame | None  # what was taken off
    skip: Tensor | None  # (B, C, g, p), what the linear skip adds


class Fern(Forecaster):
    """The paper's forecaster: each channel on its own, weights shared over channels.

    With z ~ N(0, aI), y0 ~ N(0, aI) and the context x of one channel, K times (i = 1 … K)::

        z ← s_z ⊙ z + t_z     (s_z, t_z) = φ_x^i(H_x(x))
        x ← s_x ⊙ x + t_x     (s_x, t_x) = φ_z^i(H_z(z))

    and then, with (Λ, t, U) = ψ(H_z(z)) for each patch of the horizon, y = Uᵀ Λ U (y0 + t). H_x and H_z are one
    linear layer and an activation, shared over the layers; the φ are linear; ψ has one hidden layer. Scales and
    eigenvalues are soft-clamped to [0, 5.5], shifts to [-15, 15] (`fern.models.fern_parts.softclamp`). In every second
    layer s_x is block-complex: neighbours in time are multiplied as complex numbers, bounds [-4.5, 4.5]. The last layer
    has no x-update, because nothing would read it. The distribution is an `Ellipsoid`: a coordinate of its mean stays
    within ±5.5·15·√p, so series of another magnitude must be scaled first.

    What is random, and what it does to the error:

    - *Training mode* draws a fresh z and a fresh y0 for each series, and ``mean`` is the transported draw A(y0 + t).
      Its expected squared error is that of At plus a·tr(A²)/H: the noise on y0 is a penalty on the eigenvalues, and
      that on z asks for a forecast that is smooth in z.
    - *Evaluation mode* takes the mean path, z = 0 and y0 = 0: no randomness, and none of the terms above.
    - ``samples=n`` draws n joint paths, each with its own z and y0. One path has the squared error of the training
      draw; the average of n paths has 1/n of its random part. The ``ellipsoid`` is the distribution at z = 0: it
      leaves out the spread that z adds, the samples have it.

    ``mean="direct"``: y = A·y0 + μ with μ straight from ψ, the offset of the ellipsoid. The transport then shapes the
    noise only: a distribution can be sharp (small Λ) wherever its mean lies, and a loss of the distribution moves the
    mean as fast where it is sharp as where it is wide. So it is what a distribution is trained with, from normalised
    contexts, where ψ has bounds for widths instead of the paper's (`fern.models.fern_parts.heads`). It is also our
    reading of the paper's ablations "only encoder" (no repeated translation) and, with ``layers=0``, "no encoder and
    no mean updates": with no shift at all the forecast would be 0 everywhere (MSE 256 on Lorenz-63, where the paper
    reports 27 and 194; 194 is the error of the best constant).

    With ``normalise`` the encoder reads contexts without level and spread, and the distribution is brought back into
    the units of the data exactly (`Ellipsoid.affine`), its eigenvalues too.

    Example:
        >>> model = Fern(FernConfig(context_length=48, horizon=36, channels=3)).eval()
        >>> forecast = model(torch.randn(2, 48, 3), samples=5, generator=torch.Generator().manual_seed(7))
        >>> forecast.mean.shape, forecast.samples.shape, forecast.ellipsoid.batch_shape
        (torch.Size([2, 36, 3]), torch.Size([5, 2, 36, 3]), torch.Size([2, 3]))
    """

    has_distribution = True
    config: FernConfig

    def __init__(self, config: FernConfig) -> None:
        super().__init__(config)
        series, hidden, latent = config.series_in_a_row, config.hidden, config.latent
        length = series * config.context_length
        self.activate = activation(config.activation)
        if config.layers:
            self.features_x = nn.Linear(length, hidden)
        self.features_z = nn.Linear(latent, hidden)
        spread = config.head_spread
        self.heads_x = nn.ModuleList(
            CouplingHead(hidden, latent, spread=spread, rotating=False) for _ in range(config.layers)
        )
        self.heads_z = nn.ModuleList(
            CouplingHead(hidden, length, spread=spread, rotating=i % 2 == 1) for i in range(config.layers - 1)
        )
        self.head = TransportHead(
            hidden=hidden,
            horizon=config.horizon,
            patch_size=config.used_patch_size,
            reflections=config.used_reflections,
            activation_name=config.activation,
            direct=config.mean == "direct",
            series=series,
            spread=spread,
        )
        self.skip = ContextMap(config.context_length, config.horizon) if config.skip == "linear" else None
        self._few_rows = few_rows.Network()
        kind = config.normalise
        self.normaliser = None if kind == "none" else Normaliser(kind, channels=config.channels)

    def prepare(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Learn the smallest spread that a context is divided by."""
        if self.normaliser is not None:
            self.normaliser.prepare(batches)

    def forecast(self, past: Tensor, *, samples: int, generator: Generator | None) -> Forecast:
        """The forecast of the mode the model is in; see the class."""
        seen = self._seen(past)
        distribution = self._distribution(seen, self._latent(seen, generator))
        size = (*seen.size, self.config.horizon)
        path = distribution.push(self._noise(past, size, generator)) if self.training else distribution.mean
        drawn = self._paths(seen, samples, generator) if samples else None
        # Contiguous: torch's losses are several times slower in the backward pass of a transposed view.
        return Forecast(mean=path.transpose(1, 2).contiguous(), ellipsoid=distribution, samples=drawn)

    def loss(
        self,
        past: Tensor,
        future: Tensor,
        criterion: Criterion,
        *,
        generator: Generator | None = None,
    ) -> Tensor:
        """The criterion on the forecast. One that reads the distribution alone needs no y0: the mean is then the
        distribution's own.
        """
        if not getattr(criterion, "distribution_alone", False):
            return super().loss(past, future, criterion, generator=generator)
        self._check_past(past)
        self.check_future(past, future)
        seen = self._seen(past)
        distribution = self._distribution(seen, self._latent(seen, generator))
        return criterion(Forecast(mean=distribution.mean.transpose(1, 2), ellipsoid=distribution), future)

    def encode(
        self,
        x: Tensor,  # (N, L)
        z: Tensor,  # (N, latent)
    ) -> Tensor:  # (N, hidden)
        """The final feature H_z(z) after the coupling layers."""
        for head_x, head_z in zip_longest(self.heads_x, self.heads_z):
            z = head_x(self._features(self.features_x, x), z)
            if head_z is not None:  # the last layer has none
                x = head_z(self._features(self.features_z, z), x)
        return self._features(self.features_z, z)

    def _features(self, linear: nn.Linear, state: Tensor) -> Tensor:
        return self.activate(linear(state))

    def _seen(self, past: Tensor) -> _Seen:
        batch, length, channels = past.shape
        config, frame = self.config, None
        x = past.transpose(1, 2)
        if self.normaliser is not None:
            x, frame = self.normaliser.normalise(x.contiguous())
        rows = x.reshape(batch * channels, length)
        skip = None
        if self.skip is not None:
            skip = in_patches(self.skip(rows), config.patches, config.used_patch_size, filler=0.0)
            skip = skip.view(batch, channels, *skip.shape[1:])
        return _Seen(rows.reshape(-1, config.series_in_a_row * length), (batch, channels), frame, skip)

    def _latent(self, seen: _Seen, generator: Generator | None) -> Tensor:  # (rows, latent)
        size = (seen.rows.shape[0], self.config.latent)
        return self._noise(seen.rows, size, generator) if self.training else seen.rows.new_zeros(size)

    def _distribution(
        self, seen: _Seen, z: Tensor, copies: tuple[int, ...] = ()
    ) -> Ellipsoid:  # of batch (*copies, B, C)
        rows = seen.rows.repeat(*copies, 1) if copies else seen.rows
        parts = self._network(rows, z)
        eigenvalues, place, vectors = (part.view(*copies, *seen.size, *part.shape[1:]) for part in parts)
        shift, offset = (None, place) if self.config.mean == "direct" else (place, None)
        if seen.skip is not None:
            offset = seen.skip if offset is None else offset + seen.skip
        distribution = Ellipsoid(
            eigenvalues,
            shift,
            vectors,
            offset=offset,
            base_variance=self.config.noise,
            horizon=self.config.horizon,
            # Diverged weights must not pass for a forecast; in training the loss shows it, and earlier. A program
            # that torch traces cannot depend on values.
            validate_args=not self.training and not torch.compiler.is_compiling(),
        )
        if self.config.smoothing > 1 and not self.training:
            path = distribution.mean
            distribution = distribution.affine(1.0, smoothed(path, self.config.smoothing) - path)
        return distribution if seen.frame is None else distribution.affine(seen.frame.scale, seen.frame.level)

    def _network(self, rows: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """ψ after the coupling layers; for few rows without gradients in one compiled call."""
        config = self.config
        plain = config.layers > 1 and config.used_reflections > 0 and config.activation == "relu"
        if plain and not self.training and few_rows.takes(rows):
            features = self.features_x, self.features_z
            return self._few_rows(rows, z, features, self.heads_x, self.heads_z, self.head)
        parts: tuple[Tensor, Tensor, Tensor] = self.head(self.encode(rows, z))
        return parts

    def _noise(self, like: Tensor, size: tuple[int, ...], generator: Generator | None) -> Tensor:
        noise = torch.randn(size, generator=generator, dtype=like.dtype, device=like.device)
        return noise.mul_(sqrt(self.config.noise))

    def _paths(self, seen: _Seen, samples: int, generator: Generator | None) -> Tensor:  # (S, B, H, C)
        """Joint paths, each from its own z and y0."""
        rows = seen.rows.shape[0]
        at_once = max(1, ROWS_AT_ONCE // (rows * self.config.series_in_a_row))
        drawn = []
        for start in range(0, samples, at_once):
            count = min(at_once, samples - start)
            distribution = self._distribution(
                seen, self._noise(seen.rows, (count * rows, self.config.latent), generator), (count,)
            )
            drawn.append(distribution.push(self._noise(seen.rows, (count, *seen.size, self.config.horizon), generator)))
        return torch.cat(drawn).transpose(-1, -2)


register_model("fern", FernConfig, Fern, presets=PRESETS)

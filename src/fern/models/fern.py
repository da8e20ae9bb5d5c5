"""Fern: a bidirectional coupling encoder and a head that transports noise to ellipsoids (paper, Alg. 1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil, sqrt
from typing import Any, Literal, cast, get_args

import torch
from torch import Generator, Tensor, nn

from fern.errors import FernError, require_choice, require_number, require_whole
from fern.models.base import ChannelsSeen, Criterion, Forecast, Forecaster, ModelConfig, Sees
from fern.models.fern_parts.heads import (
    CouplingHead,
    FeatureMap,
    Form,
    ShiftHead,
    SmallBatchNetwork,
    TransportHead,
    takes_small_batch,
)
from fern.models.fern_parts.normalisation import ContextMap, Frame, Normalisation, Normaliser, in_patches, smooth
from fern.models.layers import find_activation, require_kernel
from fern.models.registry import register_model
from fern.transport import Ellipsoid, spd_push

Mean = Literal["transported", "direct"]
Skip = Literal["none", "linear"]
Heads = Literal["linear", "deep"]
Coupling = Literal["affine", "residual"]
Clamp = Literal["bend", "leaky"]
ReflectionMap = Literal["linear", "rectified"]
Evaluation = Literal["mean", "drawn"]

ROWS_AT_ONCE = 4096
"""Series that are encoded together when paths are drawn: bounds the memory, not the number of paths."""

EVALUATION_SEED = 7
"""Of the draw that evaluation takes where it draws and no generator is given."""


@dataclass(frozen=True, kw_only=True)
class FernConfig(ModelConfig):
    """The settings of `Fern`.

    ``patch_size``   p. None makes the horizon one patch. A patch larger than the horizon becomes the horizon.
    ``reflections``  R, from 0 (no rotation) to ``patch_size`` (any rotation). More than ``patch_size`` is refused;
                     where the horizon is shorter than the patch, R is cut to it as the patch is.
    ``hidden``       d_h, the width of the features H_x and H_z.
    ``latent``       d_z, the size of z. Smaller often generalises better (12 to 32 on Lorenz-63).
    ``layers``       K, the coupling layers. 0 switches the encoder off: the forecast then ignores the past.
    ``noise``        a, the *variance* of z and of y0. The paper prints 0.1; the author's code draws 0.1·N(0, I), a
                     standard deviation of 0.1, which is ``noise=0.01``.
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

    Where the author's code goes beyond the paper's text (docs/decisions.md; the preset ``paper`` has it so):

    ``feature_activations``  of the linear layers of H_x, H_z and H_y, one after the other; None: one layer with
                     ``activation``.
    ``bias``         of those layers, of deep heads and of rectified reflections.
    ``heads``        ``linear``: φ is one linear layer, ψ has one hidden layer. ``deep``: scales take two linear layers
                     with ELU after each, shifts and block-complex scales a third, in φ and ψ alike.
    ``coupling``     ``affine``: x ← s ⊙ x + t. ``residual``: x ← x + s ⊙ x + t, the bounds of s one lower.
    ``clamp``        ``bend``: exactly the identity inside, within the bounds everywhere. ``leaky``: by softplus, with a
                     slope of 0.1 outside. Eigenvalues then fall below 0 at times (to -0.2): the mean is At with them as
                     they are, and the distribution has their magnitudes.
    ``rotating``     the layers, from 1, whose s_x is block-complex; None: every second.
    ``decoder_layers``  rounds between y and z before the transport: z ← scale and shift from H_y(y), then
                     y ← y + shift from H_z(z), the paper's "repeated translation in the decoder".
    ``reflection_map``  ``linear``, or ``rectified``: a ReLU after it and Kaiming's start.
    ``gradient_block``  so many reflections, in turns, pass gradients in a training step; None: all.
    ``evaluation``   ``mean``: z = y0 = 0. ``drawn``: one draw of z and y0, as in training, from a fixed seed where no
                     generator is given.
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
    feature_activations: tuple[str, ...] | None = None
    bias: bool = True
    heads: Heads = "linear"
    coupling: Coupling = "affine"
    clamp: Clamp = "bend"
    rotating: tuple[int, ...] | None = None
    decoder_layers: int = 0
    reflection_map: ReflectionMap = "linear"
    gradient_block: int | None = None
    evaluation: Evaluation = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "latent"):
            require_whole(name, getattr(self, name), 1)
        for name in ("reflections", "layers", "decoder_layers"):
            require_whole(name, getattr(self, name), 0)
        require_kernel("smoothing", self.smoothing)
        if self.patch_size is not None:
            require_whole("patch_size", self.patch_size, 1)
            if self.reflections > self.patch_size:
                raise FernError(
                    argument="reflections",
                    got=self.reflections,
                    expected=f"at most patch_size, which is {self.patch_size}: that many reach every rotation",
                )
        require_number("head_spread", self.head_spread, "a number above 0", lambda value: value > 0)
        require_number("noise", self.noise, "a variance above 0", lambda value: value > 0)
        for name, kind in (
            ("mean", Mean),
            ("normalise", Normalisation),
            ("skip", Skip),
            ("channels_seen", ChannelsSeen),
            ("heads", Heads),
            ("coupling", Coupling),
            ("clamp", Clamp),
            ("reflection_map", ReflectionMap),
            ("evaluation", Evaluation),
        ):
            require_choice(name, getattr(self, name), get_args(kind))
        for chosen in (self.activation, *(self.feature_activations or ())):
            find_activation(chosen)
        if self.feature_activations == ():
            raise FernError(
                "is empty", argument="feature_activations", expected="the activation of at least one layer, or None"
            )
        if self.gradient_block is not None:
            require_whole("gradient_block", self.gradient_block, 1)
        for layer in self.rotating or ():
            require_whole("rotating", layer, 1)

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
    def form(self) -> Form:
        """How heads are made."""
        return Form(
            deep=self.heads == "deep",
            bias=self.bias,
            residual=self.coupling == "residual",
            leaky=self.clamp == "leaky",
            spread=self.head_spread,
        )

    @property
    def plain(self) -> bool:
        """Whether heads and reflections are as the paper's text has them."""
        written = self.heads, self.coupling, self.clamp, self.reflection_map, self.gradient_block
        return written == ("linear", "affine", "bend", "linear", None)

    @property
    def signed(self) -> bool:
        """Whether eigenvalues may be negative: a clamp that leaks does not hold them."""
        return self.clamp == "leaky" and self.mean == "transported"

    def turns(self, layer: int) -> bool:  # from 0
        """Whether the s_x of a layer is block-complex."""
        return layer % 2 == 1 if self.rotating is None else layer + 1 in self.rotating

    @property
    def series_in_a_row(self) -> int:
        """How many channels the encoder reads together."""
        return self.channels if self.channels_seen == "all" else 1


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "patch_size": 24,
        "reflections": 8,
        "hidden": 128,
        "latent": 128,
        "layers": 5,
        "noise": 0.01,
        "feature_activations": ("identity", "elu", "elu", "logsigmoid", "elu"),
        "bias": False,
        "heads": "deep",
        "coupling": "residual",
        "clamp": "leaky",
        "decoder_layers": 3,
        "reflection_map": "rectified",
    },
    "paper-compact": {
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
"""The paper's model as its author's code has it (``paper``) and by the words of its text (``paper-compact``: a quarter
of the parameters, a third of the time), six ablations of the second (``tab:ablations-192-main``), and two for people's
own data: ``level`` takes each context relative to its last value and spread and carries it on by a linear map, for
series whose level drifts; ``state`` takes values as they are, for systems whose level is part of their state (chaotic
ones)."""


@dataclass(frozen=True)
class _Inputs:
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
    eigenvalues are soft-clamped to [0, 5.5], shifts to [-15, 15] (`fern.models.fern_parts.coupling`). In every second
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
    noise only: a distribution can be sharp (small Λ) wherever its mean lies, so it is what a distribution is trained
    with. It is also our reading of the paper's ablations "only encoder" and, with ``layers=0``, "no encoder and no mean
    updates" (docs/decisions.md). In the author's code the repeated translation is the ``decoder_layers``, with y and z
    in turn::

        z ← s_z ⊙ z + t_z     (s_z, t_z) = φ_y^i(H_y(y))
        y ← y + t_y           t_y = φ^i(H_z(z))

    from y = y0 on, so that y = Uᵀ Λ U (y0 + Σ t_y + t).

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
        length, horizon = series * config.context_length, series * config.horizon
        self.activate = find_activation(config.activation)
        if config.layers:
            self.features_x = self._feature_map(length)
        self.features_z = self._feature_map(latent)
        self.heads_x = nn.ModuleList(self._coupling_head(latent) for _ in range(config.layers))
        self.heads_z = nn.ModuleList(
            self._coupling_head(length, rotating=config.turns(i)) for i in range(config.layers - 1)
        )
        if config.decoder_layers:
            self.features_y = self._feature_map(horizon)
            self.heads_y = nn.ModuleList(self._coupling_head(latent) for _ in range(config.decoder_layers))
            self.shifts_y = nn.ModuleList(ShiftHead(hidden, horizon, config.form) for _ in range(config.decoder_layers))
        self.head = self._transport_head()
        self.skip = ContextMap(config.context_length, config.horizon) if config.skip == "linear" else None
        self._small_batch = SmallBatchNetwork()
        kind = config.normalise
        self.normaliser = None if kind == "none" else Normaliser(kind, channels=config.channels)

    def _feature_map(self, size: int) -> nn.Module:
        config = self.config
        if config.feature_activations is None:
            return nn.Linear(size, config.hidden, bias=config.bias)
        return FeatureMap(size, config.hidden, config.feature_activations, bias=config.bias)

    def _coupling_head(self, size: int, *, rotating: bool = False) -> nn.Module:
        return CouplingHead(self.config.hidden, size, self.config.form, rotating=rotating)

    def _transport_head(self) -> TransportHead:
        config = self.config
        return TransportHead(
            config.form,
            hidden=config.hidden,
            horizon=config.horizon,
            patch_size=config.used_patch_size,
            reflections=config.used_reflections,
            activation_name=config.activation,
            direct=config.mean == "direct",
            series=config.series_in_a_row,
            rectified=config.reflection_map == "rectified",
            block=config.gradient_block,
        )

    def prepare(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Learn the smallest spread that a context is divided by."""
        if self.normaliser is not None:
            self.normaliser.prepare(batches)

    def forecast(self, past: Tensor, *, samples: int, generator: Generator | None) -> Forecast:
        """The forecast of the mode the model is in; see the class."""
        seen = self._read(past)
        if generator is None and not self.training and self._draws:  # a forecast is then the same again
            generator = Generator(past.device).manual_seed(EVALUATION_SEED)
        z = self._latent(seen, generator)
        y0 = self._noise(past, (*seen.size, self.config.horizon), generator) if self._draws else None
        distribution, path = self._transport(seen, z, y0)
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
        distribution's own. Decoder layers read y0, whatever the criterion reads.
        """
        if self.config.decoder_layers or not getattr(criterion, "distribution_alone", False):
            return super().loss(past, future, criterion, generator=generator)
        self._check_past(past)
        self.check_future(past, future)
        seen = self._read(past)
        distribution, _ = self._transport(seen, self._latent(seen, generator), None)
        return criterion(Forecast(mean=distribution.mean.transpose(1, 2), ellipsoid=distribution), future)

    def encode(
        self,
        x: Tensor,  # (N, L)
        z: Tensor,  # (N, latent)
    ) -> Tensor:  # (N, latent)
        """z after the coupling layers."""
        for head_x, head_z in zip_longest(self.heads_x, self.heads_z):
            z = head_x(self._features(self.features_x, x), z)
            if head_z is not None:  # the last layer has none
                x = head_z(self._features(self.features_z, z), x)
        return z

    def translate(
        self,
        z: Tensor,  # (N, latent)
        y: Tensor,  # (N, H), y0
    ) -> tuple[Tensor, Tensor]:  # (N, latent), (N, H)
        """z after the decoder layers, and what they add to y0."""
        added = torch.zeros_like(y)
        for head, shift in zip(self.heads_y, self.shifts_y, strict=True):
            z = head(self._features(self.features_y, y + added), z)
            added = added + shift(self._features(self.features_z, z))
        return z, added

    def _features(self, features: nn.Module, state: Tensor) -> Tensor:
        values: Tensor = features(state)
        return values if isinstance(features, FeatureMap) else self.activate(values)

    def _read(self, past: Tensor) -> _Inputs:
        batch, length, channels = past.shape
        config, frame = self.config, None
        x = past.transpose(1, 2)
        if self.normaliser is not None:
            x, frame = self.normaliser.normalise(x.contiguous())
        rows = x.reshape(batch * channels, length)
        skip = None
        if self.skip is not None:
            skip = self._in_patches(self.skip(rows))
            skip = skip.view(batch, channels, *skip.shape[1:])
        return _Inputs(rows.reshape(-1, config.series_in_a_row * length), (batch, channels), frame, skip)

    @property
    def _draws(self) -> bool:
        """Whether a forecast draws z and y0."""
        return self.training or self.config.evaluation == "drawn"

    def _latent(self, seen: _Inputs, generator: Generator | None) -> Tensor:  # (rows, latent)
        size = (seen.rows.shape[0], self.config.latent)
        return self._noise(seen.rows, size, generator) if self._draws else seen.rows.new_zeros(size)

    def _transport(
        self,
        seen: _Inputs,
        z: Tensor,
        y0: Tensor | None,  # (*copies, B, C, H), None for 0
        copies: tuple[int, ...] = (),
    ) -> tuple[Ellipsoid, Tensor]:  # of batch (*copies, B, C), (*copies, B, C, H)
        """The distribution, and where it takes y0."""
        config = self.config
        rows = seen.rows.repeat(*copies, 1) if copies else seen.rows
        parts = self._network(rows, z, y0)
        eigenvalues, place, vectors = (part.view(*copies, *seen.size, *part.shape[1:]) for part in parts)
        shift, offset = (None, place) if config.mean == "direct" else (place, None)
        path = None
        if config.signed:
            # N(At, aA²) is the distribution of |A|y0 + At too, and |A| is what an ellipsoid has. The path itself is
            # A(y0 + t).
            shift, offset = None, spd_push(vectors, eigenvalues, place)
            path = offset if y0 is None else spd_push(vectors, eigenvalues, place + self._in_patches(y0))
            eigenvalues = eigenvalues.abs()
        if seen.skip is not None:
            offset = seen.skip if offset is None else offset + seen.skip
            path = path if path is None else path + seen.skip
        distribution = Ellipsoid(
            eigenvalues,
            shift,
            vectors,
            offset=offset,
            base_variance=config.noise,
            horizon=config.horizon,
            # Diverged weights must not pass for a forecast; in training the loss shows it, and earlier. A program
            # that torch traces cannot depend on values.
            validate_args=not self.training and not torch.compiler.is_compiling(),
        )
        moved: Tensor | float = 0.0
        if config.smoothing > 1 and not self.training:
            moved = smooth(distribution.mean, config.smoothing) - distribution.mean
            distribution = distribution.affine(1.0, moved)
        distribution = distribution if seen.frame is None else distribution.affine(seen.frame.scale, seen.frame.level)
        if path is None:
            return distribution, distribution.mean if y0 is None else distribution.push(y0)
        path = path.flatten(-2)[..., : config.horizon] + moved
        if seen.frame is not None:
            path = torch.addcmul(seen.frame.level.unsqueeze(-1), path, seen.frame.scale.unsqueeze(-1))
        return distribution, path

    def _in_patches(self, values: Tensor) -> Tensor:  # (..., H) -> (..., g, p)
        return in_patches(values, self.config.patches, self.config.used_patch_size, filler=0.0)

    def _network(self, rows: Tensor, z: Tensor, y0: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """ψ after the coupling and decoder layers; for few rows without gradients in one compiled call."""
        config = self.config
        short = config.plain and config.feature_activations is None and config.bias and config.rotating is None
        short = short and config.layers > 1 and config.used_reflections > 0 and config.activation == "relu"
        if short and not config.decoder_layers and not self.training and takes_small_batch(rows):
            features = cast("tuple[nn.Linear, nn.Linear]", (self.features_x, self.features_z))
            return self._small_batch(rows, z, features, self.heads_x, self.heads_z, self.head)
        z, added = self.encode(rows, z), None
        if config.decoder_layers:
            size = (rows.shape[0], config.series_in_a_row * config.horizon)
            z, added = self.translate(z, rows.new_zeros(size) if y0 is None else y0.reshape(size))
        scale, place, vectors = self.head(self._features(self.features_z, z))
        if added is not None:
            place = place + self._in_patches(added.view(-1, config.horizon))
        return scale, place, vectors

    def _noise(self, like: Tensor, size: tuple[int, ...], generator: Generator | None) -> Tensor:
        noise = torch.randn(size, generator=generator, dtype=like.dtype, device=like.device)
        return noise.mul_(sqrt(self.config.noise))

    def _paths(self, seen: _Inputs, samples: int, generator: Generator | None) -> Tensor:  # (S, B, H, C)
        """Joint paths, each from its own z and y0."""
        rows = seen.rows.shape[0]
        at_once = max(1, ROWS_AT_ONCE // (rows * self.config.series_in_a_row))
        drawn = []
        for start in range(0, samples, at_once):
            count = min(at_once, samples - start)
            z = self._noise(seen.rows, (count * rows, self.config.latent), generator)
            y0 = self._noise(seen.rows, (count, *seen.size, self.config.horizon), generator)
            drawn.append(self._transport(seen, z, y0, (count,))[1])
        return torch.cat(drawn).transpose(-1, -2)


register_model("fern", FernConfig, Fern, presets=PRESETS)

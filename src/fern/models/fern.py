"""Fern: a bidirectional coupling encoder and a head that transports noise to ellipsoids (paper, Alg. 1)."""

from dataclasses import dataclass
from itertools import zip_longest
from math import ceil, sqrt
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from fern.checks import require_whole
from fern.errors import FernError
from fern.models.base import Forecast, Forecaster, ModelConfig
from fern.models.coupling import affine_update, clamped_pair, rotating_update
from fern.models.layers import activation
from fern.models.registry import register_model
from fern.models.softclamp import SCALE, SoftBounds
from fern.transport import EIGENVALUE_FLOOR, Ellipsoid, spd_push

EIGENVALUES = SoftBounds(EIGENVALUE_FLOOR, SCALE.high)
"""The paper's [0, 5.5], begun at the floor of `Ellipsoid`: below it an eigenvalue would have no gradient."""

DIRECT_EIGENVALUES = SoftBounds(0.1, SCALE.high)
"""With ``mean="direct"`` A is inverted, so its condition number is bounded."""

START = 0.1
"""The starting weights of the scale-and-shift heads, relative to PyTorch's default: near the identity."""

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
    """

    patch_size: int | None = 24
    reflections: int = 8
    hidden: int = 128
    latent: int = 96
    layers: int = 5
    noise: float = 0.1
    activation: str = "relu"
    mean: Literal["transported", "direct"] = "transported"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "latent"):
            require_whole(name, getattr(self, name), 1)
        for name in ("reflections", "layers"):
            require_whole(name, getattr(self, name), 0)
        if self.patch_size is not None:
            require_whole("patch_size", self.patch_size, 1)
            if self.reflections > self.patch_size:
                raise FernError(
                    f"reflections: got {self.reflections}, needs at most patch_size, which is {self.patch_size}: "
                    "that many reach every rotation"
                )
        if not 0.0 < self.noise < float("inf"):
            raise FernError(f"noise: got {self.noise}, needs a variance above 0")
        if self.mean not in ("transported", "direct"):
            raise FernError(f"mean: got {self.mean!r}, needs 'transported' or 'direct'")
        activation(self.activation)

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
}
"""The paper's model and its six ablations (``tab:ablations-192-main``)."""


class Fern(Forecaster):
    """The paper's forecaster: each channel on its own, weights shared over channels.

    With z ~ N(0, aI), y0 ~ N(0, aI) and the context x of one channel, K times (i = 1 … K)::

        z ← s_z ⊙ z + t_z     (s_z, t_z) = φ_x^i(H_x(x))
        x ← s_x ⊙ x + t_x     (s_x, t_x) = φ_z^i(H_z(z))

    and then, with (Λ, t, U) = ψ(H_z(z)) for each patch of the horizon, y = Uᵀ Λ U (y0 + t). H_x and H_z are one
    linear layer and an activation, shared over the layers; the φ are linear; ψ has one hidden layer. Scales and
    eigenvalues are soft-clamped to [0, 5.5], shifts to [-15, 15] (`fern.models.softclamp`). In every second layer
    s_x is block-complex: neighbours in time are multiplied as complex numbers, bounds [-4.5, 4.5]. The last layer has
    no x-update, because nothing would read it. The law is an `Ellipsoid`: a coordinate of its mean stays within
    ±5.5·15·√p, so series of another magnitude must be scaled first.

    What is random, and what it does to the error:

    - *Training mode* draws a fresh z and a fresh y0 for each series, and ``mean`` is the transported draw A(y0 + t).
      Its expected squared error is that of At plus a·tr(A²)/H: the noise on y0 is a penalty on the eigenvalues, and
      that on z asks for a forecast that is smooth in z.
    - *Evaluation mode* takes the mean path, z = 0 and y0 = 0: no randomness, and none of the terms above.
    - ``samples=n`` draws n joint paths, each with its own z and y0. One path has the squared error of the training
      draw; the average of n paths has 1/n of its random part. The ``ellipsoid`` is the law at z = 0: it leaves out
      the spread that z adds, the samples have it.

    ``mean="direct"`` is for the ablations: y = A·y0 + μ with μ straight from ψ, within ±82.5, and eigenvalues of at
    least 0.1. The transport then shapes the noise only and the encoder alone makes the mean. It is our reading of
    "only encoder" (no repeated translation) and, with ``layers=0``, of "no encoder and no mean updates": with no
    shift at all the forecast would be 0 everywhere (MSE 256 on Lorenz-63, where the paper reports 27 and 194; 194 is
    the error of the best constant).

    Example:
        >>> model = Fern(FernConfig(context_length=48, horizon=36, channels=3)).eval()
        >>> forecast = model(torch.randn(2, 48, 3), samples=5, generator=torch.Generator().manual_seed(7))
        >>> forecast.mean.shape, forecast.samples.shape, forecast.ellipsoid.batch_shape
        (torch.Size([2, 36, 3]), torch.Size([5, 2, 36, 3]), torch.Size([2, 3]))
    """

    has_law = True
    config: FernConfig

    def __init__(self, config: FernConfig) -> None:
        super().__init__(config)
        length, hidden, latent = config.context_length, config.hidden, config.latent
        self.activate = activation(config.activation)
        if config.layers:
            self.features_x = nn.Linear(length, hidden)
        self.features_z = nn.Linear(latent, hidden)
        self.heads_x = nn.ModuleList(CouplingHead(hidden, latent, rotating=False) for _ in range(config.layers))
        self.heads_z = nn.ModuleList(
            CouplingHead(hidden, length, rotating=i % 2 == 1) for i in range(config.layers - 1)
        )
        self.head = TransportHead(config)

    def forecast(self, past: Tensor, *, samples: int, generator: Generator | None) -> Forecast:
        """The forecast of the mode the model is in; see the class."""
        batch, _, channels = past.shape
        rows = past.transpose(1, 2).reshape(batch * channels, -1)
        size = (batch, channels)
        if self.training:
            law = self._law(rows, self._noise(rows, (rows.shape[0], self.config.latent), generator), size)
            path = law.push(self._noise(rows, (*size, self.config.horizon), generator))
        else:
            law = self._law(rows, rows.new_zeros(rows.shape[0], self.config.latent), size)
            path = law.mean
        drawn = self._paths(rows, size, samples, generator) if samples else None
        # Contiguous: torch's losses are several times slower in the backward pass of a transposed view.
        return Forecast(mean=path.transpose(1, 2).contiguous(), ellipsoid=law, samples=drawn)

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

    def _law(self, rows: Tensor, z: Tensor, batch: tuple[int, ...]) -> Ellipsoid:
        eigenvalues, shift, vectors = self.head(self.encode(rows, z))
        return Ellipsoid(
            eigenvalues.unflatten(0, batch),
            shift.unflatten(0, batch),
            vectors.unflatten(0, batch),
            base_variance=self.config.noise,
            horizon=self.config.horizon,
            # Diverged weights must not pass for a forecast; in training the loss shows it, and earlier.
            validate_args=not self.training,
        )

    def _noise(self, like: Tensor, size: tuple[int, ...], generator: Generator | None) -> Tensor:
        noise = torch.randn(size, generator=generator, dtype=like.dtype, device=like.device)
        return noise.mul_(sqrt(self.config.noise))

    def _paths(
        self, rows: Tensor, size: tuple[int, int], samples: int, generator: Generator | None
    ) -> Tensor:  # (S, B, H, C)
        """Joint paths, each from its own z and y0."""
        at_once = max(1, ROWS_AT_ONCE // rows.shape[0])
        drawn = []
        for start in range(0, samples, at_once):
            count = min(at_once, samples - start)
            z = self._noise(rows, (count * rows.shape[0], self.config.latent), generator)
            law = self._law(rows.repeat(count, 1), z, (count, *size))
            drawn.append(law.push(self._noise(rows, (count, *size, self.config.horizon), generator)))
        return torch.cat(drawn).transpose(-1, -2)


class NearIdentity(nn.Linear):
    """A linear map to n scales and n shifts that starts near scale 1 and shift 0 (a = 1, b = 0 where rotating)."""

    def __init__(self, hidden: int, size: int, *, rotating: bool = False) -> None:
        super().__init__(hidden, 2 * size)
        self.rotating = rotating
        self.initialise_parameters(None)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Small random weights around the identity."""
        size, bound = self.out_features // 2, START / sqrt(self.in_features)
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()
            self.bias[:size:2] = 1.0
            if not self.rotating:
                self.bias[1:size:2] = 1.0


class CouplingHead(nn.Module):
    """φ: the update of one side's state by the features of the other."""

    def __init__(self, hidden: int, size: int, *, rotating: bool) -> None:
        super().__init__()
        self.linear = NearIdentity(hidden, size, rotating=rotating)
        self.update = rotating_update if rotating else affine_update

    def forward(
        self,
        features: Tensor,  # (N, hidden)
        state: Tensor,  # (N, size)
    ) -> Tensor:  # (N, size)
        """s ⊙ state + t."""
        return self.update(self.linear(features), state)


class TransportHead(nn.Module):
    """ψ: eigenvalues Λ, shift t and reflection vectors of every patch, from one hidden layer.

    It has exactly H eigenvalues, H shifts and R·H vector entries. A shorter last patch is padded with zeros.
    """

    def __init__(self, config: FernConfig) -> None:
        super().__init__()
        self.activate, self.direct = activation(config.activation), config.mean == "direct"
        self.horizon, self.patches = config.horizon, config.patches
        self.patch_size, self.reflections = config.used_patch_size, config.used_reflections
        self.hidden = nn.Linear(config.hidden, config.hidden)
        self.spectrum = NearIdentity(config.hidden, config.horizon)
        if self.reflections:
            self.vectors = nn.Linear(config.hidden, self.reflections * config.horizon)

    def forward(
        self,
        features: Tensor,  # (N, hidden)
    ) -> tuple[Tensor, Tensor, Tensor]:  # (N, g, p), (N, g, p), (N, g, R, p)
        """(Λ, t, vectors)."""
        features = self.activate(self.hidden(features))
        bounds = DIRECT_EIGENVALUES if self.direct else EIGENVALUES
        scale, shift = clamped_pair(self.spectrum(features), scale_bounds=bounds)
        vectors = self._vectors(features)
        eigenvalues, shift = self._patched(scale, 1.0), self._patched(shift, 0.0)
        if self.direct:  # μ = A t: the law stays an ellipsoid
            shift = spd_push(vectors, eigenvalues.reciprocal(), SCALE.high * shift)
        return eigenvalues, shift, vectors

    def _patched(self, values: Tensor, filler: float) -> Tensor:  # (N, H) -> (N, g, p)
        missing = self.patches * self.patch_size - self.horizon
        if missing:
            values = pad(values, (0, missing), value=filler)
        return values.view(-1, self.patches, self.patch_size)

    def _vectors(self, features: Tensor) -> Tensor:  # (N, g, R, p)
        rows, count, size = features.shape[0], self.reflections, self.patch_size
        if not count:
            return features.new_zeros(rows, self.patches, 0, size)
        values: Tensor = self.vectors(features)
        last = self.horizon - (self.patches - 1) * size
        if last == size:
            return values.view(rows, self.patches, count, size)
        whole, rest = values.tensor_split([(self.patches - 1) * count * size], dim=-1)
        padded = pad(rest.reshape(rows, 1, count, last), (0, size - last))
        return torch.cat((whole.reshape(rows, -1, count, size), padded), dim=1)


register_model("fern", FernConfig, Fern, presets=PRESETS)

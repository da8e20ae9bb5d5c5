"""The parts of Fern that end a path: φ of the coupling layers, ψ of the transport, and the linear skip."""

from math import sqrt

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from fern.models.fern_parts.coupling import affine_update, clamped_pair, rotating_update
from fern.models.fern_parts.softclamp import SCALE, SHIFT, SoftBounds
from fern.models.layers import activation
from fern.transport import EIGENVALUE_FLOOR

EIGENVALUES = SoftBounds(EIGENVALUE_FLOOR, SCALE.high)
"""The paper's [0, 5.5], begun at the floor of `Ellipsoid`: below it an eigenvalue would have no gradient."""

DIRECT_EIGENVALUES = SoftBounds(EIGENVALUE_FLOOR, 100.0, bend=EIGENVALUES.knee)
"""Of a distribution whose mean does not pass A: only its width is left to say, and that may be small or large.

With a = 0.1 the deviations reach from 3e-5 to 31 (of the context's own, where it is normalised): sharp enough for the
first steps of a chaotic system, wide enough for a walk that leaves its context. The condition number, at most 1e6,
stays below 1/eps of float32, 1.7e7, so that `inverse` and `log_prob` keep their meaning. Up to 4.95 it is the paper's
clamp, knee included.
"""

DIRECT_MEAN = SoftBounds(-1e9, 1e9)
"""A mean straight from the head is any number; the bounds only keep diverging weights finite."""


class AboutIdentity(nn.Linear):
    """A linear map to n scales and n shifts that starts about scale 1 and shift 0 (a = 1, b = 0 where rotating).

    ``spread`` is that of the starting weights, relative to PyTorch's default: the smaller, the nearer the identity.
    """

    def __init__(self, hidden: int, size: int, *, spread: float, rotating: bool = False) -> None:
        super().__init__(hidden, 2 * size)
        self.spread, self.rotating = spread, rotating
        self.initialise_parameters(None)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Random weights about the identity."""
        size, bound = self.out_features // 2, self.spread / sqrt(self.in_features)
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()
            self.bias[:size:2] = 1.0
            if not self.rotating:
                self.bias[1:size:2] = 1.0


class CouplingHead(nn.Module):
    """φ: the update of one side's state by the features of the other."""

    def __init__(self, hidden: int, size: int, *, spread: float, rotating: bool) -> None:
        super().__init__()
        self.linear = AboutIdentity(hidden, size, spread=spread, rotating=rotating)
        self.update = rotating_update if rotating else affine_update

    def forward(
        self,
        features: Tensor,  # (N, hidden)
        state: Tensor,  # (N, size)
    ) -> Tensor:  # (N, size)
        """s ⊙ state + t."""
        return self.update(self.linear(features), state)


class TransportHead(nn.Module):
    """ψ: eigenvalues Λ, places and reflection vectors of every patch, from one hidden layer.

    The place of a patch is its shift t, or where ``direct`` its mean. For each series that a row of features stands
    for there are exactly H eigenvalues, H places and R·H vector entries. A shorter last patch is padded with zeros.
    """

    def __init__(
        self,
        *,
        hidden: int,
        horizon: int,
        patch_size: int,
        reflections: int,
        activation_name: str,
        direct: bool,
        series: int,
        spread: float,
    ) -> None:
        super().__init__()
        self.activate, self.direct = activation(activation_name), direct
        self.horizon, self.patches, self.patch_size = horizon, -(-horizon // patch_size), patch_size
        self.reflections, self.series = reflections, series
        self.bounds = (DIRECT_EIGENVALUES, DIRECT_MEAN) if direct else (EIGENVALUES, SHIFT)
        self.hidden = nn.Linear(hidden, hidden)
        self.spectrum = AboutIdentity(hidden, series * horizon, spread=spread)
        if reflections:
            self.vectors = nn.Linear(hidden, reflections * series * horizon)

    def forward(
        self,
        features: Tensor,  # (rows, hidden)
    ) -> tuple[Tensor, Tensor, Tensor]:  # (N, g, p), (N, g, p), (N, g, R, p) with N = rows · series
        """(Λ, t or mean, vectors)."""
        features = self.activate(self.hidden(features))
        scale, place = clamped_pair(self.spectrum(features), scale_bounds=self.bounds[0], shift_bounds=self.bounds[1])
        return self.patched(scale, place, self.vectors(features) if self.reflections else None)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many scales, places and entries of vectors a row of features gives."""
        size = self.series * self.horizon
        return size, size, self.reflections * size

    def patched(
        self,
        scale: Tensor,  # (rows, series·H)
        place: Tensor,  # (rows, series·H)
        vectors: Tensor | None,  # (rows, series·R·H)
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The outputs cut into patches."""
        return self._patched(scale, 1.0), self._patched(place, 0.0), self._vectors(scale, vectors)

    def _patched(self, values: Tensor, filler: float) -> Tensor:  # (rows, series·H) -> (N, g, p)
        return in_patches(values.view(-1, self.horizon), self.patches, self.patch_size, filler=filler)

    def _vectors(self, like: Tensor, values: Tensor | None) -> Tensor:  # (N, g, R, p)
        rows, count, size = like.shape[0] * self.series, self.reflections, self.patch_size
        if values is None:
            return like.new_zeros(rows, self.patches, 0, size)
        values = values.view(rows, -1)
        last = self.horizon - (self.patches - 1) * size
        if last == size:
            return values.view(rows, self.patches, count, size)
        whole, rest = values.tensor_split([(self.patches - 1) * count * size], dim=-1)
        padded = pad(rest.reshape(rows, 1, count, last), (0, size - last))
        return torch.cat((whole.reshape(rows, -1, count, size), padded), dim=1)


class ContextMap(nn.Linear):
    """A linear map of the context to the horizon, shared over channels, that starts as the mean of the context."""

    def __init__(self, length: int, horizon: int) -> None:
        super().__init__(length, horizon)
        self.initialise_parameters(None)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Weights 1/L and no bias; nothing is drawn."""
        nn.init.constant_(self.weight, 1.0 / self.in_features)
        nn.init.zeros_(self.bias)


def in_patches(values: Tensor, patches: int, patch_size: int, *, filler: float) -> Tensor:  # (..., H) -> (..., g, p)
    """The horizon cut into patches, the last filled up."""
    missing = patches * patch_size - values.shape[-1]
    if missing:
        values = pad(values, (0, missing), value=filler)
    return values.view(*values.shape[:-1], patches, patch_size)

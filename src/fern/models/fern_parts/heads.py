"""The networks of Fern: H, the features; φ, the heads of the coupling layers; ψ, that of the transport.

As the paper's text has them and in the forms of its author's code (`Form`); last all of them for a few series without
gradients, one compiled call in place of some forty small operations.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import elu, pad

from fern.models.fern_parts import _kernels as kernels
from fern.models.fern_parts.coupling import (
    LEAKY_RESIDUAL,
    LEAKY_SCALE,
    LEAKY_SHIFT,
    RESIDUAL,
    ROTATION,
    SCALE,
    SHIFT,
    SoftBounds,
    affine_update,
    bounds_table,
    clamp_pair,
    leaky_clamp,
    leaky_update,
    rotating_update,
    soft_clamp,
)
from fern.models.fern_parts.normalisation import in_patches
from fern.models.layers import find_activation
from fern.transport._compiled import fits_kernels
from fern.transport.ellipsoid import EIGENVALUE_FLOOR

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
    ``start`` is the scale in place of 1: 0 where the state itself is added.
    """

    def __init__(self, hidden: int, size: int, *, spread: float, rotating: bool = False, start: float = 1.0) -> None:
        super().__init__(hidden, 2 * size)
        self.spread, self.rotating, self.start = spread, rotating, start
        self.initialise_parameters(None)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Random weights about the identity."""
        size, bound = self.out_features // 2, self.spread / sqrt(self.in_features)
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()
            self.bias[:size:2] = self.start
            if not self.rotating:
                self.bias[1:size:2] = self.start


@dataclass(frozen=True)
class Form:
    """How the heads of the coupling layers are made; see `fern.models.FernConfig`."""

    deep: bool = False
    bias: bool = True
    residual: bool = False
    leaky: bool = False
    spread: float = 0.1


class FeatureMap(nn.Module):
    """H: linear layers of one width, each with its activation.

    Example:
        >>> FeatureMap(40, 16, ("identity", "elu"), bias=False)(torch.zeros(3, 40)).shape
        torch.Size([3, 16])
    """

    def __init__(self, size: int, hidden: int, activations: Sequence[str], *, bias: bool) -> None:
        super().__init__()
        widths = (size, *(hidden for _ in activations))
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b in itertools.pairwise(widths))
        self.activations = [find_activation(name) for name in activations]

    def forward(self, state: Tensor) -> Tensor:  # (N, size) -> (N, hidden)
        """The features of a state."""
        for layer, activate in zip(self.layers, self.activations, strict=True):
            state = activate(layer(state))
        return state


class Coefficients(nn.Module):
    """φ of several layers: scales and shifts before their clamps, from features.

    A scale takes linear, ELU, linear, ELU; a shift takes one linear layer more, and so does a block-complex scale
    (``rotating``), whose parts must be able to be negative. Without ``scaled`` there are shifts alone.
    """

    def __init__(self, hidden: int, size: int, *, bias: bool, rotating: bool = False, scaled: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(hidden, 2 * size if scaled else size, bias=bias)
        square = partial(nn.Linear, size, size, bias=bias)
        self.scale = nn.ModuleList(square() for _ in range(2 if rotating else 1)) if scaled else None
        self.shift = nn.ModuleList(square() for _ in range(2))

    def forward(self, features: Tensor) -> tuple[Tensor | None, Tensor]:  # (N, hidden) -> (N, size), (N, size)
        """(scale or None, shift)."""
        first = elu(self.first(features), inplace=True)
        if self.scale is None:
            return None, self._shift(first)
        for_scale, for_shift = first.chunk(2, dim=-1)
        scale = elu(self.scale[0](for_scale), inplace=True)
        return self.scale[1](scale) if len(self.scale) > 1 else scale, self._shift(for_shift)

    def _shift(self, first: Tensor) -> Tensor:
        shift: Tensor = self.shift[1](elu(self.shift[0](first), inplace=True))
        return shift


class CouplingHead(nn.Module):
    """φ: the update of one side's state by the features of the other."""

    def __init__(self, hidden: int, size: int, form: Form, *, rotating: bool = False) -> None:
        super().__init__()
        self.form, self.rotating = form, rotating
        if form.deep:
            self.coefficients = Coefficients(hidden, size, bias=form.bias, rotating=rotating)
        else:
            start = 0.0 if form.residual else 1.0
            self.linear = AboutIdentity(hidden, size, spread=form.spread, rotating=rotating, start=start)

    def forward(
        self,
        features: Tensor,  # (N, hidden)
        state: Tensor,  # (N, size)
    ) -> Tensor:  # (N, size)
        """s ⊙ state + t, and the state itself where residual."""
        form = self.form
        if form.leaky:
            scale, shift = self.coefficients(features) if form.deep else self.linear(features).chunk(2, dim=-1)
            return leaky_update(scale, shift, state, residual=form.residual, rotating=self.rotating)
        raw = torch.cat(self.coefficients(features), dim=-1) if form.deep else self.linear(features)
        if form.residual and not self.rotating:
            scale, shift = clamp_pair(raw, scale_bounds=RESIDUAL)
            updated = torch.addcmul(shift, scale, state)
        else:
            updated = rotating_update(raw, state) if self.rotating else affine_update(raw, state)
        return updated + state if form.residual else updated


class ShiftHead(nn.Module):
    """What a decoder layer adds to y, from the features of z."""

    def __init__(self, hidden: int, size: int, form: Form) -> None:
        super().__init__()
        self.form = form
        if form.deep:
            self.coefficients = Coefficients(hidden, size, bias=form.bias, scaled=False)
        else:
            self.linear = nn.Linear(hidden, size)

    def forward(self, features: Tensor) -> Tensor:  # (N, hidden) -> (N, size)
        """The clamped shift."""
        raw = self.coefficients(features)[1] if self.form.deep else self.linear(features)
        return leaky_clamp(raw, LEAKY_SHIFT) if self.form.leaky else soft_clamp(raw, SHIFT)


class TransportHead(nn.Module):
    """ψ: eigenvalues Λ, places and reflection vectors of every patch, from one hidden layer or deep coefficients.

    The place of a patch is its shift t, or where ``direct`` its mean. For each series that a row of features stands
    for there are exactly H eigenvalues, H places and R·H vector entries. A shorter last patch is padded with zeros.
    ``rectified`` reflections start as Kaiming's do and have no negative entries; at most ``block`` of them, in turns
    from one training step to the next, pass gradients on.
    """

    turn: Tensor  # (), whose block's turn it is

    def __init__(
        self,
        form: Form,
        *,
        hidden: int,
        horizon: int,
        patch_size: int,
        reflections: int,
        activation_name: str,
        direct: bool,
        series: int,
        rectified: bool = False,
        block: int | None = None,
    ) -> None:
        super().__init__()
        self.form, self.direct, self.block = form, direct, block
        self.horizon, self.patches, self.patch_size = horizon, -(-horizon // patch_size), patch_size
        self.reflections, self.series = reflections, series
        self.bounds = (DIRECT_EIGENVALUES, DIRECT_MEAN) if direct else (EIGENVALUES, SHIFT)
        size = series * horizon
        if not form.deep:
            self.activate = find_activation(activation_name)
            self.hidden = nn.Linear(hidden, hidden)
            self.spectrum = AboutIdentity(hidden, size, spread=form.spread)
        if reflections:
            entries = reflections * size
            self.vectors = Rectified(hidden, entries, bias=form.bias) if rectified else nn.Linear(hidden, entries)
        if form.deep:
            self.coefficients = Coefficients(hidden, size, bias=form.bias)
        if block is not None:
            self.register_buffer("turn", torch.zeros((), dtype=torch.int64))

    def forward(
        self,
        features: Tensor,  # (rows, hidden)
    ) -> tuple[Tensor, Tensor, Tensor]:  # (N, g, p), (N, g, p), (N, g, R, p) with N = rows · series
        """(Λ, t or mean, vectors)."""
        deep = self.form.deep
        features = features if deep else self.activate(self.hidden(features))
        if self.form.leaky and not self.direct:
            scale, place = self.coefficients(features) if deep else self.spectrum(features).chunk(2, dim=-1)
            scale, place = leaky_clamp(scale, LEAKY_RESIDUAL if deep else LEAKY_SCALE), leaky_clamp(place, LEAKY_SHIFT)
        else:
            raw = torch.cat(self.coefficients(features), dim=-1) if deep else self.spectrum(features)
            scale, place = clamp_pair(raw, scale_bounds=self.bounds[0], shift_bounds=self.bounds[1])
        scale, place, vectors = self.split_patches(scale, place, self.vectors(features) if self.reflections else None)
        return scale, place, self._in_turns(vectors)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many scales, places and entries of vectors a row of features gives."""
        size = self.series * self.horizon
        return size, size, self.reflections * size

    def split_patches(
        self,
        scale: Tensor,  # (rows, series·H)
        place: Tensor,  # (rows, series·H)
        vectors: Tensor | None,  # (rows, series·R·H)
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The outputs cut into patches."""
        return self._split(scale, 1.0), self._split(place, 0.0), self._vectors(scale, vectors)

    def _split(self, values: Tensor, filler: float) -> Tensor:  # (rows, series·H) -> (N, g, p)
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

    def _in_turns(self, vectors: Tensor) -> Tensor:  # (N, g, R, p)
        """The vectors, of which one block passes gradients."""
        if self.block is None or self.block >= self.reflections or not (self.training and torch.is_grad_enabled()):
            return vectors
        blocks = -(-self.reflections // self.block)
        first = int(self.turn) % blocks * self.block
        self.turn.add_(1)
        parts = vectors.detach().tensor_split([first, first + self.block], dim=-2)
        return torch.cat((parts[0], vectors[..., first : first + self.block, :], parts[2]), dim=-2)


class Rectified(nn.Linear):
    """A linear map and ReLU, with the start that Kaiming et al. derive for it."""

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Uniform weights of variance 2 / fan in; biases, if any, 0."""
        bound = sqrt(6.0 / self.in_features)
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            if self.bias is not None:
                self.bias.zero_()

    def forward(self, features: Tensor) -> Tensor:
        """The rectified map."""
        return torch.relu_(super().forward(features))


SMALL_BATCH = 24
"""Up to so many rows one compiled call is faster than a product of matrices for each layer (by 5 for one window)."""


def takes_small_batch(rows: Tensor) -> bool:
    """Whether `SmallBatchNetwork` takes the rows: it keeps no record for gradients, and tracers cannot see into it."""
    recorded = torch.is_grad_enabled() or torch._C._get_tracing_state() is not None
    return not recorded and type(rows) is Tensor and fits_kernels(rows) and rows.shape[0] <= SMALL_BATCH


class SmallBatchNetwork:
    """ψ after the coupling layers, of which there are two or more, with ReLU features: ``head(encode(rows, z))``.

    The weights are kept as the arrays that compiled code takes. These share the tensors' memory, so that an
    optimiser's steps show; a tensor that lies elsewhere than before (``to``, a replaced parameter) is told by its
    address, and looked up anew. A copy of the model looks for its own.
    """

    def __init__(self) -> None:
        self._kept: tuple[list[int], Any] = ([], None)  # addresses, arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return SmallBatchNetwork, ()

    def __call__(
        self,
        rows: Tensor,  # (N, L)
        z: Tensor,  # (N, latent), overwritten
        features: tuple[nn.Linear, nn.Linear],  # H_x, H_z
        heads_x: Iterable[nn.Module],
        heads_z: Iterable[nn.Module],
        head: TransportHead,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The parts of the distribution, in patches."""
        groups = (
            [*features, head.hidden],
            [_linear(part) for part in heads_x],
            [_linear(part) for part in heads_z],
            [head.spectrum, head.vectors],
        )
        maps_x, to_z, to_x, (spectrum, vectors), tables = self._arrays(groups, head, rows.dtype)
        outputs = [rows.new_empty(rows.shape[0], size) for size in head.sizes]
        arrays = tuple(output.numpy() for output in outputs)
        kernels.run_network(rows.contiguous().numpy(), z.numpy(), maps_x, to_z, to_x, spectrum, vectors, tables, arrays)
        return head.split_patches(*outputs)

    def _arrays(self, groups: tuple[list[nn.Linear], ...], head: TransportHead, dtype: torch.dtype) -> Any:
        """The weights of each group of linear maps, and the bounds of the clamps."""
        addresses = [
            tensor.data_ptr() for group in groups for linear in group for tensor in (linear.weight, linear.bias)
        ]
        kept, arrays = self._kept
        if addresses != kept:
            weights = (
                tuple((linear.weight.detach().numpy(), linear.bias.detach().numpy()) for linear in group)
                for group in groups
            )
            bounds = ((SCALE,), (ROTATION,), head.bounds)
            arrays = (*weights, tuple(bounds_table(dtype, *pair) for pair in bounds))
            self._kept = addresses, arrays
        return arrays


def _linear(part: nn.Module) -> nn.Linear:
    assert isinstance(part, CouplingHead)
    return part.linear

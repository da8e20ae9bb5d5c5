"""Forecasts of contexts by the pretrained network: any length, any horizon, both signs averaged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from fern.models.pretrained.network import Network
from fern.models.pretrained.representation import HORIZON, LONGEST, Array, Whole, represent
from fern.transport import Ellipsoid

READ = 4 * LONGEST
"""Rows that are kept of a series: forecasts at time steps of up to four rows look so far back."""

AT_ONCE = 1024
"""Contexts that are forecast together: bounds the memory."""

PATHS_ROLLED, PATHS_OF_BACKTESTS = 16, 4
"""Sample paths that a forecast beyond `HORIZON` steps is rolled on with; fewer where it only tells weights."""

NARROWEST = 1e-12
"""The least width, in units of the data: that of a constant context. Its square is still a number in float32."""


@dataclass(frozen=True)
class Contexts:
    """The newest rows of many series, each at the end of a row of ``values``.

    ``season`` holds periods that are known, in rows; 0 where the context has to tell. None: for all of them.
    """

    values: Array  # (N, rows), finite
    lengths: Whole  # (N,)
    season: Whole | None = None  # (N,)

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, series: Sequence[NDArray[np.floating]], *, season: int | None = None) -> "Contexts":
        """The newest rows of series of any lengths, at most `READ` of them.

        Example:
            >>> contexts = Contexts.of([np.arange(10.0), np.arange(20.0)])
            >>> contexts.values.shape, contexts.lengths
            ((2, 20), array([10, 20]))
        """
        lengths = np.array([min(len(values), READ) for values in series], dtype=np.int64)
        table = np.zeros((len(series), int(lengths.max())))
        for row, values, n in zip(table, series, lengths, strict=True):
            row[-n:] = values[-n:]
        return cls(table, lengths, None if season is None else np.full(len(series), season, dtype=np.int64))

    @property
    def filled(self) -> NDArray[np.bool_]:  # (N, rows)
        """Which values are rows of the context: shorter ones begin later."""
        width = self.values.shape[1]
        filled: NDArray[np.bool_] = np.arange(width) >= (width - self.lengths)[:, None]
        return filled

    def newest(self) -> "Contexts":
        """No longer than the network reads."""
        values = np.ascontiguousarray(self.values[:, -LONGEST:])
        return replace(self, values=values, lengths=np.minimum(self.lengths, LONGEST))

    def extend(self, steps: Array) -> "Contexts":  # (N, k)
        """With further rows at the end, no longer than the network reads."""
        values = np.concatenate([self.values, steps], axis=1)
        return replace(self, values=values, lengths=self.lengths + steps.shape[1]).newest()

    def repeat(self, copies: int) -> "Contexts":
        """Each context so many times, one copy after the other."""
        season = None if self.season is None else np.repeat(self.season, copies)
        return Contexts(np.repeat(self.values, copies, axis=0), np.repeat(self.lengths, copies), season)

    def select(self, rows: slice | Whole) -> "Contexts":
        """Some of them."""
        return Contexts(self.values[rows], self.lengths[rows], None if self.season is None else self.season[rows])


def forecast_distribution(
    network: Network,
    contexts: Contexts,
    horizon: int,
    *,
    flip: bool = True,
    paths: int = PATHS_ROLLED,
    seed: int = 0,
) -> Ellipsoid:  # of batch (N,), float64
    """The distribution of the next steps of each context, in the units of the data.

    ``flip`` averages the forecast with that of the contexts upside down. Beyond `HORIZON` steps ``paths`` sample paths
    are rolled on: a later patch has the mean of the paths' forecasts, and the shape of one of them, widened to their
    variance and that between them.
    """
    contexts = contexts.newest()
    parts = []
    for first in range(0, len(contexts), AT_ONCE):
        batch = contexts.select(slice(first, first + AT_ONCE))
        blocks = [_next_block(network, batch, flip=flip)]
        if horizon > HORIZON:
            blocks += _roll(network, batch, blocks[0], -(-horizon // HORIZON) - 1, paths, seed)
        parts.append([torch.cat([block[k] for block in blocks], dim=1) for k in range(3)])
    eigenvalues, vectors, offset = (torch.cat(part) for part in zip(*parts, strict=True))
    patches = -(-horizon // eigenvalues.shape[-1])
    eigenvalues, vectors, offset = (part[:, :patches] for part in (eigenvalues, vectors, offset))
    if horizon % eigenvalues.shape[-1]:
        eigenvalues, vectors = _cut(eigenvalues, vectors, horizon % eigenvalues.shape[-1])
    return _make_ellipsoid(network, eigenvalues, vectors, offset, horizon=horizon)


Block = tuple[Tensor, Tensor, Tensor]
"""Eigenvalues, reflection vectors and offsets of the patches of `HORIZON` steps, in units of the data."""


def _make_ellipsoid(
    network: Network, eigenvalues: Tensor, vectors: Tensor, offset: Tensor, *, horizon: int | None = None
) -> Ellipsoid:
    settings: dict[str, Any] = {"base_variance": network.fern.config.noise, "eigenvalue_floor": NARROWEST}
    return Ellipsoid(eigenvalues, None, vectors, offset=offset, horizon=horizon, **settings, validate_args=False)


def _cut(
    eigenvalues: Tensor,  # (N, patches, p)
    vectors: Tensor,  # (N, patches, R, p)
    steps: int,
) -> tuple[Tensor, Tensor]:  # (N, patches, p), (N, patches, max(R, steps), p)
    """The last patch as the distribution of its first steps alone, with as many reflections as that takes.

    An `Ellipsoid` that is told a shorter horizon cuts its vectors, which makes it another distribution.
    """
    count, _, size = eigenvalues.shape
    covariance = covariance_of(eigenvalues[:, -1:], vectors[:, -1:])[:, :, :steps, :steps]
    roots, reflections = decompose(covariance)
    wide = vectors.new_zeros(count, vectors.shape[1], max(vectors.shape[2], steps), size)
    wide[:, :-1, : vectors.shape[2]] = vectors[:, :-1]
    wide[:, -1:, :steps, :steps] = reflections
    values = eigenvalues.clone()
    values[:, -1:, :steps] = roots
    return values, wide


def covariance_of(
    eigenvalues: Tensor,  # (N, patches, p)
    vectors: Tensor,  # (N, patches, R, p)
) -> Tensor:  # (N, patches, p, p)
    """A² of each patch."""
    values, rotations = (part.flatten(0, 1).unsqueeze(1) for part in (eigenvalues, vectors))
    alone = Ellipsoid(values, None, rotations, base_variance=1.0, eigenvalue_floor=NARROWEST, validate_args=False)
    covariance: Tensor = alone.covariance_matrix
    return covariance.view(*eigenvalues.shape, -1)


def decompose(covariance: Tensor) -> tuple[Tensor, Tensor]:  # (..., p, p) -> (..., p), (..., p, p)
    """The eigenvalues of A = √covariance = V D Vᵀ, and V as p reflections."""
    squares, axes = torch.linalg.eigh(covariance)
    packed, factors = torch.geqrf(axes)
    reflections = packed.tril(-1) + torch.eye(packed.shape[-1], dtype=packed.dtype)
    reflections = torch.where(factors.unsqueeze(-2) == 0, 0.0, reflections).transpose(-1, -2)
    return squares.clamp_min(0.0).sqrt(), reflections


def _next_block(network: Network, contexts: Contexts, *, flip: bool) -> Block:
    """The patches of the next `HORIZON` steps."""
    count, width = contexts.values.shape
    signs = (1.0, -1.0) if flip else (1.0,)
    both = np.concatenate([sign * contexts.values for sign in signs]) if flip else contexts.values
    season = contexts.season if contexts.season is None else np.tile(contexts.season, len(signs))
    places = np.arange(len(both)), np.full(len(both), width, dtype=np.int64), np.tile(contexts.lengths, len(signs))
    seen = represent(both, *places, season=season)
    with torch.inference_mode():
        ahead = network(torch.from_numpy(seen.inputs), torch.from_numpy(seen.paths))
        assert ahead.offset is not None
        eigenvalues, vectors, offset = (
            part[:, 0].double() for part in (ahead.eigenvalues, ahead.reflections, ahead.offset)
        )
        if flip:
            # The rotation is that of the context as it is; the widths are the mean of both, patch by patch.
            stddev = ahead.stddev[:, 0].double().view(2, count, offset.shape[1], -1).mean(-1)
            share = 0.5 * (stddev[0] + stddev[1]) / stddev[0]
            eigenvalues, vectors = eigenvalues[:count] * share.unsqueeze(-1), vectors[:count]
            offset = 0.5 * (offset[:count] - offset[count:])
    level, scale = (torch.from_numpy(part[:count])[:, None, None] for part in (seen.level, seen.scale))
    return eigenvalues * scale.clamp_min(NARROWEST), vectors, offset * scale + level


def _roll(network: Network, contexts: Contexts, first: Block, blocks: int, paths: int, seed: int) -> list[Block]:
    """The blocks after the first one."""
    generator = Generator().manual_seed(seed)
    count, copies = len(contexts), contexts.repeat(paths)
    drawn = _draw(network, tuple(part.repeat_interleave(paths, dim=0) for part in first), generator)
    later: list[Block] = []
    for _ in range(blocks):
        copies = copies.extend(drawn)
        block = _next_block(network, copies, flip=False)
        eigenvalues, vectors, offset = (part.view(count, paths, *part.shape[1:]) for part in block)
        between = offset.var(1, correction=0).mean(-1)  # (N, patches)
        within = eigenvalues.square().mean((1, 3)) * network.fern.config.noise
        first_variance = eigenvalues[:, 0].square().mean(-1) * network.fern.config.noise
        widened = eigenvalues[:, 0] * ((within + between) / first_variance).sqrt().unsqueeze(-1)
        later.append((widened, vectors[:, 0], offset.mean(1)))
        drawn = _draw(network, block, generator)
    return later


def _draw(network: Network, block: tuple[Tensor, ...], generator: Generator) -> Array:  # (N, HORIZON)
    """A sample path of each."""
    path: Array = _make_ellipsoid(network, *block).sample(generator=generator).numpy()
    return path

"""Forecasts of contexts by the pretrained network: any length, any horizon, both signs averaged."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fern.models.pretrained.network import Network
from fern.models.pretrained.periods import Array, Whole
from fern.models.pretrained.representation import HORIZON, LONGEST, represent

AT_ONCE = 1024
"""Contexts that are forecast together: bounds the memory."""

ROLLED_PATHS = 16
"""Sample paths that a forecast beyond `HORIZON` steps is rolled on with."""


@dataclass(frozen=True)
class Contexts:
    """The newest rows of many series, each at the end of a row of ``values``."""

    values: Array  # (N, rows)
    lengths: Whole  # (N,)

    @classmethod
    def of(cls, series: Sequence[NDArray[np.floating]]) -> "Contexts":
        """The contexts of series of any lengths."""
        lengths = np.array([min(len(values), LONGEST) for values in series], dtype=np.int64)
        table = np.zeros((len(series), int(lengths.max())))
        for i, (values, n) in enumerate(zip(series, lengths, strict=True)):
            table[i, -n:] = values[-n:]
        return cls(table, lengths)

    def extended(self, steps: Array) -> "Contexts":  # (N, k)
        """With further rows at the end, no longer than the network reads."""
        values = np.concatenate([self.values, steps], axis=1)[:, -LONGEST:]
        return Contexts(np.ascontiguousarray(values), np.minimum(self.lengths + steps.shape[1], LONGEST))


def forecast_moments(
    network: Network,
    contexts: Contexts,
    horizon: int,
    *,
    season: Whole | None = None,  # (N,), known periods; 0 where not
    flip: bool = True,
    seed: int = 0,
) -> tuple[Array, Array]:  # (N, horizon) each
    """The mean and the deviation of each step.

    Beyond `HORIZON` steps sample paths are rolled on: the mean is that of the paths' forecasts, the variance theirs
    plus that between paths.
    """
    count = len(contexts.lengths)
    mean, stddev = np.empty((count, horizon)), np.empty((count, horizon))
    for first in range(0, count, AT_ONCE):
        part = slice(first, first + AT_ONCE)
        some = Contexts(contexts.values[part], contexts.lengths[part])
        known = None if season is None else season[part]
        mean[part], stddev[part] = _rolled(network, some, horizon, known, flip, seed)
    return mean, stddev


def _rolled(
    network: Network, contexts: Contexts, horizon: int, season: Whole | None, flip: bool, seed: int
) -> tuple[Array, Array]:
    first = _patch(network, contexts, season, flip, paths=0, seed=seed)
    if horizon <= HORIZON:
        return first[0][:, :horizon], first[1][:, :horizon]
    means, deviations = [first[0]], [first[1]]
    count = len(contexts.lengths)
    drawn = _patch(network, contexts, season, False, paths=ROLLED_PATHS, seed=seed)[2]
    many = Contexts(np.repeat(contexts.values, ROLLED_PATHS, axis=0), np.repeat(contexts.lengths, ROLLED_PATHS))
    known = None if season is None else np.repeat(season, ROLLED_PATHS)
    while sum(part.shape[1] for part in means) < horizon:
        many = many.extended(drawn.reshape(-1, HORIZON))
        mean, stddev, drawn = _patch(network, many, known, False, paths=1, seed=seed + len(means))
        mean, stddev = (part.reshape(count, ROLLED_PATHS, HORIZON) for part in (mean, stddev))
        means.append(mean.mean(1))
        deviations.append(np.sqrt((stddev**2).mean(1) + mean.var(1)))
    return np.concatenate(means, axis=1)[:, :horizon], np.concatenate(deviations, axis=1)[:, :horizon]


def _patch(
    network: Network, contexts: Contexts, season: Whole | None, flip: bool, *, paths: int, seed: int
) -> tuple[Array, Array, Array]:  # (N, HORIZON), (N, HORIZON), (N, paths, HORIZON)
    """The moments of the next `HORIZON` steps, and sample paths of them."""
    count, width = contexts.values.shape
    places = np.arange(count), np.full(count, width, dtype=np.int64), contexts.lengths
    seen = represent(contexts.values, *places, season=season)
    with torch.inference_mode():
        ahead = network(torch.from_numpy(seen.inputs), torch.from_numpy(seen.paths))
        mean, stddev = ahead.mean[:, 0].double().numpy(), ahead.stddev[:, 0].double().numpy()
        if flip:
            mirrored = represent(-contexts.values, *places, season=season)
            other = network(torch.from_numpy(mirrored.inputs), torch.from_numpy(mirrored.paths))
            mean = 0.5 * (mean - other.mean[:, 0].double().numpy())
            stddev = 0.5 * (stddev + other.stddev[:, 0].double().numpy())
        drawn = np.empty((count, 0, HORIZON))
        if paths:
            generator = torch.Generator().manual_seed(seed)
            drawn = ahead.sample((paths,), generator=generator)[:, :, 0].double().numpy().transpose(1, 0, 2)
    level, scale = seen.level[:, None], seen.scale[:, None]
    return mean * scale + level, stddev * scale, drawn * scale[..., None] + level[..., None]

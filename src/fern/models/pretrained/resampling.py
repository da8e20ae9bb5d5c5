"""Forecasts at coarser time steps, brought back to the rows, weighed by how each did on the context itself.

A season that is long in rows, or a horizon of several blocks, lies better in what the network was trained on when
several rows are taken together.
"""

from collections.abc import Sequence

import numpy as np
import torch

from fern.models.pretrained.forecasting import Contexts, forecast_distribution
from fern.models.pretrained.network import Network
from fern.models.pretrained.periods import Array, find_seasons
from fern.transport import Ellipsoid

FACTORS = (1, 2, 4)
"""Rows that are taken together."""

ENOUGH = 384
"""Rows of a context from which coarser ones are tried."""

SHARPNESS = 4.0
"""A factor is weighed by its error on the context to this power, inverted."""


def forecast_resampled(
    network: Network,
    contexts: Contexts,
    horizon: int,
    *,
    flip: bool = True,
    factors: Sequence[int] = FACTORS,
) -> Ellipsoid:  # of batch (N,), float64
    """`forecast_distribution`, averaged over time steps of one row and of several.

    The weights come from a forecast of the newest rows of each context, at most a quarter of it, by the rows before
    them. Contexts below `ENOUGH` rows are forecast as they are.
    """
    plain = forecast_distribution(network, contexts, horizon, flip=flip)
    several = np.flatnonzero(contexts.lengths >= ENOUGH)
    if len(factors) == 1 or not len(several):
        return plain
    some = contexts.chosen(several)
    if some.season is None:
        newest = some.newest()
        count, width = newest.values.shape
        places = np.arange(count), np.full(count, width, dtype=np.int64), newest.lengths
        some = Contexts(some.values, some.lengths, find_seasons(newest.values, *places).short)
    weights = _weigh(network, some, horizon, flip=flip, factors=factors)
    mean, stddev = plain.mean.numpy().copy(), plain.stddev.numpy()
    wanted = stddev.copy()
    mean[several] *= weights[:, :1]
    wanted[several] *= weights[:, :1]
    for k, factor in enumerate(factors[1:], start=1):
        coarse_mean, coarse_stddev = _forecast_coarsely(network, some, horizon, factor, flip=flip)
        mean[several] += weights[:, k : k + 1] * coarse_mean
        wanted[several] += weights[:, k : k + 1] * coarse_stddev
    return _moved(plain, mean, wanted / stddev)


def _weigh(
    network: Network, contexts: Contexts, horizon: int, *, flip: bool, factors: Sequence[int]
) -> Array:  # (N, factors)
    """The weight of each factor for each context."""
    steps = int(min(horizon, contexts.lengths.min() // 4))
    before = Contexts(np.ascontiguousarray(contexts.values[:, :-steps]), contexts.lengths - steps, contexts.season)
    truth = contexts.values[:, -steps:]
    errors = np.empty((len(contexts), len(factors)))
    for k, factor in enumerate(factors):
        if factor == 1:
            told = forecast_distribution(network, before, steps, flip=flip).mean.numpy()
        else:
            told, _ = _forecast_coarsely(network, before, steps, factor, flip=flip)
        errors[:, k] = np.abs(told - truth).mean(1)
    errors += 1e-3 * errors.max(1, keepdims=True) + 1e-300
    weights = (errors / errors.min(1, keepdims=True)) ** -SHARPNESS
    shares: Array = weights / weights.sum(1, keepdims=True)
    return shares


def _forecast_coarsely(
    network: Network, contexts: Contexts, horizon: int, factor: int, *, flip: bool
) -> tuple[Array, Array]:  # (N, horizon) each
    """The mean and the deviation of each row, by a forecast of means of ``factor`` rows.

    What the rows do within a mean is taken from the context: their mean course by the phase of the season, where there
    is one; the deviation of what is left adds to that of the means.
    """
    coarse = _coarsen(contexts, factor)
    ahead = forecast_distribution(network, coarse, -(-horizon // factor), flip=flip)
    mean = _refine(ahead.mean.numpy(), coarse.values[:, -1], factor, horizon)
    spread = np.repeat(ahead.stddev.numpy(), factor, axis=1)[:, :horizon]
    within = np.empty((len(contexts), 1))
    seasons = np.ones(len(contexts), np.int64) if contexts.season is None else contexts.season
    for i, (values, n, season) in enumerate(zip(contexts.values, contexts.lengths, seasons, strict=True)):
        rows = int(n // factor * factor)
        own = values[len(values) - rows :]
        apart = own - _refine(own.reshape(1, -1, factor).mean(2), own[:1], factor, rows)[0]
        if season > 1 and rows >= 2 * season:
            phase = np.arange(-rows, 0) % season
            pattern = np.bincount(phase, apart, season) / np.maximum(np.bincount(phase, minlength=season), 1)
            apart = apart - pattern[phase]
            mean[i] += pattern[np.arange(horizon) % season]
        within[i] = apart.std()
    return mean, np.sqrt(spread**2 + within**2)


def _coarsen(contexts: Contexts, factor: int) -> Contexts:
    """Means of ``factor`` rows, from the end backwards; older rows that fill no mean are left out."""
    count, width = contexts.values.shape
    kept = width // factor
    means = contexts.values[:, width - kept * factor :].reshape(count, kept, factor).mean(2)
    season = contexts.season
    if season is not None:
        season = np.where((season > 1) & (season % factor == 0), season // factor, 0)
    return Contexts(np.ascontiguousarray(means), contexts.lengths // factor, season)


def _refine(means: Array, last: Array, factor: int, horizon: int) -> Array:  # (N, steps), (N,) -> (N, horizon)
    """Values on a line through the centres of the means, from the mean before them on."""
    places = (np.arange(horizon) + 0.5) / factor + 0.5  # 0 at the mean before
    points = np.concatenate([last[:, None], means], axis=1)
    low = np.minimum(places.astype(np.int64), points.shape[1] - 2)
    part = np.minimum(places - low, 1.0)
    values: Array = points[:, low] * (1 - part) + points[:, low + 1] * part
    return values


def _moved(plain: Ellipsoid, mean: Array, share: Array) -> Ellipsoid:  # (N, H) each
    """The same rotations about another mean, the widths multiplied patch by patch by the mean share of its steps."""
    patches, size = plain.patches, plain.patch_size
    missing = patches * size - plain.horizon
    offset, wider = (
        torch.from_numpy(np.pad(part, ((0, 0), (0, missing)), mode="edge")).view(-1, patches, size)
        for part in (mean, share)
    )
    return Ellipsoid(
        plain.eigenvalues * wider.mean(-1, keepdim=True),
        None,
        plain.reflections,
        offset=offset,
        base_variance=plain.base_variance,
        horizon=plain.horizon,
        eigenvalue_floor=plain.eigenvalue_floor,
        validate_args=False,
    )

"""Forecasts at coarser time steps, brought back to the rows, weighed by how each did on the context itself.

A season that is long in rows, or a horizon of several blocks, lies better in what the network was trained on when
several rows are taken together.
"""

from collections.abc import Sequence

import numpy as np
import torch

from fern.metrics.probabilistic import gaussian_crps
from fern.models.pretrained.forecasting import Contexts, covariance_of, decompose, forecast_distribution
from fern.models.pretrained.network import Network
from fern.models.pretrained.periods import Array, Whole, find_seasons
from fern.models.pretrained.representation import HORIZON
from fern.transport import Ellipsoid

FACTORS = (1, 2, 4)
LONG_FACTORS, LONG = (*FACTORS, 8), 2 * HORIZON
"""Rows that are taken together; the latter for horizons beyond ``LONG`` steps."""

ENOUGH = 384
"""Rows of a context from which coarser ones are tried."""

TRIED, SHARPNESS = 2, 4.0
"""A factor is weighed by its CRPS on the newest windows of the context, so many, to this power, inverted; where the
horizon is long, by itself too: what is rolled on over fewer blocks goes less astray."""

PRIOR_ROWS = 4
"""The deviation at a phase of the season is pulled towards that of all rows as by so many."""


def forecast_resampled(
    network: Network,
    contexts: Contexts,
    horizon: int,
    *,
    flip: bool = True,
    factors: Sequence[int] = FACTORS,
) -> Ellipsoid:  # of batch (N,), float64
    """`forecast_distribution`, averaged over time steps of one row and of several.

    The weights come from forecasts of the newest rows of each context, at most a quarter of it at a time, by the rows
    before them. Contexts below `ENOUGH` rows are forecast as they are.
    """
    plain = forecast_distribution(network, contexts, horizon, flip=flip)
    several = np.flatnonzero(contexts.lengths >= ENOUGH)
    if len(factors) == 1 or not len(several):
        return plain
    if horizon > LONG and tuple(factors) == FACTORS:
        factors = LONG_FACTORS
    some = contexts.chosen(several)
    if some.season is None:
        newest = some.newest()
        count, width = newest.values.shape
        places = np.arange(count), np.full(count, width, dtype=np.int64), newest.lengths
        some = Contexts(some.values, some.lengths, find_seasons(newest.values, *places).short)
    weights = _weigh(network, some, horizon, flip=flip, factors=factors)
    mean, stddev = plain.mean.numpy().copy(), plain.stddev.numpy()
    wanted = stddev[several] * weights[:, :1]
    mean[several] *= weights[:, :1]
    for k, factor in enumerate(factors[1:], start=1):
        coarse_mean, coarse_stddev = _forecast_coarsely(network, some, horizon, factor, flip=flip)
        mean[several] += weights[:, k : k + 1] * coarse_mean
        wanted += weights[:, k : k + 1] * coarse_stddev
    return _moved(plain, mean, several, wanted / stddev[several])


def _weigh(
    network: Network, contexts: Contexts, horizon: int, *, flip: bool, factors: Sequence[int]
) -> Array:  # (N, factors)
    """The weight of each factor for each context."""
    steps = int(min(horizon, contexts.lengths.min() // 4))
    errors = np.zeros((len(contexts), len(factors)))
    for window in range(1, TRIED + 1):
        rows = window * steps
        before = Contexts(np.ascontiguousarray(contexts.values[:, :-rows]), contexts.lengths - rows, contexts.season)
        truth = contexts.values[:, contexts.values.shape[1] - rows :][:, :steps]
        for k, factor in enumerate(factors):
            if factor == 1:
                ahead = forecast_distribution(network, before, steps, flip=flip)
                mean, stddev = ahead.mean.numpy(), ahead.stddev.numpy()
            else:
                mean, stddev = _forecast_coarsely(network, before, steps, factor, flip=flip)
            crps = gaussian_crps(torch.from_numpy(truth - mean), torch.from_numpy(stddev))
            errors[:, k] += crps.mean(1).numpy()
    errors += 1e-3 * errors.max(1, keepdims=True) + 1e-300
    weights = (errors / errors.min(1, keepdims=True)) ** -SHARPNESS
    if horizon > LONG:
        weights *= factors
    shares: Array = weights / weights.sum(1, keepdims=True)
    return shares


def _forecast_coarsely(
    network: Network, contexts: Contexts, horizon: int, factor: int, *, flip: bool
) -> tuple[Array, Array]:  # (N, horizon) each
    """The mean and the deviation of each row, by a forecast of means of ``factor`` rows.

    What the rows do within a mean is taken from the context: their mean course by the phase of the season, where there
    is one; the deviation of what is left, by phase too, adds to that of the means.
    """
    coarse = _coarsen(contexts, factor)
    ahead = forecast_distribution(network, coarse, -(-horizon // factor), flip=flip)
    mean = _refine(ahead.mean.numpy(), coarse.values[:, -1], factor, horizon)
    spread = np.repeat(ahead.stddev.numpy(), factor, axis=1)[:, :horizon]
    within = np.empty((len(contexts), horizon))
    seasons = np.ones(len(contexts), np.int64) if contexts.season is None else contexts.season
    for i, (values, n, season) in enumerate(zip(contexts.values, contexts.lengths, seasons, strict=True)):
        rows = int(n // factor * factor)
        own = values[len(values) - rows :]
        apart = own - _refine(own.reshape(1, -1, factor).mean(2), own[:1], factor, rows)[0]
        within[i] = apart.std()
        if season > 1 and rows >= 2 * season:
            phase, ahead_phase = np.arange(-rows, 0) % season, np.arange(horizon) % season
            count = np.bincount(phase, minlength=season)
            pattern = np.bincount(phase, apart, season) / np.maximum(count, 1)
            apart = apart - pattern[phase]
            squares = np.bincount(phase, apart**2, season) + PRIOR_ROWS * apart.var()
            mean[i] += pattern[ahead_phase]
            within[i] = np.sqrt(squares / (count + PRIOR_ROWS))[ahead_phase]
    return mean, np.hypot(spread, within)


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


def _moved(
    plain: Ellipsoid,
    mean: Array,  # (N, H)
    rows: Whole,  # (M,)
    share: Array,  # (M, H)
) -> Ellipsoid:
    """Another mean, and for some rows the widths of all steps multiplied, their correlations kept.

    In a patch of covariance C these are D C D, factored anew.
    """
    patches, size = plain.patches, plain.patch_size
    padding = (0, 0), (0, patches * size - plain.horizon)
    offset = torch.from_numpy(np.pad(mean, padding, mode="edge")).view(-1, patches, size)
    wider = torch.from_numpy(np.pad(share, padding, mode="edge")).view(-1, patches, size)
    values, vectors = plain.eigenvalues.clone(), plain.reflections.new_zeros(len(mean), patches, size, size)
    vectors[:, :, : plain.reflections.shape[2]] = plain.reflections
    whole, rest = divmod(plain.horizon, size)
    chosen = torch.from_numpy(rows)
    for some, steps in ((slice(whole), size), (slice(whole, None), rest)):
        if steps and plain.eigenvalues[:, some].shape[1]:
            largest = plain.eigenvalues[chosen, some, :steps].amax(-1, keepdim=True)
            scaled = plain.eigenvalues[chosen, some] / largest
            covariance = covariance_of(scaled, plain.reflections[chosen, some])[..., :steps, :steps]
            by = wider[:, some, :steps]
            roots, turned = decompose(by.unsqueeze(-1) * covariance * by.unsqueeze(-2))
            own_values, own_vectors = values[chosen, some], vectors[chosen, some]
            own_values[..., :steps] = roots * largest
            own_vectors[:] = 0.0
            own_vectors[..., :steps, :steps] = turned
            values[chosen, some], vectors[chosen, some] = own_values, own_vectors
    return Ellipsoid(
        values,
        None,
        vectors,
        offset=offset,
        base_variance=plain.base_variance,
        horizon=plain.horizon,
        eigenvalue_floor=plain.eigenvalue_floor,
        validate_args=False,
    )

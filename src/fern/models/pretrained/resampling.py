"""Forecasts at coarser time steps, brought back to the rows, weighed by how each did on the context itself.

A season that is long in rows, or a horizon of several blocks, lies better in what the network was trained on when
several rows are taken together.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numba import njit, types

from fern.caching import kernel
from fern.metrics.probabilistic import gaussian_crps
from fern.models.pretrained.forecasting import Contexts, covariance_of, decompose, forecast_distribution
from fern.models.pretrained.network import Network
from fern.models.pretrained.periods import INTEGERS, Array, Whole, find_seasons
from fern.models.pretrained.representation import HORIZON
from fern.systems.integrate import MATRIX
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
    weights = _weigh(network, some, horizon, factors)
    mean, stddev = plain.mean.numpy().copy(), plain.stddev.numpy()
    wanted = stddev[several] * weights[:, :1]
    mean[several] *= weights[:, :1]
    coarser = _forecast_coarsely(network, [(some, factor) for factor in factors[1:]], horizon, flip=flip)
    for k, (coarse_mean, coarse_stddev) in enumerate(coarser, start=1):
        mean[several] += weights[:, k : k + 1] * coarse_mean
        wanted += weights[:, k : k + 1] * coarse_stddev
    return _moved(plain, mean, several, wanted / stddev[several])


def _weigh(network: Network, contexts: Contexts, horizon: int, factors: Sequence[int]) -> Array:  # (N, factors)
    """The weight of each factor for each context, which does not depend on the others."""
    shares = np.empty((len(contexts), len(factors)))
    steps = np.minimum(horizon, contexts.lengths // (4 * HORIZON) * HORIZON)
    for number in np.unique(steps).tolist():
        chosen = np.flatnonzero(steps == number)
        errors = _try(network, contexts.chosen(chosen), number, factors)
        errors += 1e-3 * errors.max(1, keepdims=True) + 1e-300
        weights = (errors / errors.min(1, keepdims=True)) ** -SHARPNESS
        if horizon > LONG:
            weights *= factors
        shares[chosen] = weights / weights.sum(1, keepdims=True)
    return shares


def _try(network: Network, contexts: Contexts, steps: int, factors: Sequence[int]) -> Array:  # (N, factors)
    """The CRPS of each factor, summed over the newest windows of so many steps."""
    tried, truths = [], []
    for window in range(1, TRIED + 1):
        rows = window * steps
        known = Contexts(np.ascontiguousarray(contexts.values[:, :-rows]), contexts.lengths - rows, contexts.season)
        tried += [(known, factor) for factor in factors]
        truths += [contexts.values[:, contexts.values.shape[1] - rows :][:, :steps]] * len(factors)
    errors = np.zeros((len(contexts), len(factors)))
    for place, (mean, stddev) in enumerate(_forecast_coarsely(network, tried, steps, flip=False)):
        crps = gaussian_crps(torch.from_numpy(truths[place] - mean), torch.from_numpy(stddev))
        errors[:, place % len(factors)] += crps.mean(1).numpy()
    return errors


def _forecast_coarsely(
    network: Network, wanted: Sequence[tuple[Contexts, int]], horizon: int, *, flip: bool
) -> list[tuple[Array, Array]]:  # (N, horizon) each
    """The mean and the deviation of each row, by forecasts of means of so many rows; of all pairs at once.

    What the rows do within a mean is taken from the context: their mean course by the phase of the season, where there
    is one; the deviation of what is left, by phase too, adds to that of the means.
    """
    coarse = [contexts if factor == 1 else _coarsen(contexts, factor) for contexts, factor in wanted]
    made = []
    moments = _forecast_moments(network, coarse, [-(-horizon // factor) for _, factor in wanted], flip=flip)
    for (contexts, factor), means, (mean, stddev) in zip(wanted, coarse, moments, strict=True):
        if factor > 1:
            points = np.concatenate([means.values[:, -1:], mean], axis=1)
            seasons = np.ones(len(contexts), np.int64) if contexts.season is None else contexts.season
            mean = np.empty((len(contexts), horizon))
            stddev = np.repeat(stddev, factor, axis=1)[:, :horizon].copy()
            _refine(contexts.values, contexts.lengths, seasons, np.int64(factor), points, mean, stddev)
        made.append((mean, stddev))
    return made


def _forecast_moments(
    network: Network, several: Sequence[Contexts], steps: Sequence[int], *, flip: bool
) -> list[tuple[Array, Array]]:  # (N, steps) each
    """Means and deviations; contexts that take one block are forecast together."""
    size, most = network.config.patch_size, max(steps)
    if most > HORIZON:
        parts = [forecast_distribution(network, *pair, flip=flip) for pair in zip(several, steps, strict=True)]
        return [(part.mean.numpy(), part.stddev.numpy()) for part in parts]
    together = forecast_distribution(network, _joined(several), -(-most // size) * size, flip=flip)  # whole patches
    ends = np.cumsum([len(contexts) for contexts in several])[:-1]
    moments = (np.split(part.numpy(), ends) for part in (together.mean, together.stddev))
    return [(mean[:, :own], stddev[:, :own]) for mean, stddev, own in zip(*moments, steps, strict=True)]


def _joined(several: Sequence[Contexts]) -> Contexts:
    """All contexts in one."""
    newest = [contexts.newest() for contexts in several]
    width = max(contexts.values.shape[1] for contexts in newest)
    values = [np.pad(one.values, ((0, 0), (width - one.values.shape[1], 0))) for one in newest]
    lengths = np.concatenate([contexts.lengths for contexts in newest])
    seasons = [np.zeros(len(one), np.int64) if one.season is None else one.season for one in newest]
    return Contexts(np.concatenate(values), lengths, np.concatenate(seasons))


def _coarsen(contexts: Contexts, factor: int) -> Contexts:
    """Means of ``factor`` rows, from the end backwards; older rows that fill no mean are left out."""
    count, width = contexts.values.shape
    kept = width // factor
    means = contexts.values[:, width - kept * factor :].reshape(count, kept, factor).mean(2)
    season = contexts.season
    if season is not None:
        season = np.where((season > 1) & (season % factor == 0), season // factor, 0)
    return Contexts(np.ascontiguousarray(means), contexts.lengths // factor, season)


@njit(cache=True, nogil=True)
def _on_line(points: Array, row: int, factor: int) -> float:
    """The value of a row on the line through the centres of means; ``points`` begins with the mean before the rows."""
    place = (row + 0.5) / factor + 0.5
    low = min(int(place), len(points) - 2)
    part = min(place - low, 1.0)
    return float(points[low] * (1 - part) + points[low + 1] * part)


@kernel(MATRIX, INTEGERS, INTEGERS, types.int64, MATRIX, MATRIX, MATRIX)
def _refine(
    values: Array,  # (N, rows)
    lengths: Whole,  # (N,)
    seasons: Whole,  # (N,)
    factor: int,
    points: Array,  # (N, 1 + steps), the last mean of each context and those forecast
    mean: Array,  # (N, horizon), filled
    stddev: Array,  # (N, horizon), that of the means; that of the rows in the end
) -> None:
    """Rows in place of means."""
    for i in range(len(values)):
        count = lengths[i] // factor
        rows = count * factor
        own = values[i, values.shape[1] - rows :]
        known = np.empty(count + 1)
        known[0] = own[0]
        for k in range(count):
            known[k + 1] = own[k * factor : (k + 1) * factor].mean()
        season = seasons[i] if seasons[i] > 1 and rows >= 2 * seasons[i] else 1
        apart = np.empty(rows)
        pattern, counts = np.zeros(season), np.zeros(season)
        for t in range(rows):
            apart[t] = own[t] - _on_line(known, t, factor)
            phase = (t - rows) % season
            pattern[phase] += apart[t]
            counts[phase] += 1
        squares, total = np.zeros(season), 0.0
        pattern /= counts
        for t in range(rows):
            phase = (t - rows) % season
            square = (apart[t] - pattern[phase]) ** 2
            squares[phase] += square
            total += square / rows
        for h in range(mean.shape[1]):
            phase = h % season
            within = (squares[phase] + PRIOR_ROWS * total) / (counts[phase] + PRIOR_ROWS)
            mean[i, h] = _on_line(points[i], h, factor)
            if season > 1:
                mean[i, h] += pattern[phase]
            stddev[i, h] = np.sqrt(stddev[i, h] ** 2 + within)


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

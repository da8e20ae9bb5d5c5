"""What forecasts are averaged with: those at coarser time steps, and those of the logarithms of positive series.

A season that is long in rows, or a horizon of several blocks, lies better in what the network was trained on when
several rows are taken together; how each did on the context itself tells its weight. Of two scales on which a positive
series may be regular, the average is never far from the better one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import torch
from numba import njit, types

from fern.caching import kernel
from fern.metrics.probabilistic import gaussian_crps
from fern.models.pretrained.forecasting import (
    PATHS_OF_BACKTESTS,
    PATHS_ROLLED,
    Contexts,
    covariance_of,
    decompose,
    forecast_distribution,
)
from fern.models.pretrained.network import Network
from fern.models.pretrained.representation import HORIZON, INTEGERS, Array, Whole, find_seasons
from fern.systems.integrate import MATRIX
from fern.transport import Ellipsoid

FACTORS = (1, 2, 4)
LONG_FACTORS, LONG = (*FACTORS, 8), 2 * HORIZON
"""Rows that are taken together; the latter for horizons beyond ``LONG`` steps."""

ENOUGH = 384
"""Rows of a context from which coarser ones are tried."""

BACKTESTS, SHARPNESS = 2, 4.0
"""A factor is weighed by its CRPS on the newest windows of the context, so many, to this power, inverted; where the
horizon is long, by itself too: what is rolled on over fewer blocks goes less astray."""

LEAST_OF_MEDIAN = 0.02
"""The share of its median that the least value of a context must exceed for its logarithm to be forecast too."""

MOST_GROWTH, WIDEST = 2.0, 1.0
"""Bounds of what is forecast of logarithms: the median above the highest value of the context, and the deviation."""

DECILE = NormalDist().inv_cdf(0.9)

PRIOR_ROWS = 4
"""The deviation at a phase of the season is pulled towards that of all rows as by so many."""

Moments = tuple[Array, Array]
"""The mean and the deviation of each row, (N, steps) each."""


def forecast_averaged(
    network: Network,
    contexts: Contexts,
    horizon: int,
    *,
    flip: bool = True,
    log: bool = True,
    resample: bool = True,
) -> Ellipsoid:  # of batch (N,), float64
    """`forecast_distribution`, averaged with that of the logarithms of positive contexts and over several time steps.

    The weights of time steps come from forecasts of the newest rows of each context, at most a quarter of it at a time,
    by the rows before them. Contexts below `ENOUGH` rows are forecast at their own alone.
    """
    plain = forecast_distribution(network, contexts, horizon, flip=flip)
    plain_mean, plain_stddev = _moments(plain)
    mean, stddev = plain_mean.copy(), plain_stddev.copy()
    positive = _find_positive(contexts) if log else np.empty(0, np.int64)
    if len(positive):
        log_mean, log_stddev = _forecast_logarithms(network, contexts.select(positive), horizon)
        mean[positive] = 0.5 * (mean[positive] + log_mean)
        stddev[positive] = 0.5 * (stddev[positive] + log_stddev)
    long = np.flatnonzero(contexts.lengths >= ENOUGH) if resample else np.empty(0, np.int64)
    if len(long):
        _average_time_steps(network, contexts.select(long), horizon, long, mean, stddev)
    changed = np.union1d(positive, long)
    return _rescale(plain, mean, changed, stddev[changed] / plain_stddev[changed]) if len(changed) else plain


def _find_positive(contexts: Contexts) -> Whole:
    """The contexts whose logarithm is forecast: no value is far below the median, nor zero."""
    lowest = np.where(contexts.filled, contexts.values, np.inf).min(1)
    chosen = np.flatnonzero(lowest > 0)
    medians = np.array([np.median(contexts.values[row, -contexts.lengths[row] :]) for row in chosen])
    above: Whole = chosen[lowest[chosen] > LEAST_OF_MEDIAN * medians]
    return above


def _forecast_logarithms(network: Network, contexts: Contexts, horizon: int) -> Moments:
    """The median of each row by its logarithm, and the deviation of a normal variable with the same 80 % interval."""
    filled = contexts.filled
    logs = np.log(np.where(filled, contexts.values, 1.0))
    mean, stddev = _moments(forecast_distribution(network, replace(contexts, values=logs), horizon, flip=False))
    highest = np.where(filled, logs, -np.inf).max(1, keepdims=True)
    median = np.exp(np.minimum(mean, highest + MOST_GROWTH))
    return median, median * np.sinh(DECILE * np.minimum(stddev, WIDEST)) / DECILE


def _average_time_steps(
    network: Network,
    contexts: Contexts,
    horizon: int,
    rows: Whole,  # (n,), the place of each context in the next two
    mean: Array,  # (N, H), changed
    stddev: Array,  # (N, H), changed
) -> None:
    """Average the forecasts of these rows with those at coarser time steps."""
    factors = LONG_FACTORS if horizon > LONG else FACTORS
    if contexts.season is None:
        newest = contexts.newest()
        count, width = newest.values.shape
        places = np.arange(count), np.full(count, width, dtype=np.int64), newest.lengths
        contexts = replace(contexts, season=find_seasons(newest.values, *places).short)
    tested = np.minimum(horizon, contexts.lengths // (4 * HORIZON) * HORIZON)
    for steps in np.unique(tested).tolist():
        chosen = np.flatnonzero(tested == steps)
        weights, coarser = _forecast_and_weigh(network, contexts.select(chosen), horizon, steps, factors)
        for average, terms in zip((mean, stddev), zip(*coarser, strict=True), strict=True):
            average[rows[chosen]] *= weights[:, :1]
            for k, term in enumerate(terms, start=1):
                average[rows[chosen]] += weights[:, k : k + 1] * term


@dataclass(frozen=True)
class _Request:
    """A forecast of contexts by means of ``factor`` rows."""

    contexts: Contexts
    factor: int
    horizon: int
    paths: int = PATHS_ROLLED

    @property
    def steps(self) -> int:
        """Of the means."""
        return -(-self.horizon // self.factor)


def _forecast_and_weigh(
    network: Network, contexts: Contexts, horizon: int, steps: int, factors: Sequence[int]
) -> tuple[Array, list[Moments]]:  # (N, factors)
    """The weight of each factor by its CRPS on the newest windows of ``steps`` rows, and the coarser forecasts."""
    requests = [_Request(contexts, factor, horizon) for factor in factors[1:]]
    truths = []
    for window in range(1, BACKTESTS + 1):
        end = contexts.values.shape[1] - window * steps
        known = Contexts(contexts.values[:, :end], contexts.lengths - window * steps, contexts.season)
        requests += [_Request(known, factor, steps, PATHS_OF_BACKTESTS) for factor in factors]
        truths.append(contexts.values[:, end : end + steps])
    forecasts = _forecast_coarsely(network, requests)
    coarser, backtests = forecasts[: len(factors) - 1], forecasts[len(factors) - 1 :]
    errors = np.zeros((len(contexts), len(factors)))
    for place, (mean, stddev) in enumerate(backtests):
        window, factor = divmod(place, len(factors))
        crps = gaussian_crps(torch.from_numpy(truths[window] - mean), torch.from_numpy(stddev))
        errors[:, factor] += crps.mean(1).numpy()
    errors += 1e-3 * errors.max(1, keepdims=True) + 1e-300
    weights = (errors / errors.min(1, keepdims=True)) ** -SHARPNESS
    if horizon > LONG:
        weights *= factors
    return weights / weights.sum(1, keepdims=True), coarser


def _forecast_coarsely(network: Network, requests: Sequence[_Request]) -> list[Moments]:
    """All requested forecasts, brought back to the rows.

    What the rows do within a mean is taken from the context: their mean course by the phase of the season, where there
    is one; the deviation of what is left, by phase too, adds to that of the means.
    """
    coarse = [_coarsen(request.contexts, request.factor) for request in requests]
    coarse_moments = _forecast_moments(network, requests, coarse)
    forecasts = []
    for request, means, (mean, stddev) in zip(requests, coarse, coarse_moments, strict=True):
        if request.factor > 1:
            points = np.concatenate([means.values[:, -1:], mean], axis=1)
            contexts, seasons = request.contexts, request.contexts.season
            seasons = np.ones(len(contexts), np.int64) if seasons is None else seasons
            mean = np.empty((len(contexts), request.horizon))
            stddev = np.repeat(stddev, request.factor, axis=1)[:, : request.horizon].copy()
            values = np.ascontiguousarray(contexts.values)
            _refine(values, contexts.lengths, seasons, np.int64(request.factor), points, mean, stddev)
        forecasts.append((mean, stddev))
    return forecasts


def _forecast_moments(network: Network, requests: Sequence[_Request], coarse: Sequence[Contexts]) -> list[Moments]:
    """Means and deviations of coarse contexts, without the sign flip; what takes one block is forecast together."""
    moments: dict[int, Moments] = {}
    short = [place for place, request in enumerate(requests) if request.steps <= HORIZON]
    for place, request in enumerate(requests):
        if request.steps > HORIZON:
            ahead = forecast_distribution(network, coarse[place], request.steps, flip=False, paths=request.paths)
            moments[place] = _moments(ahead)
    if short:
        size, most = network.config.patch_size, max(requests[place].steps for place in short)
        steps = -(-most // size) * size  # whole patches
        joined = _join([coarse[place] for place in short])
        together = _moments(forecast_distribution(network, joined, steps, flip=False))
        ends = np.cumsum([len(coarse[place]) for place in short])[:-1]
        for place, mean, stddev in zip(short, *(np.split(part, ends) for part in together), strict=True):
            moments[place] = mean[:, : requests[place].steps], stddev[:, : requests[place].steps]
    return [moments[place] for place in range(len(requests))]


def _moments(ahead: Ellipsoid) -> Moments:
    return ahead.mean.numpy(), ahead.stddev.numpy()


def _join(parts: Sequence[Contexts]) -> Contexts:
    """All contexts in one."""
    newest = [contexts.newest() for contexts in parts]
    width = max(contexts.values.shape[1] for contexts in newest)
    values = np.zeros((sum(len(contexts) for contexts in newest), width))
    end = 0
    for contexts in newest:
        start, end = end, end + len(contexts)
        values[start:end, width - contexts.values.shape[1] :] = contexts.values
    lengths = np.concatenate([contexts.lengths for contexts in newest])
    seasons = [np.zeros(len(contexts), np.int64) if contexts.season is None else contexts.season for contexts in newest]
    return Contexts(values, lengths, np.concatenate(seasons))


def _coarsen(contexts: Contexts, factor: int) -> Contexts:
    """Means of ``factor`` rows, from the end backwards; older rows that fill no mean are left out."""
    if factor == 1:
        return contexts
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


def _rescale(
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
    for patch, steps in ((slice(whole), size), (slice(whole, None), rest)):
        if steps and plain.eigenvalues[:, patch].shape[1]:
            largest = plain.eigenvalues[chosen, patch, :steps].amax(-1, keepdim=True)
            scaled = plain.eigenvalues[chosen, patch] / largest
            covariance = covariance_of(scaled, plain.reflections[chosen, patch])[..., :steps, :steps]
            by = wider[:, patch, :steps]
            roots, turned = decompose(by.unsqueeze(-1) * covariance * by.unsqueeze(-2))
            new_values, new_vectors = values[chosen, patch], vectors[chosen, patch]
            new_values[..., :steps] = roots * largest
            new_vectors[:] = 0.0
            new_vectors[..., :steps, :steps] = turned
            values[chosen, patch], vectors[chosen, patch] = new_values, new_vectors
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

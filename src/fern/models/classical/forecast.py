"""A forecast distribution of many series as a table of quantiles: any shape, with sample paths that agree with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fern.caching import cached_njit

Floats = NDArray[np.float64]

KNOTS: Floats = np.concatenate(([0.001, 0.005, 0.01], np.arange(1, 40) / 40, [0.99, 0.995, 0.999]))
"""The probabilities of a table's quantiles."""

FARTHEST = 4.5
NODES: Floats = np.linspace(-FARTHEST, FARTHEST, 181)
"""Normal scores over which means are integrated."""


SCORES: Floats = ndtri(KNOTS)


@dataclass(frozen=True, eq=False)
class QuantileForecast:
    """Quantiles of each step at `KNOTS`; between them a quantile is linear in the normal score, beyond them too.

    ``response`` is what the error of a step adds to the errors of the steps after it (1 for its own step): it sets how
    the steps of a sample path go together. Of a ``stepped`` series (counts, many zeros) every quantile is a value that
    the table holds.

    Example: a random walk's sample paths spread as its quantiles do.
        >>> forecast = QuantileForecast.normal(np.zeros((1, 4)), np.sqrt([[1.0, 2.0, 3.0, 4.0]]), np.ones((1, 4)))
        >>> forecast.quantile([0.9]).round(2).tolist()
        [[[1.28, 1.81, 2.22, 2.56]]]
        >>> paths = forecast.sample(4000, np.random.default_rng(0))
        >>> paths.shape, paths.std(axis=0).round(1).tolist()
        ((4000, 1, 4), [[1.0, 1.4, 1.7, 2.0]])
    """

    mean: Floats  # (N, H)
    table: Floats  # (N, H, KNOTS)
    response: Floats  # (N, H)
    stepped: NDArray[np.bool_]  # (N,)

    @classmethod
    def normal(cls, mean: Floats, stddev: Floats, response: Floats) -> Self:
        """Normal distributions."""
        table = mean[..., None] + stddev[..., None] * SCORES
        return cls(mean, table, response, np.zeros(len(mean), dtype=np.bool_))

    def quantile(self, shares: Sequence[float]) -> Floats:  # (shares, N, H)
        """The quantiles of each step at these probabilities."""
        probabilities = np.broadcast_to(
            np.asarray(shares, dtype=np.float64)[:, None, None], (len(shares), *self.mean.shape)
        )
        return self.at_scores(ndtri(probabilities))

    def sample(self, paths: int, rng: np.random.Generator) -> Floats:  # (paths, N, H)
        """Sample paths: a Gaussian copula with the response's correlations, through the quantiles of each step."""
        series, horizon = self.mean.shape
        noise = rng.standard_normal((paths, series, horizon))
        scores = np.zeros_like(noise)
        squares = np.zeros(series)
        for lag in range(horizon):
            scores[..., lag:] += self.response[:, lag, None] * noise[..., : horizon - lag]
        for step in range(horizon):
            squares += np.square(self.response[:, step])
            scores[..., step] /= np.sqrt(squares)
        return self.at_scores(scores)

    def at_scores(self, scores: Floats) -> Floats:  # (..., N, H) -> (..., N, H)
        """The values at these normal scores: what lies at 0 is the median."""
        low, share = _places(scores)
        n, h = np.ogrid[: self.mean.shape[0], : self.mean.shape[1]]
        below, above = self.table[n, h, low], self.table[n, h, low + 1]
        result: Floats = below + share * (above - below)
        if self.stepped.any():
            steps = np.where(share <= 1e-12, below, above)
            result = np.where(self.stepped[:, None], steps, result)
        return result

    def scores_of(self, values: Floats) -> Floats:  # (paths, N, H) -> (paths, N, H)
        """The normal scores of values, the inverse of `at_scores`; within 4.5, and middling where quantiles tie."""
        scores = np.empty(values.shape)
        _invert(np.ascontiguousarray(self.table), SCORES, np.ascontiguousarray(values), scores)
        return scores

    def integrated_mean(self) -> Floats:  # (N, H)
        """The mean of the distribution that the table describes."""
        weights = np.exp(-0.5 * np.square(NODES))
        weights /= weights.sum()
        low, share = _places(NODES)
        result = np.zeros_like(self.mean)
        for place, part, weight in zip(low, share, weights, strict=True):
            result += weight * (self.table[..., place] + part * (self.table[..., place + 1] - self.table[..., place]))
        return result

    def through(self, function: Callable[[Floats], Floats]) -> Self:
        """The distribution of a rising function of the values; its mean is integrated."""
        moved = replace(self, table=function(self.table))
        return replace(moved, mean=moved.integrated_mean())

    def clip_below(self, least: Floats) -> Self:  # (N,)
        """Nothing below ``least``: what lay there lies on it, and the mean does not fall below it."""
        below = least[:, None]
        return replace(self, mean=np.maximum(self.mean, below), table=np.maximum(self.table, below[..., None]))

    def take(self, rows: NDArray[np.int64]) -> Self:
        """These series alone."""
        return type(self)(self.mean[rows], self.table[rows], self.response[rows], self.stepped[rows])


def _places(scores: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Between which knots a normal score lies, and where; beyond the last ones it goes on in a straight line."""
    low = np.clip(np.searchsorted(SCORES, scores, side="right") - 1, 0, len(SCORES) - 2)
    return low, (scores - SCORES[low]) / (SCORES[low + 1] - SCORES[low])


@cached_njit(nogil=True)
def _invert(
    table: Any,  # (N, H, KNOTS) rising
    knots: Any,  # (KNOTS,)
    values: Any,  # (paths, N, H)
    scores: Any,  # (paths, N, H) written
) -> None:
    paths, series, horizon = values.shape
    last = len(knots) - 1
    for n in range(series):
        for h in range(horizon):
            row = table[n, h]
            for p in range(paths):
                value = values[p, n, h]
                low, high = np.searchsorted(row, value, "left"), np.searchsorted(row, value, "right")
                if high > low + 1:  # several quantiles tie: the middle of them
                    scores[p, n, h] = 0.5 * (knots[low] + knots[high - 1])
                    continue
                place = min(max(high - 1, 0), last - 1)
                width = row[place + 1] - row[place]
                share = (value - row[place]) / width if width > 0.0 else 0.5
                score = knots[place] + share * (knots[place + 1] - knots[place])
                scores[p, n, h] = min(max(score, -FARTHEST), FARTHEST)

"""A forecast distribution of many series as a table of quantiles: any shape, with sample paths that agree with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]

KNOTS: Floats = np.concatenate(([0.001, 0.005, 0.01], np.arange(1, 40) / 40, [0.99, 0.995, 0.999]))
"""The probabilities of a table's quantiles."""

NODES: Floats = np.linspace(-4.5, 4.5, 181)
"""Normal scores over which means are integrated."""


def normal_quantile(shares: Floats) -> Floats:
    """Φ⁻¹ of an array.

    Example:
        >>> normal_quantile(np.array([0.025, 0.5])).round(6).tolist()
        [-1.959964, 0.0]
    """
    result: Floats = torch.special.ndtri(torch.from_numpy(np.ascontiguousarray(shares, dtype=np.float64))).numpy()
    return result


def normal_share(scores: Floats) -> Floats:
    """Φ of an array.

    Example:
        >>> normal_share(np.array([0.0, 1.959964])).round(4).tolist()
        [0.5, 0.975]
    """
    result: Floats = torch.special.ndtr(torch.from_numpy(np.ascontiguousarray(scores, dtype=np.float64))).numpy()
    return result


SCORES: Floats = normal_quantile(KNOTS)


@dataclass(frozen=True, eq=False)
class QuantileForecast:
    """Quantiles of each step at `KNOTS`; between them a quantile is linear in the normal score, beyond them too.

    ``response`` is what the error of a step adds to the errors of the steps after it (1 for its own step): it sets how
    the steps of a sample path go together. Of a ``stepped`` series (counts, many zeros) every quantile is a value that
    the table holds.

    Example: a random walk's sample paths spread as its quantiles do.
        >>> made = QuantileForecast.normal(np.zeros((1, 4)), np.sqrt([[1.0, 2.0, 3.0, 4.0]]), np.ones((1, 4)))
        >>> made.quantile([0.9]).round(2).tolist()
        [[[1.28, 1.81, 2.22, 2.56]]]
        >>> paths = made.sample(4000, np.random.default_rng(0))
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
        wanted = np.broadcast_to(np.asarray(shares, dtype=np.float64)[:, None, None], (len(shares), *self.mean.shape))
        return self._read(normal_quantile(wanted))

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
        return self._read(scores)

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

    def bounded(self, least: Floats) -> Self:  # (N,)
        """Nothing below ``least``: what lay there lies on it, and the mean does not fall below it."""
        below = least[:, None]
        return replace(self, mean=np.maximum(self.mean, below), table=np.maximum(self.table, below[..., None]))

    def take(self, rows: NDArray[np.int64]) -> Self:
        """These series alone."""
        return replace(
            self,
            mean=self.mean[rows],
            table=self.table[rows],
            response=self.response[rows],
            stepped=self.stepped[rows],
        )

    def _read(self, scores: Floats) -> Floats:  # (..., N, H)
        low, share = _places(scores)
        n, h = np.ogrid[: self.mean.shape[0], : self.mean.shape[1]]
        below, above = self.table[n, h, low], self.table[n, h, low + 1]
        result: Floats = below + share * (above - below)
        if self.stepped.any():
            steps = np.where(share <= 1e-12, below, above)
            result = np.where(self.stepped[:, None], steps, result)
        return result


def _places(scores: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Between which knots a normal score lies, and where; beyond the last ones it goes on in a straight line."""
    low = np.clip(np.searchsorted(SCORES, scores, side="right") - 1, 0, len(SCORES) - 2)
    return low, (scores - SCORES[low]) / (SCORES[low + 1] - SCORES[low])

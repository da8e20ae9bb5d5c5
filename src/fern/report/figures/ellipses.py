"""Ellipses of laws of two numbers: their edge, and the one that holds a share of drawn paths."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError

Array = NDArray[np.floating[Any]]
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ellipse:
    """{v : (v − centre)ᵀ covariance⁻¹ (v − centre) ≤ radius²}.

    Example:
        >>> Ellipse(np.zeros(2), np.diag([4.0, 1.0]), 1.0).outline(points=5).round(6).max(axis=0).tolist()
        [2.0, 1.0]
    """

    centre: Array  # (2,)
    covariance: Array  # (2, 2)
    radius: float

    def outline(self, points: int = 100) -> Values:  # (points, 2)
        """Its edge, closed."""
        values, vectors = np.linalg.eigh(np.asarray(self.covariance, dtype=np.float64))
        angle = np.linspace(0, 2 * np.pi, points)
        circle = self.radius * np.stack((np.cos(angle), np.sin(angle)), axis=1)
        edge: Values = circle * np.sqrt(np.maximum(values, 0.0)) @ vectors.T + np.asarray(self.centre)
        return edge

    def half_axes(self) -> Values:  # (2, 2), a row each
        """From the centre to the edge, the short one first."""
        values, vectors = np.linalg.eigh(np.asarray(self.covariance, dtype=np.float64))
        axes: Values = self.radius * np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        return axes

    def holds(self, points: Array) -> NDArray[np.bool_]:  # (n, 2) -> (n,)
        """Which points lie inside."""
        return np.asarray(distances(points, self.centre, self.covariance) <= self.radius)


@dataclass(frozen=True, eq=False)
class Joint:
    """Two steps of drawn joint paths, and the ellipses that hold shares of them (percent, widest first).

    ``steps`` are counted from 1.
    """

    steps: tuple[int, int]
    points: Array  # (n, 2)
    ellipses: tuple[tuple[float, Ellipse], ...]

    @classmethod
    def of(cls, paths: Array, steps: tuple[int, int], *, levels: tuple[float, ...]) -> "Joint":  # paths (n, h)
        """Of joint paths: ellipses in the shape of their covariance, each scaled to hold its share of them.

        Example:
            >>> paths = np.random.default_rng(0).normal(size=(1000, 8)).cumsum(axis=1)
            >>> found = Joint.of(paths, (4, 8), levels=(80.0,))
            >>> level, ellipse = found.ellipses[0]
            >>> level, round(float(ellipse.holds(found.points).mean()), 2)
            (80.0, 0.8)
        """
        horizon = paths.shape[1]
        if not all(1 <= step <= horizon for step in steps) or steps[0] == steps[1]:
            raise FernError(f"steps: got {steps}, needs two different steps from 1 to {horizon}")
        points = np.asarray(paths, dtype=np.float64)[:, [step - 1 for step in steps]]
        centre, covariance = points.mean(axis=0), np.cov(points.T)
        far = distances(points, centre, covariance)
        ellipses = tuple(
            (level, Ellipse(centre, covariance, float(np.quantile(far, level / 100, method="higher"))))
            for level in sorted(levels, reverse=True)
        )
        return cls(steps, points, ellipses)


def distances(points: Array, centre: Array, covariance: Array) -> Values:  # (n, 2), (2,), (2, 2) -> (n,)
    """√((v − centre)ᵀ covariance⁻¹ (v − centre)); along an axis without any spread only the centre is at 0."""
    values, vectors = np.linalg.eigh(np.asarray(covariance, dtype=np.float64))
    along = (np.asarray(points, dtype=np.float64) - centre) @ vectors
    spread = np.sqrt(np.maximum(values, values.max() * 1e-12))
    with np.errstate(all="ignore"):
        scaled = np.where(along == 0, 0.0, along / spread)
    found: Values = np.linalg.norm(scaled, axis=1)
    return found

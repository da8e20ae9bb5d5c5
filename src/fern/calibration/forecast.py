"""A calibrated forecast: intervals, bands, regions, quantiles, sums and paths."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fern.calibration.radii import KINDS, PRIOR_WINDOWS, Radii, blocks_of, patch_lengths
from fern.calibration.residuals import (
    LEAST_SIZE,
    LEVELS,
    Gaussian,
    RadiusTable,
    compute_residuals,
    conformal_radii,
    effective_size,
    longest_lag,
)
from fern.errors import FernError, require_level
from fern.metrics.point import WINDOWS, Array, to_tensor
from fern.transport import Ellipsoid

if TYPE_CHECKING:
    from fern.calibration.calibration import Calibration

Values = NDArray[np.float64]

PATH_VALUES = 2**18
"""Paths are made so many values at a time, which stay in cache."""


@dataclass(frozen=True)
class Functional:
    """The interval of a weighted sum over the horizon."""

    mean: Values  # (N, C) or (N, J, C)
    low: Values
    high: Values
    calibrated: bool
    n_eff: float


@dataclass(frozen=True)
class CalibratedForecast:
    """The forecast of N windows and C channels, with regions that hold what they say as far as data can tell.

    Levels are percentages in (0, 100). All arrays are NumPy, float64, (N, H, C).
    """

    distribution: Ellipsoid
    calibration: "Calibration"
    radii: Radii  # of all windows, or after each other those of each
    path_scale: Values | None = None  # (1, C) or (N, C), of an online calibration

    @cached_property
    def mean(self) -> Values:  # (N, H, C)
        """The mean of the distribution (calibration leaves it as it is)."""
        with torch.no_grad():
            return _numpy(self.distribution.mean).swapaxes(1, 2)

    @cached_property
    def stddev(self) -> Values:  # (N, H, C)
        """The refitted standard deviation of each step."""
        return self._own_stddev * self.calibration.shape.step_scale.T

    @cached_property
    def _own_stddev(self) -> Values:  # (N, H, C)
        """The distribution's own standard deviation of each step."""
        with torch.no_grad():
            return _numpy(self.distribution.stddev).swapaxes(1, 2)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided in calibration, and what is lacking."""
        return self.calibration.notes

    def calibrated(self, level: float) -> dict[str, bool]:
        """For each kind of region, whether n_eff supports the level; where not, its radii are Gaussian."""
        return {kind: self.radii.supports(kind, require_level(level)) for kind in KINDS}

    @property
    def n_eff(self) -> dict[str, float]:
        """See `Calibration.n_eff`."""
        return self.calibration.n_eff

    # --- regions --------------------------------------------------------------------------------------------

    def interval(self, level: float) -> tuple[Values, Values]:  # (N, H, C) each
        """The ends of each step's own interval: a share ``level`` of all steps lies inside."""
        require_level(level)
        return self._around(self._by_step(self.radii.margin.at(level)))

    def band(self, level: float) -> tuple[Values, Values]:  # (N, H, C) each
        """The ends of a band that holds a whole path: all H steps of a channel at once in a share ``level``."""
        factor = self.radii.band.at(require_level(level)).reshape(-1, self._count, 1)
        return self._around(self._by_step(factor * self.radii.reference.margin))

    def region(self, level: float) -> "Region":
        """The ellipsoids of the patches, and their product over the horizon."""
        return Region(self, require_level(level))

    def quantile(self, probabilities: float | NDArray[Any] | list[float]) -> Values:  # (N, H, C) or (k, N, H, C)
        """The quantiles of each step: the ends of its central intervals, so that they never cross."""
        values = np.asarray(probabilities, dtype=np.float64)
        if values.ndim > 1 or not values.size or not ((values > 0) & (values < 1)).all():
            expected = "numbers between 0 and 1 (both excluded)"
            raise FernError(argument="probabilities", got=probabilities, expected=expected)
        quantiles = np.stack([self._quantile(float(probability)) for probability in values.reshape(-1)])
        return quantiles if values.ndim else quantiles[0]

    # --- joint ----------------------------------------------------------------------------------------------

    def functional(
        self,
        weights: NDArray[Any] | list[float],  # (H,) or (J, H)
        level: float = 90.0,
    ) -> Functional:
        """The interval of vᵀy, a weighted sum over the horizon such as a total, a mean or a difference.

        vᵀ(y − μ) = (σ ⊙ v)ᵀ s, so each calibration window's standardised errors s give what this distribution's sum
        would have missed by there; the conformal quantile of these errors is the interval. Errors that go together
        along the horizon, across patches too, are in s and so in the sum, as they are in `sample`. O(n H) for the
        quantile.
        """
        require_level(level)
        rows = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.distribution.horizon or not np.isfinite(rows).all():
            expected = f"(H,) or (J, H) finite with H = {self.distribution.horizon}"
            raise FernError(f"shape {np.shape(weights)}", argument="weights", expected=expected)
        mean = np.einsum("jh,nhc->njc", rows, self.mean)
        directions = self.stddev.swapaxes(1, 2)[:, :, None] * rows  # (N, C, J, H)
        deviations = self._own_deviations(rows)
        radius = np.empty(mean.shape)
        sizes, supported = [], []
        for j in range(len(rows)):
            for channels in self._groups():
                radii, n_eff, enough = self._sum_radius(
                    directions[:, channels, j], deviations[:, channels, j], channels, level
                )
                radius[:, j, channels] = radii * (1.0 if self.path_scale is None else self.path_scale[:, channels])
                sizes.append(n_eff)
                supported.append(enough)
        if np.ndim(weights) == 1:
            mean, radius = mean[:, 0], radius[:, 0]
        return Functional(mean, mean - radius, mean + radius, all(supported), min(sizes))

    def sample(
        self, paths: int, *, seed: int = 0, generator: np.random.Generator | None = None
    ) -> Values:  # (paths, N, H, C)
        """Joint paths y = μ + σ ⊙ s with standardised errors s as the calibration windows had them.

        One window gives the errors of every step of every channel: they go together along the horizon and over
        channels as they did there, and intervals and bands hold the share of paths that they held of calibration
        windows; patches' ellipsoids do too where the distribution's A has the same shape in all windows. The sign is
        random, which makes two paths of one window. Windows are drawn stratified: each comes up as often as its share,
        to one. Where they are too few for any calibrated level, errors are drawn towards the distribution's own, which
        then make the intervals as well.
        """
        if paths < 1:
            raise FernError(argument="paths", got=paths, expected="at least 1")
        rng = np.random.default_rng(seed) if generator is None else generator
        windows = self.distribution.batch_shape[0]
        pull = self._pull()
        rows = self._draw_windows(rng, paths, windows) if pull < 1 else None
        mean, unit = self.mean.swapaxes(1, 2), self._own_stddev.swapaxes(1, 2)
        unit = unit if self.path_scale is None else unit * self.path_scale[..., None]
        samples = np.empty((paths, windows, self.distribution.horizon, self.calibration.channels))
        at_once = max(1, PATH_VALUES // max(1, samples[0].size))  # no more memory than the result and a few forecasts
        for first in range(0, paths, at_once):
            part = samples[first : first + at_once]
            errors = np.zeros((len(part), *unit.shape))
            if rows is not None:
                errors += sqrt(1 - pull) * self._errors(rng, rows[first : first + at_once])
            if pull:
                errors += sqrt(pull) * self._gaussian(rng, len(part))
            part[:] = (mean + unit * errors).swapaxes(2, 3)
        return samples

    # --- inside ---------------------------------------------------------------------------------------------

    @property
    def _count(self) -> int:
        """K, the groups of channels."""
        return int(self.calibration.group.max()) + 1

    def _by_step(self, radii: Values) -> Values:  # n · K · blocks, or (n, K, blocks) -> (n, H, C), n = 1 or N
        blocks = blocks_of(self.distribution.horizon)
        by_group = radii.reshape(-1, self._count, len(blocks))
        return np.asarray(np.repeat(by_group, blocks, axis=2)[:, self.calibration.group].swapaxes(1, 2))

    def _around(self, radius: Values) -> tuple[Values, Values]:
        return self.mean - radius * self.stddev, self.mean + radius * self.stddev

    def _quantile(self, probability: float) -> Values:
        level = round(abs(2 * probability - 1) * 100, 10)  # 0.95 asks for 90, not for 89.99…
        return self.mean if level == 0 else self._around(self._by_step(self.radii.margin.at(level)))[probability > 0.5]

    def _groups(self) -> list[NDArray[np.int64]]:
        group = self.calibration.group
        return [np.flatnonzero(group == k) for k in range(self._count)]

    def _own_deviations(self, rows: Values) -> Values:  # (J, H) -> (N, C, J)
        """The deviations of vᵀy under the distribution with its steps rescaled, √a ‖A (scale ⊙ v)‖, patches
        independent.
        """
        g, p, horizon = self.distribution.patches, self.distribution.patch_size, self.distribution.horizon
        scaled = self.calibration.shape.step_scale[:, None] * rows  # (C, J, H)
        padded = np.zeros((*scaled.shape[:2], g * p))
        padded[..., :horizon] = scaled
        with torch.no_grad():
            blocks = _numpy(self.distribution.patch_jacobians)
        scaled_patches = np.einsum("ncgpq,cjgq->ncjgp", blocks, padded.reshape(*scaled.shape[:2], g, p))
        return np.asarray(np.sqrt(np.square(scaled_patches).sum(axis=(-2, -1)) * self.distribution.base_variance))

    def _sum_radius(
        self,
        directions: Values,  # (N, c, H)
        deviations: Values,  # (N, c) the distribution's deviations
        channels: NDArray[np.int64],  # (c,) of one group
        level: float,
    ) -> tuple[Values, float, bool]:  # (N, c), n_eff, calibrated
        kept = self.calibration.kept
        deviations = deviations.reshape(-1)
        gaussian = [Gaussian(1)] * len(deviations)
        if not len(kept):
            unknown = [np.full(len(LEVELS), np.nan)] * len(deviations)
            empty = RadiusTable.join(unknown, [0.0] * len(deviations), list(deviations), n=0, gaussian=gaussian)
            return empty.at(level).reshape(directions.shape[:2]), 0.0, False
        scaled = self.calibration.shape.margins(kept.standardised, channels).reshape(-1, directions.shape[-1])
        errors = np.abs(directions.reshape(-1, directions.shape[-1]) @ scaled.T)  # (N · c, n · c)
        errors = errors.reshape(len(deviations), len(kept), len(channels))
        size = np.sqrt(np.square(errors).mean(axis=(1, 2)))
        # One n_eff for all windows: their sums differ in scale, hardly in how long calibration errors persist.
        typical = (errors / np.maximum(size, 1e-300)[:, None, None]).mean(axis=0)
        n_eff = effective_size(typical, series=kept.series, lags=longest_lag(kept))
        table = RadiusTable.join(
            [conformal_radii(error, n_eff) for error in errors],
            [n_eff] * len(deviations),
            list(np.maximum(deviations, size)),
            n=len(kept) * len(channels),
            gaussian=gaussian,
        )
        return table.at(level).reshape(directions.shape[:2]), n_eff, table.supports(level)

    def _draw_windows(self, rng: np.random.Generator, paths: int, windows: int) -> NDArray[np.int64]:  # (paths, N)
        share = (rng.permuted(np.tile(np.arange(paths), (windows, 1)), axis=1) + rng.random((windows, 1))) / paths
        kept = len(self.calibration.kept)
        return np.minimum((share.T * kept).astype(np.int64), kept - 1)

    def _errors(
        self,
        rng: np.random.Generator,
        rows: NDArray[np.int64],  # (paths, N)
    ) -> Values:  # (paths, N, C, H)
        """Standardised errors of these windows, with a random sign each."""
        errors: Values = self.calibration.kept.standardised[rows].astype(np.float64)
        errors *= rng.choice((-1.0, 1.0), size=(*rows.shape, 1, 1))
        return errors

    def _pull(self) -> float:
        """The share of a path's variance that is the distribution's own: 0 where windows suffice, 1 where none is
        kept.
        """
        kept, n_eff = self.calibration.kept, self.radii.margin.least
        if not len(kept):
            return 1.0
        return 0.0 if n_eff >= LEAST_SIZE else PRIOR_WINDOWS / (PRIOR_WINDOWS + n_eff)

    def _gaussian(self, rng: np.random.Generator, paths: int) -> Values:  # (paths, N, C, H)
        """Standardised errors of the distribution itself, with the scale of its Gaussian intervals."""
        distribution = self.distribution
        scale = self.calibration.shape.step_scale * self._by_step(self.radii.margin.spread).swapaxes(1, 2)
        noise = rng.standard_normal((paths, *distribution.batch_shape, distribution.horizon))
        noise *= sqrt(distribution.base_variance)
        with torch.no_grad():
            pushed = _numpy(distribution.push(torch.as_tensor(noise).to(distribution.eigenvalues)) - distribution.mean)
        return np.asarray(pushed * scale / self._own_stddev.swapaxes(1, 2))


@dataclass(frozen=True)
class Region:
    """The region of a whole path at one level: the product over patches p of {‖Ĉ^(-1/2) z_p‖ ≤ s √m · radius_p}."""

    forecast: CalibratedForecast
    level: float

    def contains(self, y: Array) -> NDArray[np.bool_]:  # (N, H, C) -> (N, C)
        """Whether each channel's path lies inside, in every patch at once."""
        return np.asarray((self._distances(y) <= self.radius).all(axis=-1))

    def patches_contain(self, y: Array) -> NDArray[np.bool_]:  # (N, H, C) -> (N, C, g)
        """Whether each patch of the path lies in that patch's own ellipsoid of the level, one patch at a time."""
        return self._distances(y) <= self.patch_radius

    @property
    def radius(self) -> Values:  # (1, C, g), or (N, C, g) where windows have radii of their own
        """The radii of the ellipsoids whose product has the level, in units of the refitted distribution."""
        radii = self.forecast.radii
        by_group = radii.region.at(self.level).reshape(-1, self.forecast._count, 1) * radii.reference.patch
        return by_group[:, self.forecast.calibration.group]

    @property
    def patch_radius(self) -> Values:  # (1, C, g), or (N, C, g)
        """The radii of the ellipsoids that have the level each on its own."""
        count, group = self.forecast._count, self.forecast.calibration.group
        by_group = self.forecast.radii.patch.at(self.level)
        return by_group.reshape(-1, count, self.forecast.distribution.patches)[:, group]

    def half_axes(self, *, joint: bool = True) -> Values:  # (N, C, g)
        """The geometric mean half-axis of each ellipsoid in the unit of the series: its size, of whatever length m."""
        shape, distribution = self.forecast.calibration.shape, self.forecast.distribution
        lengths = patch_lengths(distribution.horizon, distribution.patch_size)
        with torch.no_grad():
            stretch = _numpy(distribution.log_det)
        root = stretch - np.linalg.slogdet(shape.whitener)[1]
        radius = (self.radius if joint else self.patch_radius) * shape.patch_scale * np.sqrt(lengths)
        return np.asarray(np.exp(root / lengths) * radius * sqrt(distribution.base_variance))

    def _distances(self, y: Array) -> Values:  # (N, C, g)
        distribution = self.forecast.distribution
        whitened, _ = compute_residuals(distribution, to_tensor("y", y, WINDOWS))
        return self.forecast.calibration.shape.distances(whitened)


def _numpy(values: torch.Tensor) -> Values:
    return values.cpu().numpy().astype(np.float64)

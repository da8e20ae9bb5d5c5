"""Radii of the four kinds of region (margins, patches, bands, horizons) from the scores of held-out windows."""

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from fern.calibration.effective_size import effective_size, longest_lag
from fern.calibration.quantiles import (
    LEAST_SIZE,
    Gaussian,
    RadiusTable,
    conformal_radii,
    least_size_for,
    weighted_quantiles,
)
from fern.calibration.residuals import Residuals
from fern.calibration.settings import CalibrationSettings
from fern.calibration.shape import Shape, patch_lengths

Values = NDArray[np.float64]
Kind = Literal["margin", "patch", "band", "region"]
KINDS: tuple[Kind, ...] = get_args(Kind)

REFERENCE = 90.0
"""The level whose radii on validation windows set how a band or horizon region is spread over steps and patches."""

LEAST_REFERENCE = 0.05
"""References are kept above it: one that is (nearly) zero would decide the whole band."""


@dataclass(frozen=True)
class Reference:
    """Radii at the level `REFERENCE` on validation windows: k of the band, κ of the horizon region."""

    low: Values  # (K, blocks)
    high: Values  # (K, blocks)
    patch: Values  # (K, g)


@dataclass(frozen=True)
class Radii:
    """The radii of K groups of channels (each channel, or all) at every level.

    ========  =====================================  =====================================================
    kind      score of a window                      region
    ========  =====================================  =====================================================
    margin    (y_h − μ_h)/(s_h σ_h), block by block  each step on its own
    patch     ‖Ĉ^(-1/2) z_p‖/(s_p √m)                each patch's ellipsoid
    band      max_h margin_h / k_h                   all steps at once, as a band around the mean
    region    max_p patch_p / κ_p                    all patches at once, as a product of ellipsoids
    ========  =====================================  =====================================================
    """

    low: RadiusTable  # K · blocks units
    high: RadiusTable
    patch: RadiusTable  # K · g units
    band: RadiusTable  # K units
    region: RadiusTable
    reference: Reference

    def table(self, kind: Kind) -> RadiusTable:
        """The table of a kind (of margins the upper end's)."""
        return {"margin": self.high, "patch": self.patch, "band": self.band, "region": self.region}[kind]

    def supports(self, kind: Kind, level: float) -> bool:
        """Whether the level is calibrated, for every channel and step."""
        return self.table(kind).supports(level) and (kind != "margin" or self.low.supports(level))

    def shortfall(self, kind: Kind, level: float) -> str:
        """What a level lacks, in words."""
        table = self.table(kind)
        needed, size = least_size_for(level, tails=table.tails), table.least
        if table.n == 0:
            return f"{kind} at {level:g} %: no held-out windows, needs windows worth n_eff = {needed}"
        about = int(np.ceil(table.n * needed / max(size, 1.0)))
        return (
            f"{kind} at {level:g} %: needs n_eff >= {needed}, has {size:.1f} "
            f"(from {table.n} values; about {about} of the same kind are needed)"
        )

    def scaled(self, margin: Values, patch: Values) -> Self:  # (K, levels) factors
        """All radii times their group's factors: margins and bands by the first, patches and regions by the second."""

        def times(table: RadiusTable, factors: Values) -> RadiusTable:
            return table.scaled(np.repeat(factors, len(table.values) // len(factors), axis=0))

        high = times(self.high, margin)
        low = high if self.low is self.high else times(self.low, margin)
        band, region = times(self.band, margin), times(self.region, patch)
        return type(self)(low, high, times(self.patch, patch), band, region, self.reference)


def pooled_sizes(
    residuals: Residuals,
    shape: Shape,
    *,
    weights: Values,  # (n,)
) -> dict[Kind, float]:
    """The n_eff of all of a kind's scores together: how precisely these windows tell one share of all of them."""
    n = len(residuals)
    margins, distances = np.abs(shape.margins(residuals.standardised)), shape.distances(residuals.whitened)
    scores: dict[Kind, Values] = {
        "margin": margins,
        "patch": distances,
        "band": margins.max(axis=-1),
        "region": distances.max(axis=-1),
    }
    codes, lags = residuals.codes(), longest_lag(residuals)
    return {
        kind: effective_size(score.reshape(n, score[0].size if n else 0), series=codes, lags=lags, weights=weights)
        for kind, score in scores.items()
    }


def blocks_of(horizon: int, pooled_steps: int) -> NDArray[np.int64]:  # (blocks,)
    """How many steps each block of margins has."""
    return patch_lengths(horizon, min(pooled_steps, horizon))


def fit_radii(
    validation: Residuals,
    calibration: Residuals,
    shape: Shape,
    groups: list[NDArray[np.int64]],
    *,
    settings: CalibrationSettings,
    weights: tuple[Values, Values],  # of validation and calibration windows
) -> Radii:
    """References from the validation windows, quantiles from the calibration windows."""
    blocks = blocks_of(calibration.horizon, settings.pooled_steps)
    lengths = patch_lengths(calibration.horizon, calibration.patch_size)
    reference = _reference(validation, shape, groups, blocks, lengths, weights[0], settings.symmetric)
    tails = 1 if settings.symmetric else 2
    collect = _Collector(calibration.codes(), longest_lag(calibration), weights[1], shape.believed)
    units: dict[str, list[tuple[Values, float, float, Gaussian]]] = {
        name: [] for name in ("low", "high", "patch", "band", "region")
    }
    for k, channels in enumerate(groups):
        margins, distances = (
            shape.margins(calibration.standardised, channels),
            shape.distances(calibration.whitened, channels),
        )
        for block in _split(margins, blocks):
            if settings.symmetric:
                units["high"].append(collect(np.abs(block), Gaussian(1)))
            else:
                units["high"].append(collect(block, Gaussian(1), tails=2))
                units["low"].append(collect(-block, Gaussian(1), tails=2))
        for patch, length in enumerate(lengths):
            units["patch"].append(collect(distances[..., patch, None], Gaussian(int(length))))
        up, down = np.repeat(reference.high[k], blocks), np.repeat(reference.low[k], blocks)
        highest = np.maximum(margins / up, -margins / down).max(axis=-1, keepdims=True)
        units["band"].append(collect(highest, Gaussian(1, calibration.horizon), unit=float(reference.high[k].mean())))
        furthest = (distances / reference.patch[k]).max(axis=-1, keepdims=True)
        wide = Gaussian(int(lengths[0]), len(lengths))
        units["region"].append(collect(furthest, wide, unit=float(reference.patch[k].mean())))
    members = len(groups[0]) * len(calibration)
    sizes = {"low": members * int(blocks[0]), "high": members * int(blocks[0])}
    tables = {
        name: RadiusTable.join(
            [radii for radii, *_ in rows],
            [n_eff for _, n_eff, *_ in rows],
            [spread for *_, spread, _ in rows],
            gaussian=[distribution for *_, distribution in rows],
            n=sizes.get(name, members),
            tails=tails if name in ("low", "high") else 1,
        )
        for name, rows in units.items()
        if rows
    }
    return Radii(
        tables.get("low", tables["high"]), tables["high"], tables["patch"], tables["band"], tables["region"], reference
    )


@dataclass(frozen=True)
class _Collector:
    """Turns the scores of one unit into its radii, n_eff and spread."""

    series: NDArray[np.int64]
    lags: int
    weights: Values
    believed: float  # `Shape.believed`

    def __call__(
        self,
        scores: Values,  # (n, c, steps)
        distribution: Gaussian,
        *,
        tails: int = 1,
        unit: float = 1.0,
    ) -> tuple[Values, float, float, Gaussian]:
        """``unit`` is what a score was divided by, for the Gaussian radii, which know of no reference."""
        if not len(scores):
            return conformal_radii(scores[:, 0], self.weights, 0.0), 0.0, 1 / unit, distribution
        flat = scores.reshape(len(scores), -1)
        n_eff = effective_size(flat, series=self.series, lags=self.lags, weights=self.weights)
        scale = float(np.sqrt(self.weights @ np.square(flat).mean(axis=1) / self.weights.sum())) * unit
        return (
            conformal_radii(flat, self.weights, n_eff, tails=tails),
            n_eff,
            self._spread(scale, n_eff, distribution) / unit,
            distribution,
        )

    def _spread(self, scale: float, n_eff: float, distribution: Gaussian) -> float:
        """The scale of the Gaussian radii, in units of the refitted distribution."""
        if distribution.count > 1:
            return 1.0
        if n_eff < LEAST_SIZE and self.believed > 0:  # all levels rest on it: the mean over all windows there are
            return float(np.sqrt((n_eff * scale**2 + self.believed) / (n_eff + self.believed)))
        # The distribution was refitted, so its scale is about 1 where all is well; where it is not, never claim less.
        return max(1.0, scale)


def _reference(
    residuals: Residuals,
    shape: Shape,
    groups: list[NDArray[np.int64]],
    blocks: NDArray[np.int64],
    lengths: NDArray[np.int64],
    weights: Values,
    symmetric: bool,
) -> Reference:
    if not len(residuals):
        margin = np.full((len(groups), len(blocks)), Gaussian(1).radius(REFERENCE))
        ball = np.array([Gaussian(int(length)).radius(REFERENCE) for length in lengths])
        return Reference(margin, margin, np.broadcast_to(ball, (len(groups), len(lengths))).copy())

    def quantile(scores: NDArray[Any], share: float) -> float:
        flat = scores.reshape(len(scores), -1)
        return max(LEAST_REFERENCE, float(weighted_quantiles(flat, weights, np.array([share]))[0]))

    share = REFERENCE / 100
    low: list[list[float]] = []
    high: list[list[float]] = []
    patch: list[list[float]] = []
    for channels in groups:
        margins, distances = (
            shape.margins(residuals.standardised, channels),
            shape.distances(residuals.whitened, channels),
        )
        parts = _split(margins, blocks)
        if symmetric:
            low.append([quantile(np.abs(part), share) for part in parts])
            high.append(low[-1])
        else:
            low.append([quantile(-part, (1 + share) / 2) for part in parts])
            high.append([quantile(part, (1 + share) / 2) for part in parts])
        patch.append([quantile(distances[..., p], share) for p in range(len(lengths))])
    return Reference(np.array(low), np.array(high), np.array(patch))


def _split(margins: Values, blocks: NDArray[np.int64]) -> list[Values]:
    return np.split(margins, np.cumsum(blocks)[:-1], axis=-1)

"""What is fitted to the residuals of held-out windows: the shape of errors (scales of steps and patches, correlation
within a patch), and radii of the four kinds of region (margins, patches, bands, horizons).
"""

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from fern.calibration.residuals import (
    LEAST_SIZE,
    Gaussian,
    RadiusTable,
    Residuals,
    conformal_radii,
    effective_size,
    least_size_for,
    longest_lag,
    order_statistics,
    share_sizes,
)
from fern.calibration.settings import UNSEEN_VARIANCE

Values = NDArray[np.float64]
ALL = slice(None)

LEAST_SCALE = 1e-6
"""Scales are kept above this share of the distribution's own: a constant series has residuals of zero."""

PRIOR_WINDOWS = 8.0
"""A step's scale is pulled towards its patch's, and a patch's towards all channels', as by so many windows."""

WILD = 6.0
"""A residual counts as so many core scales of its channel at most, when scales are fitted. A channel that hardly moves
and then jumps (rain, a sensor's code for "no value") has residuals in the thousands where its distribution was sharp;
their mean square would widen every window a thousandfold. Of normal residuals none is this large."""

CORE = 0.8, 1.2815515655446004
"""The core scale is this quantile of the sizes of residuals over that of a standard normal variable."""


@dataclass(frozen=True)
class Shape:
    """What the residuals of validation windows say about the distribution N(μ, aA²).

    The refitted distribution of a patch is N(μ, a s² A Ĉ A): ``patch_scale`` is s, ``whitener`` is Ĉ^(-1/2), with tr
    Ĉ = m. Ĉ is shared by the channels, which makes it estimable; scales are each channel's own. The margin of step h is
    μ_h ± radius · ``step_scale`` σ_h: the same as the diagonal of the refitted covariance where A does not change
    from window to window, and no dense work when forecasting.
    """

    step_scale: Values  # (C, H)
    patch_scale: Values  # (C, g)
    whitener: Values  # (g, p, p) Ĉ^(-1/2); the identity beyond the horizon
    full: bool
    """Whether correlations were fitted, or the diagonal of Ĉ alone."""
    shrinkage: Values  # (g,) ρ of Ledoit and Wolf
    bias: Values  # (C,) mean standardised residual
    n_eff: float
    believed: float = 0.0
    """Where windows were few and the distribution counted as some of them: n_eff and those together; else 0."""

    def distances(
        self,
        whitened: NDArray[np.floating[Any]],  # (n, C, H)
        channels: NDArray[Any] | slice = ALL,
    ) -> Values:  # (n, c, g)
        """r_p = ‖Ĉ^(-1/2) z_p‖ / (s √m) of these channels: about 1 in each patch if the refitted distribution is
        right.
        """
        horizon, patch_size = whitened.shape[-1], self.whitener.shape[-1]
        z = self._whiten(whitened[:, channels].astype(np.float64))
        squares = np.add.reduceat(np.square(z), np.arange(0, horizon, patch_size), axis=-1)
        return np.asarray(np.sqrt(squares / patch_lengths(horizon, patch_size)) / self.patch_scale[channels])

    def margins(
        self,
        standardised: NDArray[np.floating[Any]],  # (n, C, H)
        channels: NDArray[Any] | slice = ALL,
    ) -> Values:  # (n, c, H)
        """(y_h − μ_h) / (step_scale σ_h) of these channels, signed."""
        return np.asarray(standardised[:, channels] / self.step_scale[channels])

    def _whiten(self, z: Values) -> Values:  # (..., H)
        patches, patch_size, _ = self.whitener.shape
        horizon = z.shape[-1]
        if not self.full:
            weights = np.einsum("gpp->gp", self.whitener).reshape(-1)[:horizon]
            return np.asarray(z * weights)
        padded = np.zeros((*z.shape[:-1], patches * patch_size))
        padded[..., :horizon] = z
        blocks = padded.reshape(*z.shape[:-1], patches, patch_size)
        # One matrix product a patch: far quicker than one einsum over all.
        for patch in range(patches):
            blocks[..., patch, :] = blocks[..., patch, :] @ self.whitener[patch]
        return np.asarray(padded[..., :horizon])


def patch_lengths(horizon: int, patch_size: int) -> NDArray[np.int64]:  # (g,)
    """The number of steps of each patch; the last may be shorter."""
    starts = np.arange(0, horizon, patch_size)
    return np.minimum(patch_size, horizon - starts)


def no_shape(residuals: Residuals) -> Shape:
    """The distribution's own shape."""
    g, p = residuals.patches, residuals.patch_size
    return Shape(
        np.ones((residuals.channels, residuals.horizon)),
        np.ones((residuals.channels, g)),
        np.broadcast_to(np.eye(p), (g, p, p)).copy(),
        False,
        np.ones(g),
        np.zeros(residuals.channels),
        0.0,
    )


def fit_shape(
    residuals: Residuals,
    *,
    correlated: bool = True,
    distribution_windows: float = 0.0,
    unseen_variance: float = UNSEEN_VARIANCE,
) -> Shape:
    """The shape on these windows; their own where there are none.

    S_p = Σ z zᵀ / n about zero, not about the mean: a bias widens the distribution (and is reported) rather than
    vanishing. Scales do not follow a few wild residuals (`WILD`); the quantiles of radii see them as they are.
    Correlations are fitted where n_eff >= 2 p windows' worth, else Ĉ is diagonal. Where n_eff is below `LEAST_SIZE`,
    mean squares are pulled towards ``unseen_variance`` as by ``distribution_windows`` windows: one or two windows'
    errors tell little, and a trained distribution tells something.
    """
    if not len(residuals):
        return no_shape(residuals)
    lengths = patch_lengths(residuals.horizon, residuals.patch_size)
    starts = np.arange(0, residuals.horizon, residuals.patch_size)
    squares, standard = _mean_squares(residuals.whitened), _mean_squares(residuals.standardised)
    n_eff = _windows_worth(residuals)
    alone = min(n_eff, float(len(residuals)))  # what one channel can show

    prior = distribution_windows if n_eff < LEAST_SIZE else 0.0
    if prior:
        squares = (n_eff * squares + prior * unseen_variance) / (n_eff + prior)
        standard = (n_eff * standard + prior * unseen_variance) / (n_eff + prior)
    by_patch = np.add.reduceat(squares, starts, axis=-1) / lengths
    patch_scale = np.sqrt(_shrink(by_patch, by_patch.mean(axis=0), alone))
    whole = np.repeat(np.add.reduceat(standard, starts, axis=-1) / lengths, lengths, axis=-1)
    step_scale = np.sqrt(_shrink(standard, whole, alone))
    patch_scale, step_scale = np.maximum(patch_scale, LEAST_SCALE), np.maximum(step_scale, LEAST_SCALE)

    full = correlated and n_eff >= 2 * residuals.patch_size
    whitener = no_shape(residuals).whitener
    shrinkage = np.ones(len(lengths))
    for patch, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        z = residuals.whitened[..., start : start + length].astype(np.float64) / patch_scale[:, patch, None]
        covariance, shrinkage[patch] = ledoit_wolf(z.reshape(-1, length), n_eff=n_eff, diagonal=not full)
        whitener[patch, :length, :length] = _inverse_root(covariance)
    bias = residuals.standardised.mean(axis=(0, 2), dtype=np.float64)
    return Shape(step_scale, patch_scale, whitener, full, shrinkage, bias, n_eff, n_eff + prior if prior else 0.0)


def ledoit_wolf(
    z: Values,  # (n, m)
    *,
    n_eff: float,
    diagonal: bool = False,
) -> tuple[Values, float]:  # (m, m) with trace m, and ρ
    """The covariance about zero, shrunk towards the sphere: Ĉ = (1 − ρ) S + ρ tr(S)/m I, scaled to trace m.

    ρ = min(1, β²/δ²) with δ² = ‖S − tr(S)/m I‖² and β² the mean of ‖z zᵀ − S‖² over n_eff (Ledoit and Wolf 2004):
    dependent windows are worth less. ``diagonal`` does the same for the diagonal alone.
    """
    m = z.shape[1]
    if diagonal:
        variances = np.square(z).mean(axis=0)
        sample, noise = np.diag(variances), np.square(np.square(z)).sum(-1).mean() - np.square(variances).sum()
    else:
        sample = z.T @ z / len(z)
        noise = np.square(np.square(z).sum(-1)).mean() - np.square(sample).sum()
    level = float(np.trace(sample)) / m
    if level <= LEAST_SCALE**2:
        return np.eye(m), 1.0
    distance = float(np.square(sample - level * np.eye(m)).sum())
    rho = 1.0 if distance <= 0 else min(1.0, max(0.0, float(noise)) / n_eff / distance)
    return ((1 - rho) * sample / level + rho * np.eye(m)), rho


def _mean_squares(values: NDArray[np.floating[Any]]) -> Values:  # (n, C, H) -> (C, H)
    """The mean squares of each channel's residuals, none of them counted as more than `WILD` core scales."""
    sizes = np.abs(values)
    share, normal = CORE
    core = np.quantile(sizes, share, axis=(0, 2), method="higher").astype(np.float64) / normal  # (C,)
    most = np.where(core > 0, WILD * core, np.inf)[:, None]
    sizes = np.minimum(sizes, most, dtype=np.float64)
    return np.asarray(np.square(sizes).mean(axis=0))


def _shrink(values: Values, towards: Values, n_eff: float) -> Values:
    return (n_eff * values + PRIOR_WINDOWS * towards) / (n_eff + PRIOR_WINDOWS)


def _windows_worth(residuals: Residuals) -> float:
    """n_eff of the windows for their patches' mean squares: the least over the patches."""
    starts = np.arange(0, residuals.horizon, residuals.patch_size)
    sizes = np.add.reduceat(np.square(residuals.whitened.astype(np.float64)), starts, axis=-1)  # (n, C, g)
    above = (sizes > np.median(sizes, axis=0)).mean(axis=1)
    codes, lags = residuals.codes(), longest_lag(residuals)
    return float(share_sizes(above, members=residuals.channels, series=codes, lags=lags).min())


def _inverse_root(covariance: Values) -> Values:
    values, vectors = np.linalg.eigh(covariance)
    # The inverse of a direction that never erred would be boundless: at most a thousand-fold of the mean scale.
    return np.asarray((vectors / np.sqrt(np.maximum(values, LEAST_SCALE))) @ vectors.T)


Kind = Literal["margin", "patch", "band", "region"]
KINDS: tuple[Kind, ...] = get_args(Kind)

POOLED_STEPS = 24
"""Margins of so many steps that follow each other share one quantile, after each was scaled by its own error."""

REFERENCE = 90.0
"""The level whose radii on validation windows set how a band or horizon region is spread over steps and patches."""

LEAST_REFERENCE = 0.05
"""References are kept above it: one that is (nearly) zero would decide the whole band."""


@dataclass(frozen=True)
class Reference:
    """Radii at the level `REFERENCE` on validation windows: k of the band, κ of the horizon region."""

    margin: Values  # (K, blocks)
    patch: Values  # (K, g)


@dataclass(frozen=True)
class Radii:
    """The radii of K groups of channels (each channel, or all) at every level.

    ========  =====================================  =====================================================
    kind      score of a window                      region
    ========  =====================================  =====================================================
    margin    |y_h − μ_h|/(s_h σ_h), block by block  each step on its own
    patch     ‖Ĉ^(-1/2) z_p‖/(s_p √m)                each patch's ellipsoid
    band      max_h margin_h / k_h                   all steps at once, as a band around the mean
    region    max_p patch_p / κ_p                    all patches at once, as a product of ellipsoids
    ========  =====================================  =====================================================
    """

    margin: RadiusTable  # K · blocks units
    patch: RadiusTable  # K · g units
    band: RadiusTable  # K units
    region: RadiusTable
    reference: Reference

    def table(self, kind: Kind) -> RadiusTable:
        """The table of a kind."""
        return {"margin": self.margin, "patch": self.patch, "band": self.band, "region": self.region}[kind]

    def supports(self, kind: Kind, level: float) -> bool:
        """Whether the level is calibrated, for every channel and step."""
        return self.table(kind).supports(level)

    def shortfall(self, kind: Kind, level: float) -> str:
        """What a level lacks, in words."""
        table = self.table(kind)
        needed, size = least_size_for(level), table.least
        if table.n == 0:
            return f"{kind} at {level:g} %: no held-out windows, needs windows worth n_eff = {needed}"
        about = int(np.ceil(table.n * needed / max(size, 1.0)))
        return (
            f"{kind} at {level:g} %: needs n_eff >= {needed}, has {size:.1f} "
            f"(from {table.n} values; about {about} of the same kind are needed)"
        )

    def scale(self, margin: Values, patch: Values) -> Self:  # (n, K, levels) factors
        """All radii times their group's factors: margins and bands by the first, patches and regions by the second.

        The tables have n times the units: those of each of n windows.
        """

        def times(table: RadiusTable, factors: Values) -> RadiusTable:
            return table.scale(np.repeat(factors, len(table.values) // factors.shape[1], axis=1))

        return type(self)(
            times(self.margin, margin),
            times(self.patch, patch),
            times(self.band, margin),
            times(self.region, patch),
            self.reference,
        )


def measure_pooled_sizes(residuals: Residuals, shape: Shape) -> dict[Kind, float]:
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
        kind: effective_size(score.reshape(n, score[0].size if n else 0), series=codes, lags=lags)
        for kind, score in scores.items()
    }


def blocks_of(horizon: int) -> NDArray[np.int64]:  # (blocks,)
    """How many steps each block of margins has."""
    return patch_lengths(horizon, POOLED_STEPS)


def fit_radii(validation: Residuals, calibration: Residuals, shape: Shape, groups: list[NDArray[np.int64]]) -> Radii:
    """References from the validation windows, quantiles from the calibration windows."""
    blocks = blocks_of(calibration.horizon)
    lengths = patch_lengths(calibration.horizon, calibration.patch_size)
    reference = _reference(validation, shape, groups, blocks, lengths)
    codes, lags = calibration.codes(), longest_lag(calibration)

    def collect(
        scores: Values,  # (n, c, steps)
        distribution: Gaussian,
        *,
        unit: float = 1.0,  # what a score was divided by, for the Gaussian radii, which know of no reference
    ) -> tuple[Values, float, float, Gaussian]:
        """Of one unit its radii, n_eff, and the scale of its Gaussian radii in units of the refitted distribution."""
        if not len(scores):
            return conformal_radii(scores[:, 0], 0.0), 0.0, 1 / unit, distribution
        flat = scores.reshape(len(scores), -1)
        n_eff = effective_size(flat, series=codes, lags=lags)
        scale = float(np.sqrt(np.square(flat).mean())) * unit
        if distribution.count > 1:
            spread = 1.0
        elif n_eff < LEAST_SIZE and shape.believed > 0:  # all levels rest on it: the mean over all windows there are
            spread = float(np.sqrt((n_eff * scale**2 + shape.believed) / (n_eff + shape.believed)))
        else:  # refitted, so its scale is about 1 where all is well; where it is not, never claim less
            spread = max(1.0, scale)
        return conformal_radii(flat, n_eff), n_eff, spread / unit, distribution

    units: dict[Kind, list[tuple[Values, float, float, Gaussian]]] = {kind: [] for kind in KINDS}
    for k, channels in enumerate(groups):
        margins = np.abs(shape.margins(calibration.standardised, channels))
        distances = shape.distances(calibration.whitened, channels)
        for block in _split(margins, blocks):
            units["margin"].append(collect(block, Gaussian(1)))
        for patch, length in enumerate(lengths):
            units["patch"].append(collect(distances[..., patch, None], Gaussian(int(length))))
        highest = (margins / np.repeat(reference.margin[k], blocks)).max(axis=-1, keepdims=True)
        units["band"].append(collect(highest, Gaussian(1, calibration.horizon), unit=float(reference.margin[k].mean())))
        furthest = (distances / reference.patch[k]).max(axis=-1, keepdims=True)
        wide = Gaussian(int(lengths[0]), len(lengths))
        units["region"].append(collect(furthest, wide, unit=float(reference.patch[k].mean())))
    members = len(groups[0]) * len(calibration)
    tables = {
        kind: RadiusTable.join(
            [radii for radii, *_ in rows],
            [n_eff for _, n_eff, *_ in rows],
            [spread for *_, spread, _ in rows],
            gaussian=[distribution for *_, distribution in rows],
            n=members * int(blocks[0]) if kind == "margin" else members,
        )
        for kind, rows in units.items()
    }
    return Radii(tables["margin"], tables["patch"], tables["band"], tables["region"], reference)


def _reference(
    residuals: Residuals,
    shape: Shape,
    groups: list[NDArray[np.int64]],
    blocks: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> Reference:
    if not len(residuals):
        margin = np.full((len(groups), len(blocks)), Gaussian(1).radius(REFERENCE))
        ball = np.array([Gaussian(int(length)).radius(REFERENCE) for length in lengths])
        return Reference(margin, np.broadcast_to(ball, (len(groups), len(lengths))).copy())

    def quantile(scores: NDArray[Any]) -> float:
        return max(LEAST_REFERENCE, float(order_statistics(scores, np.array([REFERENCE / 100]))[0]))

    margins, patches = [], []
    for channels in groups:
        sizes = np.abs(shape.margins(residuals.standardised, channels))
        distances = shape.distances(residuals.whitened, channels)
        margins.append([quantile(block) for block in _split(sizes, blocks)])
        patches.append([quantile(distances[..., patch]) for patch in range(len(lengths))])
    return Reference(np.array(margins), np.array(patches))


def _split(margins: Values, blocks: NDArray[np.int64]) -> list[Values]:
    return np.split(margins, np.cumsum(blocks)[:-1], axis=-1)

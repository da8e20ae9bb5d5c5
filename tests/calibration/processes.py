"""Distributions and series with known coverage, for the calibration tests."""

import numpy as np
import torch

from fern.transport import Ellipsoid

BASE = 0.1


def householder_vectors(orthogonal: np.ndarray) -> np.ndarray:  # (p, p) -> (p, p)
    """Vectors whose reflections, first to last, make up the transpose, up to the signs of its rows."""
    work, vectors = orthogonal.copy(), np.zeros_like(orthogonal)
    for k in range(len(work) - 1):
        v = np.zeros(len(work))
        v[k:] = work[k:, k]
        v[k] += np.copysign(np.linalg.norm(v), v[k])
        vectors[k] = v
        work -= 2 * np.outer(v, v @ work) / (v @ v)
    return vectors


def gaussian_distribution(
    mean: np.ndarray,  # (N, C, H)
    covariance: np.ndarray,  # (H, H)
    *,
    patch_size: int,
    scale: float | np.ndarray = 1.0,  # broadcasts with (N, C)
) -> Ellipsoid:
    """The distribution N(mean, scale² covariance), cut into patches, with the covariance within each."""
    n, channels, horizon = mean.shape
    g = -(-horizon // patch_size)
    eigenvalues, vectors = np.ones((g, patch_size)), np.zeros((g, patch_size, patch_size))
    roots = np.broadcast_to(np.eye(patch_size), (g, patch_size, patch_size)).copy()
    for patch in range(g):
        rows = slice(patch * patch_size, min((patch + 1) * patch_size, horizon))
        m = rows.stop - rows.start
        values, basis = np.linalg.eigh(covariance[rows, rows] / BASE)
        eigenvalues[patch, :m] = np.sqrt(values)
        vectors[patch, :m, :m] = householder_vectors(basis)
        roots[patch, :m, :m] = (basis * np.sqrt(values)) @ basis.T
    scales = np.broadcast_to(scale, (n, channels))[..., None, None]
    padded = np.zeros((n, channels, g * patch_size))
    padded[..., :horizon] = mean
    shift = np.einsum("gpq,ncgq->ncgp", np.linalg.inv(roots), padded.reshape(n, channels, g, patch_size)) / scales
    return Ellipsoid(
        torch.as_tensor(eigenvalues * scales),
        torch.as_tensor(shift),
        torch.as_tensor(np.broadcast_to(vectors, (n, channels, *vectors.shape)).copy()),
        base_variance=BASE,
        horizon=horizon,
        eigenvalue_floor=1e-12,
    )


def ar_covariance(phi: float, horizon: int) -> np.ndarray:  # (H, H)
    """The covariance of x_{t+1…t+H} given x_t of an AR(1) with unit innovations."""
    steps = np.arange(1, horizon + 1)
    least, apart = np.minimum.outer(steps, steps), np.abs(np.subtract.outer(steps, steps))
    return phi**apart * (1 - phi ** (2 * least)) / (1 - phi**2)


def ar_series(rng: np.random.Generator, phi: float, rows: int, channels: int = 1) -> np.ndarray:  # (rows, C)
    """A stationary AR(1) with unit innovations."""
    series = rng.normal(size=(rows, channels))
    series[0] /= np.sqrt(1 - phi**2)
    for t in range(1, rows):
        series[t] += phi * series[t - 1]
    return series


def windows_of(
    series: np.ndarray,  # (rows, C)
    phi: float,
    origins: np.ndarray,
    horizon: int,
) -> tuple[np.ndarray, np.ndarray]:  # y (n, H, C) and the best means (n, C, H)
    """The targets after each origin, and their means given the value before."""
    y = np.stack([series[t : t + horizon] for t in origins])
    mean = series[origins - 1][:, :, None] * phi ** np.arange(1, horizon + 1)
    return y, mean


def tilted_distribution(rng: np.random.Generator, mean: np.ndarray, *, least: float) -> Ellipsoid:  # (N, C, H)
    """Unit variance in every direction of one patch but one, which differs from window to window: there ``least``².

    Training by the CRPS of each step leaves such axes behind: they hardly show in the deviation of a step.
    """
    n, channels, horizon = mean.shape
    deviations = np.ones((n, channels, 1, horizon))
    deviations[..., 0] = least
    return Ellipsoid(
        torch.as_tensor(deviations / np.sqrt(BASE)),
        None,
        torch.as_tensor(rng.normal(size=(n, channels, 1, 1, horizon))),
        offset=torch.as_tensor(mean[:, :, None]),
        base_variance=BASE,
        horizon=horizon,
    )

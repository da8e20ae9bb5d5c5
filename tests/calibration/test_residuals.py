"""Residuals under the distribution, and what is known of their windows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.calibration.processes import gaussian_distribution

from fern.calibration import Residuals, fit_calibration
from fern.errors import FernError


def test_the_score_is_the_mahalanobis_distance_of_the_dense_covariance(make_distribution, rng) -> None:
    distribution = make_distribution(n=7, channels=2, horizon=8)
    y = rng.normal(size=(7, 8, 2))
    z = Residuals.of(distribution, y, origins=range(7)).whitened
    covariance = distribution.covariance_matrix.numpy()
    away = y.swapaxes(1, 2) - distribution.mean.numpy()
    for p in range(2):
        rows = slice(4 * p, 4 * p + 4)
        dense = np.einsum(
            "nci,ncij,ncj->nc", away[..., rows], np.linalg.inv(covariance[..., rows, rows]), away[..., rows]
        )
        np.testing.assert_allclose(np.square(z[..., rows]).sum(-1), dense, rtol=1e-9)


class Known:
    """The covariance of each window as MAPIE asks for it: X holds the window's number."""

    def __init__(self, covariances: np.ndarray) -> None:  # (n, H, H)
        self.covariances = covariances

    def fit(self, X: np.ndarray, y: np.ndarray, y_pred: np.ndarray | None = None) -> None:
        """Nothing to fit: the covariances are given."""

    def get_distribution(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(X), self.covariances.shape[-1])), self.get_covariance_matrix(X)

    def get_covariance_matrix(self, X: np.ndarray) -> np.ndarray:
        return self.covariances[X[:, 0].astype(int)]


@given(
    seed=st.integers(0, 2**32 - 1), horizon=st.integers(2, 13), patch_size=st.integers(1, 13), spread=st.floats(0, 2)
)
def test_the_score_is_that_of_mapie(seed: int, horizon: int, patch_size: int, spread: float) -> None:
    """‖Σ^(-1/2)(y − μ)‖ over the whole horizon; MAPIE 1.6 has it among what it calls experimental."""
    mapie = pytest.importorskip("mapie.experimental")
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(horizon, horizon))
    distribution = gaussian_distribution(
        rng.normal(size=(6, 1, horizon)),
        mixed @ mixed.T / horizon + 0.1 * np.eye(horizon),
        patch_size=min(patch_size, horizon),
        scale=np.exp(spread * rng.normal(size=(6, 1))),
    )
    y = rng.normal(size=(6, horizon))
    score = mapie.MultivariateResidualNormalisedScore(
        covariance_estimator=Known(distribution.covariance_matrix[:, 0].numpy())
    )
    numbers = np.arange(6.0)[:, None]
    theirs = score.fit(numbers, y).get_signed_conformity_scores(y, distribution.mean[:, 0].numpy(), X=numbers)
    residuals = Residuals.of(distribution, y[..., None], origins=range(6))
    np.testing.assert_allclose(np.linalg.norm(residuals.whitened[:, 0], axis=-1), theirs, rtol=1e-6)
    np.testing.assert_allclose(distribution.mahalanobis(torch.from_numpy(y)[:, None])[:, 0], theirs, rtol=1e-6)


def test_batches_join_in_order_of_series_and_time(make_distribution, rng) -> None:
    distribution, y = make_distribution(n=6), rng.normal(size=(6, 10, 2))
    late = Residuals.of(distribution, y, origins=range(6, 12), series=list("bababa"))
    early = Residuals.of(distribution, y, origins=range(6), series=list("ababab"))
    joined = Residuals.joined([late, early])
    assert joined.series.tolist() == ["a"] * 6 + ["b"] * 6
    assert joined.origins.tolist() == [0, 2, 4, 7, 9, 11, 1, 3, 5, 6, 8, 10]


def test_windows_whose_targets_overlap_with_later_ones_are_left_out(make_distribution, rng) -> None:
    distribution, y = make_distribution(n=60), rng.normal(size=(60, 10, 2))
    early, late = (
        Residuals.of(distribution, y, origins=range(60)),
        Residuals.of(distribution, y, origins=range(65, 125)),
    )
    assert early.apart_from(late).origins.tolist() == list(range(56))
    assert early.disjoint() == 6
    note = fit_calibration(late, early).notes[0]
    assert note == "4 validation windows were left out: their targets overlap with calibration's"


def test_windows_of_other_series_never_overlap(make_distribution, rng) -> None:
    distribution, y = make_distribution(n=4), rng.normal(size=(4, 10, 2))
    here, there = (Residuals.of(distribution, y, origins=range(4), series=[name] * 4) for name in "ab")
    assert len(here.apart_from(there)) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.full((60, 10, 2), np.nan)}, "y: "),
        ({"y": np.zeros((60, 9, 2))}, "do not fit true of shape"),
        ({"y": np.zeros((60, 10))}, "y: "),
        ({"origins": range(59)}, "origins: "),
        ({"series": [1, 2]}, "series: "),
        (
            {"distribution": torch.distributions.Normal(0.0, 1.0)},
            "distribution: ",
        ),
    ],
)
def test_bad_input_is_named(make_distribution, change, message) -> None:
    given = {
        "distribution": make_distribution(),
        "y": np.zeros((60, 10, 2)),
        "origins": range(60),
        "series": None,
    } | change
    distribution, y = given.pop("distribution"), given.pop("y")
    with pytest.raises(FernError, match=message):
        Residuals.of(distribution, y, **given)


def test_a_distribution_with_nan_is_refused(make_distribution) -> None:
    distribution = make_distribution()
    distribution.shift = distribution.shift.clone()
    distribution.shift[3, 1, 0, 0] = torch.nan
    with pytest.raises(FernError, match="nan at batch 3, channels 1"):
        Residuals.of(distribution, np.zeros((60, 10, 2)), origins=range(60))

"""Residuals of held-out windows, how many independent ones they are worth, and their conformal quantiles."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from tests.calibration.processes import ar_series, gaussian_distribution

from fern.calibration import Residuals, fit_calibration
from fern.calibration.residuals import (
    LEVELS,
    Gaussian,
    RadiusTable,
    conformal_radii,
    effective_size,
    least_size_for,
)
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


def table(scores: np.ndarray, n_eff: float) -> RadiusTable:
    radii = conformal_radii(scores[:, None], n_eff)
    return RadiusTable.join([radii], [n_eff], [1.0], n=len(scores), gaussian=[Gaussian(1)])


@pytest.mark.parametrize("freedom", [1, 2, 24, 336])
def test_gaussian_radii_are_quantiles_of_the_chi_distribution(freedom: int) -> None:
    for level in (0.1, 50.0, 90.0, 99.9999):
        expected = stats.chi(freedom).ppf(level / 100) / freedom**0.5
        assert Gaussian(freedom).radius(level) == pytest.approx(expected, rel=1e-9)


@given(st.integers(20, 200), st.sampled_from([50, 80, 90, 95]))
def test_independent_scores_give_the_usual_order_statistic(n: int, level: int) -> None:
    scores = np.random.default_rng(n).permutation(n) + 1.0
    assert table(scores, n).at(level)[0] == np.ceil(round((n + 1) * level / 100, 9))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0.01, 99.99), st.floats(0.01, 99.99))
def test_radii_grow_with_the_level(scores, one, other) -> None:
    radii = table(np.array(scores), len(scores))
    low, high = sorted((one, other))
    assert radii.at(low) <= radii.at(high)
    assert np.isfinite(radii.at(high)).all()


def test_a_level_is_available_from_the_number_of_rows_it_needs() -> None:
    for level in (50, 80, 90, 95, 99):
        needed = least_size_for(level)
        assert table(np.arange(100.0), needed).supports(level)
        assert not table(np.arange(100.0), needed - 0.01).supports(level)


def test_levels_that_data_cannot_support_are_gaussian_and_not_narrower() -> None:
    few = table(np.full(5, 0.1), 5)
    assert few.at(95)[0] == pytest.approx(1.96, abs=0.001)
    assert few.at(80)[0] == 0.1
    wide = table(np.full(5, 7.0), 5)
    assert wide.at(99.99)[0] == 7.0


def test_usual_levels_lie_on_the_grid() -> None:
    assert {50.0, 80.0, 90.0, 95.0, 97.5, 99.0, 99.9} <= set(LEVELS.tolist())


def size(scores: np.ndarray, *, series: np.ndarray | None = None, lags: int = 50) -> float:
    n = len(scores)
    return effective_size(
        scores.reshape(n, -1),
        series=np.zeros(n, np.int64) if series is None else series,
        lags=lags,
    )


@given(
    arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=st.floats(-9, 9)),
    st.integers(0, 60),
    st.integers(1, 5),
)
def test_never_more_than_there_are(scores, lags, many) -> None:
    series = np.arange(len(scores)) * many // len(scores)
    assert 1 <= size(scores, lags=lags, series=series) <= scores.size


def test_independent_windows_count_in_full(rng) -> None:
    assert size(rng.random(1000), series=np.arange(1000)) == pytest.approx(1000)
    assert size(rng.random(4000), lags=20) > 2500


def test_dependent_windows_count_less(rng) -> None:
    sums = np.convolve(rng.normal(size=4000), np.ones(20), mode="valid")
    assert 150 < size(sums) < 450  # 200 do not overlap


def test_equal_channels_count_once_and_independent_ones_each(rng) -> None:
    scores = rng.random((1000, 1))
    assert size(np.repeat(scores, 5, axis=1), series=np.arange(1000)) == pytest.approx(1000, rel=1e-9)
    assert 3500 < size(rng.random((1000, 5)), series=np.arange(1000)) <= 5000


def test_few_windows_cannot_show_that_channels_are_independent(rng) -> None:
    assert size(rng.random((5, 100)), series=np.arange(5)) < 20


def test_the_estimate_is_near_the_truth_with_few_windows() -> None:
    """Maxima over 48 steps of an AR(1), 117 windows: true n_eff 9.5."""
    found = []
    for seed in range(60):
        series = ar_series(np.random.default_rng(seed), 0.8, 400)[:, 0]
        found.append(size(np.array([np.abs(series[t : t + 48]).max() for t in range(0, 352, 3)]), lags=32))
    assert 6 < np.median(found) < 14


def test_windows_that_all_overlap_are_worth_one() -> None:
    """Windows one row apart over 12 steps: four span 15 rows, which is not two windows."""
    scores = np.random.default_rng(0).random((4, 12))
    series = np.zeros(4, dtype=np.int64)
    assert effective_size(scores, lags=24, series=series) == 1.0
    assert effective_size(scores[:1], lags=0, series=series[:1]) == 1.0
    assert effective_size(scores, lags=2, series=series) > 4  # no overlap: every step counts

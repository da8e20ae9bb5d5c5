"""Conformal quantiles, Gaussian radii, and how many independent windows dependent ones are worth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from tests.calibration.processes import ar_series

from fern.calibration.quantiles import (
    LEVELS,
    Gaussian,
    RadiusTable,
    conformal_radii,
    effective_size,
    least_size_for,
    weighted_quantiles,
)


def table(scores: np.ndarray, n_eff: float) -> RadiusTable:
    radii = conformal_radii(scores[:, None], np.ones(len(scores)), n_eff)
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


def test_weights_count_as_repetitions(rng) -> None:
    scores, times = rng.random((50, 1)), rng.integers(1, 6, size=50)
    repeated = np.repeat(scores, times, axis=0)
    shares = np.linspace(0.01, 1, 37)
    np.testing.assert_array_equal(
        weighted_quantiles(scores, times.astype(float), shares),
        weighted_quantiles(repeated, np.ones(len(repeated)), shares),
    )


def test_usual_levels_lie_on_the_grid() -> None:
    assert {50.0, 80.0, 90.0, 95.0, 97.5, 99.0, 99.9} <= set(LEVELS.tolist())


def size(scores: np.ndarray, *, series: np.ndarray | None = None, lags: int = 50, weights=None) -> float:
    n = len(scores)
    return effective_size(
        scores.reshape(n, -1),
        series=np.zeros(n, np.int64) if series is None else series,
        lags=lags,
        weights=np.ones(n) if weights is None else weights,
    )


@given(
    arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=st.floats(-9, 9)),
    st.integers(0, 60),
    st.integers(1, 5),
)
def test_never_more_than_there_are(scores, lags, many) -> None:
    series = np.arange(len(scores)) * many // len(scores)
    assert 1 <= size(scores, lags=lags, series=series) <= scores.size


@given(arrays(np.float64, 30, elements=st.floats(0.01, 1)))
def test_uneven_weights_are_worth_less(weights) -> None:
    scores = np.random.default_rng(0).random(30)
    assert size(scores, weights=weights, lags=0) <= 30 + 1e-9


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
    common = {"series": np.zeros(4, dtype=np.int64), "weights": np.ones(4)}
    assert effective_size(scores, lags=24, **common) == 1.0
    assert effective_size(scores[:1], lags=0, series=np.zeros(1, dtype=np.int64), weights=np.ones(1)) == 1.0
    assert effective_size(scores, lags=2, **common) > 4  # no overlap: every step counts

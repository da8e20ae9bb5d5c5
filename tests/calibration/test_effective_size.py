"""How many independent windows dependent ones are worth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.calibration.processes import ar_series

from fern.calibration.effective_size import effective_size


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
    assert effective_size(scores, lags=2, **common) > 4  # no overlap: every step counts

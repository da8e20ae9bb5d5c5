"""Tests of significance find what is there, and find nothing in noise, however much the windows overlap."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.errors import raises_error

from fern.benchmark.significance import diebold_mariano, friedman, long_run_variance, nemenyi, tied_ranks


def overlapping(rng, *, windows, horizon):
    """The mean of ``horizon`` fresh values in each window, windows starting one row apart: pure noise around 0."""
    running = np.concatenate([[0.0], np.cumsum(rng.normal(size=windows + horizon - 1))])
    return (running[horizon:] - running[:-horizon]) / horizon


@pytest.mark.parametrize(("windows", "horizon"), [(1000, 10), (600, 72), (2600, 336)])
def test_noise_in_overlapping_windows_is_called_a_difference_about_one_time_in_twenty(windows, horizon):
    rng, trials = np.random.default_rng(4), 300
    found = {"diebold_mariano": 0, "t-test": 0}
    for _ in range(trials):
        noise = overlapping(rng, windows=windows, horizon=horizon)
        found["diebold_mariano"] += diebold_mariano(noise, np.zeros_like(noise), horizon=horizon).p_value < 0.05
        found["t-test"] += stats.ttest_1samp(noise, 0.0).pvalue < 0.05
    # 15 expected of 300, with a standard deviation of 3.8: 30 is four of them away. The naive test is nowhere near.
    assert 4 <= found["diebold_mariano"] <= 30
    assert found["t-test"] > 0.4 * trials


def test_a_real_difference_is_found_and_has_its_sign():
    rng = np.random.default_rng(1)
    noise = overlapping(rng, windows=2000, horizon=24)
    better, worse = noise + 1.0, noise + 1.5 + overlapping(rng, windows=2000, horizon=24)
    tested = diebold_mariano(better, worse, horizon=24)
    assert tested.statistic < 0
    assert tested.p_value < 1e-3
    assert tested.low < -0.5 < tested.high < 0.0


@pytest.mark.parametrize("level", [50.0, 90.0, 99.0])
def test_the_interval_ends_where_the_test_begins_to_reject(level):
    a = np.random.default_rng(2).normal(size=300)
    tested = diebold_mariano(a, 0 * a, horizon=5, level=level)
    for end in (tested.low, tested.high):
        assert diebold_mariano(a, 0 * a + end, horizon=5).p_value == pytest.approx(1 - level / 100)


def test_at_horizon_1_and_lag_0_diebold_mariano_is_the_t_test():
    a, b = np.random.default_rng(7).normal(size=(2, 50))
    found = diebold_mariano(a, b, horizon=1, lag=0)
    known = stats.ttest_rel(a, b)
    assert found.statistic == pytest.approx(known.statistic)
    assert found.p_value == pytest.approx(known.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(known.confidence_interval(0.95)))


def test_the_long_run_variance_is_the_weighted_sum_of_autocovariances():
    values = np.random.default_rng(8).normal(size=60)
    centred = values - values.mean()
    covariances = [(centred[k:] * centred[: 60 - k]).sum() / 60 for k in range(8)]
    plain = covariances[0] + 2 * sum((1 - k / 8) * covariances[k] for k in range(1, 8))
    assert long_run_variance(values, 7) == pytest.approx(plain)


def test_identical_forecasters_are_equal_and_a_constant_gap_is_certain():
    errors = np.random.default_rng(9).random(100)
    same = diebold_mariano(errors, errors, horizon=10)
    assert (same.statistic, same.p_value) == (0.0, 1.0)
    assert diebold_mariano(np.ones(100), np.zeros(100), horizon=10).p_value == 0.0
    assert (same.low, same.high) == (0.0, 0.0)


@given(
    st.integers(2, 12).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 6), min_size=k, max_size=k), min_size=2, max_size=12)
    )
)
def test_friedman_agrees_with_scipy_ties_included(table):
    errors = np.array(table, dtype=float)
    found = friedman(errors)
    np.testing.assert_allclose(found.average, np.mean([stats.rankdata(row) for row in errors], axis=0))
    if errors.shape[1] >= 3 and any(len(set(row)) > 1 for row in table):
        known = stats.friedmanchisquare(*errors.T)
        assert found.statistic == pytest.approx(known.statistic, abs=1e-9)
        assert found.p_value == pytest.approx(known.pvalue, abs=1e-9)


def test_models_that_are_equal_everywhere_do_not_differ():
    found = friedman(np.ones((5, 3)))
    assert found.average == (2.0, 2.0, 2.0)
    assert (found.statistic, found.p_value, found.f_p_value) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize(("models", "q"), [(2, 1.960), (3, 2.344), (7, 2.949), (10, 3.164)])
def test_the_critical_difference_is_that_of_the_published_table(models, q):  # Demšar (2006), table 5
    expected = q * math.sqrt(models * (models + 1) / (6 * 12))
    assert nemenyi(models=models, scenarios=12, alpha=0.05) == pytest.approx(expected, rel=4e-4)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_ranks_are_those_of_scipy(values):
    np.testing.assert_array_equal(tied_ranks(values), stats.rankdata(values))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda a: diebold_mariano(a, a[:-1], horizon=2), "errors"),
        (lambda a: diebold_mariano(a, a, horizon=20), "errors"),
        (lambda a: diebold_mariano(a, a * np.nan, horizon=2), "errors"),
        (lambda a: diebold_mariano(a, a, horizon=5, lag=3), "lag"),
        (lambda a: diebold_mariano(a, a, horizon=5, level=0.95), "level"),
        (lambda a: friedman(a), "errors"),
        (lambda a: nemenyi(models=1, scenarios=3), "models"),
        (lambda a: nemenyi(models=3, scenarios=3, alpha=1.0), "alpha"),
    ],
)
def test_bad_input_is_named(call, argument):
    with raises_error(argument):
        call(np.arange(30.0))


@pytest.mark.parametrize(
    ("table", "p_value"),
    [([[1, 2]] * 3, 1 / 4), ([[1, 2, 3]] * 2, 1 / 6), ([[1, 1, 2]] * 3, 1 / 9), ([[3, 1, 2, 4]] * 4, 24.0**-3)],
)
def test_full_agreement_has_the_exact_chance_of_it(table, p_value):
    # N scenarios order k models alike by chance with probability (orders)^-(N - 1).
    assert friedman(table).f_p_value == pytest.approx(p_value, rel=1e-12)

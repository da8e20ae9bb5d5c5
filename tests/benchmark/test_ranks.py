"""Tests of significance find what is there, and find nothing in noise, however much the windows overlap."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.errors import raises_error

from fern.benchmark.significance import (
    block_bootstrap,
    diebold_mariano,
    friedman,
    long_run_variance,
    nemenyi,
    tied_ranks,
)


def overlapping(rng, *, windows, horizon):
    """The mean of ``horizon`` fresh values in each window, windows starting one row apart: pure noise around 0."""
    running = np.concatenate([[0.0], np.cumsum(rng.normal(size=windows + horizon - 1))])
    return (running[horizon:] - running[:-horizon]) / horizon


@pytest.mark.parametrize(("windows", "horizon"), [(1000, 10), (600, 72), (2600, 336)])
def test_noise_in_overlapping_windows_is_called_a_difference_about_one_time_in_twenty(windows, horizon):
    rng, trials = np.random.default_rng(4), 300
    found = {"diebold_mariano": 0, "bootstrap": 0, "t-test": 0}
    for _ in range(trials):
        noise = overlapping(rng, windows=windows, horizon=horizon)
        nothing = np.zeros_like(noise)
        found["diebold_mariano"] += diebold_mariano(noise, nothing, horizon=horizon).p_value < 0.05
        interval = block_bootstrap(noise, nothing, horizon=horizon, generator=rng, resamples=200)
        found["bootstrap"] += interval.excludes_zero
        found["t-test"] += stats.ttest_1samp(noise, 0.0).pvalue < 0.05
    # 15 expected of 300, with a standard deviation of 3.8: 30 is four of them away. The naive test is nowhere near.
    assert 4 <= found["diebold_mariano"] <= 30
    assert 4 <= found["bootstrap"] <= 36  # a little more: 200 resamples, few blocks
    assert found["t-test"] > 0.4 * trials


def test_a_real_difference_is_found_and_has_its_sign():
    rng = np.random.default_rng(1)
    noise = overlapping(rng, windows=2000, horizon=24)
    better, worse = noise + 1.0, noise + 1.5 + overlapping(rng, windows=2000, horizon=24)
    tested = diebold_mariano(better, worse, horizon=24)
    interval = block_bootstrap(better, worse, horizon=24, generator=rng)
    assert tested.statistic < 0
    assert tested.p_value < 1e-3
    assert interval.low < interval.difference < interval.high < 0.0
    assert interval.low < -0.5 < interval.high


def test_the_same_generator_gives_the_same_interval_and_swapped_models_its_mirror_image():
    a, b = np.random.default_rng(2).normal(size=(2, 300))
    drawn = [block_bootstrap(a, b, horizon=5, generator=np.random.default_rng(3)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    swapped = block_bootstrap(b, a, horizon=5, generator=np.random.default_rng(3))
    assert swapped.difference == -drawn[0].difference
    assert (-swapped.high, -swapped.low) == pytest.approx((drawn[0].low, drawn[0].high))


def test_with_blocks_of_one_the_bootstrap_agrees_with_the_t_interval():
    a = np.random.default_rng(5).normal(size=400)
    found = block_bootstrap(a, 0 * a, horizon=1, block=1, resamples=4000, generator=np.random.default_rng(6))
    half = stats.t.ppf(0.975, 399) * a.std(ddof=1) / 20
    assert found.low == pytest.approx(a.mean() - half, abs=0.1 * half)  # 4000 resamples: a few percent
    assert found.high == pytest.approx(a.mean() + half, abs=0.1 * half)


def test_at_horizon_1_and_lag_0_diebold_mariano_is_the_t_test():
    a, b = np.random.default_rng(7).normal(size=(2, 50))
    found = diebold_mariano(a, b, horizon=1, lag=0)
    known = stats.ttest_rel(a, b)
    assert found.statistic == pytest.approx(known.statistic)
    assert found.p_value == pytest.approx(known.pvalue)


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
    interval = block_bootstrap(errors, errors, horizon=10, generator=np.random.default_rng(0))
    assert (interval.low, interval.high) == (0.0, 0.0)
    assert not interval.excludes_zero


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
        (lambda a: block_bootstrap(a, a, horizon=5, block=4, generator=np.random.default_rng()), "block"),
        (lambda a: block_bootstrap(a, a, horizon=5, level=0.95, generator=np.random.default_rng()), "level"),
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

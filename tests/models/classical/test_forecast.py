"""A table of quantiles as a distribution: quantiles, paths and mean agree."""

import numpy as np
import pytest

from fern.models.classical import KNOTS, QuantileForecast
from fern.models.classical.forecast import SCORES


@pytest.fixture
def walk():
    stddev = np.sqrt(np.arange(1.0, 7.0))[None]
    return QuantileForecast.normal(np.full((1, 6), 3.0), stddev, np.ones((1, 6)))


def test_quantiles_at_the_knots_are_the_table(walk):
    assert walk.quantile(KNOTS.tolist())[:, 0] == pytest.approx(walk.table[0].T)


def test_quantiles_beyond_the_knots_go_on(walk):
    far = walk.quantile([1e-5, 1 - 1e-5])[:, 0, 0] - 3
    assert far == pytest.approx([-4.265, 4.265], abs=0.01)


def test_paths_have_the_quantiles_of_each_step_and_the_walks_correlation(walk):
    paths = walk.sample(20_000, np.random.default_rng(0))[:, 0]
    assert np.quantile(paths, [0.1, 0.5, 0.9], axis=0) == pytest.approx(walk.quantile([0.1, 0.5, 0.9])[:, 0], abs=0.08)
    correlation = np.corrcoef(paths[:, 0], paths[:, 3])[0, 1]
    assert correlation == pytest.approx(0.5, abs=0.03)  # √(1/4) of a random walk
    assert paths.sum(axis=1).std() == pytest.approx(np.sqrt(91), rel=0.03)


def test_the_mean_through_the_exponential_is_the_lognormal_one(walk):
    moved = walk.through(np.exp)
    assert moved.mean[0, :3] == pytest.approx(np.exp(3 + 0.5 * np.arange(1, 4)), rel=0.02)
    assert moved.quantile([0.9])[0, 0, 0] == pytest.approx(np.exp(3 + 1.28155), rel=1e-3)


def test_nothing_lies_below_a_bound(walk):
    bounded = walk.clip_below(np.array([0.0]))
    assert bounded.table.min() == 0
    assert bounded.sample(200, np.random.default_rng(0)).min() == 0
    assert (bounded.quantile([0.9]) == walk.quantile([0.9])).all()


def test_a_stepped_series_takes_only_values_of_its_table():
    table = np.where(KNOTS > 0.7, 2.0, 0.0)[None, None].repeat(3, axis=1)
    made = QuantileForecast(np.full((1, 3), 0.6), table, np.eye(1, 3), np.array([True]))
    shares = np.linspace(0.01, 0.99, 99)
    assert set(np.unique(made.quantile(shares.tolist()))) == {0.0, 2.0}
    assert set(np.unique(made.sample(500, np.random.default_rng(0)))) == {0.0, 2.0}


def test_series_may_be_taken_out(walk):
    assert walk.take(np.array([0, 0])).table.shape == (2, 6, len(SCORES))

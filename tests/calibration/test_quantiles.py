"""Conformal quantiles and Gaussian radii."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fern.calibration.quantiles import (
    LEVELS,
    Gaussian,
    RadiusTable,
    conformal_radii,
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

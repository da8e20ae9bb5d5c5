"""Seasons are found in contexts of any length, and not in what has none."""

import numpy as np
import pytest

from fern.models.pretrained.representation import find_seasons


@pytest.fixture(autouse=True)
def rng(monkeypatch):
    """Every test draws from a generator of its own: what it sees does not depend on which tests ran before."""
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(5))


RNG = np.random.default_rng(5)


def seasons_of(values, **options):
    n = len(values)
    return find_seasons(values[None].astype(float), np.array([0]), np.array([n]), np.array([n]), **options)


def wave(period, length, noise=0.0):
    profile = RNG.normal(size=period)
    return np.tile(profile, length // period + 1)[:length] + noise * RNG.normal(size=length)


@pytest.mark.parametrize(
    ("period", "length"), [(4, 24), (7, 60), (12, 60), (24, 200), (52, 260), (96, 500), (144, 2000)]
)
def test_a_season_is_found_at_its_period(period, length):
    hits = sum(seasons_of(wave(period, length)).short[0] == period for _ in range(20))
    assert hits >= (15 if length < 10 * period else 18)  # few cycles: a half or a double of it may look as good


@pytest.mark.parametrize("period", [7, 12, 24])
def test_noise_and_trend_do_not_hide_it(period):
    hits = 0
    for _ in range(40):
        values = wave(period, 20 * period, noise=0.5) + np.linspace(0, 20, 20 * period)
        hits += seasons_of(values).short[0] == period
    assert hits >= 36


def test_a_day_and_a_week_are_told_apart():
    drawn = [seasons_of(3 * wave(24, 168 * 6) + wave(168, 168 * 6)) for _ in range(20)]
    assert sum((seasons.short[0], seasons.long[0]) == (24, 168) for seasons in drawn) >= 17


def test_white_noise_has_none_as_a_rule_and_random_walks_often():
    none = [seasons_of(RNG.normal(size=300)).short[0] == 1 for _ in range(50)]
    walks = [seasons_of(np.cumsum(RNG.normal(size=300))).short[0] == 1 for _ in range(50)]
    assert np.mean(none) > 0.9
    assert np.mean(walks) > 0.25


def test_a_known_season_is_taken_where_two_cycles_are_there():
    assert seasons_of(RNG.normal(size=100), short=np.array([10])).short[0] == 10
    assert seasons_of(RNG.normal(size=15), short=np.array([10])).short[0] == 1


def test_constant_and_shortest_contexts_have_none():
    assert seasons_of(np.full(40, 3.0)).short[0] == 1
    assert seasons_of(np.arange(8.0)).short[0] == 1


def test_seasons_do_not_depend_on_unit_sign_or_neighbours():
    values = wave(12, 120, noise=0.3)
    pool = np.stack([values, -1e6 * values + 3e7, RNG.normal(size=120)])
    found = find_seasons(pool, np.arange(3), np.full(3, 120), np.full(3, 120))
    alone = seasons_of(values)
    assert found.short[0] == found.short[1] == alone.short[0]
    assert np.allclose(found.clarity[0], found.clarity[1], atol=1e-6)

"""The mixture of synthetic families: by seed, interleaved, in the proportions of the table."""

import itertools
from collections import Counter

import numpy as np
import pytest

from fern.errors import FernError
from fern.synthetic import FAMILIES, generate, stream


def test_the_same_seed_gives_the_same_series_and_another_seed_others():
    first, again, other = (generate(300, length=128, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.values, again.values)
    assert first.families == again.families
    assert not np.array_equal(first.values, other.values)


def test_a_shorter_draw_is_the_start_of_a_longer_one():
    few, many = (generate(count, length=64, seed=2) for count in (10, 400))
    assert np.array_equal(few.values, many.values[:10])


def test_a_stream_can_start_at_any_block():
    blocks = stream(length=64, seed=9)
    third = [next(blocks) for _ in range(3)][2]
    assert np.array_equal(next(stream(length=64, seed=9, first=2)).values, third.values)


def test_shares_are_those_of_the_table():
    drawn = Counter(generate(5120, length=32, seed=1).families)
    total = sum(family.weight for family in FAMILIES.values())
    for name, family in FAMILIES.items():
        share = family.weight / total
        error = np.sqrt(share * (1 - share) / 5120)
        assert abs(drawn[name] / 5120 - share) < 5 * error, name


def test_families_are_interleaved():
    names = generate(256, length=32, seed=3).families
    changes = sum(a != b for a, b in itertools.pairwise(names))
    assert changes > 200  # blocks of families would have 15


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("length", [16, 2144])
def test_every_family_gives_finite_series_that_move(name, length):
    values = generate(256 if length < 2000 else 64, length=length, seed=11, only=[name], artefacts=False).values
    assert np.isfinite(values).all()
    still = (values.std(1) == 0).mean()
    assert still < (0.7 if name == "intermittent" else 0.02)


def test_artefacts_change_some_series_and_not_most():
    plain, recorded = (generate(256, length=256, seed=4, artefacts=on).values for on in (False, True))
    changed = (plain != recorded).any(1).mean()
    assert 0.05 < changed < 0.3


@pytest.mark.parametrize(
    "arguments",
    [{"length": 15}, {"length": 64, "only": ["armer"]}, {"length": 64, "only": []}, {"length": 64, "seed": -1}],
)
def test_mistakes_are_refused(arguments):
    with pytest.raises(FernError):
        generate(3, **{"seed": 1, **arguments})

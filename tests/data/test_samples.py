"""Sample tables are the same for the same seed."""

from fern.data.samples import sample_load


def test_a_seed_gives_the_same_table_and_another_seed_another():
    assert sample_load(4).equals(sample_load(4))
    assert not sample_load(4).equals(sample_load(4, seed=8))


def test_more_days_begin_with_the_same_ones():
    assert sample_load(6).slice(0, 96).equals(sample_load(4))


def test_temperature_comes_beside_the_same_load():
    both = sample_load(2, temperature=True)
    assert both.column_names == ["time", "load", "temperature"]
    assert both.select(["time", "load"]).equals(sample_load(2))

"""Standings: ranks over datasets, what the tests say of them, and each case's best against the others."""

import numpy as np
import pytest
from tests.benchmark.support import row_for, tiny_plan

from fern.benchmark.significance import diebold_mariano, friedman, nemenyi
from fern.benchmark.store import Store
from fern.benchmark.tables.cells import fill_grid
from fern.benchmark.tables.ranking import against_best, standings

RUN = tiny_plan(models=["dlinear"]).runs[0]


def rows(table, **changes):
    """One row for each entry of {dataset: {model: mse}}."""
    return [
        row_for(RUN, task="t", model=model, dataset=dataset, metrics={"mse": mse}, **changes)
        for dataset, found in table.items()
        for model, mse in found.items()
    ]


TABLE = {
    "A": {"a": 1.0, "b": 2.0, "c": 3.0},
    "B": {"a": 1.0, "b": 3.0, "c": 2.0},
    "C": {"a": 1.0, "b": 2.0, "c": 4.0},
    "D": {"a": 2.0, "b": 1.0, "c": 4.0},
}


def test_ranks_and_tests_are_those_of_the_figures():
    found = standings(fill_grid(rows(TABLE), expected=None))
    expected = friedman([list(figures.values()) for figures in TABLE.values()])
    assert {one.model: one.rank for one in found.models} == dict(zip("abc", expected.average, strict=True))
    assert found.ranks == expected
    assert found.critical_difference == nemenyi(models=3, scenarios=4, alpha=0.05)
    assert [(one.model, one.wins) for one in found.models] == [("a", 3), ("b", 1), ("c", 0)]
    assert found.models[0].relative == pytest.approx(2 ** (1 / 4))


def test_models_within_the_critical_difference_are_alike():
    many = {f"D{place}": {"a": 1.0, "b": 2.0 + place % 2, "c": 3.0 - place % 2} for place in range(30)}
    found = standings(fill_grid(rows(many), expected=None))
    assert found.alike == (("b", "c"),)


def test_noises_of_one_dataset_count_once():
    twice = rows(TABLE) + rows({"A": {"a": 9.0, "b": 2.0, "c": 3.0}}, data_settings={"noise": 0.01})
    found = standings(fill_grid(twice, expected=None))
    assert (found.datasets, found.cases) == (4, 5)
    assert {one.model: one.rank for one in found.models}["a"] == pytest.approx((2.0 + 1 + 1 + 2) / 4)


def test_a_model_with_few_cases_does_not_take_them_from_the_others():
    table = {**TABLE, "A": {**TABLE["A"], "rare": 0.1}}
    found = standings(fill_grid(rows(table), expected=None))
    assert found.models[-1].model == "rare"
    assert found.models[-1].rank is None
    assert found.cases == 4


def test_few_datasets_have_ranks_but_no_test():
    found = standings(fill_grid(rows({"A": TABLE["A"]}), expected=None))
    assert (found.ranks, found.critical_difference, found.alike) == (None, None, ())
    assert "too few datasets" in found.words


def test_windows_are_tested_against_the_best_of_their_case():
    store, rng = Store("runs").for_writing(), np.random.default_rng(0)
    noise = rng.normal(size=200)
    errors = {"a": 1 + 0.1 * noise, "b": 1 + 0.1 * noise[::-1], "c": 3 + 0.1 * rng.normal(size=200)}
    for row in rows({"A": {"a": 1.0, "b": 1.1, "c": 3.0}}):
        store.write(row, dict.fromkeys(("mse", "mae"), errors[row.model]))
    found = against_best(fill_grid(store.contents().results, expected=None), store)
    case = ("A", RUN.settings.horizon)
    kept = {name: np.float32(values) for name, values in errors.items()}
    test = diebold_mariano(kept["a"], kept["c"], horizon=RUN.settings.horizon)
    assert found[case, "c"].p_value == test.p_value
    assert (found[case, "c"].differs, found[case, "b"].differs) == (True, False)
    assert (case, "a") not in found


def test_windows_that_were_not_kept_are_told():
    store = Store("runs").for_writing()
    for row in rows({"A": {"a": 1.0, "b": 1.1}}):
        store.write(row)
    found = against_best(fill_grid(store.contents().results, expected=None), store)
    assert [(one.best, one.p_value) for one in found.values()] == [("a", None)]

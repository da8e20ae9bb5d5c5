"""The page of results says what the committed rows say."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.results import PAGE, README, headline_datasets, page, readme, simpler_wins

from fern.systems import SCENARIOS

RESULTS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*/results/**/*.json"))


def test_the_readme_is_what_the_rows_make_it():
    assert README.read_text() == readme(), "run: python -m benchmarks.results"


def test_the_page_is_what_the_rows_make_it():
    assert PAGE.read_text() == page(), "run: python -m benchmarks.results"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_every_row_says_the_command_that_makes_it(path):
    assert json.loads(path.read_text())["command"].startswith("python -m benchmarks")


def test_the_readme_shows_at_most_eight_datasets_and_every_family_of_systems():
    families = {type(SCENARIOS[name].source).__name__ for name in headline_datasets() if name in SCENARIOS}
    assert families == {"Flow", "Diffusion", "Recursion"}
    assert len(headline_datasets()) <= 8


def test_the_readme_names_every_dataset_on_which_a_simpler_model_wins():
    made = [row("fern", "OU_BASE", 1.0), row("dlinear", "OU_BASE", 0.9), row("last-value", "OU_BASE", 2.0)]
    made += [row("analog", "OU_BASE", 1.2), row("polymap", "OU_BASE", 1.1)]
    assert "dlinear has a lower MSE than Fern on OU_BASE." in simpler_wins(made, {"OU_BASE"})


def test_the_readme_says_so_when_no_simpler_model_wins():
    made = [row("fern", "OU_BASE", 0.5), row("dlinear", "OU_BASE", 0.9), row("last-value", "OU_BASE", 2.0)]
    made += [row("analog", "OU_BASE", 0.6), row("polymap", "OU_BASE", 0.7)]
    assert "none of dlinear, analog, polymap, last-value has a lower MSE than Fern" in simpler_wins(made, {"OU_BASE"})


def row(model, dataset, mse):
    return SimpleNamespace(model=model, dataset=dataset, metrics={"mse": mse})

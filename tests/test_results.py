"""The page of results says what the committed rows say."""

import json
from pathlib import Path

import pytest
from benchmarks.results import PAGE, README, headline_datasets, page, readme

from fern.systems import SCENARIOS, Diffusion, Flow, Recursion

RESULTS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*/results/**/*.json"))


def test_the_readme_is_what_the_rows_make_it():
    assert README.read_text() == readme(), "run: python -m benchmarks.results"


def test_the_page_is_what_the_rows_make_it():
    assert PAGE.read_text() == page(), "run: python -m benchmarks.results"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_every_row_says_the_command_that_makes_it(path):
    assert json.loads(path.read_text())["command"].startswith("python -m benchmarks")


def test_the_readme_shows_every_family_of_systems_with_and_without_a_shock():
    shown = [SCENARIOS[name] for name in headline_datasets() if name in SCENARIOS]
    for family in (Flow, Diffusion, Recursion):
        own = [plan for plan in shown if isinstance(plan.source, family)]
        assert len({plan.source.name for plan in own}) == 2
        assert sum(not plan.shocks for plan in own) == sum(bool(plan.shocks) for plan in own) == 2
    assert len(headline_datasets()) <= 14

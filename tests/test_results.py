"""The page of results says what the committed rows say."""

import json
from pathlib import Path

import pytest
from benchmarks.results import PAGE, README, page, readme

RESULTS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*/results/*.json"))


def test_the_readme_is_what_the_rows_make_it():
    assert README.read_text() == readme(), "run: python -m benchmarks.results"


def test_the_page_is_what_the_rows_make_it():
    assert PAGE.read_text() == page(), "run: python -m benchmarks.results"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_every_row_says_the_command_that_makes_it(path):
    assert json.loads(path.read_text())["command"].startswith("python -m benchmarks")

"""The results pages say what the committed results say."""

import json
from pathlib import Path

import pytest
from benchmarks.results import PAGE, ROOT, TOPICS, Evidence, write_pages

RESULTS = sorted((ROOT / "benchmarks").glob("*/results/**/*.json"))


@pytest.fixture(scope="module")
def pages():
    return write_pages(Evidence())


def test_every_page_is_what_the_results_make_it(pages):
    changed = [path.name for path, text in pages.items() if not path.exists() or path.read_text() != text]
    assert changed == [], "run: python -m benchmarks.results"


def test_there_is_no_page_of_a_topic_that_is_gone(pages):
    assert set((PAGE.parent / "results").glob("*.md")) == {path for path in pages if path.parent.name == "results"}


def test_the_first_page_is_about_ten_verdicts_of_one_line_each(pages):
    verdicts = [line for line in pages[PAGE].splitlines() if line.startswith("- ")]
    assert 8 <= len(verdicts) <= 14
    assert all(any(f"(results/{name}.md)" in verdict for name in TOPICS) for verdict in verdicts)
    assert all(any(sign.isdigit() for sign in verdict) for verdict in verdicts)


def test_every_result_names_the_command_that_makes_it():
    results = {path.relative_to(ROOT): json.loads(path.read_text()) for path in RESULTS}
    # A list is a table of reference values: the module beside it makes it.
    commands = {name: result["command"] for name, result in results.items() if not isinstance(result, list)}
    assert commands
    assert [str(name) for name, said in commands.items() if not said.startswith("python -m benchmarks")] == []


def test_no_committed_run_is_damaged():
    from fern.benchmark.store import Store

    assert not Store(Path(ROOT) / "benchmarks" / "runs").contents().damaged

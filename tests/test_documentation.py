"""Every example in the documentation runs: docstrings, README and the guide."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import shlex
import tomllib
import warnings
from pathlib import Path

import pytest
from tests.benchmark.support import InlineEngine

import fern as package

ROOT = Path(__file__).parents[1]
README, START = ROOT / "README.md", ROOT / "docs" / "index.md"
TASKS = ROOT / "docs" / "first_tasks.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted(m.name for m in pkgutil.walk_packages(package.__path__, "fern.") if not m.name.endswith("__main__"))

EXTRAS = ("sktime", "neuralforecast", "fev", "statsforecast")
OF_AN_EXTRA = {f"fern.integrations.{name}": name for name in EXTRAS}  # modules that are nothing without it


def require_extra(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dependencies deprecate things at import
        pytest.importorskip(name, reason=f"needs the extra {name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in MODULES if name in OF_AN_EXTRA])
def test_docstring_examples_of_an_extra_run(name):
    require_extra(OF_AN_EXTRA[name])
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


@pytest.mark.parametrize("name", [name for name in MODULES if name not in OF_AN_EXTRA])
def test_docstring_examples_run(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_no_page_has_marks_of_a_merge():
    for page in [*PAGES, *sorted(ROOT.glob("*.md"))]:
        assert not re.search(r"^(<{7}|={7}|>{7})( |$)", page.read_text(), re.M), page.name


def blocks(page, *languages):
    """The page's fenced blocks in these languages, in order."""
    return [
        code for language, code in re.findall(r"```(\w+)\n(.*?)```", page.read_text(), re.S) if language in languages
    ]


def test_no_block_of_python_is_left_unread():
    # What the pattern above does not match, an indented or a longer fence, would be a block that no test runs.
    for page in PAGES:
        opened = re.findall(r"^\s*`{3,}\s*(?:python|py)\b", page.read_text(), re.M)
        assert len(opened) == len(blocks(page, "python")), page.name


def pages_with(*languages):
    """The pages with such blocks; those of the first tasks are run by test_first_tasks.py, in folders of their own."""
    return [page for page in PAGES if page != TASKS and blocks(page, *languages)]


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize(
    "page", [page for page in pages_with("python") if page not in (README, START)], ids=lambda page: page.name
)
def test_python_blocks_run_in_order(page):
    names: dict[str, object] = {"__name__": "example"}
    for code in blocks(page, "python"):
        if extra_of(code) is not None:  # those are run on their own, below
            continue
        before, shown = _bound(names), io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(code, str(page), "exec"), names)
        assert _bound(names) != before or shown.getvalue(), f"{page.name}: a block that does nothing:\n{code}"


def extra_of(code):
    """The optional library that a block imports, if any."""
    found = re.findall(rf"^(?:from|import) (?:fern\.integrations\.)?({'|'.join(EXTRAS)})\b", code, re.M)
    return found[0] if found else None


EXTRA_BLOCKS = [(page, code) for page in PAGES for code in blocks(page, "python") if extra_of(code) is not None]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("page", "code"), EXTRA_BLOCKS, ids=[f"{page.name}-{extra_of(code)}" for page, code in EXTRA_BLOCKS]
)
def test_a_block_of_an_extra_runs_by_itself(page, code):
    require_extra(extra_of(code))
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, str(page), "exec"), {"__name__": "example"})
    assert shown.getvalue()


def test_every_extra_has_a_block():
    assert {extra_of(code) for _, code in EXTRA_BLOCKS} == set(EXTRAS)


def _bound(names):
    """What each name stands for, by identity: arrays and tensors do not compare as a whole."""
    return {name: id(value) for name, value in names.items()}


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("page", pages_with("bash"), ids=lambda page: page.name)
def test_shell_blocks_run_in_order(page, fern, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    # Runs are done within this process. Worker processes, which take seconds to start, do the task of the first
    # example in test_installed.py and are examined in benchmark/engines.
    monkeypatch.setattr("fern.benchmark.engines.open_engine", lambda name, plan, out, **options: InlineEngine(out))
    for line in (line for code in blocks(page, "bash") for line in code.splitlines()):
        words = shlex.split(line, comments=True)
        if words[:1] == ["fern"]:
            ran = fern(*words[1:])
            assert ran.code == 0, f"{page.name}: {line}\n{ran.err}"
        elif words[:1] == ["make"]:
            assert all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M) for target in words[1:]), line
        elif words[:2] == ["pip", "install"]:
            assert_installable(words[2:])
        else:
            assert not words or words[0] in ("git", "cd", "python"), f"{page.name}: a line that no test covers: {line}"


def assert_installable(requirements):
    """The first is ours, with extras that there are; the others are libraries that an example imports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours, *others = requirements
    name, _, extras = ours.partition("[")
    assert name == project["name"]
    wanted = [extra for extra in extras.rstrip("]").split(",") if extra]
    assert set(wanted) <= project["optional-dependencies"].keys()
    assert set(others) <= {"pandas"}


def test_the_readme_is_read_to_the_end():
    words = len(README.read_text().split())
    assert words <= 700
    (table,) = re.findall(r"<!-- results: .*?-->(.*?)<!-- end of results -->", README.read_text(), re.S)
    assert 3 <= len(re.findall(r"^\| ", table, re.M)) <= 7  # a heading and at most six rows


@pytest.mark.usefixtures("short_fits")
def test_the_readme_prints_the_frame_that_it_shows():
    (code,), (shown,) = blocks(README, "python"), blocks(README, "text")
    assert len(code.strip().splitlines()) <= 7  # two imports and at most five lines
    quick = code.replace("horizon=48)", 'horizon=48, epochs=1, progress="silent")')
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(quick, "README.md", "exec"), {"__name__": "example"})
    ours, theirs = (text.rstrip().splitlines() for text in (printed.getvalue(), shown))
    assert ours[0].split() == theirs[0].split()
    assert [line.split()[:3] for line in ours[1:]] == [line.split()[:3] for line in theirs[1:]]


def test_the_start_page_has_the_readmes_picture_example_and_install_line():
    start = START.read_text()
    assert blocks(START, "python") == blocks(README, "python")
    assert "](images/fan.png)" in start
    assert blocks(START, "bash")[0] == blocks(README, "bash")[0]


def test_what_the_readme_imports_is_in_its_install_line():
    (code,), lines = blocks(README, "python"), "\n".join(blocks(README, "bash"))
    assert "pandas" not in code or re.search(r"^pip install .*pandas", lines, re.M)


def test_the_pages_name_no_file_of_the_repository_that_is_not_there():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_contributing_names_no_path_that_is_not_there():
    named = re.findall(r"`([\w.]+/[\w./]*)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert "src/fern/models/layers.py" in named
    assert [path for path in named if not (ROOT / path).exists()] == []

"""The repository's own files: workflows, citation, notice, hooks, and the words that we do not use."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import fern

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read_yaml(path):
    return yaml.safe_load((ROOT / path).read_text())


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_a_hosted_file_is_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_ci_runs_tests_lint_and_docs_on_every_python_that_we_promise():
    jobs = read_yaml(".github/workflows/ci.yml")["jobs"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert jobs["test"]["strategy"]["matrix"]["python"] == promised
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.M)
    runs = [step["run"].split()[1] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert set(runs) >= {"test", "lint", "docs", "coverage"}
    assert set(runs) <= set(targets)


def test_the_citation_names_this_version_and_the_paper():
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == fern.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["preferred-citation"]["title"]


def test_the_notice_names_every_baseline_that_was_written_from_a_paper():
    notice = (ROOT / "NOTICE").read_text().lower()
    ours = {path.stem for path in (ROOT / "src/fern/models/baselines").glob("*.py")} - {"__init__"}
    assert [name for name in ours if name not in notice] == []


def test_hooks_work_from_any_environment():
    hooks = [hook for repo in read_yaml(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {hook["id"] for hook in hooks} == {"ruff-format", "ruff", "mypy"}
    assert all(hook["entry"].startswith("python -m ") for hook in hooks)


TEXTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.ipynb")),
    *sorted((ROOT / "src").rglob("*.py")),
]


def test_a_distribution_is_called_so():
    for path in TEXTS:
        hits = re.findall(r"(?i).{0,30}\blaws?\b.{0,30}", path.read_text())
        assert [hit for hit in hits if not re.search("(?i)power law|large numbers", hit)] == [], path.name


BANNED = [
    "MakeUp",
    "Asked",
    "LookFromAfar",
    "Examinee",
    "premade",
    "entry",
    "course",
    "given",
    "outlines",
    "few_rows",
    "inward",
    "records",
    "machine",
    "watching",
]


def test_no_module_class_or_public_function_has_a_name_that_says_nothing():
    sources = sorted((ROOT / "src").rglob("*.py"))
    modules = {part for path in sources for part in (path.stem, path.parent.name)}
    names = {name for path in sources for name in re.findall(r"^(?:class|def) ([A-Za-z]\w*)", path.read_text(), re.M)}
    assert sorted((modules | names) & set(BANNED)) == []

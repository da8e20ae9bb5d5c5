"""The site: notebooks run, the gallery shows every figure, and every page is within reach."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from fern import plot as figures

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def extension(name):
    """A hook of the site, which lies outside the package."""
    found = importlib.util.spec_from_file_location(f"site_{name}", ROOT / "docs" / "extensions" / f"{name}.py")
    made = importlib.util.module_from_spec(found)
    sys.modules[found.name] = made  # dataclasses look their module up
    found.loader.exec_module(made)
    return made


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path):
    cells = list(extension("notebooks").run(path))
    code = [cell for cell in cells if cell.kind == "code"]
    assert len(code) >= 5
    assert sum(bool(cell.printed) or cell.value is not None for cell in code) >= len(code) - 2
    assert any(type(cell.value).__name__ == "Figure" for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_as_jupyter_reads_it_and_without_outputs(path):
    held = json.loads(path.read_text(encoding="utf-8"))
    assert (held["nbformat"], held["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in held["cells"]}) == len(held["cells"])
    assert all(not cell["outputs"] for cell in held["cells"] if cell["cell_type"] == "code")
    assert held["cells"][0]["source"][0].startswith("# ")


def test_the_gallery_shows_every_figure_that_there_is():
    gallery, text = extension("gallery"), (ROOT / "docs" / "gallery.md").read_text()
    drawers = [name for name in figures.__all__ if name.endswith("_figure") and name != "save_figure"]
    assert sorted(gallery.FIGURES) == sorted(drawers)
    assert re.findall(r"<!-- figure: (\w+) -->", text) == re.findall(r"\[`(\w+_figure)`\]", text)
    assert sorted(re.findall(r"<!-- figure: (\w+) -->", text)) == sorted(drawers)
    assert sorted(re.findall(r"<!-- page: (\w+) -->", text)) == sorted(gallery.PAGES)


def test_every_page_is_in_the_navigation():
    named = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("**/*.md")]
    pages += [f"notebooks/{path.stem}.md" for path in NOTEBOOKS]
    assert sorted(named) == sorted(pages)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_figure_of_the_gallery_can_be_drawn():
    gallery = extension("gallery")
    for name, draw in gallery.FIGURES.items():
        assert draw().axes, name

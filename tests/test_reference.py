"""The reference page names what the packages export, no more and no less."""

import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import pytest

import fern

PAGE = (Path(__file__).parents[1] / "docs" / "reference.md").read_text()
PACKAGES = ["fern", *(m.name for m in pkgutil.walk_packages(fern.__path__, "fern.") if m.ispkg)]
PUBLIC = [name for name in PACKAGES if hasattr(importlib.import_module(name), "__all__")]


def shown(package):
    """The names of a package on the page: its list of members, and those that share their name with a module."""
    if package == "fern":
        return re.findall(r"^- \[?`fern\.(\w+)`", PAGE, re.M)
    listed = re.search(rf"^::: {re.escape(package)}\n    options:\n      members:\n((?:        - \w+\n)*)", PAGE, re.M)
    assert listed is not None, f"{package} is not on the page"
    return [*re.findall(r"- (\w+)", listed[1]), *re.findall(rf"^::: {re.escape(package)}\.(\w+)\.\1$", PAGE, re.M)]


@pytest.mark.parametrize("package", PUBLIC)
def test_the_page_has_every_public_name_once_and_no_other(package):
    assert sorted(shown(package)) == sorted(importlib.import_module(package).__all__)


@pytest.mark.parametrize("package", [name for name in PUBLIC if name != "fern"])
def test_a_name_that_a_module_has_too_is_shown_by_its_full_path(package):
    # The generator would otherwise show the module in place of the function.
    for name in importlib.import_module(package).__all__:
        full = f"\n::: {package}.{name}.{name}\n"
        assert (full in PAGE + "\n") == (importlib.util.find_spec(f"{package}.{name}") is not None), name


def test_every_link_of_the_page_leads_to_a_public_name():
    for target in re.findall(r"\]\[(fern[\w.]+)\]", PAGE):
        module, _, name = target.rpartition(".")
        assert hasattr(importlib.import_module(module), name), target

"""A lazy package says its public names three times, and the three agree."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"


def assigned(tree, name):
    """The value that the module's top level gives to a name, as it stands there."""
    return next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]
    )


def lazy_calls(node):
    return [call for call in ast.walk(node) if isinstance(call, ast.Call) and ast.unparse(call.func) == "lazy_names"]


def package_of(path):
    return ".".join(path.parent.relative_to(SOURCE).parts)


LAZY = {
    package_of(path): tree
    for path in sorted(SOURCE.rglob("__init__.py"))
    if lazy_calls(tree := ast.parse(path.read_text()))
}


def where(package):
    """The mapping for the running program: where each name is found."""
    (call,) = lazy_calls(LAZY[package])
    return {name: module for module, names in ast.literal_eval(call.args[1]).items() for name in names}


def typed(package):
    """The imports for type checkers: where each name is found."""
    (block,) = [
        node for node in LAZY[package].body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    assert all(isinstance(node, ast.ImportFrom) for node in block.body)
    return {alias.asname or alias.name: node.module for node in block.body for alias in node.names}


def test_the_lazy_packages_are_found():
    assert {"fern", "fern.benchmark", "fern.data"} <= LAZY.keys()


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_and_the_program_find_the_same_names_in_the_same_modules(package):
    assert typed(package) == where(package)


@pytest.mark.parametrize("package", LAZY)
def test_all_lists_the_lazy_names_and_what_the_package_imports_at_once(package):
    listed = assigned(LAZY[package], "__all__")
    at_once = {alias.name for node in LAZY[package].body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert len(set(listed)) == len(listed)
    assert set(where(package)) <= set(listed)
    assert set(listed) - set(where(package)) == at_once - {"TYPE_CHECKING", "lazy_names"}


@pytest.mark.parametrize("package", LAZY)
def test_every_name_is_found_and_stays_what_it_is(package):
    opened = import_module(package)
    for name, module in where(package).items():
        expected = getattr(import_module(module), name)
        assert getattr(opened, name) is expected, name
        assert getattr(opened, name) is expected, f"{name}, the second time"
    assert set(where(package)) <= set(dir(opened))


@pytest.mark.parametrize("package", LAZY)
def test_no_name_is_that_of_a_module_of_its_package(package):
    # Importing fern.a.b binds the module as b in fern.a, for good: a lazy name b would be the module from then on.
    folder = SOURCE.joinpath(*package.split("."))
    inside = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert not inside & set(where(package))


@pytest.mark.parametrize("package", LAZY)
def test_a_name_that_is_not_there_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = import_module(package).nothing

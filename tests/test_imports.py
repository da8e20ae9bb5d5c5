"""Imports point one way, between folders too, and what runs without torch does."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fern"

# What a folder must not import, however the order of folders may change.
NEVER = {
    "systems": {"torch", "data", "models"},
    "transport": {"data", "models", "training", "metrics"},
    "models": {"data", "training", "benchmark"},
    "plot": {"data", "systems", "models", "forecaster", "benchmark", "diagnostics", "training", "html"},
    "benchmark": {"forecaster", "integrations", "cli"},
    "forecaster": {"benchmark", "integrations", "cli"},
    "integrations": {"benchmark", "cli"},
}


def name_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


@cache
def imports_of(path):
    """The modules that a module imports, wherever in it, but those for type checkers alone."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    skipped = {
        id(child)
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for child in ast.walk(statement)
    }
    names = []
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.append(whole if whole in MODULES else node.module)
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return tuple(names)


def folder_of(module):
    """The folder of a module of fern; a module of the top level is its own."""
    return [*module.split("."), "fern"][1]


def folder_graph():
    """What each folder imports of the others; the package itself, its commands and `fern.testing` stand above all."""
    graph = {}
    for module, path in MODULES.items():
        if module not in ("fern", "fern.__main__", "fern.testing"):
            others = {folder_of(other) for other in imports_of(path) if other.split(".")[0] == "fern"}
            graph.setdefault(folder_of(module), set()).update(others - {folder_of(module)})
    return graph


def require_no_cycle(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a cycle of imports: {' -> '.join(error.args[1])}")


def test_no_folders_import_each_other():
    require_no_cycle(folder_graph())


def test_no_modules_import_each_other():
    require_no_cycle({m: {other for other in imports_of(p) if other in MODULES} - {m} for m, p in MODULES.items()})


@pytest.mark.parametrize("folder", sorted(NEVER))
def test_a_folder_imports_nothing_that_is_not_its_business(folder):
    for module, path in MODULES.items():
        if folder_of(module) == folder:
            others = {folder_of(other) if other.split(".")[0] == "fern" else other for other in imports_of(path)}
            assert not others & NEVER[folder], f"{module} imports {sorted(others & NEVER[folder])}"


def test_these_imports_and_the_help_of_commands_do_not_load_torch():
    program = """
import sys
def run(statement):
    exec(statement)
    assert "torch" not in sys.modules, f"{statement}: torch was loaded"
run("import fern")
run("import fern; fern.simulate; fern.audit")
run("import fern.systems")
run("import fern.cli.app")
run("import fern.benchmark, fern.benchmark.stress, fern.benchmark.tables")
run("import fern.plot.attractor")
run("import fern.data")
run("import fern.synthetic; fern.synthetic.generate(8, length=32, seed=1)")
sys.argv = ["fern", "report", "--help"]
from fern.cli.app import main
try: main()
except SystemExit as ended: assert ended.code == 0
assert "torch" not in sys.modules, "torch was loaded"
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "audit" in ran.stdout

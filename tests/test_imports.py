"""Imports point one way, every room is small enough to survey, and what runs without torch does."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fern"
GROUND = {"errors", "checks", "fingerprints", "settings", "files", "text", "caching", "processes", "lazy", "_version"}
MOST_MODULES = 14  # about a dozen is what a reader can hold

# Each part of the package, and the other parts it may import. The order is the data flow.
MAY_IMPORT = {
    "_version": set(),
    "errors": set(),
    "lazy": set(),
    "checks": GROUND,
    "fingerprints": GROUND,
    "settings": GROUND,
    "files": GROUND,
    "text": set(),
    "caching": set(),
    "processes": set(),
    "systems": GROUND,
    "transport": GROUND,
    "data": GROUND,
    "models": GROUND | {"transport", "systems"},
    "metrics": GROUND | {"transport"},
    "training": GROUND | {"transport", "data", "models", "metrics"},
    "calibration": GROUND | {"transport", "metrics"},
    "diagnostics": GROUND | {"transport", "models"},
    "forecaster": GROUND
    | {"transport", "data", "models", "metrics", "training", "calibration", "diagnostics", "report"},
    "integrations": GROUND | {"transport", "data", "models", "metrics", "forecaster"},
    "benchmark": GROUND
    | {"systems", "transport", "data", "models", "metrics", "training", "diagnostics", "integrations"},
    "stress": GROUND
    | {"systems", "transport", "data", "models", "metrics", "training", "forecaster", "integrations", "benchmark"},
    "report": GROUND | {"systems", "data", "models", "metrics", "diagnostics", "benchmark", "stress"},
}
# The same within fern.data.
DATA_MAY_IMPORT = {
    "tables": set(),
    "splits": set(),
    "shuffle": set(),
    "catalogue": {"tables"},
    "scale": {"splits"},
    "windows": {"splits", "shuffle"},
    "missing": {"tables"},
    "frames": {"tables", "missing"},
    "datasets": {"tables", "catalogue"},
    "auditing": {"tables", "frames", "splits"},
    "cleaning": {"tables", "frames", "splits", "auditing"},
}
FREE = {"__init__", "__main__", "cli", "testing"}


def name_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


@cache
def imported(path):
    """The modules of fern that a module imports, wherever in it; those for type checkers alone are left out."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    skipped = {
        id(child)
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for child in ast.walk(statement)
    }
    found = []
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fern":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.append(whole if whole in MODULES else node.module)
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] == "fern"]
    return tuple(found)


def place(module, level=1):
    return [*module.split("."), "__init__"][level]


@pytest.mark.parametrize("part", sorted({place(module) for module in MODULES} & MAY_IMPORT.keys()))
def test_a_part_imports_only_what_lies_before_it(part):
    for module, path in MODULES.items():
        if place(module) == part:
            beyond = {place(other) for other in imported(path)} - MAY_IMPORT[part] - {part}
            assert not beyond, f"{module} imports {sorted(beyond)}"


def test_every_part_has_a_place_in_the_order():
    assert {place(module) for module in MODULES} <= MAY_IMPORT.keys() | FREE


@pytest.mark.parametrize("room", sorted(DATA_MAY_IMPORT))
def test_a_room_of_the_data_imports_only_what_lies_before_it(room):
    for module, path in MODULES.items():
        if module.startswith("fern.data.") and place(module, 2) == room:
            others = [other for other in imported(path) if other.startswith("fern.data")]
            beyond = {place(other, 2) for other in others} - DATA_MAY_IMPORT[room] - {room}
            assert not beyond, f"{module} imports {sorted(beyond)}"


def test_every_room_of_the_data_has_a_place_in_the_order():
    rooms = {place(module, 2) for module in MODULES if module.startswith("fern.data.")}
    assert rooms == DATA_MAY_IMPORT.keys()


def test_no_modules_import_each_other():
    graph = {module: set(imported(path)) - {module} for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a cycle of imports: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in MODULES.values()}),
    ids=lambda folder: folder.relative_to(SOURCE.parent).as_posix(),
)
def test_no_package_shows_more_modules_than_a_reader_can_hold(folder):
    modules = [path.name for path in folder.glob("*.py") if path.name not in ("__init__.py", "__main__.py")]
    assert len(modules) <= MOST_MODULES, f"{folder.name} has {len(modules)}: {', '.join(sorted(modules))}"


@pytest.mark.parametrize(
    "statement",
    [
        "import fern",
        "import fern; fern.simulate; fern.audit",
        "import fern.systems",
        "import fern.cli.app",
        "import fern.benchmark, fern.stress, fern.report.tables",
        "import fern.report.figures.trajectories",
        "import fern.data",
    ],
)
def test_these_imports_do_not_load_torch(statement):
    program = f"import sys\n{statement}\nassert 'torch' not in sys.modules, 'torch was loaded'"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr

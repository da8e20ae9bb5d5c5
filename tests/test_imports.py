"""Imports point one way, and what runs without torch does."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fern"
GROUND = {"errors", "settings", "files", "_version"}

# Each part of the package, and the other parts it may import. The order is the data flow.
MAY_IMPORT = {
    "errors": set(),
    "settings": GROUND,
    "files": GROUND,
    "systems": GROUND,
    "transport": GROUND,
    "data": GROUND,
    "models": GROUND | {"transport", "systems"},
    "metrics": GROUND | {"transport"},
    "training": GROUND | {"transport", "data", "models", "metrics"},
    "diagnostics": GROUND | {"transport", "models"},
    "integrations": GROUND | {"transport", "data", "models"},
    "benchmark": GROUND
    | {"systems", "transport", "data", "models", "metrics", "training", "diagnostics", "integrations"},
    "report": GROUND | {"systems", "data", "metrics", "diagnostics", "benchmark"},
}


def part_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fern":
            names = node.module.split(".")
            yield from [names[1]] if len(names) > 1 else [alias.name for alias in node.names]
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("fern."))


@pytest.mark.parametrize("part", sorted({part_of(path) for path in SOURCE.rglob("*.py")} & MAY_IMPORT.keys()))
def test_a_part_imports_only_what_lies_before_it(part):
    for path in SOURCE.rglob("*.py"):
        if part_of(path) == part:
            beyond = set(imported_parts(path)) - MAY_IMPORT[part] - {part}
            assert not beyond, f"{path.relative_to(SOURCE)} imports {sorted(beyond)}"


def test_every_part_has_a_place_in_the_order():
    free = {"__init__", "__main__", "_version", "cli", "forecaster", "testing"}
    assert {part_of(path) for path in SOURCE.rglob("*.py")} <= MAY_IMPORT.keys() | free


@pytest.mark.parametrize(
    "statement",
    [
        "import fern",
        "import fern.systems",
        "import fern.cli.app",
        "import fern.report.trajectories",
        "import fern.data",
    ],
)
def test_these_imports_do_not_load_torch(statement):
    program = f"import sys\n{statement}\nassert 'torch' not in sys.modules, 'torch was loaded'"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr

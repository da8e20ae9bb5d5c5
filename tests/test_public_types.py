"""A type checker knows the type of every public name: a part of `make lint`, whose cache of mypy it needs."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"


def public_names():
    """Package and name, for every package with an ``__all__``."""
    for path in sorted(SOURCE.rglob("__init__.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                package = ".".join(path.parent.relative_to(SOURCE).parts)
                yield from ((package, name) for name in ast.literal_eval(node.value))


def revealed(names, folder):
    """What mypy says each name's type is, under the project's settings and with its cache."""
    probe = folder / "probe.py"
    # By name and not as an attribute of the package, which may be the module of that name.
    lines = [f"from {package} import {name} as n{i}; reveal_type(n{i})" for i, (package, name) in enumerate(names)]
    probe.write_text("\n".join(lines) + "\n")
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-pretty", str(probe)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    # What is wrong elsewhere is the lint's to say.
    assert not re.findall(r"^\S*probe\.py:\d+: error: .*$", done.stdout, re.M), done.stdout + done.stderr
    found = re.findall(r'^\S*probe\.py:(\d+): note: Revealed type is "(.*)"$', done.stdout, re.M)
    return {names[int(line) - 1]: kind for line, kind in found}


@pytest.mark.slow
def test_no_public_name_is_any(tmp_path):
    pytest.importorskip("mypy")
    names = list(public_names())
    assert {"fern", "fern.data", "fern.benchmark", "fern.models"} <= {package for package, _ in names}
    kinds = revealed(names, tmp_path)
    assert kinds.keys() == set(names)
    assert [name for name, kind in kinds.items() if kind == "Any"] == []

"""The wheel, installed where the checkout cannot be seen, is the whole product."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
DATA_FOLDERS = (
    "fern/benchmark/task_files",
    "fern/benchmark/tables/paper_numbers",
    "fern/benchmark/tables/published_numbers",
)

TASK = """
schema = 1
models = ["fern", "last-value"]
datasets = [{ dataset = "OU_PARAM", steps = 1000 }]
context_length = 48
horizons = [24]
seeds = [7]

[train]
epochs = 1
"""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling, of the extra dev, is not installed"
)


@dataclass(frozen=True)
class Environment:
    """A virtual environment of its own, and how to run its programs."""

    folder: Path

    def run(self, program: str, *arguments: str, cwd: Path) -> str:
        """What the program prints; a test fails where its exit code is not 0."""
        words = [str(self.folder / "bin" / program), *arguments]
        done = subprocess.run(words, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{program} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def environment():
    """The variables of this process but for those that would show the checkout to a child."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "COLUMNS")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed") / "environment"
    venv.create(folder, symlinks=True)
    python = str(folder / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    install.append("--no-compile")  # what runs is compiled as it is imported
    done = subprocess.run([*install, str(wheel)], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Only now the dependencies, so that pip never meets another fern. Of the folders that a .pth file names no .pth
    # file is read in turn: the one of an editable install, which leads to the checkout, stays without effect.
    (library,) = folder.glob("lib/python*/site-packages")
    present = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (library / "present.pth").write_text("\n".join(sorted(present)) + "\n")
    _bring_compiled_kernels(library)
    return Environment(folder)


def _bring_compiled_kernels(library):
    """What Numba has compiled for the checkout, for the same sources: to compile it again is most of the work.

    Numba knows a source by its size and time. Where the checkout has nothing compiled, the commands compile.
    """
    for source in SOURCE.rglob("*.py"):
        there = library / source.relative_to(SOURCE)
        kernels = list((source.parent / "__pycache__").glob(f"{source.stem}.*.nb[ci]"))
        if kernels and there.read_bytes() == source.read_bytes():
            shutil.copystat(source, there)
            (there.parent / "__pycache__").mkdir(exist_ok=True)
            for kernel in kernels:
                shutil.copy2(kernel, there.parent / "__pycache__")


def test_the_wheel_holds_the_task_files_and_the_papers_numbers(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in DATA_FOLDERS:
        kept = {path.relative_to(SOURCE).as_posix() for path in (SOURCE / folder).glob("*.*")}
        assert kept, folder
        assert kept <= names
    assert "fern/py.typed" in names


# One interpreter for many commands: prints where the package lies and what each command says, as JSON.
IN_TURN = """
import contextlib, io, json, sys
import fern
from fern.cli.app import main

said = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["fern", *words]
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, (words, shown.getvalue())
    said.append(shown.getvalue())
print(json.dumps([fern.__file__, *said]))
"""


def test_every_command_runs_from_an_empty_folder(installed, tmp_path):
    (tmp_path / "mine.toml").write_text(TASK)
    # The suite has a worker on every core already.
    alone = ("--jobs", "1", "--threads", "1")
    installed.run("fern", "bench", "run", "mine.toml", "--out", "runs", *alone, cwd=tmp_path)
    commands = (
        "bench tasks",
        "bench table mine.toml --runs runs",
        "simulate OU_PARAM --steps 2000 -o series.csv",
        "audit series.csv --json",
        "stress last-value --scenario OU_PARAM --windows 4",
    )
    words = json.dumps([command.split() for command in commands])
    where, tasks, table, _, audit, stress = json.loads(installed.run("python", "-c", IN_TURN, words, cwd=tmp_path))
    assert Path(where).is_relative_to(installed.folder)
    assert "quick" in tasks
    assert "OU_PARAM" in table
    assert json.loads(audit)["rows"] == 2000
    assert "OU_PARAM" in stress

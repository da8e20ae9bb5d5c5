"""What every test shares."""

import faulthandler
import functools
import gc
import importlib
import itertools
import logging
import multiprocessing
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# One thread a worker: the suite runs a worker a core. Where a test wants more, those that wait sleep, and do not spin
# on a core that another needs.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Published data sets beside the repository, where there are any.
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
if SHARED_DATA.is_dir():
    os.environ.setdefault("FERN_DATA_DIR", str(SHARED_DATA))

settings.register_profile("suite", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("suite")


def pytest_collection_finish() -> None:
    """What collecting has imported stays: without this, every full collection of garbage looks through all of it."""
    gc.collect()
    gc.freeze()


_NUMBERS = itertools.count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder for one test, as pytest's own, which reads the names of all others to find a free one."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(_NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def _in_a_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths written by a test land in its own scratch folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """What a test draws from torch's global generator is the same in every run."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True)
def _without_modules_of_other_tests() -> Iterator[None]:
    """Workers import what this process was told to: each test begins with nothing named."""
    yield
    if "fern.extras" in sys.modules:
        sys.modules["fern.extras"]._named.clear()


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True, scope="session")
def _commands_made_once() -> Iterator[None]:
    """Typer makes all commands anew whenever one is called, which takes longer than most of them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("typer.main.get_command", functools.cache(importlib.import_module("typer.main").get_command))
        yield


@pytest.fixture
def fern(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """``fern("simulate", "OU_BASE", "-o", "out.csv")`` runs that command line."""

    from fern.cli.app import main

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["fern", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def short_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings take few steps and fits are judged on few windows: for documents that are followed to their end."""
    from fern.training.runtime import EpochOrder

    def order(*arguments: Any, most_steps: int | None, **options: Any) -> EpochOrder:
        return EpochOrder(*arguments, most_steps=min(most_steps or 8, 8), **options)

    monkeypatch.setattr("fern.training.trainer.EpochOrder", order)
    few = {"LEAST_STEPS": 24, "STEPS": 24, "MOST_STEPS_PER_EPOCH": 4, "PRETRAINED_WINDOWS": 32}
    for name, value in few.items():
        monkeypatch.setattr(f"fern.forecaster.fit.{name}", value)
    monkeypatch.setattr("fern.forecaster.held_out.MOST_WINDOWS", 60)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servants and workers are forks of this process, which has loaded all they need: seconds sooner than new ones.

    For tests of what they answer; how one is born, and that its mark finds what it started, are others' to show.
    """

    def fork(
        target: Callable[..., None], *arguments: Any, daemon: bool, name: str, variables: Mapping[str, str] | None
    ) -> multiprocessing.context.ForkProcess:
        def begin() -> None:
            faulthandler.disable()  # pytest's: a servant that crashes would print what its parent is at
            target(*arguments)

        process = multiprocessing.get_context("fork").Process(target=begin, daemon=daemon, name=name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a process with threads, from Python 3.12
            process.start()
        return process

    monkeypatch.setattr("fern.processes.spawn", fork)
    monkeypatch.setattr("fern.benchmark.engines.local.spawn", fork)


@pytest.fixture
def published_path() -> Callable[[str], Path]:
    """``published_path("ETTh1")`` is its file; the test is skipped where there is none."""

    from fern.data.datasets import PUBLISHED, cache_folder, local_folders

    def find(name: str) -> Path:
        file = PUBLISHED[name].file
        for folder in (*local_folders(), cache_folder()):
            if (folder / file).is_file():
                return folder / file
        pytest.skip(f"{file} is not on this machine (FERN_DATA_DIR or the cache)")

    return find


@pytest.fixture
def needs(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """``needs("sktime")``: the library, quietly; the test is skipped where it is not installed."""
    monkeypatch.setattr(logging.root.manager, "disable", logging.INFO)  # trainers announce themselves

    def load(extra: str, module: str | None = None) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # dependencies deprecate things at import
            pytest.importorskip(extra, reason=f"needs the extra {extra}")
            return importlib.import_module(module or extra)

    return load

"""A run that is killed and resumed ends with the bits of one that was not, and a new process with those of this one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.training.support import program

RIG = Path(__file__).with_name("kill_rig.py")
KILLS = 2


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """The folder of the rig and what it reports of each kill."""
    folder = tmp_path_factory.mktemp("kills")
    done = subprocess.run(
        [sys.executable, "-W", "error", RIG, folder, str(KILLS)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield folder, [json.loads(line) for line in done.stdout.splitlines()]


def test_runs_killed_at_random_moments_end_with_the_same_bits(kills: tuple[Path, list[dict[str, Any]]]) -> None:
    at_steps = [line for line in kills[1] if line["kind"] == "step"]
    assert len(at_steps) == KILLS
    for line in at_steps:
        assert line["equal"], line


@pytest.mark.parametrize("file", ["last", "best"])
def test_a_kill_within_a_checkpoint_s_write_is_survived_too(
    kills: tuple[Path, list[dict[str, Any]]], file: str
) -> None:
    (line,) = (line for line in kills[1] if line["kind"] == file)
    assert any(name.startswith(f".{file}.") for name in line["before"]), "the kill did not hit the write"
    assert "last.safetensors" in line["before"]
    assert line["equal"], line
    assert not any(name.startswith(".") for name in line["after"]), "the half-written file is left behind"


def test_the_same_seed_gives_the_same_bits_in_another_process(
    kills: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    rig = program(RIG)
    rig.run(tmp_path / "here", resume=False, pipe=rig.PIPE[1])
    here, there = ((folder / "outcome.json").read_text() for folder in (tmp_path / "here", kills[0] / "whole"))
    assert here == there

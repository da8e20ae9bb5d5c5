"""Two processes (gloo, on the CPU) against one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.training.support import program

RIG = Path(__file__).with_name("ddp_rig.py")

Outcomes = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcomes, str]:
    """The outcomes of two processes, and what they wrote to standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", RIG, tmp_path_factory.mktemp("two"), "2"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """The outcomes of one process, which is this one."""
    return program(RIG).outcomes(tmp_path_factory.mktemp("one"), 1)


@pytest.mark.parametrize("name", ["linear", "sliced"])
def test_dlinear_has_the_losses_of_one_process(two: tuple[Outcomes, str], one: Outcomes, name: str) -> None:
    # 103 windows in batches of 34: the last batch is one window, so that one process has none of it.
    there, here = two[0][name]["history"], one[name]["history"]
    assert len(there) == len(here) == 4
    for record, expected in zip(there, here, strict=True):
        assert record["train_loss"] == pytest.approx(expected["train_loss"], abs=1e-5)
        assert record["gradient_norm"] == pytest.approx(expected["gradient_norm"], abs=1e-5)
        for metric, value in expected["validation"].items():
            assert record["validation"][metric] == pytest.approx(value, abs=1e-5)


def test_fern_trains_to_the_same_quality_though_its_noise_differs_by_process(
    two: tuple[Outcomes, str], one: Outcomes
) -> None:
    best = [
        min(record["validation"]["objective"] for record in outcomes["fern"]["history"]) for outcomes in (two[0], one)
    ]
    start = one["fern"]["history"][0]["validation"]["objective"]
    # Two draws of the noise differ by some percent at the end of a run that divides the objective by four.
    assert best[0] == pytest.approx(best[1], rel=0.15)
    assert max(best) < start / 3


def test_a_run_of_two_processes_resumes_to_the_same_bits(two: tuple[Outcomes, str]) -> None:
    assert two[0]["resumed"] == two[0]["whole"]


def test_a_divergence_in_one_process_alone_is_told_by_all(two: tuple[Outcomes, str], one: Outcomes) -> None:
    assert two[0]["divergence"]["told"].startswith("diverged at epoch 1: a forecast is not finite")
    assert one["divergence"]["told"] == "nothing"


def test_only_the_first_process_speaks_and_nothing_but_progress(two: tuple[Outcomes, str]) -> None:
    lines = two[1].splitlines()
    assert len([line for line in lines if line.startswith("epoch 1/40 ")]) == 1
    assert all(line.startswith(("epoch ", "stopped by ", "resuming after ")) for line in lines), two[1]

"""``fern stress``, as a user runs it."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.benchmark.stress.support import TINY_FILE

from fern.benchmark.stress.requirements import DEMANDED
from fern.benchmark.stress.run import DEFAULT_SCENARIOS

MINE = """
import numpy as np

def forecast(context, horizon):
    return np.repeat(context[:, -1:], horizon, axis=1)

def sometimes(context, horizon):
    if context.shape[-1] == 3:
        raise RuntimeError("no weights for three channels")
    return forecast(context, horizon)
"""
SMALL = ("--context-length", 24, "--horizon", 12, "--windows", 8)


@pytest.fixture(autouse=True)
def _files(forked):
    Path("mine.py").write_text(MINE)
    Path("tiny.toml").write_text(TINY_FILE)


def test_the_help_names_the_default_scenarios_and_every_metric(fern, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    ran = fern("stress", "--help")
    assert ran.code == 0
    assert all(name in ran.out for name in (*DEFAULT_SCENARIOS, *DEMANDED))


def test_exit_0_when_every_requirement_holds(fern):
    ran = fern(
        "stress", "mine:forecast", "--scenario", "tiny.toml", *SMALL, "--require", "skill>=0", "--require", "ept>=1"
    )
    assert ran.code == 0, ran.err
    assert "mine:forecast, 24 -> 12 steps" in ran.out
    assert "survived 1 scenario" in ran.out
    assert "tiny: survived, 8 windows" in ran.err


def test_exit_1_with_the_table_and_junit_of_what_failed(fern):
    ran = fern(
        *("stress", "mine:sometimes", "--scenario", "LORENZ_PARAM", "--scenario", "tiny.toml", *SMALL),
        *("--require", "regret<0.001", "--require", "ept>=1", "--junit", "out.xml"),
    )
    assert ran.code == 1, ran.err
    assert "LORENZ_PARAM: raised RuntimeError: no weights for three channels" in ran.out
    assert "tiny: regret is" in ran.out
    assert "did not survive 2 of 2 scenarios" in ran.out
    root = ElementTree.parse("out.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("4", "3")


def test_a_registered_model_is_trained_and_asked(fern):
    ran = fern("stress", "training-mean", "--scenario", "tiny.toml", *SMALL)
    assert ran.code == 0, ran.err
    assert "training-mean, 24 -> 12 steps" in ran.out


def test_the_model_of_the_package_is_asked_without_training(fern):
    ran = fern("stress", "fern-pretrained", "--scenario", "tiny.toml", *SMALL, "--require", "ept>=1")
    assert ran.code == 0, ran.err
    assert "fern-pretrained, 24 -> 12 steps" in ran.out


def test_exit_2_when_the_target_cannot_be_imported(fern):
    ran = fern("stress", "mine:forcast", "--scenario", "tiny.toml")
    assert ran.code == 2
    assert ran.err == "error: TARGET mine:forcast: mine was imported, but has no 'forcast': did you mean 'forecast'?\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--require", "regert<0.5"], "did you mean 'regret'"),
        (["--require", "regret"], "needs a metric, one of"),
        (["--scenario", "LORENZ_PARM"], "did you mean 'LORENZ_PARAM'"),
        (["--scenario", "absent.toml"], "absent.toml"),
        (["--junit", "no/such/out.xml"], "the folder no/such does not exist"),
        (["--junit", "."], "is a directory"),
        (["--time-limit", "0"], "time_limit: got 0.0"),
        (["--horizon", "0"], "horizon: got 0"),
        (["--takes", "windows"], "did you mean 'window'"),
    ],
)
def test_exit_2_and_one_line_before_any_work(fern, arguments, says):
    ran = fern("stress", "mine:forecast", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert says in ran.err
    assert {path.name for path in Path.cwd().iterdir()} == {"mine.py", "tiny.toml"}

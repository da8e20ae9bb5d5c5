"""Every speed measurement runs, at sizes that take no time; what it measures is not judged, and nothing is written."""

import contextlib
import io
import json
import math
import sys

import benchmarks.__main__ as command
import pytest
from benchmarks.speed.harness import FULL, PEERS, RESULTS, SMOKE, TOPICS, Effort, Measurement, measured
from tests.benchmark.support import InlineEngine


def contents():
    return {path.name: path.read_bytes() for path in RESULTS.iterdir()}


def in_this_process(code, *arguments):
    """What the program prints, without a process of its own."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", ["-c", *map(str, arguments)])
        exec(code, {})
    return json.loads(printed.getvalue())


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_runs_and_writes_nothing(name, monkeypatch):
    if name == "engines":
        monkeypatch.setattr("benchmarks.speed.engines.LocalEngine", lambda folder, **_: InlineEngine(folder))
    if name == "data":
        monkeypatch.setattr("benchmarks.speed.data._child", in_this_process)
    if name == "forecaster":
        monkeypatch.setattr("benchmarks.speed.forecaster.HORIZON", 48)
    before = contents()
    found = measured(name, SMOKE)
    assert contents() == before
    if isinstance(found, str):
        pytest.skip(f"{found} is not installed")
    topic, measurements = found
    assert topic.PACKAGES
    assert measurements
    assert len({(m.name, m.peer_name) for m in measurements}) == len(measurements)
    for m in measurements:
        # A slope over times that the clock does not tell apart at these sizes is NaN, and may be negative.
        assert m.ours >= 0.0 or m.name.startswith("exponent of time"), m
        assert m.peer is None or math.isfinite(m.peer), m


def test_the_full_effort_is_what_a_measurement_wants():
    assert FULL.rounds(300) == 300
    assert FULL.size(10_000_000, least=1) == 10_000_000


def test_a_smaller_effort_keeps_to_what_makes_sense():
    effort = Effort(most_rounds=2, share=0.1)
    assert [effort.rounds(n) for n in (1, 2, 3)] == [1, 2, 2]
    assert [effort.size(n, least=20) for n in (100, 1000)] == [20, 100]


@pytest.mark.parametrize("peer", PEERS)
def test_a_topic_whose_peer_is_absent_is_said_and_left_out(peer, monkeypatch, capsys):
    topic = {"neuralforecast": "baselines", "ot": "metrics", "polars": "data", "scoringrules": "metrics"}[peer]
    monkeypatch.setitem(sys.modules, peer, None)  # what Python takes for not installed
    monkeypatch.delitem(sys.modules, f"benchmarks.speed.{topic}", raising=False)
    before = contents()
    command.main([topic])
    assert capsys.readouterr().out == f"{topic}:\n  {peer} is not installed: left out\n"
    assert contents() == before


def test_what_is_missing_of_our_own_is_no_absent_peer(monkeypatch):
    monkeypatch.setitem(sys.modules, "benchmarks.speed.systems", None)
    with pytest.raises(ModuleNotFoundError):
        measured("systems", SMOKE)


def test_a_topic_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(SystemExit, match=r"unknown topic sytems; known: .*systems"):
        command.main(["sytems"])


def test_a_ratio_above_one_means_that_ours_takes_less():
    assert Measurement("", ours=2.0, peer=3.0, unit="s", peer_name="", target="").ratio == 1.5

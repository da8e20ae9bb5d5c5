"""A stress test's outcome as a table and as JUnit XML."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from fern.benchmark.stress.requirements import parse_requirements
from fern.benchmark.stress.run import Report, Result, StressFigures, StressSettings
from fern.benchmark.stress.summary import as_text, write_junit
from fern.errors import FernError

ASKED = parse_requirements(["regret<0.5", "ept>=100"])
FIGURES = StressFigures(
    mse=90.0,
    mae=7.0,
    wd=3.0,
    ept=140.0,
    last_value_mse=80.0,
    oracle_mse=0.0,
    excess_mse=90.0,
    regret=1.25,
    skill=float("nan"),
)
NASTY = "raised ValueError: <a & 'b'> \x1b[1m\x00\nsecond line \ud800 ]]>"


def report(*results):
    return Report("my.module:f<x>", StressSettings(context_length=336, horizon=336), results)


BROKEN = Result("LORENZ_PARAM", 64, 1.5, ASKED, figures=FIGURES)
CRASHED = Result("OU_PARAM", 64, 0.5, ASKED, reason=NASTY)


def test_the_table_tells_what_failed_and_by_how_much():
    text = as_text(report(BROKEN, CRASHED))
    assert "LORENZ_PARAM: regret is 1.25, needs regret<0.5 (missed by 0.75)" in text
    assert "ept is" not in text
    assert "OU_PARAM: raised ValueError: <a & 'b'>" in text
    assert text.endswith("did not survive 2 of 2 scenarios")
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    (reason,) = [line for line in text.splitlines() if "raised" in line]
    assert "second line" in reason


def test_a_figure_that_is_not_defined_is_told_as_that():
    failed = Result("X", 64, 1.5, parse_requirements(["skill>0"]), figures=FIGURES)
    assert "X: skill is undefined here, needs skill>0" in as_text(report(failed))


def test_a_table_of_survivors_has_no_failures():
    text = as_text(report(Result("X", 64, 1.5, ASKED[1:], figures=FIGURES)))
    assert "failed" not in text.lower()
    assert text.endswith("survived 1 scenario")


def test_without_requirements_figures_are_measured_beside_the_last_value_and_the_oracle():
    text = as_text(report(Result("X", 64, 1.5, (), figures=FIGURES)))
    assert "survived" not in text
    header, line = text.splitlines()[2:4]
    cells = dict(zip(header.split(), line.split(), strict=False))
    assert (cells["mse"], cells["last_value_mse"], cells["oracle_mse"]) == ("90", "80", "0")
    assert line.endswith("measured")
    assert "better than repeating the last value in 0 of 1" in text


def test_junit_has_a_case_for_each_scenario_and_requirement():
    write_junit(report(BROKEN, CRASHED), Path("out.xml"))
    root = ElementTree.parse("out.xml").getroot()
    assert root.tag == "testsuites"
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "3", "0")
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == ["LORENZ_PARAM", "OU_PARAM"]
    for suite in suites:
        cases = suite.findall("testcase")
        assert [case.get("name") for case in cases] == ["regret<0.5", "ept>=100"]
        assert int(suite.get("tests")) == len(cases)
        assert int(suite.get("failures")) == len(suite.findall("testcase/failure"))
        assert float(suite.get("time")) == pytest.approx(sum(float(case.get("time")) for case in cases))
        assert all(case.get("classname").startswith("my.module:f<x>.") for case in cases)
    message = suites[0].find("testcase/failure").get("message")
    assert message == "regret is 1.25, needs regret<0.5 (missed by 0.75)"
    assert "<a & 'b'>" in suites[1].find("testcase/failure").text
    figures = {entry.get("name"): entry.get("value") for entry in suites[0].find("properties")}
    assert figures["regret"] == "1.25"
    assert figures["windows"] == "64"


def test_junit_of_a_scenario_without_requirements_says_whether_it_gave_forecasts():
    write_junit(
        report(Result("A", 64, 1.0, (), figures=FIGURES), Result("B", 64, 1.0, (), reason="hung")), Path("o.xml")
    )
    first, second = ElementTree.parse("o.xml").getroot().iter("testcase")
    assert first.get("name") == second.get("name") == "returns forecasts"
    assert first.find("failure") is None
    assert second.find("failure").get("message") == "hung"


def test_junit_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(FernError, match=r"the folder .* does not exist"):
        write_junit(report(BROKEN), tmp_path / "no" / "out.xml")
    assert list(tmp_path.iterdir()) == []


def test_rivals_stand_under_the_forecaster_in_the_table_and_in_the_file(tmp_path):
    result = Result("X", 64, 1.5, (), figures=FIGURES, rivals={"analog": FIGURES, "polymap": None})
    lines = [line.split() for line in as_text(report(result)).splitlines()]
    (place,) = (i for i, words in enumerate(lines) if words[:1] == ["X"])
    assert lines[place + 1] == ["analog", "90", "80", "0", "1.25", "7", "3", "140", "nan"]
    assert lines[place + 2] == ["polymap", *["-"] * 8]
    write_junit(report(result), tmp_path / "report.xml")
    named = {p.get("name"): p.get("value") for p in ElementTree.parse(tmp_path / "report.xml").iter("property")}
    assert named["analog regret"] == "1.25"
    assert not any(name.startswith("polymap") for name in named)

"""``fern.testing``, as a pytest user has it."""

from dataclasses import replace

import pytest
from tests.benchmark.stress.support import LENGTHS, TINY, cheat, last_value

from fern import FernError
from fern.testing import assert_survives

pytest_plugins = ["pytester"]


def test_a_good_forecaster_survives_and_its_figures_come_back():
    report = assert_survives(cheat(TINY), TINY, **LENGTHS, regret=0.001, excess_mse=0.001, skill=0.0)
    assert report.survived
    assert report.results[0].figures.mse > 0.0


def test_a_naive_forecaster_fails_with_the_table():
    with pytest.raises(AssertionError) as raised:
        assert_survives(last_value, [TINY, replace(TINY, id="OTHER", seed=3)], **LENGTHS, regret=0.001, ept=1)
    text = str(raised.value)
    assert "last_value, 24 -> 12 steps" in text
    assert "TINY: regret is" in text
    assert "OTHER: regret is" in text
    assert "needs regret<=0.001 (missed by" in text


def test_without_bounds_it_must_only_give_forecasts():
    assert_survives(last_value, TINY, **LENGTHS)
    with pytest.raises(AssertionError, match="TINY: raised KeyError: 'weights'"):
        assert_survives(lambda context, horizon: {}["weights"], TINY, **LENGTHS)


@pytest.mark.parametrize(
    ("keywords", "says"),
    [({"regrett": 0.5}, "did you mean 'regret'"), ({"horizn": 5}, "did you mean 'horizon'"), ({"mse": "low"}, "mse")],
)
def test_a_mistake_in_a_keyword_is_no_failed_assertion(keywords, says):
    with pytest.raises(FernError) as raised:
        assert_survives(last_value, TINY, **keywords)
    assert says in str(raised.value)


EXAMPLE = """
import numpy as np
from fern.systems import scenario
from fern.testing import assert_survives

def last_value(context, horizon):  # (B, L, C) -> (B, H, C)
    return np.repeat(context[:, -1:], horizon, axis=1)

def test_it_survives_a_change_of_parameters():
    assert_survives(last_value, scenario("OU_PARAM", steps=2000), horizon=24, regret=0.0001, ept=2)
"""


def test_pytest_shows_the_caller_and_the_table(pytester):
    pytester.makepyfile(test_mine=EXAMPLE)
    ran = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    ran.assert_outcomes(failed=1)
    shown = ran.stdout.str()
    assert "OU_PARAM: regret is" in shown
    assert "assert_survives(last_value, scenario(" in shown
    assert "__tracebackhide__" not in shown

"""What is demanded of a forecaster, as text and as keywords."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fern.benchmark.stress.requirements import (
    DEMANDED,
    Requirement,
    parse_requirement,
    parse_requirements,
    requirements_from,
)
from fern.errors import FernError

SIGNS = {"lower": ["<", "<="], "higher": [">", ">="]}


@given(st.sampled_from(sorted(DEMANDED)), st.integers(0, 1), st.floats(-1e6, 1e6), st.sampled_from(["", " ", "  "]))
def test_every_metric_parses_with_its_signs_any_bound_and_spaces(metric, which, bound, space):
    sign = SIGNS[DEMANDED[metric]][which]
    assert parse_requirement(f"{space}{metric}{space}{sign}{space}{bound!r}{space}") == Requirement(metric, sign, bound)


@given(st.sampled_from(sorted(DEMANDED)), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_a_keyword_bounds_from_the_side_that_is_worse(metric, bound, value):
    (asked,) = requirements_from({metric: bound})
    assert asked.holds(value) == (value <= bound if DEMANDED[metric] == "lower" else value >= bound)
    assert asked.holds(bound)
    assert not asked.holds(math.nan)


def test_a_strict_sign_leaves_the_bound_out():
    assert not parse_requirement("regret<0.5").holds(0.5)
    assert parse_requirement("regret<=0.5").holds(0.5)
    assert not parse_requirement("ept>100").holds(100.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("regert<0.5", "did you mean 'regret'"),
        ("EPT>=1", "did you mean 'ept'"),
        ("regret>0.5", "lower regret is better, needs < or <="),
        ("ept<5", "higher ept is better, needs > or >="),
        ("regret=0.5", "one of < <= > >="),
        ("regret<<0.5", "one of < <= > >="),
        ("regret", "one of < <= > >="),
        ("<0.5", "needs a metric"),
        ("", "needs a metric"),
        ("regret<", "'' is not a number"),
        ("regret<half", "'half' is not a number"),
        ("regret<nan", "needs a finite number"),
        ("regret<inf", "needs a finite number"),
    ],
)
def test_a_bad_requirement_says_what_is_wrong(text, says):
    with pytest.raises(FernError) as raised:
        parse_requirement(text)
    assert says in str(raised.value)


def test_the_same_requirement_twice_is_a_mistake():
    with pytest.raises(FernError, match="ept>=5 is given twice"):
        parse_requirements(["ept>=5", "regret<1", "ept >= 5.0"])


@pytest.mark.parametrize("bound", [True, "0.5", None, math.inf])
def test_a_keyword_needs_a_finite_number(bound):
    with pytest.raises(FernError, match=r"bound of regret: got .*, needs a finite number"):
        requirements_from({"regret": bound})


def test_a_misspelt_keyword_is_matched_with_the_options_too():
    with pytest.raises(FernError, match="did you mean 'horizon'"):
        requirements_from({"horzon": 12}, options=["horizon"])

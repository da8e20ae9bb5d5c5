"""The distribution functions are those of SciPy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fern.benchmark import significance as distributions

positive = st.floats(0.5, 400.0)


@given(positive, positive, st.floats(0.0, 1.0))
def test_the_incomplete_beta_function_agrees_with_scipy(a, b, x):
    assert distributions.incomplete_beta(a, b, x) == pytest.approx(stats.beta.cdf(x, a, b), rel=1e-8, abs=1e-11)


@given(st.floats(0.0, 300.0), positive, positive)
def test_tails_agree_with_scipy(value, first, second):
    # Absolute: where a tail is taken as 1 - its complement, digits below 1e-12 are lost, which no p-value needs.
    close = {"rel": 1e-8, "abs": 1e-11}
    assert distributions.chi_squared_tail(value, first) == pytest.approx(stats.chi2.sf(value, first), **close)
    assert distributions.f_tail(value, first, second) == pytest.approx(stats.f.sf(value, first, second), **close)
    assert distributions.student_tail(value, first) == pytest.approx(stats.t.sf(value, first), **close)
    assert distributions.student_tail(-value, first) == pytest.approx(stats.t.sf(-value, first), **close)


@pytest.mark.parametrize("degrees", [1.0, 2.5, 30.0, 2000.0])
@pytest.mark.parametrize("probability", [0.01, 0.5, 0.975])
def test_the_student_quantile_agrees_with_scipy(probability, degrees):
    expected = stats.t.ppf(probability, degrees)
    assert distributions.student_quantile(probability, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-12)

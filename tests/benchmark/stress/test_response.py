"""A forecaster's error around a shock is told apart by what its windows see and forecast."""

import numpy as np
import pytest

from fern.benchmark.stress.response import shock_response, window_errors, with_shock_at
from fern.errors import FernError
from fern.plot.scores import shock_response_figure
from fern.systems import ParamShock, Scenario, StateShock, scenario, simulate, twin

L, H = 24, 12
LENGTHS = {"context_length": L, "horizon": H}


def last_value(contexts):
    return np.repeat(contexts[:, -1:], H, axis=1)


def context_mean(contexts):
    return np.repeat(contexts.mean(axis=1, keepdims=True), H, axis=1)


@pytest.fixture(scope="module")
def shifted():
    """A mean that jumps far: 200 standard deviations of the noise within one row."""
    plan = Scenario(
        system="ornstein_uhlenbeck",
        steps=2000,
        dt=0.5,
        params={"theta": 1.5, "mu": 0.0, "sigma": 0.05},
        shocks=(ParamShock(at=1000, params={"mu": 10.0}),),
        id="SHIFTED",
    )
    return simulate(plan)


def test_phases_are_what_windows_see_and_forecast(shifted):
    found = shock_response(last_value, shifted, **LENGTHS, reach=100)
    counts = {phase.name: phase.windows for phase in found.phases}
    assert counts == {"before": 100 - H + 1, "across": H - 1, "adapting": L, "after": 100 - L + 1}
    assert found.starts[0] == 900
    assert found.starts[-1] == 1100


def test_errors_are_those_of_each_window(shifted):
    starts = np.array([500, 1003])
    errors = window_errors(last_value, shifted, starts, **LENGTHS)
    values = shifted.values.astype(np.float64)
    by_hand = [((values[s : s + H] - values[s - 1]) ** 2).mean() for s in starts]
    np.testing.assert_allclose(errors, by_hand, rtol=1e-6)  # contexts are float32


def test_before_the_shock_the_twin_is_the_same_and_across_it_far_better(shifted):
    found = shock_response(last_value, shifted, **LENGTHS)
    before, across = found.phase("before"), found.phase("across")
    assert before.ratio == 1.0
    assert across.ratio > 100
    np.testing.assert_array_equal(found.twin_errors, window_errors(last_value, twin(shifted), found.starts, **LENGTHS))


def test_a_forecaster_that_looks_back_further_needs_longer_to_recover(shifted):
    quick = shock_response(last_value, shifted, **LENGTHS, smoothing=1, tolerance=9.0)
    slow = shock_response(context_mean, shifted, **LENGTHS, smoothing=1, tolerance=9.0)
    # The mean of the context is wrong while rows from before stand in it: L rows, and a few of the way to the new mean.
    assert 0 < quick.recovery < L
    assert L <= slow.recovery < L + 10
    assert "recovers" in slow.in_words()


def test_without_effect_there_is_nothing_to_recover_from():
    plan = scenario("OU_BASE", steps=2000, shocks=(StateShock(at=1000, eps=0.0),))
    found = shock_response(last_value, simulate(plan), **LENGTHS)
    assert found.recovery == 0
    np.testing.assert_array_equal(found.errors, found.twin_errors)
    assert "not affected" in found.in_words()


def test_a_forecaster_that_never_comes_back_has_no_recovery(shifted):
    found = shock_response(lambda contexts: np.zeros((len(contexts), H, 1)), shifted, **LENGTHS)
    assert found.recovery is None
    assert "has not recovered" in found.in_words()


def test_a_stride_keeps_the_first_window_after_the_shock(shifted):
    every = shock_response(last_value, shifted, **LENGTHS)
    some = shock_response(last_value, shifted, **LENGTHS, stride=7)
    assert 1000 in some.starts
    assert set(some.starts) <= set(every.starts)
    assert len(some.starts) < len(every.starts) / 5


def test_a_shock_may_be_placed_in_the_test_part():
    plan = with_shock_at(scenario("OU_PARAM", steps=2000), 0.95)
    found = shock_response(last_value, simulate(plan), **LENGTHS)
    assert found.shock_row == 1900
    assert found.starts[-1] == 2000 - H


def test_each_of_several_shocks_is_looked_at_up_to_its_neighbours():
    shocks = (ParamShock(at=500, params={"mu": 3.0}), ParamShock(at=700, params={"mu": 0.0}))
    trajectory = simulate(scenario("OU_BASE", steps=1000, shocks=shocks))
    first, second = (shock_response(last_value, trajectory, **LENGTHS, shock=i, reach=400) for i in (0, 1))
    assert (first.shock_row, first.starts[-1]) == (500, 700 - H)
    assert (second.shock_row, second.starts[0]) == (700, 500 + L)


def test_the_figure_shows_errors_twin_limit_and_recovery(shifted):
    found = shock_response(context_mean, shifted, **LENGTHS, smoothing=1, tolerance=9.0)
    (axis,) = shock_response_figure(found, name="mean").axes
    assert [text.get_text() for text in axis.get_legend().get_texts()] == [
        "twin without the shock",
        "each window",
        "smoothed",
        "limit of recovery",
        "shock",
        "recovered",
    ]


@pytest.mark.parametrize(
    ("forecast", "changes", "message"),
    [
        (lambda past: past, {}, r"returned shape \(201, 24, 1\) .* needs \(201, 12, 1\)"),
        (lambda past: np.full((len(past), H, 1), np.nan), {}, "not finite for the window that starts at row 900"),
        (last_value, {"shock": 2}, "shock: got 2, but SHIFTED has 1"),
        (last_value, {"tolerance": -1.0}, "tolerance: got -1.0"),
        (last_value, {"stride": 0}, "stride: got 0"),
        (last_value, {"reach": 5}, r"no window lies before the shock .* reach of at least 12, got 5"),
        (last_value, {"context_length": 990}, "no window lies before the shock"),
    ],
)
def test_bad_input_is_named(shifted, forecast, changes, message):
    with pytest.raises(FernError, match=message):
        shock_response(forecast, shifted, **{**LENGTHS, "reach": 100, "stride": 1, **changes})


def test_a_scenario_without_a_shock_is_refused():
    with pytest.raises(FernError, match="OU_BASE: has no shock"):
        shock_response(last_value, simulate(scenario("OU_BASE", steps=500)), **LENGTHS)
    with pytest.raises(FernError, match="no window lies after the shock at row 495"):
        late = with_shock_at(scenario("OU_PARAM", steps=500), 495)
        shock_response(last_value, simulate(late), **LENGTHS)

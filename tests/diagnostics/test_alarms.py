"""Rules find the failure mode where it is planted, know their rates, and stay quiet where there is nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error

from fern.diagnostics import EigenProfile, detect_alarms, learn_rules, measure_rates
from fern.diagnostics.alarms import _rates, _within


def profile(error, *, radius=None, trace=None, log_det=None, first_row=0):
    error = np.asarray(error, dtype=float)
    flat = np.ones_like(error)
    return EigenProfile(
        first_row=first_row,
        forecast=error,
        truth=error,
        error=error,
        spectral_radius=flat if radius is None else radius,
        trace=flat if trace is None else trace,
        log_det=flat if log_det is None else log_det,
    )


def planted(seed, *, rows=4000, channels=2, lead=10):
    """Spikes at random places; trace and log-determinant sink in the rows just before each, under noise."""
    generator = np.random.default_rng(seed)
    error = generator.uniform(0, 1, (rows, channels))
    trace, log_det = generator.normal(24, 1, (rows, channels)), generator.normal(0, 1, (rows, channels))
    for channel in range(channels):
        for spike in range(60 + 17 * channel, rows - 20, 100):
            error[spike : spike + 6, channel] += 5
            trace[spike - lead : spike, channel] -= 6
            log_det[spike - lead : spike, channel] -= 9
    return profile(error, trace=trace, log_det=log_det)


def test_a_planted_collapse_is_learnt_and_found_again_in_new_data():
    rules = learn_rules(planted(1), lead=10)
    collapse = rules.rules[0]
    assert collapse.name == "variance collapse"
    assert collapse.rates.hit_rate > 0.95
    assert collapse.rates.false_alarm_rate < 0.05
    again = measure_rates(planted(2), rules)["variance collapse"]
    assert again.hit_rate > 0.95
    assert again.false_alarm_rate < 0.05
    assert again.lift > 3


def test_a_collapse_needs_both_signs():
    calm = planted(1)
    only_trace = profile(calm.error, trace=calm.trace, log_det=np.random.default_rng(3).normal(size=calm.error.shape))
    both, one = learn_rules(calm, lead=10).rules[0], learn_rules(only_trace, lead=10).rules[0]
    assert one.rates.lift < both.rates.lift


def test_a_rising_radius_is_learnt():
    rows = np.arange(3000)
    phase = rows % 200
    error = np.where((phase >= 150) & (phase < 160), 5.0, 0.1)[:, None]
    radius = np.where((phase >= 120) & (phase < 150), 1 + (phase - 120) / 10, 1.0)[:, None]
    rule = learn_rules(profile(error, radius=radius), lead=20, spike_quantile=0.9).rules[1]
    assert rule.name == "rising spectral radius"
    assert rule.rates.hit_rate == 1.0
    assert rule.rates.lift > 3


def test_noise_teaches_nothing_and_the_rates_say_so():
    generator = np.random.default_rng(0)
    shape = (6000, 1)
    noise = profile(
        generator.uniform(size=shape), trace=generator.normal(size=shape), log_det=generator.normal(size=shape)
    )
    rules = learn_rules(noise, lead=10)
    assert all(0.7 < rates.lift < 1.3 for rates in measure_rates(noise, rules).values())


def test_alarms_are_stretches_in_the_rows_of_the_data():
    data = planted(1)
    rules = learn_rules(data, lead=10)
    shifted = EigenProfile(**{**vars(data), "first_row": 1000})
    alarms = detect_alarms(shifted, rules)
    assert alarms == sorted(alarms, key=lambda a: a.first_row)
    first = next(a for a in alarms if a.rule == "variance collapse" and a.channel == 0)
    assert 1050 <= first.first_row <= first.last_row < 1060
    assert "variance collapse in channel 0, rows 10" in str(first)


def test_warnings_need_no_truth():
    data = planted(1)
    rules = learn_rules(data, lead=10)
    unknown = EigenProfile(
        **{**vars(data), "error": np.full_like(data.error, np.nan), "truth": np.full_like(data.truth, np.nan)}
    )
    assert detect_alarms(unknown, rules) == detect_alarms(data, rules)


def test_rates_by_hand():
    #               0  1  2  3  4  5  6  7  8  9
    flags = np.array([[0, 1, 0, 0, 0, 0, 0, 1, 0, 0]], dtype=bool).T
    error = np.array([[0, 0, 0, 9, 9, 0, 9, 0, 0, 0]], dtype=float).T
    rates = _rates(flags, error, np.array([1.0]), 2)
    # Spikes start at 3 (flagged at 1) and at 6 (not flagged at 4 or 5). Rows 1, 2, 4, 5 have a spike ahead; of the six
    # quiet rows one, row 7, is flagged. One of two flagged rows has a spike ahead, as have four of ten rows.
    assert (rates.hit_rate, rates.false_alarm_rate, rates.lift, rates.spikes) == (0.5, 1 / 6, 0.5 / 0.4, 2)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 10))
def test_looking_ahead_and_back_agree_with_a_loop(marks, lead):
    column = np.array(marks)[:, None]
    ahead = [any(marks[t + 1 : t + 1 + lead]) for t in range(len(marks))]
    back = [any(marks[max(0, t - lead) : t]) for t in range(len(marks))]
    assert _within(column, lead, ahead=True)[:, 0].tolist() == ahead
    assert _within(column, lead, ahead=False)[:, 0].tolist() == back


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"lead": 0}, "lead"),
        ({"lead": 4000}, "lead"),
        ({"spike_quantile": 1.0}, "spike_quantile"),
        ({"largest_false_alarm_rate": 0.0}, "largest_false_alarm_rate"),
    ],
)
def test_bad_options_are_named(options, argument):
    with raises_error(argument):
        learn_rules(planted(1), **options)


def test_rules_of_other_channels_are_refused():
    rules = learn_rules(planted(1, channels=2), lead=10)
    with raises_error("profile"):
        detect_alarms(planted(1, channels=1), rules)

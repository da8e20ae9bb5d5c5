"""The oracle is the conditional mean, and its error is the known floor."""

import numpy as np
import pytest
from tests.errors import raises_error

from fern.errors import FernError
from fern.systems import ParamShock, StateShock, monte_carlo_oracle, oracle, scenario, simulate

H = 336


def windows(t, starts, horizon=H):
    return np.stack([t.values[s : s + horizon] for s in starts])


def test_on_ou_the_error_equals_the_analytic_value():
    # Var(x_{t+h} | x_t) = σ²dt (1 - q^2h)/(1 - q²), q = 1 - θdt: its mean over 336 steps is 0.2338.
    q = 0.9
    analytic = (0.3**2 * 0.5 * (1 - q ** (2 * np.arange(1, H + 1))) / (1 - q**2)).mean()
    assert analytic == pytest.approx(0.2338, abs=5e-5)
    t = simulate("OU_BASE")
    starts = np.arange(len(t.values) - H + 1)
    error = (
        (oracle(t, starts, H) - np.lib.stride_tricks.sliding_window_view(t.values[:, 0], H)[..., None]) ** 2
    ).mean()
    assert error == pytest.approx(analytic, rel=0.05)


@pytest.mark.parametrize("scenario_id", ["LORENZ_BASE", "ROSSLER_PARAM", "CHUA_SWITCH", "LORENZ96_SWITCH"])
def test_on_chaotic_flows_the_error_vanishes_from_the_float64_state(scenario_id):
    t = simulate(scenario_id)
    starts = np.linspace(len(t.values) * 0.9, len(t.values) - H, 50).astype(int)
    assert ((oracle(t, starts, H) - windows(t, starts)) ** 2).mean() < 1e-6


def test_on_kuramoto_sivashinsky_the_error_vanishes():
    t = simulate(scenario("KS_BASE", steps=6000))
    assert ((oracle(t, [4000, 5000], H) - windows(t, [4000, 5000])) ** 2).mean() < 1e-6


def test_a_shock_ahead_is_not_foreseen_and_a_shock_at_the_start_is_known():
    t = simulate(scenario("LORENZ_BASE", steps=2000, shocks=(StateShock(1000, 0.9),)), dtype="float64")
    before, at = oracle(t, [999, 1000], 3)
    assert before[0] == pytest.approx(t.values[999])
    assert np.abs(before[1] - t.values[1000]).min() > 0.1
    np.testing.assert_array_equal(at, t.values[1000:1003])


def test_parameters_are_those_in_force_at_each_start():
    t = simulate(scenario("OU_BASE", steps=1000, shocks=(ParamShock(500, {"mu": 2.0}),)))
    far = oracle(t, [400, 499, 500, 900], 200)[:, -1, 0]
    assert far == pytest.approx([0.0, 0.0, 2.0, 2.0], abs=1e-6)


def test_the_first_rows_can_be_predicted_from_the_initial_state():
    t = simulate("SEASONAL_AR_BASE")
    assert oracle(t, [0], 2)[0, :, 0] == pytest.approx([1.0, np.cos(2 * np.pi / 24) + 0.5])


def test_starts_in_any_order_and_past_the_end_are_answered_in_that_order():
    t = simulate("OU_PARAM")
    a, b = oracle(t, [20_000, 10], 5)
    np.testing.assert_array_equal(a, oracle(t, [20_000], 5)[0])
    np.testing.assert_array_equal(b, oracle(t, [10], 5)[0])
    assert oracle(t, [len(t.values)], 5).shape == (1, 5, 1)
    assert oracle(t, [], 5).shape == (0, 5, 1)


def test_double_well_mean_lies_within_the_monte_carlo_standard_error():
    t = simulate("DOUBLEWELL_PARAM")
    starts = [0, 5000, 8749, 9000, 20_000]
    exact = oracle(t, starts, 100)
    found = monte_carlo_oracle(t, starts, 100, paths=20_000, seed=1)
    # 500 correlated comparisons: 4.5 standard errors is a chance of under 0.4 % for independent ones.
    assert found.standard_error.mean() < 0.01
    assert (np.abs(exact - found.mean) / found.standard_error).max() < 4.5


def test_double_well_mean_is_the_noise_free_path_when_the_noise_vanishes():
    plan = scenario("DOUBLEWELL_BASE", steps=50, params={"sigma": 0.0}, initial_state=(0.3,))
    t = simulate(plan, dtype="float64")
    np.testing.assert_allclose(oracle(t, [0], 50)[0], t.values, atol=1e-12)


def test_monte_carlo_standard_error_falls_with_the_root_of_the_paths():
    t = simulate("OU_BASE")
    few, many = (monte_carlo_oracle(t, [100], 50, paths=n).standard_error.mean() for n in (250, 4000))
    assert few / many == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize(
    ("starts", "horizon", "words"),
    [
        ([10], 0, "horizon: got 0"),
        ([-1], 5, "row -1 is outside the trajectory"),
        ([25_001], 5, "row 25001 is outside the trajectory"),
        ([1.5], 5, "starts: got float64"),
    ],
)
def test_bad_arguments_are_named(starts, horizon, words):
    with pytest.raises(FernError, match=words):
        oracle(simulate("OU_BASE"), starts, horizon)


def test_monte_carlo_needs_two_paths():
    with raises_error("paths"):
        monte_carlo_oracle(simulate("OU_BASE"), [10], 5, paths=1)

"""The systems have the exponents, variances and occupancies that theory gives them."""

import numpy as np
import pytest
from tests.systems.lyapunov import largest_lyapunov_exponent

from fern.systems import Scenario, get_system, simulate

# Sprott, Chaos and Time-Series Analysis (2003), appendix A: the classical parameters of both.
LITERATURE = {"lorenz63": 0.9056, "rossler": 0.0714}


@pytest.mark.parametrize(("name", "dt"), [("lorenz63", 0.01), ("rossler", 0.05)])
def test_the_largest_lyapunov_exponent_is_that_of_the_literature_within_5_percent(name, dt):
    found = largest_lyapunov_exponent(get_system(name), dt=dt, steps=400_000, renormalise_every=100)
    assert found == pytest.approx(LITERATURE[name], rel=0.05)


@pytest.mark.parametrize("name", LITERATURE)
def test_the_exponent_a_system_states_is_that_of_the_literature(name):
    assert get_system(name).lyapunov_exponent == pytest.approx(LITERATURE[name], rel=0.01)


@pytest.mark.parametrize(("name", "dt"), [("chua", 0.005), ("lorenz96", 0.007)])
def test_an_exponent_that_is_not_in_the_literature_is_the_measured_one(name, dt):
    found = largest_lyapunov_exponent(get_system(name), dt=dt, steps=400_000, renormalise_every=100)
    assert get_system(name).lyapunov_exponent == pytest.approx(found, rel=0.05)


def batch_means_error(series, batches=100):
    """The standard error of a correlated series' mean, from the spread of the means of long batches."""
    means = series[: len(series) // batches * batches].reshape(batches, -1).mean(axis=1)
    return means.std(ddof=1) / np.sqrt(batches)


def within_3_errors(series, expected):
    return abs(series.mean() - expected) < 3 * batch_means_error(series)


def long_run(system, **settings):
    t = simulate(Scenario(system=system, steps=400_000, seed=11, **settings), dtype="float64")
    return t.states[1000:]


def test_ou_stationary_variance():
    x = long_run("ornstein_uhlenbeck", dt=0.5)[:, 0]
    assert within_3_errors(x**2, 0.3**2 * 0.5 / (1 - 0.9**2))


def test_garch_unconditional_variance():
    x = long_run("garch", dt=1.0)[:, 0]
    assert within_3_errors(x**2, 0.01 / (1 - 0.06 - 0.90))


def test_slds_regime_occupancy():
    regime = long_run("slds", dt=1.0)[:, 1]
    assert within_3_errors(regime, 0.06 / (0.06 + 0.05))


def test_seasonal_ar_has_its_period_and_amplitude():
    x = long_run("seasonal_ar", dt=1.0)[:, 0]
    spectrum = np.abs(np.fft.rfft(x[: 24 * 16_000])) * 2 / (24 * 16_000)
    # The AR(1) filter passes the seasonal wave with gain 1/|1 - φ e^{-iω}|.
    gain = 1 / abs(1 - 0.5 * np.exp(-2j * np.pi / 24))
    assert spectrum.argmax() == 16_000
    assert spectrum.max() == pytest.approx(gain, rel=0.01)


def test_double_well_rests_near_its_wells():
    x = long_run("double_well", dt=0.01)[:, 0]
    peak = np.histogram(np.abs(x), bins=100, range=(0, 2))[0].argmax() * 0.02
    assert peak == pytest.approx(np.sqrt(1.5), abs=0.1)


def test_lorenz96_forcing_is_a_fixed_point():
    t = simulate(Scenario(system="lorenz96", steps=100, dt=0.01, params={"forcing": 3.0}, initial_state=(3.0,) * 6))
    np.testing.assert_allclose(t.values, 3.0)


def test_kuramoto_sivashinsky_keeps_its_mean_and_grows_the_unstable_wave():
    t = simulate(Scenario(system="kuramoto_sivashinsky", steps=100, dt=0.01), dtype="float64")
    np.testing.assert_allclose(t.values.mean(axis=1), 0.0, atol=1e-13)
    q = 2 * np.pi / 22.0
    tiny = tuple(1e-8 * np.cos(2 * np.pi * np.arange(64) / 64))
    t = simulate(Scenario(system="kuramoto_sivashinsky", steps=100, dt=0.01, initial_state=tiny), dtype="float64")
    # A wave too small to interact grows at the linear rate q² - q⁴.
    assert t.values[-1, 0] / tiny[0] == pytest.approx(np.exp(q**2 - q**4), rel=1e-6)


def test_kuramoto_sivashinsky_agrees_with_a_finite_difference_right_hand_side():
    nx, length = 256, 22.0
    x = 2 * np.pi * np.arange(nx) / nx
    u = 0.7 * np.sin(x) + 0.3 * np.cos(3 * x)
    plan = Scenario(
        system="kuramoto_sivashinsky", steps=2, dt=1e-6, params={"nx": nx, "nu": 0.8}, initial_state=tuple(u)
    )
    rate = (simulate(plan, dtype="float64").values[0] - u) / 1e-6
    h = length / nx
    first = (np.roll(u, -1) - np.roll(u, 1)) / (2 * h)
    second = (np.roll(u, -1) - 2 * u + np.roll(u, 1)) / h**2
    fourth = (np.roll(second, -1) - 2 * second + np.roll(second, 1)) / h**2
    # Second-order differences on 256 points: an error of about q⁴h²/12 of the largest term.
    np.testing.assert_allclose(rate, -second - 0.8 * fourth - u * first, atol=5e-3)

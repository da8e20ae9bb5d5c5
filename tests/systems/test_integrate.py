"""Each integrator converges at the order it claims, measured against exact solutions."""

import numpy as np
import pytest

from fern.errors import FernError
from fern.systems.integrate import etdrk4, euler_maruyama, recursion, rk4


def logistic(state, params, out):
    out[0] = params[0] * state[0] * (1 - state[0])


def grow(state, params, out):
    out[0] = params[0] * state[0]


def spread(state, params, out):
    out[0] = params[1] * state[0]


def square(coefficients, tables, out):
    out[0] = coefficients[0] ** 2


def measured_order(errors):
    """The slope of log2(error) as the step is halved."""
    return -np.polyfit(np.arange(len(errors)), np.log2(errors), 1)[0]


def test_rk4_has_order_4_on_the_logistic_equation():
    exact = 1 / (1 + 9 * np.exp(-3.0))
    errors = []
    for steps in (8, 16, 32, 64):
        path = rk4(logistic, np.array([[0.1]]), np.array([1.5]), dt=2.0 / steps, steps=steps)
        errors.append(abs(path[0, -1, 0] - exact))
    assert measured_order(errors) == pytest.approx(4, abs=0.2)


def test_etdrk4_has_order_4_on_a_stiff_bernoulli_equation():
    # dv/dt = -v + v^2 has v(t) = 1 / (1 + (1/v0 - 1) e^t).
    exact = 1 / (1 + (1 / 0.6 - 1) * np.exp(2.0))
    errors = []
    for steps in (4, 8, 16, 32):
        path = etdrk4(square, np.array([-1.0]), np.array([[0.6]]), np.zeros((1, 1)), dt=2.0 / steps, steps=steps)
        errors.append(abs(path[0, -1, 0] - exact))
    assert measured_order(errors) == pytest.approx(4, abs=0.2)


def test_etdrk4_is_exact_for_the_linear_part_however_stiff():
    linear = np.array([-1e6, -1.0, 0.0])

    def none(coefficients, tables, out):
        for j in range(coefficients.size):
            out[j] = 0.0

    path = etdrk4(none, linear, np.ones((1, 3)), np.zeros((1, 3)), dt=0.3, steps=5)
    np.testing.assert_allclose(path[0, -1], np.exp(linear * 1.5), rtol=1e-12, atol=1e-300)


def test_euler_maruyama_has_weak_order_1_on_geometric_brownian_motion():
    # E[X_1] = e for dX = X dt + 0.1 X dW from 1. The standard error of 200,000 paths is 0.0006; the smallest bias
    # measured, at 16 steps, is 0.08.
    generator = np.random.default_rng(5)
    errors = []
    for steps in (4, 8, 16):
        noise = generator.standard_normal((200_000, steps, 1))
        path = euler_maruyama(grow, spread, np.ones((200_000, 1)), np.array([1.0, 0.1]), noise, dt=1.0 / steps)
        errors.append(abs(path[:, -1, 0].mean() - np.e))
    assert measured_order(errors) == pytest.approx(1, abs=0.15)


def test_states_advanced_together_do_not_touch_each_other():
    states = np.array([[0.1], [0.4], [0.9]])
    together = rk4(logistic, states, np.array([1.5]), dt=0.1, steps=20)
    alone = [rk4(logistic, states[i : i + 1], np.array([1.5]), dt=0.1, steps=20)[0] for i in range(3)]
    np.testing.assert_array_equal(together, alone)


def test_recursion_counts_its_steps_from_the_given_clock():
    def clock(state, params, step, noise, out):
        out[0] = step

    assert recursion(clock, np.zeros((1, 1)), np.zeros(1), np.zeros((1, 3, 1)), first_step=40)[0, :, 0].tolist() == [
        40,
        41,
        42,
    ]


def test_equations_that_cannot_be_compiled_are_named():
    def broken(state, params, out):
        out[0] = state.no_such_thing

    with pytest.raises(FernError, match="'broken' cannot be compiled"):
        rk4(broken, np.zeros((1, 1)), np.zeros(1), dt=0.1, steps=2)

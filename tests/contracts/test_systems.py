"""What every system must satisfy, builtin or registered by a user."""

import numpy as np
import pytest

from fern.errors import FernError
from fern.systems import Flow, Scenario, get_system, monte_carlo_oracle, oracle, register_system, simulate
from fern.systems.noise import draw_noise
from fern.systems.registry import PREMADE


def pendulum(state, params, out):
    out[0] = state[1]
    out[1] = -params[0] * np.sin(state[0]) - params[1] * state[1]


PENDULUM = Flow(
    name="pendulum",
    equations=pendulum,
    params={"g": 9.81, "friction": 0.1},
    channel_names=("angle", "speed"),
    initial_state=(1.0, 0.0),
    citation="Galilei, G. (1638). Discorsi.",
)
NAMES = [*PREMADE, "pendulum"]


@pytest.fixture(autouse=True)
def _a_users_system():
    register_system(PENDULUM)


@pytest.fixture(params=NAMES)
def system(request):
    return get_system(request.param)


def advance(system, states, steps, *, first_step=0, seed=3, dt=0.01):
    states = np.atleast_2d(states)
    noise = draw_noise(system.noise, steps=first_step + steps, seed=seed)[first_step:]
    noise = np.repeat(noise[None], len(states), axis=0)
    return system.advance(states, system.params, dt=dt, first_step=first_step, noise=noise)


def test_it_says_where_it_comes_from(system):
    assert len(system.citation) > 10
    assert system.name.islower()


def test_channels_are_the_first_entries_of_the_state(system):
    state = system.initial_state_of(system.params)
    channels = system.channel_names_of(system.params)
    assert state.ndim == 1
    assert state.dtype == np.float64
    assert 1 <= len(channels) <= len(state)
    assert len(set(channels)) == len(channels)


def test_a_run_cut_in_two_gives_the_same_rows(system):
    start = system.initial_state_of(system.params)
    whole = advance(system, start, 40)[0]
    first = advance(system, start, 25)[0]
    second = advance(system, first[-1], 15, first_step=25)[0]
    # The spectral system goes through a change of basis at the cut, which rounds.
    np.testing.assert_allclose(np.concatenate([first, second]), whole, rtol=1e-9, atol=1e-12)


def test_states_in_a_batch_do_not_touch_each_other(system):
    start = system.initial_state_of(system.params)
    other = start.copy()
    other[0] += 0.25
    together = advance(system, np.stack([start, other]), 10)
    np.testing.assert_allclose(together[0], advance(system, start, 10)[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(together[1], advance(system, other, 10)[0], rtol=1e-12, atol=1e-14)


def test_the_oracle_agrees_with_simulation_within_its_standard_error(system):
    t = simulate(Scenario(system=system.name, steps=200, dt=0.1 if system.noise else 0.01, seed=2), dtype="float64")
    starts, horizon = [0, 50, 120], 20
    exact = oracle(t, starts, horizon)
    assert exact.shape == (3, horizon, len(t.channel_names))
    assert exact.dtype == np.float64
    if system.noise:
        found = monte_carlo_oracle(t, starts, horizon, paths=4000, seed=6)
        # 60 comparisons: 4.5 standard errors is a chance of 4 in 10,000.
        assert (np.abs(exact - found.mean) <= 4.5 * found.standard_error).all()
    else:
        for i, s in enumerate(starts):
            np.testing.assert_allclose(exact[i], t.values[s : s + horizon], rtol=1e-9, atol=1e-10)


def test_the_oracle_beats_a_forecaster_that_repeats_the_last_value(system):
    t = simulate(Scenario(system=system.name, steps=3000, dt=0.1 if system.noise else 0.01, seed=4), dtype="float64")
    starts = np.arange(500, 2900, 20)
    truth = np.stack([t.values[s : s + 50] for s in starts])
    best = ((oracle(t, starts, 50) - truth) ** 2).mean()
    naive = ((t.values[starts - 1][:, None] - truth) ** 2).mean()
    assert best < naive


def test_an_unknown_parameter_is_an_error_with_the_known_ones(system):
    with pytest.raises(FernError, match=f"unknown parameter of {system.name} 'nonsense'"):
        system.complete({"nonsense": 1.0})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "3"])
def test_a_parameter_that_is_not_a_finite_number_is_an_error(system, value):
    name = next(iter(system.params))
    with pytest.raises(FernError, match=f"parameter {name} of {system.name}"):
        system.complete({name: value})


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("slds", {"p11": 1.2}),
        ("garch", {"omega": -0.1}),
        ("lorenz96", {"dim": 3}),
        ("lorenz96", {"dim": 6.5}),
        ("kuramoto_sivashinsky", {"nx": 7}),
        ("kuramoto_sivashinsky", {"nx": 63}),
    ],
)
def test_an_impossible_parameter_says_what_it_takes(name, params):
    with pytest.raises(FernError, match="needs"):
        get_system(name).complete(params)


def test_a_premade_system_cannot_be_replaced():
    with pytest.raises(FernError, match="'lorenz63' is a built-in system"):
        register_system(Flow(**{**vars(PENDULUM), "name": "lorenz63"}))


def test_a_name_is_needed():
    with pytest.raises(FernError, match="needs a name"):
        register_system(Flow(**{**vars(PENDULUM), "name": ""}))

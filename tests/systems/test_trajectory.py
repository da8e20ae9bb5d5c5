"""What a trajectory is: its first row, its shocks, its twin, its bytes."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

try:
    from numpy._core import _multiarray_umath
except ImportError:  # before NumPy 2
    from numpy.core import _multiarray_umath
from tests.errors import raises_error

from fern.errors import FernError
from fern.systems import (
    SCENARIOS,
    ParamShock,
    Scenario,
    StateShock,
    SwitchShock,
    get_system,
    scenario,
    simulate,
    twin,
)
from fern.systems.trajectory import fingerprint_of


def step_from(system, state, params=None, *, dt):
    """One step of a deterministic system from a state, computed on its own."""
    source = get_system(system)
    full = source.complete(params or {})
    return source.advance(np.asarray(state, dtype=float)[None], full, dt=dt, first_step=0, noise=np.empty((1, 1, 0)))[
        0, 0
    ]


def test_row_0_is_one_step_from_the_initial_state():
    t = simulate("LORENZ_BASE", dtype="float64")
    np.testing.assert_array_equal(t.values[0], step_from("lorenz63", (1.0, 0.98, 1.1), dt=0.01))


def test_param_shock_changes_parameters_and_keeps_the_state():
    t = simulate("ROSSLER_PARAM", dtype="float64")
    k = t.shock_index
    after = {"a": 0.25, "b": 0.25, "c": 5.75}
    np.testing.assert_array_equal(t.values[k - 1], step_from("rossler", t.values[k - 2], dt=0.01))
    np.testing.assert_array_equal(t.values[k], step_from("rossler", t.values[k - 1], after, dt=0.01))


def test_state_shock_displaces_every_channel_before_the_next_step():
    t = simulate("LORENZ_STATE", dtype="float64")
    k = t.shock_index
    np.testing.assert_array_equal(t.values[k], step_from("lorenz63", t.values[k - 1] + 0.9, dt=0.01))


def test_state_shock_leaves_hidden_entries_of_the_state_alone():
    shocked = simulate(scenario("SLDS_BASE", steps=200, shocks=(StateShock(100, 5.0),)))
    calm = twin(shocked)
    np.testing.assert_array_equal(shocked.states[:, 1], calm.states[:, 1])
    assert shocked.values[100, 0] - calm.values[100, 0] == pytest.approx(5.0 * 0.9, rel=0.1)


def test_switch_shock_restarts_from_its_own_initial_condition():
    t = simulate("LORENZ_SWITCH", dtype="float64")
    k = t.shock_index
    np.testing.assert_array_equal(t.values[k], step_from("lorenz63", (1.002, 0.982, 1.102), {"rho": 28.1}, dt=0.01))


def test_switch_shock_without_an_initial_state_takes_the_systems_own():
    t = simulate("DOUBLEWELL_SWITCH")
    assert t.segments[1].entry_state.tolist() == [0.0]


def test_several_shocks_follow_one_another_anywhere_in_the_series():
    shocks = (ParamShock(0.1, {"rho": 30.0}), StateShock(500, 1.0), SwitchShock(0.95, {"rho": 26.0}))
    t = simulate(scenario("LORENZ_BASE", steps=1000, shocks=shocks))
    assert [s.first_row for s in t.segments] == [0, 100, 500, 950]
    assert [s.params["rho"] for s in t.segments] == [28.0, 30.0, 30.0, 26.0]
    assert t.shock_index == 100


@pytest.mark.parametrize("scenario_id", ["OU_PARAM", "SLDS_SWITCH", "GARCH_PARAM", "DOUBLEWELL_PARAM", "LORENZ_STATE"])
def test_twin_is_the_same_noise_without_the_shock(scenario_id):
    shocked = simulate(scenario_id)
    calm = twin(shocked)
    k = shocked.shock_index
    assert calm.shock_index is None
    np.testing.assert_array_equal(calm.values[:k], shocked.values[:k])
    assert (calm.values[k:] != shocked.values[k:]).any()


def test_twin_of_a_mean_shift_differs_by_the_relaxing_mean_only():
    shocked = simulate("OU_PARAM", dtype="float64")
    difference = (shocked.values - twin(shocked).values)[shocked.shock_index :, 0]
    np.testing.assert_allclose(difference, 0.5 * (1 - 0.9 ** np.arange(1, len(difference) + 1)), atol=1e-12)


def test_float64_on_request_rounds_to_the_float32_values():
    wide, narrow = simulate("CHUA_BASE", dtype="float64"), simulate("CHUA_BASE")
    assert wide.values.dtype == np.float64
    np.testing.assert_array_equal(wide.values.astype(np.float32), narrow.values)


def test_seed_decides_the_noise():
    a, b = (simulate(scenario("OU_BASE", steps=100, seed=seed)) for seed in (1, 2))
    assert a.fingerprint != b.fingerprint
    assert a.fingerprint == simulate(scenario("OU_BASE", steps=100, seed=1)).fingerprint


def test_the_same_id_gives_the_same_bytes_in_another_process_without_wide_registers():
    found = _multiarray_umath
    wide = [name for name in found.__cpu_dispatch__ if found.__cpu_features__.get(name)]
    ids = [name for name in SCENARIOS if not name.endswith("_MAIN")]
    program = (
        "from fern.systems.trajectory import fingerprint_of\nfrom fern.systems import scenario, simulate\n"
        f"for i in {ids}: print(fingerprint_of(simulate(scenario(i, steps=400)).states))"
    )
    # Another processor, as far as its numbers go: NumPy's plain loops, and a BLAS that sums in another order.
    plain = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem"}
    if wide:  # of what NumPy could do without
        plain["NPY_DISABLE_CPU_FEATURES"] = " ".join(wide)
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=plain)
    here = [fingerprint_of(simulate(scenario(i, steps=400)).states) for i in ids]
    assert dict(zip(ids, other.stdout.split(), strict=True)) == dict(zip(ids, here, strict=True))


@given(short=st.integers(2, 60), more=st.integers(0, 60), name=st.sampled_from(["OU_BASE", "SLDS_BASE", "LORENZ_BASE"]))
def test_a_longer_trajectory_begins_with_a_shorter_one(short, more, name):
    a = simulate(scenario(name, steps=short))
    b = simulate(scenario(name, steps=short + more))
    np.testing.assert_array_equal(a.values, b.values[:short])


@pytest.mark.parametrize(
    ("plan", "step"),
    [
        (Scenario(system="rossler", steps=4000, dt=0.01, params={"a": 5.0}), "rossler blows up at step"),
        (Scenario(system="double_well", steps=500, dt=5.0), "double_well blows up at step"),
        (Scenario(system="lorenz63", steps=500, dt=1.0), "lorenz63 blows up at step"),
    ],
)
def test_a_blow_up_says_at_which_step_and_nothing_is_handed_out(plan, step):
    with pytest.raises(FernError, match=step):
        simulate(plan)


def test_a_blow_up_after_a_shock_is_placed_in_the_whole_trajectory():
    plan = scenario("ROSSLER_BASE", steps=4000, shocks=(ParamShock(1000, {"a": 5.0}),))
    with pytest.raises(FernError, match=r"at step 1\d\d\d .*a=5") as raised:
        simulate(plan)
    assert "blows up" in str(raised.value)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Scenario(system="lorenz63", steps=10, dt=0.1, initial_state=(1.0, 2.0)), "initial_state: got"),
        (Scenario(system="lorenz63", steps=10, dt=0.1, shocks=(StateShock(5, (1.0, 2.0)),)), "eps: got 2 values"),
        (Scenario(system="lorenz96", steps=10, dt=0.1, shocks=(ParamShock(5, {"dim": 8}),)), "number of channels"),
        (
            Scenario(system="lorenz96", steps=10, dt=0.1, shocks=(ParamShock(5, {"focing": 8}),)),
            "did you mean 'forcing'",
        ),
    ],
)
def test_what_does_not_fit_the_system_is_refused(plan, words):
    with pytest.raises(FernError, match=words):
        simulate(plan)


def test_an_unknown_dtype_is_refused():
    with raises_error("dtype"):
        simulate("OU_BASE", dtype="float16")

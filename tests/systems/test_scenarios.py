"""The builtin scenarios are the paper's table; scenario files are strict."""

from pathlib import Path

import pytest
from tests.errors import raises_error

from fern.errors import FernError
from fern.systems import (
    SCENARIOS,
    ParamShock,
    Scenario,
    StateShock,
    SwitchShock,
    open_scenario,
    read_scenario,
    scenario,
    simulate,
)

# The paper's table of systems, transcribed:
# id -> (system, dt, steps, channels, parameters, what the shock changes, kind of shock).
LORENZ = {"sigma": 10, "rho": 28, "beta": 8 / 3}
ROSSLER = {"a": 0.2, "b": 0.2, "c": 5.7}
CHUA = {"alpha": 15.6, "beta": 28.0, "m0": -8 / 7, "m1": -5 / 7}
OU = {"theta": 0.2, "mu": 0.0, "sigma": 0.3}
SLDS = {"A1": 0.9, "Q1": 0.05, "A2": 0.98, "Q2": 0.35, "p11": 0.94, "p22": 0.95}
WELL = {"a": 1.5, "sigma": 0.25}
SEASONAL = {"S": 24, "phi": 0.5, "sigma": 0.2, "a0": 1.0, "amp_drift_per_step": 0}
GARCH = {"omega": 0.01, "alpha": 0.06, "beta": 0.90}
KS = {"nx": 64, "Lx": 22.0, "nu": 1.0}
PAPER = {
    "LORENZ_MAIN": ("lorenz63", 0.01, 25_000, 3, LORENZ, {}, None),
    "ROSSLER_MAIN": ("rossler", 0.01, 25_000, 3, ROSSLER, {}, None),
    "CHUA_MAIN": ("chua", 0.005, 35_000, 3, CHUA, {}, None),
    "LORENZ_BASE": ("lorenz63", 0.01, 35_999, 3, LORENZ, {}, None),
    "LORENZ_PARAM": ("lorenz63", 0.01, 35_999, 3, LORENZ, {"sigma": 10.1, "rho": 28.1, "beta": 8.1 / 3}, "param"),
    "LORENZ_STATE": ("lorenz63", 0.01, 35_999, 3, LORENZ, {}, "state_eps"),
    "LORENZ_SWITCH": ("lorenz63", 0.01, 35_999, 3, LORENZ, {"rho": 28.1}, "switch"),
    "ROSSLER_BASE": ("rossler", 0.01, 35_999, 3, ROSSLER, {}, None),
    "ROSSLER_PARAM": ("rossler", 0.01, 35_999, 3, ROSSLER, {"a": 0.25, "b": 0.25, "c": 5.75}, "param"),
    "LORENZ96_BASE": ("lorenz96", 0.007, 55_000, 6, {"dim": 6, "forcing": 8.0}, {}, None),
    "LORENZ96_SWITCH": ("lorenz96", 0.007, 55_000, 6, {"dim": 6, "forcing": 8.0}, {"forcing": 9.0}, "switch"),
    "CHUA_BASE": ("chua", 0.005, 35_999, 3, CHUA, {}, None),
    "CHUA_PARAM": (
        "chua", 0.005, 35_999, 3, CHUA, {"alpha": 15.9, "beta": 28.5, "m0": -8.1 / 7, "m1": -5.2 / 7}, "param",
    ),
    "CHUA_SWITCH": ("chua", 0.005, 35_999, 3, CHUA, {}, "switch"),
    "OU_BASE": ("ornstein_uhlenbeck", 0.5, 25_000, 1, OU, {}, None),
    "OU_PARAM": ("ornstein_uhlenbeck", 0.5, 25_000, 1, OU, {"mu": 0.5}, "param"),
    "SLDS_BASE": ("slds", 0.01, 25_000, 1, SLDS, {}, None),
    "SLDS_PARAM": (
        "slds", 0.01, 25_000, 1, SLDS,
        {"A1": 0.83, "Q1": 0.50, "A2": 0.97, "Q2": 0.30, "p11": 0.96, "p22": 0.92}, "param",
    ),
    "SLDS_SWITCH": (
        "slds", 0.01, 25_000, 1, SLDS,
        {"A1": 0.87, "Q1": 0.07, "A2": 0.99, "Q2": 0.45, "p11": 0.90, "p22": 0.95}, "switch",
    ),
    "DOUBLEWELL_BASE": ("double_well", 0.5, 25_000, 1, WELL, {}, None),
    "DOUBLEWELL_PARAM": ("double_well", 0.5, 25_000, 1, WELL, {"a": 1.0, "sigma": 0.35}, "param"),
    "DOUBLEWELL_SWITCH": ("double_well", 0.5, 25_000, 1, WELL, {"a": 1.0, "sigma": 0.35}, "switch"),
    "SEASONAL_AR_BASE": ("seasonal_ar", 0.01, 25_000, 1, SEASONAL, {}, None),
    "SEASONAL_AR_PARAM": ("seasonal_ar", 0.01, 25_000, 1, SEASONAL, {"a0": 1.4, "sigma": 0.35, "phi": 0.8}, "param"),
    "GARCH_BASE": ("garch", 0.01, 25_000, 1, GARCH, {}, None),
    "GARCH_PARAM": ("garch", 0.01, 25_000, 1, GARCH, {"omega": 0.03, "alpha": 0.15, "beta": 0.70}, "param"),
    "KS_BASE": ("kuramoto_sivashinsky", 0.01, 25_000, 64, KS, {}, None),
    "KS_PARAM": ("kuramoto_sivashinsky", 0.01, 25_000, 64, KS, {"nu": 0.80}, "param"),
}  # fmt: skip


def test_the_catalogue_is_the_papers_25_scenarios_and_3_main_ones():
    assert set(SCENARIOS) == set(PAPER)
    assert len(SCENARIOS) == 28


@pytest.mark.parametrize("scenario_id", PAPER)
def test_a_premade_scenario_simulates_with_the_papers_settings(scenario_id):
    system, dt, steps, channels, before, changed, kind = PAPER[scenario_id]
    t = simulate(scenario_id)
    assert (t.scenario.system, t.dt, t.values.shape) == (system, dt, (steps, channels))
    assert t.values.dtype == "float32"
    assert t.segments[0].params == pytest.approx(before)
    assert t.segments[-1].params == pytest.approx(before | changed)
    assert [shock.kind for shock in t.scenario.shocks] == ([kind] if kind else [])
    assert t.shock_index == (int(0.35 * steps) if kind else None)
    assert t.values.std(axis=0).min() > 0.05, "a trajectory that does not move tests nothing"


def test_the_papers_initial_conditions_and_displacement_stand_in_the_switches():
    assert SCENARIOS["LORENZ_BASE"].source.initial_state == (1.0, 0.98, 1.1)
    assert SCENARIOS["LORENZ_SWITCH"].shocks[0].initial_state == (1.002, 0.982, 1.102)
    assert SCENARIOS["LORENZ96_SWITCH"].shocks[0].initial_state == (0.99, 1.02, 1.02, 1.03, 1.01, 1.01)
    assert SCENARIOS["CHUA_SWITCH"].shocks[0].initial_state == (0.11, 0.01, 0.02)
    assert SCENARIOS["LORENZ_STATE"].shocks[0].eps == 0.9
    assert SCENARIOS["DOUBLEWELL_BASE"].seed == 1955


def test_any_field_of_a_premade_scenario_can_be_changed():
    s = scenario("LORENZ_PARAM", steps=5000, seed=3, dt=0.02, params={"rho": 30.0}, initial_state=(1, 2, 3))
    assert (s.steps, s.seed, s.dt, s.params, s.initial_state) == (5000, 3, 0.02, {"rho": 30.0}, (1, 2, 3))
    assert s.shock_rows == (1750,), "a shock at a fraction moves with the length"
    assert scenario("LORENZ_PARAM", shocks=()).shock_rows == ()


def test_a_scenario_file_says_everything_that_a_scenario_can():
    Path("full.toml").write_text(
        """
        system = "lorenz96"
        steps = 1000
        dt = 0.01
        seed = 4
        initial_state = [1.0, 1.1, 1.2, 1.3]
        params = { dim = 4, forcing = 7.5 }
        [[shocks]]
        kind = "param"
        at = 0.25
        params = { forcing = 8.5 }
        [[shocks]]
        kind = "state_eps"
        at = 500
        eps = [0.1, 0.2, 0.3, 0.4]
        [[shocks]]
        kind = "switch"
        at = 0.9
        params = { forcing = 9.0 }
        initial_state = [1, 2, 3, 4]
        """
    )
    assert read_scenario("full.toml") == Scenario(
        id="full",
        system="lorenz96",
        steps=1000,
        dt=0.01,
        seed=4,
        initial_state=(1.0, 1.1, 1.2, 1.3),
        params={"dim": 4, "forcing": 7.5},
        shocks=(
            ParamShock(0.25, {"forcing": 8.5}),
            StateShock(500, (0.1, 0.2, 0.3, 0.4)),
            SwitchShock(0.9, {"forcing": 9.0}, (1, 2, 3, 4)),
        ),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'system = "lorenz36"\nsteps = 10\ndt = 0.1',
            "unknown system 'lorenz36': did you mean 'lorenz96' or 'lorenz63'",
        ),
        ('system = "rossler"\nsteps = 10\ndt = 0.1\nsede = 1', "unknown setting 'sede': did you mean 'seed'"),
        ('system = "rossler"\nsteps = 10', "dt"),
        ('system = "rossler"\nsteps = "ten"\ndt = 0.1', "steps"),
        ('system = "rossler"\nsteps = 1\ndt = 0.1', "steps: got 1, needs a whole number of at least 2"),
        ('system = "rossler"\nsteps = 10\ndt = 0.0', "dt: got 0.0, needs a finite number above 0"),
        ('system = "rossler"\nsteps = 10\ndt = nan', "dt: got nan"),
        ('system = "rossler"\nsteps = 10\ndt = 0.1\nparams = { x = 1.0 }', "unknown parameter of rossler 'x'"),
        ('system = "rossler"\nsteps = 10\ndt = 0.1\nparams = { a = inf }', "parameter a of rossler: got inf"),
        ('system = "rossler"\nsteps = 10\ndt = 0.1\nshocks = 3', "needs a list of tables"),
        (
            'system = "rossler"\nsteps = 10\ndt = 0.1\n[[shocks]]\nkind = "parm"\nat = 0.5',
            "unknown kind of shock 'parm': did you mean 'param'",
        ),
        (
            'system = "rossler"\nsteps = 10\ndt = 0.1\n[[shocks]]\nkind = "param"\nat = 0.5\nparam = { a = 1.0 }',
            "unknown setting 'param': did you mean 'params'",
        ),
        (
            'system = "rossler"\nsteps = 10\ndt = 0.1\n[[shocks]]\nkind = "state_eps"\nat = 10\neps = 0.5',
            "a shock at 10 falls on row 10, outside the trajectory",
        ),
    ],
)
def test_a_mistake_in_a_scenario_file_names_the_file_and_the_key(text, words):
    Path("bad.toml").write_text(text)
    with pytest.raises(FernError) as raised:
        read_scenario("bad.toml")
    assert str(raised.value).startswith("bad.toml: ")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 1}, "steps: got 1"),
        ({"dt": 0.0}, "dt: got 0.0"),
        ({"dt": float("inf")}, "dt: got inf"),
        ({"dt": -0.01}, "dt: got -0.01"),
        ({"seed": -1}, "seed: got -1"),
        ({"params": {"roh": 30.0}}, "did you mean 'rho'"),
        ({"shocks": (ParamShock(1.0, {"rho": 30.0}),)}, "outside the trajectory"),
        ({"shocks": (ParamShock(0, {"rho": 30.0}),)}, "outside the trajectory"),
        ({"shocks": (ParamShock(-5, {"rho": 30.0}),)}, "outside the trajectory"),
        ({"shocks": (StateShock(0.5, 1.0), StateShock(0.5, 1.0))}, "needs increasing rows"),
    ],
)
def test_bad_settings_are_refused_when_the_scenario_is_made(changes, words):
    with pytest.raises(FernError) as raised:
        scenario("LORENZ_BASE", **changes)
    assert words in str(raised.value)


def test_an_unknown_id_is_answered_with_near_matches():
    with pytest.raises(FernError, match="did you mean 'OU_PARAM'"):
        scenario("OU_PARM")


def test_a_scenario_is_opened_by_id_by_file_or_as_it_is() -> None:
    Path("mine.toml").write_text('system = "garch"\nsteps = 100\ndt = 1.0\n')
    Path("plain").write_text('system = "garch"\nsteps = 100\ndt = 1.0\n')
    assert open_scenario("OU_PARAM") == SCENARIOS["OU_PARAM"]
    for source in ("mine.toml", Path("mine.toml"), "plain"):
        assert open_scenario(source).steps == 100
    own = Scenario(system="garch", steps=100, dt=1.0)
    assert open_scenario(own) is own


def test_an_id_wins_over_a_file_of_that_name() -> None:
    Path("OU_PARAM").write_text("not a scenario")
    assert open_scenario("OU_PARAM") == SCENARIOS["OU_PARAM"]


def test_what_is_neither_id_nor_file_is_refused() -> None:
    with pytest.raises(FernError, match="did you mean 'OU_PARAM'"):
        open_scenario("OU_PARM")
    with raises_error("scenario"):
        open_scenario(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "exponent"),
    [
        ("LORENZ_BASE", 0.906),
        ("LORENZ_STATE", 0.906),  # displaced, and under the same equations
        ("CHUA_SWITCH", 0.435),  # another start alone
        ("LORENZ_PARAM", None),
        ("LORENZ96_SWITCH", None),
        ("OU_BASE", None),
    ],
)
def test_the_exponent_is_known_where_a_scenario_ends_under_the_systems_own_parameters(name, exponent):
    assert scenario(name).lyapunov_exponent == exponent


def test_the_exponent_of_changed_parameters_is_not_known():
    assert scenario("LORENZ_BASE", params={"rho": 30.0}).lyapunov_exponent is None

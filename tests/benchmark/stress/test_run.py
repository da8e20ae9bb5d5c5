"""A forecaster on a scenario: the windows it is asked for, and the figures it gets."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from tests.benchmark.stress.support import LENGTHS, TINY, cheat, last_value, window_mean
from tests.errors import raises_error

from fern.benchmark.stress.requirements import parse_requirements
from fern.benchmark.stress.run import DEFAULT_SCENARIOS, RIVALS, StressSettings, stress_test
from fern.errors import FernError
from fern.models import build_model
from fern.systems import SCENARIOS, ParamShock, StateShock, simulate

SETTINGS = StressSettings(**LENGTHS)


def only(report):
    (result,) = report.results
    return result


def test_the_oracle_has_no_regret_and_beats_the_last_value():
    figures = only(stress_test(cheat(TINY), [TINY], settings=SETTINGS)).figures
    # The adapter hands float32 on, so the oracle loses half a unit in the last place of values around 1.
    assert abs(figures.excess_mse) < 1e-6
    assert abs(figures.regret) < 1e-6
    assert figures.oracle_mse > 0.01
    assert figures.skill > 0.0


def test_the_last_value_has_no_skill():
    assert only(stress_test(last_value, [TINY], settings=SETTINGS)).figures.skill == 0.0


def test_the_figures_are_those_of_their_definitions():
    result = only(stress_test(window_mean, [TINY], settings=SETTINGS))
    values = simulate(TINY).values.astype(np.float64)
    test = 700 - 70
    starts = np.linspace(test, 700 - 12, 8).round().astype(int)
    true = np.stack([values[s : s + 12] for s in starts])
    made = np.stack([np.full((12, 1), values[s - 24 : s].mean()) for s in starts])
    training = values[:490]
    exceeds = np.abs(made - true)[..., 0] > training.std()
    steps = [row.argmax() + 1 if row.any() else 12 for row in exceeds]
    figures = result.figures
    # Contexts and forecasts pass through float32.
    np.testing.assert_allclose(figures.mse, ((made - true) ** 2).mean(), rtol=1e-5)
    np.testing.assert_allclose(figures.mae, np.abs(made - true).mean(), rtol=1e-5)
    np.testing.assert_allclose(figures.ept, np.mean(steps))
    np.testing.assert_allclose(figures.excess_mse, figures.mse - figures.oracle_mse)
    np.testing.assert_allclose(figures.regret, figures.excess_mse / training.var(), rtol=1e-5)
    assert result.windows == 8


def test_windows_are_spread_over_the_test_part_and_never_before_the_last_shock():
    seen = []

    def spy(context, horizon):
        seen.append(context.copy())
        return last_value(context, horizon)

    late = replace(TINY, shocks=(*TINY.shocks, StateShock(at=660, eps=3.0)), id="LATE")
    settings = replace(SETTINGS, windows=1000, takes="batch")
    result = only(stress_test(spy, [late], settings=settings))
    values = simulate(late).values
    assert result.windows == 700 - 12 - 660 + 1
    np.testing.assert_array_equal(seen[0][0], values[660 - 24 : 660])
    np.testing.assert_array_equal(seen[0][-1], values[700 - 12 - 24 : 700 - 12])


def test_a_scenario_whose_shock_leaves_no_window_is_refused():
    late = replace(TINY, shocks=(StateShock(at=695, eps=3.0),))
    with pytest.raises(FernError, match="no test window lies after the shock at row 695"):
        stress_test(last_value, [late], settings=SETTINGS)


def test_requirements_hold_or_break_scenario_by_scenario():
    calm = replace(TINY, shocks=(), id="CALM")
    asked = parse_requirements(["skill>=0", "mse<1e-9"])
    report = stress_test(last_value, [TINY, calm], requirements=asked, settings=SETTINGS)
    assert [result.broken for result in report.results] == [(asked[1],), (asked[1],)]
    assert not report.survived
    assert stress_test(last_value, [TINY, calm], requirements=asked[:1], settings=SETTINGS).survived


def test_a_forecaster_that_fails_one_scenario_is_still_asked_the_others():
    def shy(context, horizon):
        if context.shape[-1] == 3:
            raise ZeroDivisionError("three is too many")
        return last_value(context, horizon)

    lorenz = replace(SCENARIOS["LORENZ_PARAM"], steps=700)
    told = []
    report = stress_test(
        shy,
        [lorenz, TINY],
        requirements=parse_requirements(["ept>=1"]),
        settings=SETTINGS,
        on_result=lambda result: told.append(result.scenario),
    )
    first, second = report.results
    assert first.reason == "raised ZeroDivisionError: three is too many"
    assert first.figures is None
    assert not first.survived
    assert first.broken == first.requirements
    assert second.survived
    assert told == ["LORENZ_PARAM", "TINY"]


def test_a_requirement_on_a_figure_that_is_not_defined_fails():
    flat = replace(TINY, params={"sigma": 0.0, "mu": 0.0}, shocks=(ParamShock(at=0.01, params={"mu": 1.0}),))
    # Without noise the process settles at its mean, so the last value is right in all of the test part.
    result = only(stress_test(last_value, [flat], requirements=parse_requirements(["skill>0"]), settings=SETTINGS))
    assert np.isnan(asdict(result.figures)["skill"])
    assert not result.survived


def test_a_built_model_brings_its_lengths():
    model = build_model("last-value", context_length=24, horizon=12, channels=1)
    report = stress_test(model, [TINY])
    assert (report.settings.context_length, report.settings.horizon) == (24, 12)
    with raises_error("horizon"):
        stress_test(model, [TINY], settings=StressSettings(horizon=13))


def test_a_built_model_gets_the_default_scenarios_with_its_channels():
    model = build_model("last-value", context_length=24, horizon=12, channels=1)
    assert [result.scenario for result in stress_test(model).results] == ["SEASONAL_AR_PARAM"]
    with pytest.raises(FernError, match=r"none of LORENZ_PARAM, .* has the model's 2 channels"):
        stress_test(build_model("last-value", context_length=24, horizon=12, channels=2))


def test_the_default_scenarios_have_every_kind_of_shock():
    kinds = {shock.kind for name in DEFAULT_SCENARIOS for shock in SCENARIOS[name].shocks}
    assert kinds == {"param", "state_eps", "switch"}


@pytest.mark.parametrize(
    ("scenarios", "settings", "says"),
    [
        (["LORENZ_PARM"], {}, "did you mean 'LORENZ_PARAM'"),
        (["no_such.toml"], {}, "no_such.toml"),
        ([7], {}, "scenario: got int"),
        ([TINY, TINY], {}, "TINY is given twice"),
        ([TINY], {"context_length": 0}, "context_length: got 0"),
        ([TINY], {"windows": None}, "windows: got None"),
        ([TINY], {"horizon": 400}, "has no test windows"),
        ([TINY], {"time_limit": -1.0}, "time_limit: got -1.0"),
        ([TINY], {"time_limit": float("nan")}, "time_limit: got nan"),
        ([TINY], {"takes": "batches"}, "did you mean 'batch'"),
    ],
)
def test_mistakes_are_told_before_anything_is_asked(scenarios, settings, says):
    def never(context, horizon):
        raise AssertionError("asked")

    with pytest.raises(FernError) as raised:
        stress_test(never, scenarios, settings=StressSettings(**{**LENGTHS, **settings}))
    assert says in str(raised.value)


def test_an_ept_beyond_the_horizon_cannot_be_asked_for():
    asked = parse_requirements(["ept>=13"])
    with pytest.raises(FernError, match="ept>=13: ept cannot exceed the horizon, which is 12"):
        stress_test(last_value, [TINY], requirements=asked, settings=SETTINGS)
    assert stress_test(cheat(TINY), [TINY], requirements=parse_requirements(["ept>=1"]), settings=SETTINGS).survived


def test_rivals_are_asked_for_the_same_windows_and_have_no_say_in_the_verdict():
    settings = replace(SETTINGS, rivals=("last-value", *RIVALS))
    result = only(stress_test(last_value, [TINY], requirements=parse_requirements(["skill>=0"]), settings=settings))
    assert result.survived
    assert result.rivals["last-value"] == result.figures
    for name in RIVALS:
        assert result.rivals[name].oracle_mse == result.figures.oracle_mse
        assert result.rivals[name].mse != result.figures.mse


def test_a_rival_that_cannot_be_fitted_is_left_blank():
    short = replace(TINY, steps=140)
    settings = StressSettings(context_length=2, horizon=12, windows=2, rivals=("seasonal-naive",))
    result = only(stress_test(last_value, [short], settings=settings))
    assert result.figures is not None
    assert result.rivals == {"seasonal-naive": None}  # its season is longer than the context


def test_an_unknown_rival_is_named():
    with pytest.raises(FernError, match="unknown rival 'analogue': did you mean 'analog'"):
        StressSettings(rivals=("analogue",))

"""Strict means strict: a text or a truth value is no number, in files and from Python."""

import json
import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile.support import Case, cases, check, examples, hourly

from fern.benchmark.tasks import Task, read_task, task_from_mapping
from fern.data.auditing.policy import Policy, read_policy
from fern.data.splits import Counts, Part, Shares, split
from fern.data.windows import Windows
from fern.errors import FernError
from fern.models import ModelConfig, build_model
from fern.settings import from_mapping
from fern.systems import Scenario, simulate
from fern.systems.scenarios import read_scenario
from fern.systems.shocks import ParamShock, StateShock, SwitchShock
from fern.training import TrainConfig

LORENZ = {"system": '"lorenz63"', "steps": "60", "dt": "0.01"}
TASK = {
    "schema": "1", "models": '["last-value"]', "datasets": '["OU_BASE"]', "horizons": "[12]", "seeds": "[7]",
    "context_length": "24",
}  # fmt: skip


def toml(base: dict[str, str], after: str = "", **changes: str) -> str:
    return "".join(f"{name} = {value}\n" for name, value in {**base, **changes}.items() if value) + after


def scenario(name: str, text: str, says: str) -> Case:
    return Case(f"scenario: {name}", ("simulate", "s.toml", "-o", "x.csv"), 2, says, {"s.toml": text})


def task(name: str, text: str, says: str) -> Case:
    return Case(f"task: {name}", ("bench", "run", "t.toml", "--out", "runs"), 2, says, {"t.toml": text})


def policy(name: str, text: str, says: str) -> Case:
    return Case(f"policy: {name}", ("audit", "x.csv", "--policy", "p.toml"), 2, says,
                {"p.toml": text, "x.csv": hourly()})  # fmt: skip


SHOCK = '[[shocks]]\nkind = "param"\nat = {}\nparams = {{ rho = 28.1 }}\n'
NUMBER, WHOLE = "should be a valid number", "should be a valid integer"


@cases(
    scenario("dt as text", toml(LORENZ, dt='"0.01"'), f"dt: Input {NUMBER}, got '0.01'"),
    scenario("dt as truth", toml(LORENZ, dt="true"), f"dt: Input {NUMBER}, got True"),
    scenario("dt as nan", toml(LORENZ, dt="nan"), "dt"),
    scenario("dt as inf", toml(LORENZ, dt="inf"), "dt"),
    scenario("dt as a date", toml(LORENZ, dt="2020-01-01"), "dt"),
    scenario("dt of 0", toml(LORENZ, dt="0"), "dt: got 0"),
    scenario("steps as text", toml(LORENZ, steps='"60"'), WHOLE),
    scenario("steps as truth", toml(LORENZ, steps="true"), WHOLE),
    scenario("steps as a float", toml(LORENZ, steps="60.0"), WHOLE),
    scenario("steps below 0", toml(LORENZ, steps="-5"), "steps: got -5, needs a whole number of at least 2"),
    scenario("seed as truth", toml(LORENZ, seed="true"), WHOLE),
    scenario("seed as text", toml(LORENZ, seed='"7"'), WHOLE),
    scenario("a parameter as text", toml(LORENZ, params='{ rho = "30" }'), f"params.rho: Input {NUMBER}"),
    scenario("a parameter as truth", toml(LORENZ, params="{ rho = true }"), f"params.rho: Input {NUMBER}"),
    scenario("parameters as a list", toml(LORENZ, params="[1, 2]"), "params"),
    scenario("a state as text", toml(LORENZ, initial_state='["1", "1", "1"]'), NUMBER),
    scenario("a state as one number", toml(LORENZ, initial_state="1.0"), "initial_state"),
    scenario("a system that is a number", toml(LORENZ, system="63"), "system"),
    scenario("a shock at a text", toml(LORENZ, SHOCK.format('"0.3"')), "at"),
    scenario("a shock at a truth", toml(LORENZ, SHOCK.format("true")), "at"),
    scenario("a shock at nan", toml(LORENZ, SHOCK.format("nan")), "at: got nan, needs a row number"),
    scenario("a shock beyond the end", toml(LORENZ, SHOCK.format("60")), "outside the trajectory"),
    scenario("shocks as a number", toml(LORENZ, shocks="3"), "needs a list of tables"),
    scenario("a shock as a number", toml(LORENZ, shocks="[3]"), "needs a table"),
    scenario("eps as text", toml(LORENZ, '[[shocks]]\nkind = "state_eps"\nat = 0.5\neps = "0.9"\n'), "eps"),
    task("schema as text", toml(TASK, schema='"1"'), f"schema: Input {WHOLE}"),
    task("schema as truth", toml(TASK, schema="true"), f"schema: Input {WHOLE}"),
    task("seeds as text", toml(TASK, seeds='"7"'), "seeds: Input should be a valid tuple"),
    task("seeds as truth", toml(TASK, seeds="true"), "seeds: Input should be a valid tuple"),
    task("a seed as text", toml(TASK, seeds='["7"]'), f"seeds.0: Input {WHOLE}"),
    task("a seed as truth", toml(TASK, seeds="[true]"), f"seeds.0: Input {WHOLE}"),
    task("a seed as a float", toml(TASK, seeds="[7.0]"), f"seeds.0: Input {WHOLE}"),
    task("a seed beyond 63 bits", toml(TASK, seeds=f"[{2**63}]"), "seeds"),
    task("horizons as text", toml(TASK, horizons='["12"]'), WHOLE),
    task("a horizon of 0", toml(TASK, horizons="[0]"), "horizons: got 0"),
    task("context length as text", toml(TASK, context_length='"24"'), WHOLE),
    task("epochs as text", toml(TASK, '[train]\nepochs = "3"\n', models='["dlinear"]'), f"epochs: Input {WHOLE}"),
    task("epochs as truth", toml(TASK, "[train]\nepochs = true\n", models='["dlinear"]'), f"epochs: Input {WHOLE}"),
    task("a rate as text", toml(TASK, '[train]\nlearning_rate = "0.1"\n', models='["dlinear"]'), NUMBER),
    task("a model's setting as text", toml(TASK, models='[{ model = "fern", settings = { latent = "12" } }]'), WHOLE),
    task("a model's setting as truth", toml(TASK, models='[{ model = "fern", settings = { latent = true } }]'), WHOLE),
    *(task(f"{name} among a model's settings",
           toml(TASK, models=f'[{{ model = "dlinear", settings = {{ {name} = 8 }} }}]'), f"settings: got '{name}'")
      for name in ("context_length", "name", "preset", "generator")),
    task("models as a number", toml(TASK, models="3"), "models"),
    task("a model as a number", toml(TASK, models="[3]"), "needs a name or a table"),
    task("a model that is code", toml(TASK, models='[{ model = "os:system" }]'), "cannot name code"),
    task("steps of a dataset as text", toml(TASK, datasets='[{ dataset = "OU_BASE", steps = "60" }]'), WHOLE),
    task("two devices", toml(TASK, "[train]\ndevices = 2\n", models='["dlinear"]'), "computes in one process"),
    policy("a share as text", 'zero_share = "0.2"\n', f"zero_share: Input {NUMBER}"),
    policy("a share as truth", "sentinel_share = true\n", f"sentinel_share: Input {NUMBER}"),
    policy("a share above 1", "zero_share = 1.5\n", "needs a fraction from 0 to 1"),
    policy("a share that is nan", "zero_share = nan\n", "needs a fraction from 0 to 1"),
    policy("steps as text", 'stuck_steps = "24"\n', WHOLE),
    policy("a duration as a number", "drop_run = 3\n", "needs a duration such as '3 hours'"),
    policy("a duration as truth", "drop_run = true\n", "needs a duration such as '3 hours'"),
    policy("a duration without sense", 'drop_run = "long"\n', "drop_run|duration"),
)  # fmt: skip
def test_a_file_with_a_wrong_type_is_refused_with_the_type_that_is_needed(case: Case, capsys) -> None:
    check(case, capsys)


SIZES: dict[str, Any] = {"context_length": 96, "horizon": 24, "channels": 2}
PLAN: dict[str, Any] = {"system": "lorenz63", "steps": 60, "dt": 0.01}
ROWS = np.zeros((50, 1), np.float32)
BAD_CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "channels=True": (lambda: build_model("dlinear", **{**SIZES, "channels": True}), "channels"),
    "context_length='96'": (lambda: build_model("dlinear", **{**SIZES, "context_length": "96"}), "context_length"),
    "horizon=24.0": (lambda: build_model("dlinear", **{**SIZES, "horizon": 24.0}), "horizon"),
    "a model's own setting as text": (lambda: build_model("fern", **SIZES, latent="12"), "latent"),
    "ModelConfig(channels=True)": (lambda: ModelConfig(**{**SIZES, "channels": True}), "channels: got True"),
    "ModelConfig(horizon='24')": (lambda: ModelConfig(**{**SIZES, "horizon": "24"}), "horizon: got '24'"),
    "dt=True": (lambda: Scenario(**{**PLAN, "dt": True}), "dt: got True"),
    "dt='0.01'": (lambda: Scenario(**{**PLAN, "dt": "0.01"}), "dt: got '0.01'"),
    "steps=True": (lambda: Scenario(**{**PLAN, "steps": True}), "steps: got True"),
    "seed=1.0": (lambda: Scenario(**PLAN, seed=1.0), "seed: got 1.0"),
    "params as text": (lambda: Scenario(**PLAN, params={"rho": "30"}), "rho of lorenz63: got '30'"),
    "params as truth": (lambda: Scenario(**PLAN, params={"rho": True}), "rho of lorenz63: got True"),
    "params beyond float64": (lambda: Scenario(**PLAN, params={"rho": 10**400}), "a whole number of 401 digits"),
    "a shock at a text": (lambda: Scenario(**PLAN, shocks=(ParamShock("0.5", {"rho": 1.0}),)), "at: got '0.5'"),
    "a shock at a truth": (lambda: Scenario(**PLAN, shocks=(SwitchShock(True),)), "at: got True"),
    "a shock at 10^400": (lambda: Scenario(**PLAN, shocks=(SwitchShock(10**400),)), "digits, needs a row number"),
    "eps as text": (lambda: simulate(Scenario(**PLAN, shocks=(StateShock(0.5, "1"),))), "eps: got '1'"),
    "eps as nan": (lambda: simulate(Scenario(**PLAN, shocks=(StateShock(0.5, math.nan),))), "eps: got nan"),
    "a state of texts": (lambda: simulate(Scenario(**PLAN, initial_state=("1", "2", "3"))), "needs 3 finite values"),
    "Part(0.0, 3.0)": (lambda: Part(0.0, 3.0), "part: got 0.0, needs whole numbers"),
    "Part(True, 3)": (lambda: Part(True, 3), "part: got True"),
    "Part('0', 3)": (lambda: Part("0", 3), "part: got '0'"),
    "split(100.0)": (lambda: split(100.0, "shock"), "split: got 100.0"),
    "split('100')": (lambda: split("100", "shock"), "split: got '100'"),
    "Shares of floats": (lambda: Shares(70.0, 20.0, 10.0), "split shares: got 70.0"),
    "Counts of floats": (lambda: Counts(7.0, 2, 1), "split counts: got 7.0"),
    "Counts below 0": (lambda: Counts(7, -2, 1), "split counts"),
    "a stride of True": (lambda: Windows(ROWS, context_length=4, horizon=2, stride=True), "stride"),
    "a window of floats": (lambda: Windows(ROWS, context_length=4.0, horizon=2), "context_length"),
    "epochs='3'": (lambda: TrainConfig(epochs="3"), "epochs: got '3'"),
    "epochs=True": (lambda: TrainConfig(epochs=True), "epochs: got True"),
    "learning_rate='0.1'": (lambda: TrainConfig(learning_rate="0.1"), "learning_rate: got '0.1'"),
    "learning_rate=10**400": (lambda: TrainConfig(learning_rate=10**400), "learning_rate"),
    "warmup as text": (lambda: TrainConfig(warmup="0.1"), "warmup"),
    "Policy(zero_share='0.2')": (lambda: Policy(zero_share="0.2"), "zero_share: got '0.2'"),
    "Policy(drop_run=3)": (lambda: Policy(drop_run=3), "drop_run"),
    "Policy(stuck_steps=2.5)": (lambda: Policy(stuck_steps=2.5), "stuck_steps: got 2.5"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CALLS)
def test_python_refuses_a_wrong_type_with_what_is_needed(name: str) -> None:
    call, says = BAD_CALLS[name]
    with pytest.raises(FernError, match=says.replace("(", r"\(").replace("*", r"\*")):
        call()


def test_what_is_right_stays_right() -> None:
    assert Part(np.int64(1), np.int64(4)) == Part(1, 4)
    assert from_mapping(Policy, {"zero_share": 1, "drop_run": "2 days"}).drop_run == timedelta(days=2)
    assert from_mapping(TrainConfig, {"learning_rate": 1}).learning_rate == 1.0
    assert from_mapping(Scenario, {**PLAN, "dt": 1, "initial_state": [1, 2, 3]}).initial_state == (1.0, 2.0, 3.0)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400)
    | st.just("\ud800") | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def any_settings(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """A few settings of those names with any values, and sometimes others."""
    known = st.dictionaries(st.sampled_from(names), values, max_size=4)
    return st.tuples(known, st.dictionaries(st.text(max_size=6), values, max_size=1)).map(
        lambda both: {**both[1], **both[0]}
    )


a_shock = st.builds(
    lambda kind, some: {"kind": kind, **some},
    st.sampled_from(["param", "state_eps", "switch", "other"]) | values,
    st.dictionaries(st.sampled_from(["at", "params", "eps", "initial_state"]), values | st.floats(0, 1), max_size=3),
)


@examples(120)
@given(
    any_settings("system", "steps", "dt", "seed", "params", "initial_state", "id"),
    st.none() | st.lists(a_shock | values, max_size=2),
)
def test_any_values_are_a_scenario_or_a_mistake(found: dict[str, Any], shocks: list[Any] | None) -> None:
    given_shocks = {} if shocks is None else {"shocks": shocks}
    try:
        plan = from_mapping(Scenario, {**PLAN, **given_shocks, **found}, where="s.toml")
    except FernError:
        return
    assert plan.steps >= 2
    assert plan.dt > 0


@examples(120)
@given(any_settings("schema", "models", "datasets", "horizons", "seeds", "context_length", "split", "train", "title"))
def test_any_values_are_a_task_or_a_mistake(found: dict[str, Any]) -> None:
    base = {"schema": 1, "models": ["dlinear"], "datasets": ["OU_BASE"], "horizons": [12], "seeds": [7]}
    try:
        made = task_from_mapping({**base, **found}, name="any", where="t.toml")
    except FernError:
        return
    assert isinstance(made, Task)
    assert all(type(seed) is int for seed in made.seeds)


@examples(80)
@given(any_settings("epochs", "learning_rate", "loss", "objective", "seed", "devices", "schedule", "keep", "warmup"))
def test_any_values_are_training_settings_or_a_mistake(found: dict[str, Any]) -> None:
    try:
        made = from_mapping(TrainConfig, found, where="train")
    except FernError:
        return
    assert from_mapping(TrainConfig, json.loads(json.dumps(made.to_mapping())), where="train") == made


@examples(80)
@given(st.sampled_from(["fern", "dlinear", "patchtst", "koopa", "last-value"]), st.data())
def test_any_values_are_a_model_config_or_a_mistake(name: str, data: st.DataObject) -> None:
    from dataclasses import fields

    from fern.models.registry import model_entry

    config = model_entry(name).config
    found = data.draw(any_settings(*(entry.name for entry in fields(config))))
    try:
        made = from_mapping(config, {**SIZES, **found}, where=name)
    except FernError:
        return
    assert made.horizon >= 1


@examples(60)
@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_settings_or_a_mistake(data: bytes) -> None:
    path = Path("any.toml")
    path.write_bytes(data)
    for read in (read_scenario, read_task, read_policy):
        try:
            read(path)
        except FernError:
            continue
        assert read is read_policy  # an empty file is a policy: the paper's

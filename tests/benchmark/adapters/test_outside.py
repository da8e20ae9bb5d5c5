"""Models from outside stand in the same tables: functions as they are, builders trained like any other."""

import sys

import numpy as np
import pytest
import torch
from tests.benchmark.support import InlineEngine, tiny_task

from fern.benchmark.adapters.outside import (
    build_from,
    build_outside_model,
    import_object,
    is_builder,
    source_fingerprint,
)
from fern.benchmark.execute import RunCache, RunContext, execute_run
from fern.benchmark.plan import make_plan
from fern.benchmark.store import Store
from fern.benchmark.sweep import run_sweep
from fern.benchmark.tasks import task_from_mapping
from fern.errors import FernError
from fern.models import ModelConfig, build_model

MODULE = """
import numpy as np
import torch
from torch import nn


def last(context, horizon):
    return np.repeat(context[:, -1:], horizon, axis=1)


def broken(context, horizon):
    raise RuntimeError("no idea")


class Linear(nn.Module):
    def __init__(self, *, context_length, horizon, channels):
        super().__init__()
        self.map = nn.Sequential(nn.Linear(context_length, horizon), nn.Dropout(0.1))

    def forward(self, past):
        return self.map(past.transpose(1, 2)).transpose(1, 2)


def dlinear(*, context_length, horizon, channels):
    from fern.models import build_model
    return build_model("dlinear", context_length=context_length, horizon=horizon, channels=channels)


def nothing(context_length, horizon, channels):
    return "a model"


def too_short(context_length, horizon, channels):
    return dlinear(context_length=context_length, horizon=horizon - 1, channels=channels)
"""
SIZES = ModelConfig(context_length=24, horizon=12, channels=1)


@pytest.fixture(autouse=True)
def theirs(tmp_path, monkeypatch):
    """A module of somebody else's, importable in this test."""
    (tmp_path / "theirs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "theirs.py"
    sys.modules.pop("theirs", None)


def outcome(model, **changes):
    (run, *_) = [run for run in make_plan(tiny_task(**changes).beside([model])).runs if run.settings.model == model]
    return execute_run(run, RunContext(), RunCache()).result


def test_a_function_is_scored_as_the_same_model_of_ours_is():
    plan = make_plan(tiny_task(models=["last-value"]).beside(["theirs:last"]))
    ours, other = (execute_run(run, RunContext(), RunCache()).result for run in plan.runs)
    assert other.model == "theirs:last"
    assert other.status == "done", other.error
    np.testing.assert_allclose(other.metrics["mse"], ours.metrics["mse"], rtol=1e-6)
    assert other.train_settings == {}


def test_a_torch_module_is_trained_by_the_tasks_settings_and_the_seed_decides_it():
    first, again, other = (outcome("theirs:Linear", seeds=[seed]) for seed in (7, 7, 8))
    assert first.status == "done", first.error
    assert first.epochs == 3
    assert first.parameters == 24 * 12 + 12
    assert first.train_settings["start"] == "given"
    assert first.metrics == again.metrics != other.metrics


def test_a_forecaster_that_is_built_has_the_footprint_of_ours():
    row = outcome("theirs:dlinear")
    assert (row.status, row.parameters) == ("done", outcome_of_ours().parameters)


def outcome_of_ours():
    return execute_run(make_plan(tiny_task(models=["dlinear"])).runs[0], RunContext(), RunCache()).result


def test_a_function_that_raises_is_found_before_anything_is_computed():
    with pytest.raises(FernError, match="no idea"):
        make_plan(tiny_task().beside(["theirs:broken"]))


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing", "built str, needs a fern Forecaster or a torch.nn.Module"), ("too_short", "horizon is 11, needs 12")],
)
def test_what_a_builder_gives_must_be_a_model_that_fits(name, message):
    with pytest.raises(FernError, match=message):
        build_outside_model(f"theirs:{name}", SIZES, seed=0)


def test_the_starting_weights_follow_from_the_seed_and_no_random_state_changes():
    state = torch.get_rng_state()
    first, again, other = (build_from(import_object("theirs:Linear"), SIZES, seed=seed) for seed in (1, 1, 2))
    weights = [model.module.map[0].weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.get_rng_state(), state)


def test_a_row_is_stale_when_the_file_of_its_model_changed(theirs):
    before = make_plan(tiny_task(models=["last-value"]).beside(["theirs:last"])).runs
    theirs.write_text(MODULE + "\n# another thought\n")
    after = make_plan(tiny_task(models=["last-value"]).beside(["theirs:last"])).runs
    assert before[0].key == after[0].key  # ours
    assert before[1].key != after[1].key
    with pytest.raises(FernError, match="install the same version everywhere"):
        execute_run(before[1], RunContext(), RunCache())
    assert after[1].settings.code_version.endswith(source_fingerprint("theirs:last"))


def test_an_interrupted_sweep_finds_the_row_of_an_outside_model_again(tmp_path):
    plan = make_plan(tiny_task(models=["oracle"]).beside(["theirs:last"]))
    store = Store(tmp_path / "runs")
    assert run_sweep(plan, store, InlineEngine(store.folder)).made == 2
    assert run_sweep(plan, store, InlineEngine(store.folder)).made == 0


def test_only_callables_with_all_three_sizes_build():
    assert is_builder(import_object("theirs:Linear"))
    assert is_builder(import_object("theirs:dlinear"))
    assert not is_builder(import_object("theirs:last"))
    assert not is_builder(dict)
    assert not is_builder(build_model("dlinear", context_length=4, horizon=2, channels=1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("theirs", "needs module:callable"),
        (":last", "needs module:callable"),
        ("theirs:lats", "did you mean 'last'"),
        ("thiers:last", "cannot be imported"),
        ("theirs:nn", "needs a callable taking"),
    ],
)
def test_a_mistake_in_the_name_is_told(text, message):
    with pytest.raises(FernError, match=message):
        make_plan(tiny_task().beside([text]))


def test_an_outside_model_among_the_tasks_own_is_told_where_it_belongs():
    with pytest.raises(FernError, match="a model of your own: --with theirs:last"):
        make_plan(tiny_task().narrowed(models=["theirs:last"]))


def test_a_task_file_cannot_name_code():
    values = {"schema": 1, "models": [{"model": "theirs:last"}], "datasets": ["OU_BASE"], "horizons": [4], "seeds": [1]}
    with pytest.raises(FernError, match="a task file cannot name code"):
        task_from_mapping(values, name="mine")


def test_a_function_that_draws_at_random_is_taken_as_it_is(theirs):
    theirs.write_text(
        MODULE
        + """

def randomly(context, horizon):
    return np.random.default_rng().normal(size=(*context.shape[:-2], horizon, context.shape[-1]))
"""
    )
    model = build_outside_model("theirs:randomly", SIZES, seed=0)
    assert model(torch.zeros(5, 24, 1)).mean.shape == (5, 12, 1)


def test_a_builder_that_raises_is_named(theirs):
    theirs.write_text(
        MODULE
        + """

def clumsy(context_length, horizon, channels):
    raise KeyError("hidden")
"""
    )
    with pytest.raises(FernError, match="outside model theirs:clumsy: raised KeyError: 'hidden'"):
        make_plan(tiny_task().beside(["theirs:clumsy"]))

"""A plan holds every run once, with every setting resolved and every mistake found."""

from dataclasses import replace

import numpy as np
import pytest
from tests.benchmark.support import tiny_plan, tiny_task
from tests.errors import raises_error

import fern.benchmark.plan as planning
from fern.benchmark.plan import make_plan
from fern.benchmark.problem import Dataset
from fern.benchmark.tasks import read_task
from fern.errors import FernError
from fern.training.checkpoints import FREE_TO_CHANGE
from fern.training.config import NEUTRAL, PRESETS


def test_a_plan_is_models_times_datasets_times_horizons_times_seeds():
    plan = tiny_plan(
        models=["dlinear", "last-value"],
        datasets=[{"dataset": "OU_PARAM", "steps": 700}, {"dataset": "GARCH_BASE", "steps": 700}],
        horizons=[6, 12],
        seeds=[1, 2, 3],
    )
    assert len(plan.runs) == len({run.key for run in plan.runs}) == 2 * 2 * 2 * 3
    assert len(plan.datasets) == 2
    assert [run.settings.seed for run in plan.runs] == sorted(run.settings.seed for run in plan.runs)


def test_the_same_task_gives_the_same_keys():
    assert [run.key for run in tiny_plan().runs] == [run.key for run in tiny_plan().runs]


def test_a_model_named_twice_is_planned_once():
    assert len(tiny_plan(models=["dlinear", "dlinear"]).runs) == 1


def test_a_model_takes_the_papers_preset_where_it_has_one():
    presets = {run.settings.model: run.settings.preset for run in tiny_plan(models=["fern", "last-value"]).runs}
    assert presets == {"fern": "paper", "last-value": "default"}


ROWS = {"ETTh1": 17_420, "ETTh2": 17_420, "ETTm1": 69_680, "Weather": 52_696}


@pytest.fixture
def real_plan(monkeypatch):
    """The plan of the task ``real`` on noise of the right lengths."""

    def load(choice):
        values = np.random.default_rng(0).standard_normal((ROWS[choice.dataset], 1)).astype(np.float32)
        return Dataset(choice.dataset, values, ("a",), {"steps": len(values), "cleaning": "none"})

    monkeypatch.setattr(planning, "load_dataset", load)
    return make_plan(read_task("real"))


def test_the_real_series_are_run_with_the_authors_settings_for_each(real_plan):
    found = {(run.settings.model, run.settings.dataset): run.settings.preset for run in real_plan.runs}
    for model in ("dlinear", "patchtst", "seasonal-naive"):
        assert [found[model, name] for name in ROWS] == ["etth1", "etth2", "ettm1", "weather"]
    assert {found["fern", name] for name in ROWS} == {"level"}


def test_of_the_real_series_fern_alone_is_trained_by_its_distribution(real_plan):
    trained = {run.settings.model: run.settings.train_settings for run in real_plan.runs if run.settings.train_settings}
    assert {model: settings["preset"] for model, settings in trained.items()} == {
        "fern": "distribution",
        "dlinear": "default",
        "patchtst": "default",
    }
    assert {settings["epochs"] for settings in trained.values()} == {10}


def test_no_test_window_of_the_real_series_is_dropped(real_plan):
    windows = {
        (run.settings.dataset, run.settings.horizon): len(
            run.problem(real_plan.datasets[run.settings.data_fingerprint]).test
        )
        for run in real_plan.runs
        if run.settings.model == "last-value"
    }
    assert [windows["ETTh1", horizon] for horizon in (96, 192, 336, 720)] == [2785, 2689, 2545, 2161]
    assert [windows["ETTm1", 96], windows["Weather", 96]] == [11_425, 10_444]


def test_a_preset_by_dataset_must_be_there_for_each_dataset():
    with pytest.raises(FernError, match="unknown preset of dlinear 'ou_param'"):
        tiny_plan(models=[{"model": "dlinear", "preset": "dataset"}])


def test_training_settings_are_resolved_but_for_the_seed_and_what_only_says_where_it_computes():
    run = tiny_plan(models=["dlinear"], train={"preset": "shock", "epochs": 5, "evaluation_batch_size": 64}).runs[0]
    settings = run.settings.train_settings
    assert (settings["epochs"], settings["learning_rate"], settings["patience"]) == (5, 3e-4, 5)
    assert not {"seed", *FREE_TO_CHANGE} & settings.keys()
    config = run.train_config(threads=2)
    assert (config.seed, config.threads, config.evaluation_batch_size, config.epochs) == (7, 2, 64, 5)


def test_where_a_run_computes_does_not_change_its_key():
    slow, fast = (
        tiny_plan(models=["dlinear"], train={"preset": "shock", "checkpoint_seconds": seconds}) for seconds in (5, 50)
    )
    assert slow.runs[0].key == fast.runs[0].key


def test_runs_compute_on_the_cpu_unless_the_task_names_another_accelerator():
    plain, other = (
        tiny_plan(models=["dlinear"], train={"preset": "shock", **named}).runs[0]
        for named in ({}, {"accelerator": "gpu"})
    )
    assert plain.train_config(threads=1).accelerator == plain.accelerator == "cpu"
    assert other.train_config(threads=1).accelerator == other.accelerator == "gpu"


def test_models_with_nothing_to_train_do_not_depend_on_training_settings():
    for model in ("last-value", "training-mean", "oracle"):
        plans = [tiny_plan(models=[model], train={"preset": "shock", "epochs": epochs}) for epochs in (4, 5)]
        assert plans[0].runs[0].key == plans[1].runs[0].key


def test_a_cap_on_epochs_also_shortens_the_grace_period():
    settings = make_plan(tiny_task(models=["dlinear"], train={"preset": "shock"}), max_epochs=2).runs[0].settings
    assert (settings.train_settings["epochs"], settings.train_settings["grace"]) == (2, 1)


def test_a_cap_above_the_epochs_changes_nothing():
    task = tiny_task(models=["dlinear"])
    assert make_plan(task, max_epochs=500).runs[0].key == make_plan(task).runs[0].key


def test_settings_of_one_model_hold_for_it_alone():
    plan = tiny_plan(models=[{"model": "dlinear", "settings": {"kernel": 5}, "train": {"learning_rate": 0.1}}, "fern"])
    first, second = (run.settings for run in plan.runs)
    assert first.model_settings == {"kernel": 5}
    assert (first.train_settings["learning_rate"], second.train_settings["learning_rate"]) == (0.1, 3e-4)


def test_a_dataset_may_have_its_own_sizes_split_and_scaling():
    own = {"dataset": "OU_PARAM", "steps": 900, "context_length": 12, "horizons": [4]}
    plan = tiny_plan(models=["dlinear"], datasets=[{**own, "split": "detailed", "scaling": "robust"}])
    settings = plan.runs[0].settings
    assert (settings.context_length, settings.horizon) == (12, 4)
    assert (settings.split, settings.scaling) == ("detailed", "robust")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": ["dlinaer"]}, "unknown model 'dlinaer': did you mean 'dlinear'"),
        ({"models": ["orakel"]}, "did you mean 'oracle'"),
        ({"models": ["fern:no-rotations"]}, "did you mean 'no-rotation'"),
        ({"models": ["oracle:best"]}, "oracle: has no presets"),
        ({"models": [{"model": "dlinear", "settings": {"kernl": 5}}]}, "did you mean 'kernel'"),
        ({"datasets": ["LORENZ_BAS"]}, "did you mean 'LORENZ_BASE'"),
        ({"horizons": [600]}, "OU_PARAM: has no .* windows"),
        ({"train": {"preset": "shok"}}, "did you mean 'shock'"),
        ({"train": {"lerning_rate": 1.0}}, "did you mean 'learning_rate'"),
        ({"train": {"start": "given"}}, "runs start 'fresh'"),
    ],
)
def test_a_mistake_is_found_before_anything_is_computed(change, message):
    with pytest.raises(FernError, match=message):
        tiny_plan(**change)


def test_a_cap_below_one_epoch_is_refused():
    with raises_error("max_epochs"):
        make_plan(tiny_task(), max_epochs=0)


def test_values_other_than_the_planned_ones_are_refused():
    plan = tiny_plan(models=["dlinear"])
    other = tiny_plan(models=["dlinear"], datasets=[{"dataset": "OU_PARAM", "steps": 800}])
    with pytest.raises(FernError, match="differ from those the run was planned for"):
        plan.runs[0].problem(next(iter(other.datasets.values())))


@pytest.mark.parametrize("name", ["quick", "shock", "detailed", "ablation", "recency", "footprint"])
def test_the_tasks_of_the_paper_can_be_planned(name):
    task = read_task(name)
    scenarios = tuple(choice for choice in task.datasets if choice.dataset.isupper())[:1]
    if not scenarios:  # real series, which need not be on this machine
        scenarios = (replace(task.datasets[0], dataset="OU_BASE"),)
    plan = make_plan(replace(task, datasets=scenarios))
    horizons = scenarios[0].horizons or task.horizons
    assert len(plan.runs) == len(task.models) * len(horizons) * len(task.seeds)


def test_neutral_training_settings_stay_out_of_the_row_and_come_back_in_the_run():
    run = tiny_plan(models=["dlinear"], train={"preset": "default", "clip_norm": None, "epochs": 3}).runs[0]
    assert run.settings.train_settings.keys().isdisjoint({"clip_norm", "weight_decay", "objective"})
    assert run.settings.train_settings["averaging"] == PRESETS["default"]["averaging"]
    config = run.train_config(threads=1)
    assert (config.clip_norm, config.objective) == (None, NEUTRAL["objective"])

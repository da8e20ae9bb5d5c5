"""A dataset's name becomes windows and truth, in the units that the metrics use."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fern.benchmark.problem import LAST_BATCH, Problem, load_dataset
from fern.benchmark.tasks import DatasetChoice
from fern.data.datasets import local_folders
from fern.errors import FernError
from fern.systems import SCENARIOS, oracle, simulate

ETT = pytest.mark.skipif(
    not any((folder / "ETTh1.csv").is_file() for folder in local_folders()),
    reason="needs ETTh1.csv in FERN_DATA_DIR",
)


def choose(name, **settings):
    return load_dataset(DatasetChoice(dataset=name, **settings))


def test_a_scenario_is_played_out_as_it_is_or_shorter():
    whole, short = choose("LORENZ_PARAM"), choose("LORENZ_PARAM", steps=500)
    assert whole.fingerprint == simulate("LORENZ_PARAM").fingerprint
    assert short.values.shape == (500, 3)
    assert short.settings == {"steps": 500, "cleaning": "none"}
    assert short.trajectory.shock_index == 175
    assert whole.values.dtype == np.float32


def test_a_start_is_a_later_stretch_of_the_same_trajectory():
    own, later = choose("LORENZ_BASE", steps=400), choose("LORENZ_BASE", steps=400, start=2)
    np.testing.assert_array_equal(later.values, choose("LORENZ_BASE", steps=1200).values[800:])
    assert later.settings == {**own.settings, "start": 2}
    assert later.fingerprint != own.fingerprint
    assert choose("LORENZ_BASE", steps=400, start=0).settings == own.settings  # rows from before stay valid


def test_the_authors_rows_come_without_an_oracle_and_under_their_own_settings():
    his = choose("LORENZ_STATE", trajectory="author")
    assert his.settings == {"steps": 36_000, "cleaning": "none", "trajectory": "author"}
    assert his.trajectory is None
    assert his.values[0].tolist() == pytest.approx([1.0, 0.98, 1.1])
    for settings in ({"steps": 500}, {"noise": 0.1}, {"start": 1}):
        with pytest.raises(FernError, match="LORENZ_STATE: trajectory: has no other length, noise or start"):
            choose("LORENZ_STATE", trajectory="author", **settings)
    with pytest.raises(FernError, match="unknown scenario of the author's"):
        choose("GARCH_BASE", trajectory="author")


def test_a_start_of_a_system_with_noise_has_noise_of_its_own():
    first, second = choose("OU_BASE", steps=400, start=1), choose("OU_BASE", steps=400, start=2)
    assert abs(np.corrcoef(first.values[:, 0], second.values[:, 0])[0, 1]) < 0.7
    assert not np.array_equal(first.values, second.values)


def test_a_start_is_refused_where_it_has_no_meaning():
    with pytest.raises(FernError, match="start: applies to scenarios without shocks"):
        choose("LORENZ_PARAM", start=1)
    with pytest.raises(FernError, match="ETTh1: start applies to scenarios only"):
        choose("ETTh1", start=1)
    with pytest.raises(FernError, match="start: got -1"):
        choose("LORENZ_BASE", start=-1)


def test_a_scenario_file_is_recorded_whole(tmp_path):
    (tmp_path / "own.toml").write_text('system = "garch"\nsteps = 500\ndt = 1.0\nparams = { omega = 0.05 }\n')
    dataset = choose(str(tmp_path / "own.toml"))
    assert dataset.name == "own"
    assert dataset.settings["scenario"]["params"] == {"omega": 0.05}
    assert str(tmp_path) not in repr(dataset.settings)


def test_a_file_that_bears_the_id_of_a_premade_scenario_is_told_apart_from_it(tmp_path):
    file, text = tmp_path / "mine.toml", 'id = "LORENZ_BASE"\nsystem = "lorenz63"\nsteps = 500\n'
    file.write_text(text + "dt = 0.02\n")
    other = choose(str(file))
    assert other.name == "LORENZ_BASE"
    assert other.settings["scenario"]["dt"] == 0.02
    file.write_text(text + "dt = 0.01\n")
    same, builtin = choose(str(file)), choose("LORENZ_BASE", steps=500)
    assert same.settings == builtin.settings == {"steps": 500, "cleaning": "none"}
    assert same.fingerprint == builtin.fingerprint


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("LORENZ_BAS", {}, "unknown dataset 'LORENZ_BAS': did you mean 'LORENZ_BASE'"),
        ("ETTh3", {}, "did you mean 'ETTh"),
        ("none.toml", {}, r"none\.toml: no such file"),
        ("OU_BASE", {"cleaning": "paper"}, "has nothing to clean"),
        ("ETTh1", {"steps": 5}, "steps applies to scenarios only"),
        ("ETTh1", {"noise": 0.01}, "noise applies to scenarios only"),
        ("OU_BASE", {"noise": -0.01}, "noise: got -0.01, needs a share of the standard deviation, at least 0"),
    ],
)
def test_a_dataset_that_cannot_be_had_is_named(name, settings, message):
    with pytest.raises(FernError, match=message):
        choose(name, **settings)


def test_windows_follow_the_split_and_look_back_for_context_only():
    dataset = choose("OU_BASE", steps=1000)
    problem = Problem(dataset, "shock", "none", 48, 24)
    assert (len(problem.train), len(problem.validation), len(problem.test)) == (700 - 71, 200 - 23, 100 - 23)
    past, future = problem.test[0]
    np.testing.assert_array_equal(past, dataset.values[852:900])
    np.testing.assert_array_equal(future, dataset.values[900:924])


def test_the_last_test_window_ends_with_the_series():
    dataset = choose("OU_BASE", steps=1000)
    _, future = Problem(dataset, "shock", "none", 48, 24).test[-1]
    np.testing.assert_array_equal(future, dataset.values[-24:])


def test_the_last_batch_is_what_remains_of_the_test_windows_in_batches_of_128():
    dataset = choose("LORENZ_BASE", steps=7000)
    problem = Problem(dataset, "detailed", "none", 24, 12)
    remaining = len(problem.test) % LAST_BATCH
    assert 0 < remaining < LAST_BATCH < len(problem.test)
    assert len(problem.last_batch) == remaining
    last, whole = len(problem.test) - 1, problem.test
    assert torch.equal(
        problem.last_batch.gather(torch.tensor([0]))[0], whole.gather(torch.tensor([last + 1 - remaining]))[0]
    )
    assert torch.equal(
        problem.last_batch.gather(torch.tensor([remaining - 1]))[1], whole.gather(torch.tensor([last]))[1]
    )


def test_a_last_batch_that_is_full_is_whole():
    problem = Problem(choose("LORENZ_BASE", steps=7000), "detailed", "none", 24, 12)
    rows = len(problem.split.test)
    horizon = rows + 1 - 2 * LAST_BATCH  # 256 windows
    assert len(Problem(problem.dataset, "detailed", "none", 24, horizon).last_batch) == LAST_BATCH


def test_under_another_protocol_there_is_no_last_batch():
    assert Problem(choose("LORENZ_BASE", steps=7000), "shock", "none", 24, 12).last_batch is None


def test_the_envelope_of_ept_is_the_training_parts_deviation():
    dataset = choose("LORENZ_BASE", steps=2000)
    problem = Problem(dataset, "shock", "none", 48, 24)
    np.testing.assert_allclose(problem.train_std, dataset.values[:1400].astype(np.float64).std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("scaling", ["standard", "robust"])
def test_scaling_is_fitted_on_the_training_part_and_reaches_the_oracle(scaling):
    dataset = choose("OU_PARAM", steps=2000)
    problem, raw = (Problem(dataset, "shock", kind, 48, 24) for kind in (scaling, "none"))
    part = dataset.values[:1400].astype(np.float64)
    shift = part.mean() if scaling == "standard" else np.median(part)
    spread = part.std() if scaling == "standard" else np.median(np.abs(part - np.median(part)))
    # float32 values, scaled in float32.
    np.testing.assert_allclose(problem.values, (dataset.values - shift) / spread, rtol=1e-4, atol=1e-5)
    starts = np.array([1800, 1900])
    expected = (raw.best_forecasts(starts) - shift) / spread
    np.testing.assert_allclose(problem.best_forecasts(starts), expected, rtol=1e-9, atol=1e-12)


def test_the_oracle_is_that_of_the_trajectory():
    dataset = choose("DOUBLEWELL_BASE", steps=1000)
    problem = Problem(dataset, "shock", "none", 48, 24)
    starts = problem.test.starts(torch.arange(3)).numpy() + 48
    np.testing.assert_array_equal(problem.best_forecasts(starts), oracle(dataset.trajectory, starts, 24))


def test_a_part_without_a_window_is_named():
    with pytest.raises(FernError, match="OU_BASE: has no test windows"):
        _ = Problem(choose("OU_BASE", steps=100), "shock", "none", 12, 24).test


@ETT
def test_a_published_dataset_has_windows_but_no_oracle():
    dataset = choose("ETTh1")
    problem = Problem(dataset, "ett_hourly", "none", 336, 336)
    assert len(problem.test) == 2545
    with pytest.raises(FernError, match="its true process is not known"):
        problem.best_forecasts(np.array([15000]))


@ETT
def test_cleaning_by_the_papers_policy_removes_zeros_and_keeps_the_columns():
    raw, cleaned = choose("ETTh1"), choose("ETTh1", cleaning="paper")
    assert raw.values.shape == (17_420, 7)
    assert cleaned.channel_names == raw.channel_names
    assert len(cleaned.values) < len(raw.values)
    assert (cleaned.values == 0).sum() == 0 < (raw.values == 0).sum()
    assert cleaned.fingerprint != raw.fingerprint


@ETT
def test_missing_values_never_pass(monkeypatch):
    import pyarrow as pa

    from fern.data import datasets

    table = pa.table({"date": ["2020-01-01"], "HUFL": [float("nan")]})
    monkeypatch.setattr(datasets, "load_dataset", lambda name, variant=None: table)
    with pytest.raises(FernError, match="HUFL is nan at row 0"):
        choose("ETTh1")


def test_every_premade_scenario_can_be_named():
    for name in SCENARIOS:
        assert choose(name, steps=300).name == name


def test_two_choices_of_the_same_values_are_the_same_data():
    choice = DatasetChoice(dataset="OU_BASE", steps=400)
    assert load_dataset(choice).fingerprint == load_dataset(replace(choice, split="detailed")).fingerprint


def noisy(noise=0.05, **settings):
    return Problem(choose("LORENZ_BASE", steps=3000, noise=noise), "shock", settings.get("scaling", "none"), 24, 12)


@pytest.mark.parametrize("scaling", ["none", "standard"])
def test_models_learn_from_and_see_noisy_rows_and_are_judged_by_the_true_ones(scaling):
    problem, plain = noisy(scaling=scaling), noisy(noise=0.0, scaling=scaling)
    indices = torch.arange(5)
    noise = 0.05 * problem.train_std
    for part, quiet in (("train", False), ("validation", False), ("test", True)):
        (past, future), (clean_past, clean_future) = (getattr(p, part).gather(indices) for p in (problem, plain))
        if scaling == "none":
            assert (past - clean_past).abs().max() > 0.5 * noise.min()
            assert torch.equal(future, clean_future) == quiet
        assert ((future - clean_future).abs().max() < 0.03) == quiet  # scaled by the statistics of noisy rows
    assert problem.truth.shape == problem.values.shape


def test_the_oracle_of_a_noisy_dataset_knows_the_true_state():
    problem = noisy()
    starts = problem.test.starts(torch.arange(40)).numpy() + 24
    _, future = problem.test.gather(torch.arange(40))
    assert np.abs(problem.best_forecasts(starts) - future.numpy()).max() < 1e-3


def test_noise_is_part_of_the_data_and_its_absence_leaves_no_trace():
    quiet, loud = choose("LORENZ_BASE", steps=500), choose("LORENZ_BASE", steps=500, noise=0.01)
    assert quiet.settings == choose("LORENZ_BASE", steps=500, noise=0.0).settings == {"steps": 500, "cleaning": "none"}
    assert loud.settings == {**quiet.settings, "noise": 0.01}
    assert loud.fingerprint != quiet.fingerprint
    assert loud.truth.tobytes() == quiet.values.tobytes()

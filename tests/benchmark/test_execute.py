"""A run ends in a row whatever happens to it, and an interrupted one goes on to the same figures."""

import errno
from dataclasses import replace

import numpy as np
import pytest
from tests.benchmark.support import reproducible, tiny_plan

from fern.benchmark import execute as module
from fern.benchmark.execute import LOCK, RunCache, RunContext, execute_run, fail_run
from fern.benchmark.locks import hold_lock
from fern.benchmark.scoring import score_model
from fern.errors import FernError, NotWritten
from fern.models import storage as tensorfile
from fern.training import resumable, train
from fern.training.logging import Progress


class Watched(Progress):
    """Remembers where training started, and can break it off."""

    def __init__(self, break_at=None):
        self.done, self.epochs, self._break_at = None, [], break_at

    def start(self, *, epochs, steps, done):
        self.done = done

    def epoch(self, record, *, kept):
        self.epochs.append(record.epoch)
        if record.epoch == self._break_at:
            raise KeyboardInterrupt


def run_of(model="dlinear", **changes):
    return tiny_plan(models=[model], **changes).runs[0]


def test_a_run_gives_the_figures_of_training_and_scoring_by_hand():
    run, bench = run_of(), RunCache()
    outcome = execute_run(run, RunContext(), bench)
    problem = bench.problem(run)
    model = run.model(channels=1)
    result = train(model, problem.train, problem.validation, run.train_config(threads=1), progress="silent")
    by_hand = score_model(model, problem, seed=7)
    row = outcome.result
    assert (row.status, row.error) == ("done", None)
    assert row.metrics == by_hand.metrics | bench.references(problem).compare(by_hand.metrics["mse"])
    assert (row.epochs, row.best_epoch) == (3, result.best_epoch)
    assert row.windows == len(problem.test) == len(outcome.windows["mse"])
    assert row.parameters == 2 * (24 * 12 + 12)
    assert row.multiply_adds == 2 * 24 * 12
    assert row.seconds.keys() == {"train", "train_cpu", "epoch", "evaluate", "total"}
    assert row.seconds["train_cpu"] > 0
    assert row.machine["threads"] == 1
    np.testing.assert_array_equal(outcome.windows["mse"], by_hand.mse)


@pytest.mark.parametrize("model", ["analog", "polymap"])
def test_a_fitted_model_chooses_its_settings_on_all_validation_windows(model):
    run, bench = run_of(model), RunCache()
    row = execute_run(run, RunContext(), bench).result
    problem, by_hand = bench.problem(run), run.model(channels=1)
    train(by_hand, problem.train, problem.validation, run.train_config(threads=1), progress="silent")
    hurried = run.model(channels=1)
    train(hurried, problem.train, problem.first_validation_window, run.train_config(threads=1), progress="silent")
    assert row.chosen == by_hand.chosen != hurried.chosen
    scored = score_model(by_hand, problem, seed=7).metrics
    assert {name: row.metrics[name] for name in scored} == scored


@pytest.mark.parametrize("model", ["last-value", "training-mean", "oracle"])
def test_what_is_not_trained_has_no_epochs(model, tmp_path):
    row = execute_run(run_of(model), RunContext(checkpoints=tmp_path / "run"), RunCache()).result
    assert row.status == "done"
    assert not row.epochs
    assert not (tmp_path / "run").exists()


def test_a_model_that_looks_at_the_training_windows_first_is_let():
    row = execute_run(run_of({"model": "koopa", "settings": {"segment_length": 6}}), RunContext(), RunCache()).result
    assert (row.status, row.error) == ("done", None)


@pytest.mark.parametrize("model", ["dlinear", {"model": "fern", "settings": {"hidden": 8, "latent": 4}}])
def test_an_interrupted_run_goes_on_where_it_was_to_the_same_row(tmp_path, model):
    run, bench = run_of(model), RunCache()
    whole = execute_run(run, RunContext(), bench)
    place = RunContext(checkpoints=tmp_path / "run", progress=Watched(break_at=2))
    with pytest.raises(KeyboardInterrupt):
        execute_run(run, place, bench)
    assert resumable(tmp_path / "run")
    second = Watched()
    again = execute_run(run, replace(place, progress=second), bench)
    assert second.done > 0
    assert second.epochs == [2, 3]
    assert reproducible(again.result) == reproducible(whole.result)
    np.testing.assert_array_equal(again.windows["mse"], whole.windows["mse"])


@pytest.mark.parametrize(
    "damage", [lambda data: data[:100], lambda data: data[:-99] + bytes(b ^ 255 for b in data[-99:])]
)
def test_a_damaged_checkpoint_is_thrown_away(tmp_path, damage):
    run, bench = run_of(), RunCache()
    with pytest.raises(KeyboardInterrupt):
        execute_run(run, RunContext(checkpoints=tmp_path, progress=Watched(break_at=3)), bench)
    last = tmp_path / "last.safetensors"
    last.write_bytes(damage(last.read_bytes()))
    watched = Watched()
    row = execute_run(run, RunContext(checkpoints=tmp_path, progress=watched), bench).result
    assert watched.epochs == [1, 2, 3]
    assert reproducible(row) == reproducible(execute_run(run, RunContext(), bench).result)


def test_a_failure_of_another_kind_leaves_the_checkpoint_where_it_was(tmp_path, monkeypatch):
    run, bench = run_of(), RunCache()
    with pytest.raises(KeyboardInterrupt):
        execute_run(run, RunContext(checkpoints=tmp_path, progress=Watched(break_at=2)), bench)

    def full(*args, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tensorfile, "save_file", full)
        with pytest.raises(NotWritten, match="No space left on device"):
            execute_run(run, RunContext(checkpoints=tmp_path), bench)
    watched = Watched()
    again = execute_run(run, RunContext(checkpoints=tmp_path, progress=watched), bench).result
    assert watched.done > 0
    assert reproducible(again) == reproducible(execute_run(run, RunContext(), bench).result)


def test_a_finished_run_whose_row_was_lost_is_scored_again_only(tmp_path):
    run, bench, watched = run_of(), RunCache(), Watched()
    first = execute_run(run, RunContext(checkpoints=tmp_path), bench).result
    assert reproducible(
        execute_run(run, RunContext(checkpoints=tmp_path, progress=watched), bench).result
    ) == reproducible(first)
    assert watched.epochs == []


def test_checkpoints_that_another_process_is_writing_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LOCK_PATIENCE", 0.0)
    with hold_lock(tmp_path / LOCK):
        row = execute_run(run_of(), RunContext(checkpoints=tmp_path), RunCache()).result
    assert row.status == "done"
    assert not resumable(tmp_path)


def test_a_run_that_diverges_has_a_row_that_says_where(tmp_path):
    run = run_of(train={"preset": "shock", "epochs": 3, "grace": 0, "learning_rate": 1e37, "loss": "mse"})
    outcome = execute_run(run, RunContext(checkpoints=tmp_path), RunCache())
    assert outcome.result.status == "diverged"
    assert outcome.result.error.startswith("diverged at epoch 1")
    assert str(tmp_path) not in outcome.result.error
    assert outcome.result.metrics == {}
    assert outcome.windows is None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("boom"), "RuntimeError: boom (test_execute.py, line "),
        (FernError("no such thing"), "no such thing"),
    ],
)
def test_a_run_that_fails_has_a_row_with_its_error(monkeypatch, error, text):
    def fails(*args, **options):
        raise error

    monkeypatch.setattr(module, "train", fails)
    row = execute_run(run_of(), RunContext(), RunCache()).result
    assert (row.status, row.metrics) == ("failed", {})
    assert row.error.startswith(text)
    assert "/" not in row.error


def test_a_worker_of_another_version_refuses_to_work():
    run = run_of()
    foreign = replace(run, settings=replace(run.settings, code_version="0.0.1+r1"))
    with pytest.raises(FernError, match="install the same version everywhere"):
        execute_run(foreign, RunContext(), RunCache())


def test_rows_hold_the_figures_of_every_epoch_where_the_task_asks_for_them():
    none, validation, test = (
        execute_run(run_of(epoch_figures=wanted), RunContext(), RunCache()).result
        for wanted in ("none", "validation", "test")
    )
    assert none.history is None
    assert [record["epoch"] for record in validation.history] == [1, 2, 3]
    assert validation.history[0]["test"] is None
    assert test.history[0]["test"].keys() >= {"mse", "mae"}
    assert not any("seconds" in name for record in test.history for name in record)
    # Looking at the test part decides nothing.
    assert none.metrics == validation.metrics == test.metrics


def test_a_bench_loads_a_dataset_once_for_many_runs(monkeypatch):
    loads = []
    plain = module.load_dataset
    monkeypatch.setattr(module, "load_dataset", lambda choice: loads.append(choice) or plain(choice))
    bench = RunCache()
    for run in tiny_plan(models=["last-value", "training-mean"], horizons=[6, 12]).runs:
        assert execute_run(run, RunContext(), bench).result.status == "done"
    assert len(loads) == 1


def test_a_bench_keeps_a_few_problems_only():
    bench = RunCache()
    for run in tiny_plan(models=["last-value"], horizons=list(range(1, 11))).runs:
        bench.references(bench.problem(run))
    assert len(bench._problems) == len(bench._references) == module._KEPT


def test_a_lost_run_has_a_row_that_tells_it():
    row = fail_run(run_of(), RunContext(), "killed").result
    assert (row.status, row.error) == ("failed", "killed")

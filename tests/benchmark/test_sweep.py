"""A sweep does what is missing, once, whoever else is at it."""

import threading
from dataclasses import replace

import pytest
from tests.benchmark.support import InlineEngine, ScriptedEngine, row_for, tiny_plan

from fern.benchmark.engines.base import Advanced, Finished, Lost
from fern.benchmark.execute import Outcome
from fern.benchmark.locks import Claims
from fern.benchmark.sweep import ATTEMPTS, Watcher, run_sweep


@pytest.fixture
def plan():
    return tiny_plan(models=["last-value"], seeds=list(range(6)))


def keys(rows):
    return sorted(row.key for row in rows)


def test_a_sweep_makes_every_row_once_and_leaves_no_claim(plan, store):
    engine = ScriptedEngine()
    summary = run_sweep(plan, store, engine)
    assert keys(summary.results) == keys(store.contents().results) == sorted(engine.submitted)
    assert summary.made == 6
    assert list((store.folder / "claims").iterdir()) == []


def test_a_second_sweep_does_nothing(plan, store):
    run_sweep(plan, store, ScriptedEngine())
    engine = ScriptedEngine()
    summary = run_sweep(plan, store, engine)
    assert (engine.submitted, summary.made, len(summary.results)) == ([], 0, 6)


def test_a_sweep_does_only_what_is_missing(plan, store):
    for run in plan.runs[:4]:
        store.write(row_for(run))
    engine = ScriptedEngine()
    assert run_sweep(plan, store, engine).made == 2
    assert engine.submitted == [run.key for run in plan.runs[4:]]


def test_rows_are_those_of_the_runs_themselves(store):
    plan = tiny_plan()
    summary = run_sweep(plan, store, InlineEngine(store.folder))
    assert {row.model: row.status for row in summary.results} == dict.fromkeys(
        ("dlinear", "last-value", "oracle"), "done"
    )
    for row in store.contents().results:
        errors = store.window_errors(row.key)
        assert float(errors["mse"].mean()) == pytest.approx(row.metrics["mse"], rel=1e-5)


def test_a_failed_run_does_not_stop_the_others_and_is_done_again_on_request_only(plan, store):
    bad = plan.runs[2].key

    def answer(run):
        row = row_for(run, status="failed", error="boom", metrics={}) if run.key == bad else row_for(run)
        return Finished(run.key, Outcome(row))

    assert run_sweep(plan, store, ScriptedEngine(answer)).count("failed") == 1
    engine = ScriptedEngine()
    assert run_sweep(plan, store, engine).count("failed") == 1
    assert engine.submitted == []
    assert run_sweep(plan, store, engine, retry_failed=True).count("done") == 6
    assert engine.submitted == [bad]


def test_a_damaged_row_is_named_left_out_and_done_again_on_request(plan, store):
    run_sweep(plan, store, ScriptedEngine())
    path = store.result_path(plan.runs[0].key)
    path.write_text(path.read_text()[:50])
    engine = ScriptedEngine()
    summary = run_sweep(plan, store, engine)
    assert [file.path for file in summary.damaged] == [path]
    assert (engine.submitted, len(summary.results)) == ([], 5)
    again = run_sweep(plan, store, engine, retry_failed=True)
    assert engine.submitted == [plan.runs[0].key]
    assert (len(again.results), again.damaged) == (6, ())


def test_a_run_whose_worker_dies_is_given_to_another(plan, store):
    deaths = dict.fromkeys([plan.runs[0].key, plan.runs[3].key], ATTEMPTS - 1)

    def answer(run):
        if deaths.get(run.key):
            deaths[run.key] -= 1
            return Lost(run.key, "killed")
        return Finished(run.key, Outcome(row_for(run)))

    engine = ScriptedEngine(answer)
    assert run_sweep(plan, store, engine).count("done") == 6
    assert engine.submitted.count(plan.runs[0].key) == ATTEMPTS


def test_a_run_that_kills_every_worker_is_given_up_and_the_sweep_goes_on(plan, store):
    deadly = plan.runs[1].key

    def answer(run):
        return Lost(run.key, "killed") if run.key == deadly else Finished(run.key, Outcome(row_for(run)))

    summary = run_sweep(plan, store, ScriptedEngine(answer))
    assert (summary.count("done"), summary.count("failed")) == (5, 1)
    assert store.read(deadly).error == f"killed, {ATTEMPTS} times in a row"


class Interrupting(Watcher):
    def on_run_end(self, run, row, *, elsewhere):
        raise KeyboardInterrupt


def test_an_interrupted_sweep_keeps_its_rows_and_gives_its_claims_back(plan, store):
    with pytest.raises(KeyboardInterrupt):
        run_sweep(plan, store, ScriptedEngine(), watcher=Interrupting())
    assert len(store.contents().results) == 1
    assert list((store.folder / "claims").iterdir()) == []


def test_what_another_sweep_has_is_waited_for_and_its_row_taken_over(plan, store):
    theirs = plan.runs[0]
    seen, taken = [], []

    class Noting(Watcher):
        def on_run_taken(self, run):
            taken.append(run.key)

        def on_run_end(self, run, row, *, elsewhere):
            seen.append((run.key, elsewhere))
            if len(seen) == 5:  # all but theirs: now they finish
                store.write(row_for(theirs, metrics={"mse": 2.0}))
                other.release(theirs.key)

    engine = ScriptedEngine()
    with Claims(store.folder / "claims") as other:
        other.take(theirs.key)
        summary = run_sweep(plan, store, engine, watcher=Noting())
    assert taken == [theirs.key]
    assert theirs.key not in engine.submitted
    assert (theirs.key, True) in seen
    assert len(summary.results) == 6
    assert store.read(theirs.key).metrics["mse"] == 2.0


def test_what_another_sweep_gave_up_is_done_here(plan, store):
    theirs = plan.runs[0]
    seen = []

    class Noting(Watcher):
        def on_run_end(self, run, row, *, elsewhere):
            seen.append(run.key)
            if len(seen) == 5:
                other.release(theirs.key)

    engine = ScriptedEngine()
    with Claims(store.folder / "claims") as other:
        other.take(theirs.key)
        run_sweep(plan, store, engine, watcher=Noting())
    assert engine.submitted[-1] == theirs.key
    assert len(store.contents().results) == 6


def test_many_sweeps_on_one_folder_do_no_run_twice_and_lose_none(store):
    plan = tiny_plan(models=["last-value"], seeds=list(range(60)))
    engines = [ScriptedEngine(slots=3, delays=(0.0, 0.004, 0.001 * place)) for place in range(4)]
    summaries, errors = [], []

    def sweep(engine):
        try:
            summaries.append(run_sweep(plan, store, engine))
        except Exception as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=sweep, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    done = [key for engine in engines for key in engine.submitted]
    assert sorted(done) == keys(store.contents().results)
    assert all(len(summary.results) == 60 for summary in summaries)
    assert sum(summary.made for summary in summaries) == 60
    assert sum(bool(engine.submitted) for engine in engines) > 1


def test_two_sweeps_that_retry_share_the_failed_runs_too(plan, store):
    for run in plan.runs:
        store.write(row_for(run, status="failed", error="boom", metrics={}))
    engines = [ScriptedEngine(delays=(0.005,)) for _ in range(2)]
    threads = [
        threading.Thread(target=run_sweep, args=(plan, store, engine), kwargs={"retry_failed": True})
        for engine in engines
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key for engine in engines for key in engine.submitted) == sorted(run.key for run in plan.runs)


def test_the_watcher_hears_of_everything(plan, store):
    heard = []

    class Hearing(Watcher):
        def start(self, *, runs, results, damaged, slots):
            heard.append(("start", len(runs), len(results), slots))

        def on_run_start(self, run):
            heard.append(("began", run.key))

        def on_epoch(self, run, *, epoch, epochs):
            heard.append(("advanced", epoch, epochs))

        def stop(self):
            heard.append("stop")

    told = set()

    class Telling(ScriptedEngine):
        def wait(self, seconds):
            ready = [Advanced(run.key, 1, 3) for _, run in self._under_way if run.key not in told]
            told.update(event.key for event in ready)
            return ready or super().wait(seconds)

    store.write(row_for(plan.runs[0]))
    run_sweep(replace(plan, runs=plan.runs[:2]), store, Telling(), watcher=Hearing())
    assert heard == [("start", 1, 1, 2), ("began", plan.runs[1].key), ("advanced", 1, 3), "stop"]

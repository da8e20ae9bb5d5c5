"""What a sweep shows, on a terminal and elsewhere, and how it judges the time that is left."""

import io

import pytest
from rich.console import Console
from tests.benchmark.support import ScriptedEngine, row_for, tiny_plan

from fern.benchmark.engines.base import Finished, Lost
from fern.benchmark.execute import Outcome
from fern.benchmark.progress import Pace, SweepProgress, format_duration
from fern.benchmark.store import Damaged
from fern.benchmark.sweep import run_sweep


@pytest.fixture
def plan():
    return tiny_plan(models=["last-value", "training-mean"], seeds=[1, 2])


def on_file():
    return Console(file=io.StringIO(), width=120)


def on_terminal():
    return Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)


def timed(run, seconds, **changes):
    return row_for(run, seconds={"total": seconds}, **changes)


def test_a_terminal_gets_bars_and_a_file_gets_lines():
    assert not SweepProgress(on_terminal()).bars.disable
    assert SweepProgress(on_file()).bars.disable


def test_lines_tell_each_run_with_its_error_and_the_time_left(plan, store):
    bad = plan.runs[1].key

    def answer(run):
        row = timed(run, 30.0) if run.key != bad else timed(run, 1.0, status="failed", error="boom [x]", metrics={})
        return Finished(run.key, Outcome(row))

    watcher = SweepProgress(on_file())
    run_sweep(plan, store, ScriptedEngine(answer, slots=1), watcher=watcher)
    lines = watcher.console.file.getvalue().splitlines()
    assert lines[0] == "4 runs: 0 done, 4 remaining, 1 in parallel"
    assert lines[1] == "[1/4]  last-value on OU_PARAM, 24 to 12, seed 1: mse 1, 30 s  about 1 min 30 s remaining"
    assert lines[2].startswith("[2/4]  training-mean on OU_PARAM, 24 to 12, seed 1: failed: boom [x]")
    assert lines[4] == "[4/4]  training-mean on OU_PARAM, 24 to 12, seed 2: mse 1, 30 s"


def test_bars_show_the_epochs_of_active_runs_and_how_far_the_sweep_is(plan):
    watcher = SweepProgress(on_terminal())
    watcher.start(runs=plan.runs, results=(), damaged=(), slots=2)
    try:
        watcher.on_run_start(plan.runs[0])
        watcher.on_run_start(plan.runs[1])
        watcher.on_epoch(plan.runs[1], epoch=3, epochs=50)
        bars = {bar.description: (bar.completed, bar.total) for bar in watcher.bars.tasks}
        assert bars == {
            "runs": (0, 4),
            "last-value on OU_PARAM, 24 to 12, seed 1": (0, None),
            "training-mean on OU_PARAM, 24 to 12, seed 1": (3, 50),
        }
        watcher.on_run_end(plan.runs[0], timed(plan.runs[0], 100.0), elsewhere=False)
        assert [bar.completed for bar in watcher.bars.tasks] == [1, 3]
        failed = timed(plan.runs[1], 1.0, status="failed", error="boom", metrics={})
        watcher.on_run_end(plan.runs[1], failed, elsewhere=True)
    finally:
        watcher.stop()
    text = watcher.console.file.getvalue()
    assert "seed 1: mse 1, 1 min 40 s  about 2 min 30 s remaining" in text  # three runs of 100 s, two at a time
    assert "failed: boom (by another process)" in text


def test_damaged_and_failed_rows_are_told_at_the_start(plan, tmp_path):
    watcher = SweepProgress(on_file())
    failed = row_for(plan.runs[0], status="failed", error="boom", metrics={})
    watcher.start(runs=(), results=(failed,), damaged=(Damaged(tmp_path, "rows/x.json: is not JSON"),), slots=1)
    text = watcher.console.file.getvalue()
    assert "1 of the finished runs failed or diverged; use --retry-failed to rerun them" in text
    assert "skipped: rows/x.json: is not JSON (use --retry-failed to rerun it)" in text


def test_a_lost_worker_is_told(plan, store):
    deaths = [plan.runs[0].key]

    def answer(run):
        return Lost(deaths.pop(), "killed") if run.key in deaths else Finished(run.key, Outcome(timed(run, 1.0)))

    watcher = SweepProgress(on_file())
    run_sweep(plan, store, ScriptedEngine(answer), watcher=watcher)
    assert "seed 1: killed; restarting" in watcher.console.file.getvalue()


def test_a_run_that_another_sweep_has_is_told(plan):
    watcher = SweepProgress(on_file())
    watcher.on_run_taken(plan.runs[0])
    assert watcher.console.file.getvalue() == "last-value on OU_PARAM, 24 to 12, seed 1: being run by another process\n"


def test_time_is_judged_by_the_same_model_and_dataset_first(plan):
    naive, mean = plan.runs[:2]
    pace = Pace([timed(naive, 10.0), timed(mean, 50.0)])
    assert pace.seconds(plan.runs[2]) == 10.0
    assert pace.seconds(tiny_plan(models=["oracle"]).runs[0]) == 30.0
    assert pace.remaining([naive, mean], [(naive, 4.0)], slots=2) == 50.0  # no shorter than the longest run
    assert pace.remaining([mean, mean], [(naive, 40.0)], slots=1) == 100.0
    assert Pace().remaining([naive], [], slots=1) is None


def test_failed_runs_tell_nothing_about_time_and_resumed_ones_count_whole(plan):
    run = plan.runs[0]
    pace = Pace([row_for(run, status="failed", error="x", metrics={}, seconds={"total": 1.0})])
    assert pace.seconds(run) is None
    pace.add(row_for(run, seconds={"total": 5.0, "train": 60.0, "evaluate": 1.0}))
    assert pace.seconds(run) == 61.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.6, "1 min 0 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_lengths_of_time_in_words(seconds, text):
    assert format_duration(seconds) == text

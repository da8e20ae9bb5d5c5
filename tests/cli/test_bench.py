"""``fern bench run`` and ``fern bench tasks``."""

import json

import pytest
from tests.benchmark.support import reproducible

from fern.benchmark import engines
from fern.benchmark.store import Store

TASK = """
schema = 1
models = ["dlinear", "last-value", "oracle"]
datasets = [{ dataset = "OU_PARAM", steps = 700 }]
context_length = 24
horizons = [12]
seeds = [7]

[train]
preset = "shock"
epochs = 2
grace = 0
"""


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TASK)
    return path


@pytest.fixture
def inline(monkeypatch):
    """Runs are done within the test's process: starting workers takes seconds."""
    from tests.benchmark.support import InlineEngine

    opened = []

    def open_inline(name, plan, folder, **options):
        opened.append({"name": name, **options})
        return InlineEngine(folder)

    monkeypatch.setattr(engines, "open_engine", open_inline)
    return opened


def test_run_makes_rows_and_says_what_is_next(fern, task, inline):
    ran = fern("bench", "run", task, "--out", "runs", "--jobs", 3, "--threads", 2)
    assert ran.code == 0, ran.err
    assert {row.model for row in Store("runs").contents().results} == {"dlinear", "last-value", "oracle"}
    assert "3 runs: 0 done, 3 remaining" in ran.out
    assert "[3/3]" in ran.out
    assert "dlinear on OU_PARAM, 24 to 12, seed 7: mse" in ran.out
    assert "3 results in runs" in ran.out
    assert "fern bench table" in ran.out
    assert inline == [{"name": "local", "jobs": 3, "threads": 2, "address": None}]


def test_results_go_to_a_folder_by_the_name_of_the_task_where_tables_and_pages_find_them(fern, task, inline):
    assert fern("bench", "run", task).code == 0
    assert len(Store("runs/mine").contents().results) == 3
    for name in (task, "mine"):
        table = fern("bench", "table", name, "--format", "md")
        assert table.code == 0, table.err
        assert "dlinear" in table.out
    assert fern("report", "mine", "-o", "page.html").code == 0
    assert fern("bench", "compare", "dlinear", "last-value", "--task", "mine").code == 0
    assert fern("bench", "compare", "dlinear", "last-value").code == 2


def test_run_again_does_nothing(fern, task, inline):
    fern("bench", "run", task, "--out", "runs")
    before = {path: path.stat().st_mtime_ns for path in Store("runs").folder.rglob("*.json")}
    ran = fern("bench", "run", task, "--out", "runs")
    assert ran.code == 0
    assert "3 done, 0 remaining" in ran.out
    assert {path: path.stat().st_mtime_ns for path in Store("runs").folder.rglob("*.json")} == before


def test_options_narrow_and_widen_the_task(fern, task, inline):
    ran = fern(
        *("bench", "run", task, "--out", "runs", "--models", "dlinear,training-mean", "--seeds", "1,2"),
        *("--horizons", "4", "--horizons", "6", "--datasets", "OU_PARAM", "--max-epochs", "1"),
    )
    assert ran.code == 0, ran.err
    rows = Store("runs").contents().results
    assert {(row.model, row.horizon, row.seed) for row in rows} == {
        (model, horizon, seed) for model in ("dlinear", "training-mean") for horizon in (4, 6) for seed in (1, 2)
    }
    assert {row.epochs for row in rows if row.model == "dlinear"} == {1}
    assert {row.data_settings["steps"] for row in rows} == {700}


def test_a_failed_run_is_a_row_and_exit_code_1(fern, task, inline, monkeypatch):
    from fern.benchmark import execute

    def fails(*args, **options):
        raise RuntimeError("boom")

    with monkeypatch.context() as broken:
        broken.setattr(execute, "train", fails)
        ran = fern("bench", "run", task, "--out", "runs", "--models", "dlinear,oracle")
    assert ran.code == 1
    assert "failed: RuntimeError: boom" in ran.out
    assert "2 results in runs (1 failed)" in ran.out
    again = fern("bench", "run", task, "--out", "runs", "--models", "dlinear,oracle")
    assert again.code == 1
    assert "--retry-failed" in again.out
    assert fern("bench", "run", task, "--out", "runs", "--models", "dlinear,oracle", "--retry-failed").code == 0


def test_a_diverged_run_is_a_result(fern, task, inline):
    task.write_text(TASK + "learning_rate = 1e37\nloss = 'mse'\n")
    ran = fern("bench", "run", task, "--out", "runs")
    assert ran.code == 0
    assert "1 diverged" in ran.out


def test_a_damaged_row_is_named_and_done_again_on_request(fern, task, inline):
    fern("bench", "run", task, "--out", "runs")
    victim = next(row for row in Store("runs").contents().results if row.model == "dlinear")
    path = Store("runs").result_path(victim.key)
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "metrics": {**whole["metrics"], "mse": 0.0}}))
    ran = fern("bench", "run", task, "--out", "runs")
    assert ran.code == 1
    assert f"skipped: {path}: the checksum does not match" in ran.out
    assert fern("bench", "run", task, "--out", "runs", "--retry-failed").code == 0
    assert reproducible(Store("runs").read(victim.key)) == reproducible(victim)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["quik"], "unknown task 'quik': did you mean 'quick'"),
        (["none.toml"], "none.toml: no such file"),
        (["quick", "--models", "dlinaer"], "did you mean 'dlinear'"),
        (["quick", "--models", "fern:papr"], "did you mean 'paper'"),
        (["quick", "--datasets", "LORENZ_BAS"], "did you mean 'LORENZ_BASE'"),
        (["quick", "--engine", "rey"], "did you mean 'ray'"),
        (["quick", "--address", "auto"], "only the engine 'ray' takes"),
        (["quick", "--noise", "1%"], "--noise: got '1%', needs numbers, as --noise 0,0.01"),
        (["quick", "--noise", "-1"], "noise: got -1.0, needs a share of the standard deviation"),
        (["quick", "--seeds", "a"], "--seeds: got 'a', needs comma-separated whole numbers"),
        (["quick", "--horizons", "-1"], "--horizons: got '-1'"),
        (["quick", "--horizons", "99999"], "has no train windows"),
        (["quick", "--max-epochs", "0"], "max_epochs: got 0"),
        (["quick", "--jobs", "0"], "jobs: got 0"),
        (["quick", "--models", ","], "models: is empty"),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_nothing_is_made(fern, tmp_path, options, message):
    ran = fern("bench", "run", *options, "--out", "runs")
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written_is_exit_code_2(fern, tmp_path):
    (tmp_path / "file").write_text("")
    ran = fern("bench", "run", "quick", "--out", "file/runs")
    assert ran.code == 2
    assert "is a file, needs a folder" in ran.err


def test_an_interrupt_ends_with_what_to_do_next(fern, task, monkeypatch, inline):
    from fern.benchmark import sweep

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "run_sweep", interrupted)
    ran = fern("bench", "run", task, "--out", "runs")
    assert ran.code == 130
    assert "run the same command to resume" in ran.err


def test_tasks_lists_what_there_is(fern):
    ran = fern("bench", "tasks")
    assert ran.code == 0
    for name in ("quick", "shock", "detailed", "ablation", "recency", "footprint"):
        assert name in ran.out


def test_a_terminal_sees_bars_and_lines(fern, task, inline, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    ran = fern("bench", "run", task, "--out", "runs")
    assert ran.code == 0, ran.err
    assert "\x1b[?25l" in ran.out  # the cursor is hidden while bars are drawn
    assert "[3/3]" in ran.out


def test_a_model_from_outside_stands_in_the_table(fern, task, tmp_path, monkeypatch, inline, forked):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "somebodys.py").write_text(
        "def zero(context, horizon):\n    return 0 * context[:, :1].repeat(horizon, 1)\n"
    )
    ran = fern("bench", "run", task, "--models", "oracle", "--with", "somebodys:zero", "--out", "runs", "--jobs", 1)
    assert ran.code == 0, ran.err
    assert {row.model for row in Store("runs").contents().results} == {"oracle", "somebodys:zero"}
    shown = fern("bench", "table", task, "--runs", "runs", "--format", "md")
    assert "somebodys:zero" in shown.out

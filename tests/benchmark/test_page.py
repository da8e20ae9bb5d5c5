"""The page of a results folder shows what the rows hold, says what is missing, and can be checked."""

import base64
import gzip
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.benchmark.support import row_for, tiny_plan
from tests.errors import raises_error
from tests.html.support import Seen

from fern.benchmark.page import benchmark_page, command_for
from fern.benchmark.store import Store


def stored(folder="runs", *, windows=True, scenarios=("OU_BASE", "OU_PARAM", "GARCH_BASE"), **changes):
    """A folder of dlinear, last-value and oracle on three datasets under two seeds."""
    store = Store(folder).for_writing()
    rng = np.random.default_rng(0)
    for run in tiny_plan(seeds=[7, 8]).runs:
        for place, dataset in enumerate(scenarios):
            mse = (
                {"dlinear": 1.0, "last-value": 2.0, "oracle": 0.5}[run.settings.model] + place + run.settings.seed / 100
            )
            errors = {name: np.float32(mse + 0.1 * rng.normal(size=80)) for name in ("mse", "mae")}
            figures = {"mse": mse, "wd": mse / 2, "oracle_mse": 0.5 + place}
            row = row_for(run, dataset=dataset, task="shock", metrics=figures, **changes)
            store.write(row, errors if windows else None)
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """`stored`, which no test changes."""
    return stored(tmp_path_factory.mktemp("shared") / "runs")


@pytest.fixture(scope="module")
def seen(store):
    """Its page."""
    return Seen(benchmark_page(store))


def test_the_leaderboard_holds_the_figures_of_the_rows(seen):
    board = next(table for table in seen.tables if "dataset" in table[0])
    lines = [line for line in board[1:] if line[0] == "OU_BASE" and line[2] in ("dlinear", "last-value")]
    assert [line[board[0].index("MSE")].split(" ±")[0] for line in lines] == ["1.075", "2.075"]
    assert {line[board[0].index("oracle MSE")] for line in lines} == {"0.5"}
    assert [line[board[0].index("rank")] for line in lines] == ["1", "2"]
    assert "differs, p =" in lines[1][board[0].index("against the best")]


def test_paper_numbers_stand_beside_ours():
    store = stored(scenarios=("LORENZ_BASE",), context_length=336, horizon=336)
    board = next(table for table in Seen(benchmark_page(store)).tables if "dataset" in table[0])
    line = next(line for line in board[1:] if line[2] == "dlinear")
    assert float(line[board[0].index("paper MSE")]) > 1
    assert line[board[0].index("ours / paper")].startswith("×")


def test_paper_numbers_of_the_last_batch_are_compared_with_ours_of_it():
    store = Store("runs").for_writing()
    for run in tiny_plan().runs:
        figures = {"mse": 80.0, "last_mse": 2 * 54.04}  # the paper's is of the last batch
        store.write(row_for(run, dataset="LORENZ_MAIN", task="detailed", metrics=figures, horizon=96), None)
    seen = Seen(benchmark_page(store))
    board = next(table for table in seen.tables if "dataset" in table[0])
    line = next(line for line in board[1:] if line[2] == "dlinear")
    assert line[board[0].index("MSE")] == "80"
    assert line[board[0].index("ours / paper")] == "×2.00"
    assert "of the last batch of test windows" in seen.text


def test_standings_come_with_their_tests(seen):
    standings = seen.tables[0]
    assert [line[:2] for line in standings[1:]] == [["dlinear", "1.00"], ["last-value", "2.00"]]
    assert "Friedman test" in seen.text
    assert "critical difference" in seen.text


def test_every_line_has_its_command(seen):
    commands = {line[2] for table in seen.tables if "command" in table[0] for line in table[1:]}
    assert len(commands) == 9
    common = "--datasets OU_BASE --horizons 12 --max-epochs 3 --seeds 7,8 --out runs"
    assert f"fern bench run shock --models dlinear {common}" in commands


def test_a_task_of_ones_own_is_a_file_and_a_preset_is_named():
    row = row_for(tiny_plan(models=["dlinear"]).runs[0], preset="mine; rm -rf", data_settings={"noise": 0.01})
    assert command_for([row]) == (
        "fern bench run tiny.toml --models 'dlinear:mine; rm -rf' --datasets OU_PARAM --horizons 12 --noise 0.01 "
        "--max-epochs 3 --seeds 7 --out runs"
    )


def test_the_data_can_be_taken_away_whole(store, seen):
    links = [given for tag, given in seen.tags if tag == "a" and "download" in given]
    data = {link["download"]: base64.b64decode(link["href"].partition("base64,")[2]) for link in links}
    assert len(data["figures.csv"].decode().splitlines()) == 1 + len(store.contents().results)
    rows = re.split(r"(?<=\n})\n", gzip.decompress(data["rows.json.gz"]).decode().strip() + "\n")
    assert {json.loads(row)["key"] for row in rows if row} == {row.key for row in store.contents().results}


def test_figures_have_alternative_texts_that_give_the_numbers(seen):
    pictures = [given for tag, given in seen.tags if tag == "svg"]
    assert len(pictures) == 4
    assert all(given["role"] == "img" for given in pictures)
    assert any("dlinear 1.075, last-value 2.075, oracle 0.57" in given["aria-label"] for given in pictures)


def test_cases_over_models_show_each_error_over_the_best_of_its_case(seen):
    glance = next(table for table in seen.tables if table[0][0] == "dataset, steps")
    assert glance[0][1:] == ["dlinear", "last-value"]
    assert glance[1] == ["OU_BASE, 12", "×1.00", f"×{2.075 / 1.075:.2f}"]
    shades = [given.get("class") for tag, given in seen.tags if tag == "td" and given.get("title") == "1.075"]
    assert shades == ["n h1"]


def test_runs_that_kept_their_epochs_show_what_choosing_by_validation_costs():
    store = Store("runs").for_writing()
    history = [
        {"epoch": epoch, "train_loss": 1.0, "validation": {"mse": val}, "test": {"mse": test}}
        for epoch, val, test in ((1, 6.5, 6.9), (2, 8.0, 6.5), (3, 9.2, 6.2))
    ]
    run = tiny_plan(models=["dlinear"]).runs[0]
    store.write(row_for(run, dataset="OU_BASE", task="shock", epoch_figures="test", history=history))
    labels = [given["aria-label"] for tag, given in Seen(benchmark_page(store)).tags if tag == "svg"]
    told = "dlinear: epoch 1 by validation, test MSE 6.9, epoch 3 by test, 6.2"
    assert any(told in label for label in labels)


def test_an_empty_folder_gives_a_page_that_says_so():
    Path("runs").mkdir()
    assert "has no folder 'rows'" in Seen(benchmark_page("runs")).text
    assert "holds no result" in Seen(benchmark_page(Store("other").for_writing())).text


def test_a_folder_that_is_not_there_is_refused():
    with raises_error(where="nowhere"):
        benchmark_page("nowhere")


def test_damaged_rows_are_told_and_the_rest_is_shown():
    store = stored(scenarios=("OU_BASE",))
    path = store.result_path(store.contents().results[0].key)
    path.write_text("{")
    seen = Seen(benchmark_page(store))
    assert f"Skipped: {path}" in seen.text
    assert "5 runs" in seen.text


def test_missing_windows_are_told_and_the_rest_is_shown():
    store = stored(scenarios=("OU_BASE",))
    shutil.rmtree("runs/windows")
    seen = Seen(benchmark_page(store))
    assert "6 of 6 runs come without the errors of each window" in seen.text
    reasons = {given.get("title") or "" for tag, given in seen.tags if tag == "td"}
    assert any(reason.startswith("not tested: ") for reason in reasons)


def test_runs_of_another_version_are_told():
    store = stored(scenarios=("OU_BASE",), code_version="0.0.1+r0")
    assert "6 runs are of another version of fern (0.0.1+r0" in Seen(benchmark_page(store)).text


def test_runs_that_failed_stand_with_their_reason():
    store = stored(scenarios=("OU_BASE",))
    run = tiny_plan(models=["dlinear"]).runs[0]
    store.write(row_for(run, task="shock", status="failed", error="no <b>memory</b>", metrics={}))
    seen = Seen(benchmark_page(store))
    assert "failed: no <b>memory</b>" in seen.text
    assert "1 failed" in seen.text


def test_the_page_opens_with_a_verdict_and_has_no_wall_of_what_is_missing():
    store = stored(scenarios=("OU_BASE", "OU_PARAM", "GARCH_BASE"))  # 3 of the 26 cases of the task shock
    for result in store.contents().results:
        if (result.model, result.dataset) == ("dlinear", "OU_PARAM"):
            store.result_path(result.key).unlink()
    text = benchmark_page(store)
    assert "Best by MSE: dlinear, in 2 of 2 cases" in text
    assert "missing (paper" not in text
    seen = Seen(text)
    assert not [cell for table in seen.tables for line in table[1:] for cell in line if cell.startswith("missing")]
    assert "have no result yet" in text


def test_foreign_text_in_any_field_of_a_result_stays_text():
    script = "<script>alert(1)</script>"
    for place, field in enumerate(("task", "model", "preset", "dataset", "split", "code_version", "error", "finished")):
        store = Store(f"foreign{place}").for_writing()
        run = tiny_plan().runs[0]
        failed = {"status": "failed", "metrics": {}} if field == "error" else {}
        for model in ("dlinear", "last-value"):
            changes = {"model": model, "task": "mine", field: script + model if field == "model" else script}
            store.write(row_for(run, **{**failed, **changes}))
        text = benchmark_page(store)
        assert script not in text, field
        assert "&lt;script&gt;" in text or field in ("split", "finished"), field

"""``fern bench table``, ``compare`` and ``response`` from the command line."""

import json

import numpy as np
import pytest

from fern.benchmark.results import RunResult
from fern.benchmark.store import Store


@pytest.fixture
def runs(tmp_path):
    store = Store(tmp_path / "runs").for_writing()
    rng = np.random.default_rng(0)
    for dataset in ("OU_BASE", "OU_PARAM", "GARCH_BASE"):
        for model, level in (("fern", 1.0), ("dlinear", 2.0)):
            errors = (level + 0.1 * rng.normal(size=120)).astype(np.float32)
            row = RunResult(
                task="shock",
                model=model,
                preset="paper",
                dataset=dataset,
                data_fingerprint=dataset,
                context_length=12,
                horizon=6,
                split="shock",
                scaling="none",
                seed=7,
                code_version="1",
                status="done",
                metrics={
                    "mse": float(errors.mean()),
                    "mae": float(errors.mean()),
                    "wd": 0.5,
                    "oracle_mse": 0.5,
                    "regret": float(errors.mean()) - 0.5,
                },
            )
            store.write(row, {"mse": errors, "mae": errors})
    return store.folder


def test_the_table_is_shown_in_the_terminal_with_its_notes(fern, runs):
    ran = fern("bench", "table", "shock", "--runs", runs)
    assert ran.code == 0, ran.err
    for part in ("OU_PARAM", "dlinear", "average rank", "oracle MSE", "No result yet", "seed 1955"):
        assert part in " ".join(ran.out.split())


@pytest.mark.parametrize("format_", ["md", "json", "csv", "html", "tex"])
def test_every_format_goes_to_standard_output_or_a_file(fern, runs, tmp_path, format_):
    ran = fern("bench", "table", "shock", "--runs", runs, "--format", format_, "--paper")
    assert ran.code == 0, ran.err
    file = tmp_path / f"table.{format_}"
    assert fern("bench", "table", "shock", "--runs", runs, "-o", file, "--paper").code == 0
    assert file.read_text(encoding="utf-8") == ran.out
    assert "GARCH" in ran.out


def test_other_metrics_can_be_asked_for(fern, runs):
    ran = fern("bench", "table", "shock", "--runs", runs, "--metrics", "regret", "--format", "json")
    cells = json.loads(ran.out)["lines"][0]["cells"]
    assert {cell["metric"] for cell in cells if cell} == {"regret", "oracle_mse"}


def test_a_damaged_row_is_named_and_left_out(fern, runs):
    damaged = sorted((runs / "rows").iterdir())[0]
    damaged.write_text(damaged.read_text().replace('"seed": 7', '"seed": 8'))
    ran = fern("bench", "table", "shock", "--runs", runs, "--format", "md")
    assert ran.code == 0
    assert f"Skipped: {damaged}" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table", "shok"), "unknown task 'shok': did you mean 'shock'"),
        (("table", "quick"), "task quick: has no results here"),
        (("table", "shock", "--format", "jsn"), "unknown format 'jsn': did you mean 'json'"),
        (("table", "shock", "--kind", "shocks"), "unknown kind of table 'shocks': did you mean 'shock'"),
        (("table", "shock", "--metrics", "mze"), "unknown metric 'mze': did you mean 'mse'"),
        (("table", "shock", "-o", "no/such/folder/t.md"), "no/such/folder does not exist"),
        (("table", "shock", "-o", "table.xls"), "got the suffix '.xls', a table needs one of .md"),
        (("compare", "fern", "dlinea"), "'dlinea': did you mean 'dlinear'"),
        (("compare", "fern", "dlinear", "--metric", "wd"), "unknown metric with errors of every window 'wd'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(fern, runs, arguments, message):
    ran = fern("bench", *arguments, "--runs", runs)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_a_folder_that_holds_no_runs_is_said_to_hold_none(fern, tmp_path):
    ran = fern("bench", "table", "shock", "--runs", tmp_path / "nothing")
    assert ran.code == 2
    assert "is not a results folder" in ran.err


def test_compare_gives_a_verdict_for_each_dataset_and_over_all(fern, runs):
    ran = fern("bench", "compare", "fern", "dlinear", "--runs", runs)
    assert ran.code == 0, ran.err
    assert ran.out.count("a real difference") == 3
    assert "Nemenyi critical difference" in ran.out


def test_compare_gives_every_figure_as_json(fern, runs):
    found = json.loads(fern("bench", "compare", "fern", "dlinear", "--runs", runs, "--json").out)
    assert len(found["verdicts"]) == 3
    assert found["verdicts"][0]["test"]["p_value"] < 1e-6
    assert found["over_scenarios"]["ranks"]["average"] == [1.0, 2.0]


SHORT = ("--steps", 1500, "--context-length", 24, "--horizon", 12)


def test_response_tells_the_phases_and_draws_them(fern, tmp_path):
    picture = tmp_path / "response.png"
    ran = fern("bench", "response", "last-value", "OU_PARAM", *SHORT, "--at", "0.9", "--plot", picture)
    assert ran.code == 0, ran.err
    for part in ("before", "across", "adapting", "after", "shock at row 1,350", "MSE before the shock"):
        assert part in ran.out
    assert picture.stat().st_size > 1000


def test_response_takes_anyones_function(fern, tmp_path, monkeypatch, forked):
    (tmp_path / "my_forecaster.py").write_text(
        "import numpy as np\n"
        "def mean(context, horizon):\n    return np.repeat(context.mean(0)[None], horizon, axis=0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    ran = fern("bench", "response", "my_forecaster:mean", "OU_PARAM", *SHORT, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["shock_row"] == 525
    assert len(found["errors"]) == len(found["starts"]) == len(found["twin_errors"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("last-value", "OU_PARM"), "unknown scenario 'OU_PARM': did you mean 'OU_PARAM'"),
        (("last-valu", "OU_PARAM"), "did you mean 'last-value'"),
        (("last-value", "OU_BASE"), "OU_BASE: has no shock"),
        (("last-value", "OU_PARAM", "--at", "late"), "--at: got 'late', needs a row number"),
        (("last-value", "OU_PARAM", "--at", "0.999"), "no window lies after the shock"),
        (("last-value", "OU_PARAM", "--plot", "x.bmp"), "a plot needs one of"),
    ],
)
def test_mistakes_in_a_response_are_one_line_and_exit_code_2(fern, arguments, message):
    ran = fern("bench", "response", *arguments, *SHORT)
    assert ran.code == 2
    assert message in ran.err
